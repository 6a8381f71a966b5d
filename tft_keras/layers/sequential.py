"""Sequential loops over parts of a large computation, each part recomputed by itself on demand.

Peak memory is that of one part only if the parts run one after another: unrolled, the executor may
run them side by side. Hence `tf.while_loop` with one iteration at a time.

The first axis of the `stacked` tensors is cut into groups. A body `body(part, shared, seed)` gets
one group of them, the `shared` tensors whole and a dropout seed of its own; all tensors that it
needs come in through these. It returns its result and what its observers saw, a tensor joined over
the groups by its maximum (see `PlainObserver.seen`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tft_keras.recompute import recompute

Body = Callable[[Any, Any, Any], tuple[tf.Tensor, tf.Tensor]]


# Elements of the largest tensor of a part that still fits a processor's cache.
PART_ELEMENTS = 2_700_000
NOMINAL_BATCH = 64


def default_size(total: int, elements: int) -> int:
    """Returns how many out of `total` to process at once.

    Args:
        total: variables, or queries.
        elements: in the largest tensor, for one of them and one window.
    """
    return even_size(total, max(1, PART_ELEMENTS // (NOMINAL_BATCH * elements)))


def even_size(total: int, size: int | None) -> int:
    """Returns the size, near `size`, of groups that split `total` with the least left over."""
    if not size or size >= total:
        return total
    return math.ceil(total / math.ceil(total / size))


class Groups:
    """A body and the groups that it runs on.

    Args:
        body: see the module's text.
        stacked: structure of tensors (total, ...); `None` may be among them.
        shared: structure of tensors that every group gets.
        size: length of a group. The last one is filled up with zeros.
        seed: (2,) dropout seed, or `None`.
        recomputed: whether each group is recomputed in the backward pass.
    """

    def __init__(
        self,
        body: Body,
        stacked: Any,
        shared: Any,
        size: int,
        seed: tf.Tensor | None = None,
        recomputed: bool = False,
    ):
        self.body, self.shared, self.size, self.recomputed = body, shared, size, recomputed
        self.stacked, self.seed = stacked, seed
        self.leaves = [leaf for leaf in tf.nest.flatten(stacked) if leaf is not None]
        self.total = self.leaves[0].shape[0]
        self.count = math.ceil(self.total / size)

    def sum(self, initial: tf.Tensor, seen: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the sum of the results, and the maximum of `seen`.

        The zeros that fill up the last group must add nothing.

        Args:
            initial: zeros of the result's shape.
            seen: what the observers saw before.
        """
        if self.count == 1:
            result, new = self._call(self.leaves, self.seed)
            return result, tf.maximum(seen, new)
        run = self._runner()

        def step(group, total, seen):
            result, new = run(group)
            # Unlike a sum of two, its gradient keeps neither of them, for their shapes, per group.
            return group + 1, tf.add_n([total, result]), tf.maximum(seen, new)

        return self._loop(step, (tf.constant(0), initial, seen))[1:]

    def map(self, element: tf.TensorShape, seen: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the results (size, ...) joined to (total, ...), and the maximum of `seen`.

        Args:
            element: static shape of one result without its first axis.
            seen: what the observers saw before.
        """
        if self.count == 1:
            result, new = self._call(self.leaves, self.seed)
            return result, tf.maximum(seen, new)
        run = self._runner()
        shape = tf.TensorShape([self.size]).concatenate(element)
        results = tf.TensorArray(self.leaves[0].dtype, self.count, element_shape=shape)

        def step(group, results, seen):
            result, new = run(group)
            return group + 1, results.write(group, result), tf.maximum(seen, new)

        _, results, seen = self._loop(step, (tf.constant(0), results, seen))
        return results.concat()[: self.total], seen

    def _call(self, parts: list[tf.Tensor], seed: tf.Tensor | None):
        def run(parts, shared, seed):
            remaining = iter(parts)
            part = tf.nest.map_structure(
                lambda leaf: None if leaf is None else next(remaining), self.stacked
            )
            return self.body(part, shared, seed)

        return recompute(run, parts, self.shared, seed, when=self.recomputed)

    def _runner(self):
        """Returns a function from the group's number to the body's result."""
        arrays = [self._split(leaf) for leaf in self.leaves]
        seeds = None
        if self.seed is not None:
            shape = (self.count, 2)
            seeds = tf.random.stateless_uniform(shape, self.seed, None, None, tf.int32)

        def run(group):
            parts = [array.read(group) for array in arrays]
            return self._call(parts, None if seeds is None else seeds[group])

        return run

    def _split(self, tensor: tf.Tensor) -> tf.TensorArray:
        """Returns the groups of a tensor (total, ...) as an array of (size, ...)."""
        missing = self.count * self.size - self.total
        if missing:
            padding = [[0, missing]] + [[0, 0]] * (tensor.shape.rank - 1)
            tensor = tf.pad(tensor, padding)
        shape = tf.concat([[self.count, self.size], tf.shape(tensor)[1:]], 0)
        static = tf.TensorShape([self.size]).concatenate(tensor.shape[1:])
        array = tf.TensorArray(
            tensor.dtype, self.count, clear_after_read=False, element_shape=static
        )
        return array.unstack(tf.reshape(tensor, shape))

    def _loop(self, step, variables):
        return tf.while_loop(
            lambda group, *_: group < self.count,
            step,
            variables,
            parallel_iterations=1,
            maximum_iterations=self.count,
        )
