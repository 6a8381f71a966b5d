"""The order of windows in an epoch, and its batches as a `tf.data.Dataset`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import tensorflow as tf

Batch = tuple[dict[str, np.ndarray], np.ndarray]

_PREFETCHED = 4


def epoch_order(
    windows: int, shuffle_seed: int | None, epoch: int, windows_per_epoch: int
) -> np.ndarray:
    """Returns the positions of an epoch's windows in their order, ints.

    Args:
        windows: how many there are.
        shuffle_seed: with `epoch` the only source of randomness; None keeps the order.
        epoch: number of the epoch.
        windows_per_epoch: at most so many, drawn without replacement, or evenly spaced if not
            shuffled; 0 takes all.
    """
    drawn = min(windows, windows_per_epoch or windows)
    dtype = np.int32 if windows < 2**31 else np.int64
    if shuffle_seed is None:
        if drawn == windows:
            return np.arange(windows, dtype=dtype)
        return (np.arange(drawn, dtype=np.int64) * windows // drawn).astype(dtype)
    generator = np.random.default_rng((shuffle_seed, epoch))
    if drawn < windows:
        return generator.choice(windows, drawn, replace=False).astype(dtype)
    order = np.arange(windows, dtype=dtype)
    generator.shuffle(order)
    return order


def drop_to_unknown(
    inputs: dict[str, np.ndarray], share: float, seed: tuple[int, int, int]
) -> None:
    """Replaces a share of the category codes by the unknown token, in place.

    Args:
        inputs: a batch's inputs.
        share: probability of each code to be replaced.
        seed: shuffle seed, epoch and batch.
    """
    generator = np.random.default_rng(seed)
    for codes in inputs.values():
        if np.issubdtype(codes.dtype, np.integer):
            codes[generator.random(codes.shape, np.float32) < share] = 0


def make_dataset(
    one_pass: Callable[..., Iterator[Batch]],
    example: Batch,
    steps: int,
    first_epoch: int,
    epochs: int | None,
    goes_on: bool,
) -> tf.data.Dataset:
    """Makes a prefetched dataset of batches.

    Args:
        one_pass: yields the batches of the epoch that its keyword `epoch` numbers.
        example: a batch, which tells types and shapes.
        steps: batches of an epoch.
        first_epoch: number of the first epoch.
        epochs: how many epochs the dataset has; None has no end.
        goes_on: whether iterating again goes on with the epochs after these.
    """
    import tensorflow as tf

    passes = itertools.count()

    def generate() -> Iterator[Batch]:
        begin = first_epoch
        if goes_on and epochs is not None:
            begin += next(passes) * epochs
        numbers = itertools.count(begin) if epochs is None else range(begin, begin + epochs)
        for epoch in numbers:
            yield from one_pass(epoch=epoch)

    dataset = tf.data.Dataset.from_generator(generate, output_signature=_signature(example, tf))
    endless = tf.data.INFINITE_CARDINALITY
    cardinality = endless if epochs is None and steps else steps * (epochs or 0)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(cardinality))
    return dataset.prefetch(_PREFETCHED)


def _signature(example: Batch, tf: Any) -> Any:
    """Returns the types and shapes of a batch."""

    def spec(array: np.ndarray) -> Any:
        return tf.TensorSpec((None, *array.shape[1:]), array.dtype)

    inputs, targets = example
    return {name: spec(array) for name, array in inputs.items()}, spec(targets)
