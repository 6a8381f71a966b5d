"""Quantizers: how weights and activations are put on an 8-bit grid while training."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow_model_optimization.python.core.quantization.keras import quantizers as tfmot

from tft_keras.recompute import once

# What an int8 runtime prescribes for these operations' results, and a state that is in [-1, 1].
SIGMOID = SOFTMAX = (0.0, 255 / 256)
TANH = (-1.0, 127 / 128)
STATE = (-1.0, 1.0)

LEAST_WIDTH = 1e-4  # of a range: keeps the scale of a tensor that is all zeros above zero
SAMPLED = 65_536  # elements among which a percentile is looked up


def fake_quantize(inputs: tf.Tensor, low: tf.Tensor, high: tf.Tensor, **kwargs: Any) -> tf.Tensor:
    """Rounds to the 8-bit grid of [low, high]; the gradient is 1 inside of it and 0 outside.

    Args:
        inputs: floating point; half precision is widened, as the operation takes float32 only.
        low, high: scalars; the grid is shifted a little so that it contains zero exactly.
        **kwargs: `narrow_range`.
    """
    wide = tf.cast(inputs, tf.float32)
    quantized = tf.quantization.fake_quant_with_min_max_vars(wide, low, high, **kwargs)
    return tf.cast(quantized, inputs.dtype)


def at_least_zero(values: tf.Tensor) -> tf.Tensor:
    """Returns the values, those below zero as zero, and NaN as it is.

    Not `maximum`, which hides a NaN on some devices: `move` must see it.
    """
    return tf.where(values < 0, tf.zeros_like(values), values)


def straight_through(values: tf.Tensor, rounded: tf.Tensor) -> tf.Tensor:
    """Returns the rounded values; the gradient is that of the values."""
    return values + tf.stop_gradient(tf.cast(rounded, values.dtype) - values)


def weight_limit(weight: tf.Tensor) -> tf.Tensor:
    """Returns the largest absolute value of a weight, which 127 stands for; never zero."""
    limit = tf.reduce_max(tf.abs(tf.cast(weight, tf.float32)))
    return tf.maximum(tf.stop_gradient(limit), LEAST_WIDTH)


class WeightQuantizer(tfmot.Quantizer):
    """8 bits, symmetric, narrow range, one scale for the tensor, from the weights as they are now.

    It keeps no state: the range of a weight is a function of the weight.

    Args:
        scale: the weights are multiplied by it first.
    """

    def __init__(self, scale: float = 1.0):
        self.scale = scale

    def build(self, tensor_shape, name, layer) -> dict[str, tf.Variable]:
        return {}

    def __call__(self, inputs, training, weights, **kwargs) -> tf.Tensor:
        inputs = tf.convert_to_tensor(inputs) * tf.cast(self.scale, inputs.dtype)
        limit = weight_limit(inputs)
        # Rounded before, as the converter rounds: the fake-quantization alone, which adds the limit
        # first, puts weights that lie nearly between two steps on either of them.
        step = tf.cast(limit / 127, inputs.dtype)
        inputs = straight_through(inputs, tf.round(inputs / step) * step)
        return fake_quantize(inputs, -limit, limit, narrow_range=True)

    def get_config(self) -> dict[str, Any]:
        return {"scale": self.scale}


class FreezableMovingAverageQuantizer(tfmot.MovingAverageQuantizer):
    """8 bits, asymmetric, the range a moving average of the batches', until it is frozen.

    A step quantizes with the range known before it and moves the range after it; so the order of
    computing, and how often a part is recomputed, make no difference. The first batch sets the
    range. A range always contains zero. A batch with a value that is not finite is ignored.

    One quantizer can keep the ranges of several tensors side by side (`count`).

    Args:
        decay: share of the old range in the new one.
        percentile: if given, a batch's range leaves out its outermost values: so many percent of
            them lie below its upper end, and above its lower end.
    """

    def __init__(self, decay: float = 0.99, percentile: float | None = None):
        super().__init__(num_bits=8, per_axis=False, symmetric=False, narrow_range=False)
        if not 0 <= decay < 1:
            raise ValueError(f"decay must be in [0, 1). Received: decay={decay}.")
        if percentile is not None and not 50 < percentile <= 100:
            raise ValueError(
                f"percentile must be above 50 and at most 100. Received: percentile={percentile}."
            )
        self.decay = decay
        self.percentile = percentile

    def build(self, tensor_shape, name, layer, count: int | None = None) -> dict[str, tf.Variable]:
        """Creates the ranges, counts and the frozen flag as weights of `layer`.

        Args:
            tensor_shape: of the tensor to quantize; not used.
            name: of the tensor, the prefix of the variables' names.
            layer: that keeps them.
            count: number of tensors; `None` for a single one.
        """
        shape = () if count is None else (count,)

        def add(suffix: str, dtype: tf.DType = tf.float32, shape: tuple[int, ...] = shape):
            # Every replica computes the same value (`move`), so the first one's will do.
            return layer.add_weight(
                name=f"{name}_{suffix}" if name else suffix,
                shape=shape,
                dtype=dtype,
                initializer="zeros",
                trainable=False,
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            )

        return {
            "min_var": add("min"),
            "max_var": add("max"),
            "samples": add("samples", tf.int32),
            "frozen": add("frozen", tf.int32, ()),
        }

    def __call__(self, inputs, training, weights, **kwargs) -> tf.Tensor:
        """Quantizes one tensor and, while training, moves its range."""
        low, high, live = once(lambda: self.read(weights))
        if training:
            once(lambda: self.move(weights, self.extremes(inputs, live), live))
        known = tf.reduce_any(low < high)
        return tf.cond(known, lambda: fake_quantize(inputs, low, high), lambda: inputs)

    def read(self, weights: dict[str, tf.Variable]) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the lower ends, the upper ends, and whether the ranges may move."""
        live = tf.equal(weights["frozen"], 0)
        return tf.identity(weights["min_var"]), tf.identity(weights["max_var"]), live

    def extremes(self, inputs: tf.Tensor, live: tf.Tensor) -> tf.Tensor:
        """Returns [-lowest, highest] of a tensor, each at least 0; zeros if it is not live."""
        flat = tf.reshape(tf.stop_gradient(inputs), [-1])
        # An empty slice where nothing is to be looked at: cheaper to build and run than a branch.
        looked_at = tf.cast(flat[: tf.size(flat) * tf.cast(live, tf.int32)], tf.float32)
        if self.percentile is None:
            ends = tf.stack([-tf.reduce_min(looked_at), tf.reduce_max(looked_at)])
        else:
            ends = self._percentiles(looked_at)
        return at_least_zero(ends)

    def sizes(self, inputs: tf.Tensor, live: tf.Tensor) -> tf.Tensor:
        """Returns the largest absolute value of each variable, (variables,); zeros if not live.

        Args:
            inputs: (..., variables).
            live: as in `extremes`.
        """
        rows = tf.reshape(tf.cast(tf.stop_gradient(inputs), tf.float32), (-1, inputs.shape[-1]))
        rows = tf.abs(rows[: tf.shape(rows)[0] * tf.cast(live, tf.int32)])
        if self.percentile is not None:
            # One row of zeros, so that there is always one.
            rows = tf.concat([rows, tf.zeros((1, inputs.shape[-1]))], 0)
            return self._upper_end(tf.transpose(rows))
        return at_least_zero(tf.reduce_max(rows, axis=0))  # of no rows it is minus infinity

    def _percentiles(self, values: tf.Tensor) -> tf.Tensor:
        step = tf.maximum(1, tf.size(values) // SAMPLED)
        values = tf.concat([values[::step], [0.0]], 0)  # never empty
        return tf.stack([self._upper_end(-values), self._upper_end(values)])

    def _upper_end(self, values: tf.Tensor) -> tf.Tensor:
        """Returns the percentile over the last axis; a whole value, not one between two."""
        last = tf.shape(values)[-1] - 1
        place = tf.cast(tf.math.ceil(tf.cast(last, tf.float32) * self.percentile / 100), tf.int32)
        # The few largest are found faster than all are sorted.
        largest = tf.math.top_k(values, last - place + 1).values[..., -1]
        # NaN has no place in an order: it shall be seen wherever it was.
        return largest + 0 * tf.reduce_sum(values, axis=-1)

    def move(
        self,
        weights: dict[str, tf.Variable],
        seen: tf.Tensor,
        live: tf.Tensor,
        fixed: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Moves the ranges towards what a batch has shown, and counts it.

        Args:
            weights: as built.
            seen: (2,), or (count, 2), of `extremes`; largest over the replicas.
            live: whether they may move.
            fixed: (count,) whether a range is given once and for all.

        Returns:
            The samples after the move, for `once`.
        """
        replicas = tf.distribute.get_replica_context()
        if replicas is not None and replicas.num_replicas_in_sync > 1:
            seen = tf.reduce_max(replicas.all_gather(seen[tf.newaxis], axis=0), axis=0)
        samples = tf.identity(weights["samples"])
        moves = live & tf.reduce_all(tf.math.is_finite(seen), axis=-1)
        high = tf.maximum(seen[..., 1], LEAST_WIDTH - seen[..., 0])
        for key, end in (("min_var", -seen[..., 0]), ("max_var", high)):
            before = tf.identity(weights[key])
            after = tf.where(samples == 0, end, self.decay * before + (1 - self.decay) * end)
            stays = ~moves if fixed is None else ~moves | fixed
            weights[key].assign(tf.where(stays, before, after))
        counted = samples + tf.cast(moves, tf.int32)
        weights["samples"].assign(counted)
        return tf.identity(counted)

    def get_config(self) -> dict[str, Any]:
        return {"decay": self.decay, "percentile": self.percentile}

    def __eq__(self, other):
        return type(other) is type(self) and other.get_config() == self.get_config()

    __hash__ = None
