"""Observers: the ranges of all tensors within one layer, and the fake-quantization by them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tft_keras.errors import InputError
from tft_keras.quantization.quantizers import (
    LEAST_WIDTH,
    FreezableMovingAverageQuantizer,
    WeightQuantizer,
    at_least_zero,
    fake_quantize,
)
from tft_keras.quantization.sums import Step, Sum, kernel_step, round_bias, round_sum
from tft_keras.recompute import is_recomputing, once

MASKED = -1e9
# Takes a score out of an int8 softmax (exp(-8) is less than half its step) and keeps its grid fine.
QUANTIZED_MASKED = -8.0

Range = tuple[float, float]


class PlainObserver:
    """Stands where a quantizing layer has its observers, and passes every tensor through.

    `observe(name, tensor)` marks a result that an int8 runtime would store. A computation within a
    loop gets an observer of its own by `within(observe.ranges)` and returns its `seen`, which
    `see` then takes in.
    """

    masked = MASKED  # what is added to the score of a step that must not be attended to

    @property
    def ranges(self) -> Any:
        """What to quantize with: tensors that are passed into a loop's body."""
        return tf.zeros((0, 2))

    @property
    def seen(self) -> tf.Tensor:
        """(observers, 2): the largest -value and the largest value of each so far, at least 0."""
        return tf.zeros((0, 2))

    def __call__(self, name: str, tensor: tf.Tensor, unit: tf.Tensor | None = None) -> tf.Tensor:
        """Marks a result; `unit` is that of the 32-bit sum that it is, if the caller knows it."""
        return tensor

    def has(self, name: str) -> bool:
        """Returns whether there is an observer of that name."""
        return False

    def weight(self, tensor: tf.Tensor) -> tf.Tensor:
        """Marks a constant that is computed from weights, as an int8 runtime would store it."""
        return tensor

    def unit(self, kernel: tf.Tensor, input_step: Step | None) -> tf.Tensor | None:
        """Returns the unit of 32-bit sums (`tft_keras.quantization.sums`), if there is one.

        Args:
            kernel: as given to `weight`.
            input_step: tells the step of the input's grid.
        """
        return None

    def bias(self, bias: tf.Tensor, unit: tf.Tensor | None) -> tf.Tensor:
        """Marks a bias computed from weights, as an int8 runtime would store it in 32 bits."""
        return bias

    def under(self, prefix: str) -> PlainObserver:
        """Returns an observer that puts `prefix/` before the names."""
        return self

    def within(self, ranges: Any) -> PlainObserver:
        """Returns an observer to be used in a loop's body, where `ranges` came in."""
        return self

    def see(self, seen: tf.Tensor) -> None:
        """Takes in what observers within a loop have seen."""


class Observers(keras.layers.Layer):
    """The observers of one layer: name, range, samples, and whether they are frozen.

    Modes: `quantize` (the default) rounds every observed tensor to its grid; `calibrate` only
    records; `off` does nothing. Ranges move while training, unless they are frozen.

    Args:
        observations: for each observed tensor its fixed range, or `None` for one that is tracked.

    Attributes:
        listener: called with the name and value of every observed tensor, unless `None`.
        sums: which results are 32-bit sums, by name (`connect_sums`).
        rounds_sums: whether these are rounded as the runtime does it, outside of training; not in a
            graph that is converted for the runtime.
    """

    def __init__(self, observations: Mapping[str, Range | None], **kwargs):
        super().__init__(**kwargs)
        self.observations = dict(observations)
        self.names = tuple(self.observations)
        self.places = {name: place for place, name in enumerate(self.names)}
        self.fixed = np.array([given is not None for given in self.observations.values()])
        self.quantizer = FreezableMovingAverageQuantizer()
        self.mode = "quantize"
        self.listener = None
        self.sums: dict[str, Sum] = {}
        self.rounds_sums = True

    def build(self, input_shape=None):
        self.state = self.quantizer.build(None, "", self, count=len(self.names))
        given = [limits or (0.0, 0.0) for limits in self.observations.values()]
        for key, place in (("min_var", 0), ("max_var", 1)):
            self.state[key].assign([limits[place] for limits in given])
        super().build(input_shape)

    @contextlib.contextmanager
    def observing(self, training: bool | None) -> Iterator[QuantizingObserver]:
        """Gives the observer of one call and moves the ranges when the call is over."""
        (low, high, live), records = self._begin(training)
        rounds = self.rounds_sums and self.mode == "quantize" and not training
        sums = self._sum_terms() if rounds else ()
        observer = QuantizingObserver(self, (low, high, live, sums), records)
        yield observer
        if records:
            fixed = tf.constant(self.fixed)
            once(lambda: self.quantizer.move(self.state, observer.seen, live, fixed))

    def scale(self, name: str) -> tf.Tensor | None:
        """Returns the step of an observed tensor's grid, or `None` where nothing is quantized."""
        if self.mode != "quantize":
            return None
        low, high, _ = once(lambda: self.quantizer.read(self.state))
        place = self.places[name]
        return step(low[place], high[place])

    def shifted(self, name: str) -> tf.Tensor:
        """Returns whether an observed tensor's int8 zero point is another than 0."""
        low, high, _ = once(lambda: self.quantizer.read(self.state))
        place = self.places[name]
        return tf.not_equal(tf.round(-low[place] / step(low[place], high[place])), 128)

    def sizes(
        self, unit: Range, tensors: Sequence[tf.Tensor] = (), training: bool | None = None
    ) -> tf.Tensor:
        """Observes the variables of some tensors, each by itself.

        Args:
            unit: the range of a variable of size 1.
            tensors: (..., variables), whose variables together are the observers; none are only
                asked for, not observed.
            training: whether live observers move.

        Returns:
            The largest size of each variable, (observers,), as known before.
        """
        (low, _, live), records = self._begin(training)
        if records and tensors:
            sizes = tf.concat([self.quantizer.sizes(tensor, live) for tensor in tensors], 0)
            seen = sizes[:, tf.newaxis] * tf.abs(unit)
            once(lambda: self.quantizer.move(self.state, seen, live))
        return tf.maximum(low / unit[0], LEAST_WIDTH)

    def _sum_terms(self) -> tuple[tf.Tensor, ...]:
        """Returns the terms of each observer's 32-bit sum, zeros for what is none."""
        terms = {name: given.terms() for name, given in self.sums.items()}
        return tuple(terms.get(name, tf.zeros(2)) for name in self.names)

    def _begin(self, training: bool | None) -> tuple[tuple[tf.Tensor, ...], bool]:
        """Returns lower ends, upper ends and whether they are live; and whether to record."""
        if self.mode == "quantize":
            self._require_data()
        records = self.mode == "calibrate" or (bool(training) and self.mode == "quantize")
        return once(lambda: self.quantizer.read(self.state)), records

    def frozen_now(self) -> bool:
        """Returns whether the observers are frozen when this is called, or traced."""
        with tf.init_scope():
            return bool(self.state["frozen"].numpy())

    def unseen(self) -> list[str]:
        """Returns the names of the tracked observers that never saw data."""
        samples = self.state["samples"].numpy()
        return [n for n, s, f in zip(self.names, samples, self.fixed, strict=True) if not (s or f)]

    def _require_data(self) -> None:
        # At tracing time the values of variables can be read outside of the graph only.
        with tf.init_scope():
            unseen = self.unseen()
        if unseen:
            raise InputError(
                "A quantized model computes after its observers have seen data. Received: "
                f"{len(unseen)} observers of {self.name} without any, the first of them "
                f"{unseen[0]!r}. Call tft_keras.quantization.calibrate(model, batches) first."
            )

    def get_config(self):
        return super().get_config() | {"observations": self.observations}


class QuantizingObserver(PlainObserver):
    """Fake-quantizes by the ranges known before the step and records what it sees.

    Args:
        owner: the `Observers`, for names, mode and the way to look for extremes.
        ranges: lower and upper ends, (observers,) each, whether the ranges are live, and the terms
            of 32-bit sums, (2,) for each observer; none where sums are not to be rounded.
        records: whether to look for extremes at all.
        prefix: put before names.
        extremes: of each observer so far, shared with the observers made by `under`.
    """

    def __init__(self, owner, ranges, records: bool, prefix: str = "", extremes=None):
        self._owner, self._ranges, self._records = owner, ranges, records
        self._ends = [tf.unstack(ends) for ends in ranges[:2]]
        self._prefix = prefix
        self._extremes = {} if extremes is None else extremes

    @property
    def masked(self) -> float:
        return MASKED if self._owner.mode == "off" else QUANTIZED_MASKED

    @property
    def ranges(self):
        return self._ranges

    @property
    def seen(self) -> tf.Tensor:
        nothing = tf.zeros((2,))
        places = range(len(self._owner.names))
        return tf.stack([self._extremes.get(place, nothing) for place in places])

    def __call__(self, name, tensor, unit=None):
        owner = self._owner
        place = owner.places[self._prefix + name]
        if self._records and not owner.fixed[place] and not is_recomputing():
            self._join(place, owner.quantizer.extremes(tensor, self._ranges[2]))
        if owner.mode == "quantize":
            low, high = (ends[place] for ends in self._ends)
            if self._ranges[3]:
                tensor = self._round_sum(place, tensor, unit, step(low, high))
            tensor = fake_quantize(tensor, low, high)
        if owner.listener is not None:
            owner.listener(owner.names[place], tensor)
        return tensor

    def has(self, name):
        return self._prefix + name in self._owner.places

    @property
    def tells_grids(self) -> bool:
        """Whether what is observed may be quantized elsewhere, by `grid` and `record`.

        Lowest and highest values are not enough for live observers that look for percentiles.
        """
        extremes = not self._records or self._owner.quantizer.percentile is None
        return self._owner.mode == "quantize" and (extremes or self._owner.frozen_now())

    def grid(self, name: str) -> tf.Tensor:
        """Returns the range of an observed tensor, (2,)."""
        place = self._owner.places[self._prefix + name]
        return tf.stack([ends[place] for ends in self._ends])

    def record(self, name: str, low: tf.Tensor, high: tf.Tensor) -> None:
        """Takes in the lowest and highest values of a tensor that was quantized elsewhere."""
        place = self._owner.places[self._prefix + name]
        if self._records and not is_recomputing():
            ends = tf.stack([-tf.reduce_min(low), tf.reduce_max(high)])
            self._join(place, at_least_zero(ends))

    def weight(self, tensor: tf.Tensor) -> tf.Tensor:
        if self._owner.mode != "quantize":
            return tensor
        return WeightQuantizer()(tensor, training=None, weights={})

    def unit(self, kernel, input_step):
        input_step = None if self._owner.mode != "quantize" or not input_step else input_step()
        return None if input_step is None else input_step * kernel_step(kernel)

    def bias(self, bias, unit):
        return bias if unit is None else round_bias(bias, unit)

    def under(self, prefix: str) -> QuantizingObserver:
        prefix = f"{self._prefix}{prefix}/"
        return QuantizingObserver(self._owner, self._ranges, self._records, prefix, self._extremes)

    def within(self, ranges) -> QuantizingObserver:
        return QuantizingObserver(self._owner, ranges, self._records, self._prefix)

    def see(self, seen: tf.Tensor) -> None:
        seen = tf.unstack(seen)
        for place in range(len(self._owner.names)):
            if not self._owner.fixed[place]:
                self._join(place, seen[place])

    def _round_sum(self, place: int, tensor, unit, step):
        """Returns a result as the runtime rounds it, where it is a 32-bit sum."""
        given = self._owner.sums.get(self._owner.names[place])
        if given is not None:
            return given.rounded(tensor, self._ranges[3][place], step)
        return tensor if unit is None else round_sum(tensor, unit, step)

    def _join(self, place: int, extremes: tf.Tensor) -> None:
        if place in self._extremes:
            extremes = tf.maximum(self._extremes[place], extremes)
        self._extremes[place] = extremes


def step(low: tf.Tensor, high: tf.Tensor) -> tf.Tensor:
    """Returns the step of the grid of a range."""
    return tf.maximum(high - low, LEAST_WIDTH) / 255


def grid(low: float, high: float) -> tuple[float, int]:
    """Returns the scale and the int8 zero point of a range, as the runtime computes them."""
    scale = max(high - low, LEAST_WIDTH) / 255
    return scale, int(np.clip(np.round(-128 - low / scale), -128, 127))
