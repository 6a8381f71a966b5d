"""Chains of elementwise operations compiled into one pass over memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

SMALL = 2**14  # elements, of tensors that are not worth the time to compile


def compiled(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles a function of tensors with XLA for the processor, where it can.

    Elsewhere, on machines with a GPU, and for tensors known to be small, the function is called as
    it is: same results but for rounding. It pays for chains of elementwise operations on large
    tensors, each of which TensorFlow would otherwise read from memory and write back. It does not
    for matrix products, nor for sums over rows, which XLA computes slowly on processors: keep
    these outside.

    Args:
        kernel: takes and returns tensors, has no gradient of its own (call it from within
            `tf.custom_gradient`), no variables and no side effects.
    """
    fused = tf.function(kernel, jit_compile=True, autograph=False)

    @functools.wraps(kernel)
    def call(*arguments: Any) -> Any:
        worthwhile = compiles_on_processor() and not _are_small(arguments)
        return fused(*arguments) if worthwhile else kernel(*arguments)

    return call


def _are_small(tensors: tuple[tf.Tensor, ...]) -> bool:
    sizes = [tensor.shape.num_elements() for tensor in tensors]
    return None not in sizes and max(sizes) < SMALL


@functools.cache
def compiles_on_processor() -> bool:
    """Returns whether this machine computes on the processor and TensorFlow has XLA for it."""
    if tf.config.list_physical_devices("GPU") or tf.config.list_physical_devices("TPU"):
        return False
    try:
        with tf.init_scope():
            tf.function(lambda x: x + 1, jit_compile=True, autograph=False)(tf.constant(1.0))
    except (tf.errors.OpError, NotImplementedError, ValueError):
        return False
    return True
