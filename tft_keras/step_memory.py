"""What a training step takes: figures as measured, and predicted for other batch sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class StepMemory:
    """A training step's measured memory, in bytes, and time.

    Args:
        device: where it ran, `CPU:0` or a GPU.
        batch_size: windows of the step.
        parameters: number of trainable weights and others.
        state: weights and the optimizer's variables.
        gradients: of all trainable weights together.
        activations: peak of the memory in use during the steps, above that in use between them.
            The gradients come into being during a step and are part of it.
        process: peak of the whole process: interpreter, libraries, data and all of the above.
        seconds: of the fastest step; other work on the machine only adds to it.
        processor_seconds: over all cores, the least of a step; other work disturbs it less.
    """

    device: str
    batch_size: int
    parameters: int
    state: int
    gradients: int
    activations: int
    process: int
    seconds: float
    processor_seconds: float


@dataclasses.dataclass(frozen=True)
class MemoryLine:
    """Memory as a straight line over the batch size: `constant + per_window * batch_size`."""

    constant: float
    per_window: float

    @classmethod
    def through(cls, batch_sizes: Sequence[int], sizes: Sequence[int]) -> MemoryLine:
        """Returns the line of least squares, with neither part below zero."""
        if len(batch_sizes) == 1:
            return cls(0.0, sizes[0] / batch_sizes[0])
        per_window, constant = np.polyfit(batch_sizes, sizes, 1)
        return cls(max(float(constant), 0.0), max(float(per_window), 1e-9))

    def at(self, batch_size: int) -> int:
        """Returns the bytes that a batch of this size takes."""
        return round(self.constant + self.per_window * batch_size)

    def largest_batch(self, memory: float) -> int:
        """Returns the largest batch size that fits into so many bytes; 0 if none does."""
        return max(int((memory - self.constant) / self.per_window), 0)
