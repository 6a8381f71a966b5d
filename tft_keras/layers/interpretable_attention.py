"""Interpretable multi-head attention: heads share their values, so that their weights add up."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tft_keras.layers.base import TFTLayer
from tft_keras.layers.leaf import Dense, dense
from tft_keras.layers.sequential import Groups, even_size
from tft_keras.quantization.quantizers import SOFTMAX


class InterpretableAttention(TFTLayer):
    """Attends from the horizon's steps to all steps up to each (paper, section 4.4).

        head weights = softmax(Q W_q (K W_k)^T / sqrt(units / heads))        (equations 9 to 12)
        output = mean over heads of (head weights) V W_v W_h                 (equations 13 to 16)

    Args:
        units: size of inputs and outputs.
        heads: number of heads; divides `units`.
        horizon: how many steps at the end of the sequence ask; only these are needed.
        query_size: horizon steps processed at once, in sequence; `None` for all.
        recompute_queries: whether each of these parts is recomputed in the backward pass.

    Call arguments:
        inputs: (batch, time, units), past and future steps.
        training: whether live observers move.
        return_attention: whether to return the weights too.

    Outputs:
        outputs: (batch, horizon, units).
        attention: (batch, heads, horizon, time), if asked for; no step attends to a later one.
    """

    def __init__(
        self,
        units: int,
        heads: int,
        horizon: int,
        query_size: int | None = None,
        recompute_queries: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if heads < 1 or units % heads:
            raise ValueError(f"heads must divide units={units}. Received: heads={heads}.")
        self.units = units
        self.heads = heads
        self.horizon = horizon
        self.query_size = query_size
        self.recompute_queries = recompute_queries

    def observations(self):
        names = ("query", "key", "value", "scores", "mask", "masked_scores", "attended", "output")
        summed = (0.0, float(self.heads))
        return dict.fromkeys(names) | {"head_weights": SOFTMAX, "attention": summed}

    def build(self, input_shape):
        inputs, size = int(input_shape[-1]), self.units // self.heads
        for name, width, scale in (
            ("query", self.units, size**-0.5),
            ("key", self.units, 1.0),
            # Sharing the mean over the heads: a sum is exact in 8 bits, a mean is not.
            ("value", size, 1 / self.heads),
        ):
            leaf = Dense(width, use_bias=False, scale=scale, name=name)
            setattr(self, name, self.add_leaf(leaf, inputs))
        self.output_leaf = self.add_leaf(Dense(self.units, use_bias=False, name="output"), size)
        super().build(input_shape)

    def call(self, inputs, training=None, return_attention=False):
        with self.observing(training) as observe:
            asking = inputs[:, -self.horizon :]
            query = dense(asking, self.query.values(training), observe, "query")
            key = dense(inputs, self.key.values(training), observe, "key")
            value = dense(inputs, self.value.values(training), observe, "value")
            query, key = self.split_heads(query), self.split_heads(key)
            masked = max(observe.masked, inputs.dtype.min / 2)  # float16 ends at -65504
            mask = causal_mask(self.horizon, inputs.shape[1], masked)
            mask = observe("mask", tf.cast(mask, inputs.dtype))
            attended = self.attend_in_parts(query, key, value, mask, observe)
            outputs = dense(attended, self.output_leaf.values(training), observe, "output")
            if return_attention:
                return outputs, head_weights(query, key, mask, observe)
            return outputs

    def split_heads(self, tensor):
        """Turns (batch, time, units) into (time, batch, heads, units / heads)."""
        shape = (-1, tensor.shape[1], self.heads, self.units // self.heads)
        tensor = tf.reshape(tensor, shape)
        return tf.transpose(tensor, (1, 0, 2, 3))

    def attend_in_parts(self, query, key, value, mask, observe):
        """Returns the attended values (batch, horizon, units / heads)."""

        def body(part, shared, seed):
            query, mask = part
            key, value, ranges = shared
            inner = observe.within(ranges)
            attention = tf.reduce_sum(head_weights(query, key, mask, inner), axis=1)
            attention = inner("attention", attention)
            attended = inner("attended", tf.matmul(attention, value))
            return tf.transpose(attended, (1, 0, 2)), inner.seen

        size = even_size(self.horizon, self.query_size)
        shared = (key, value, observe.ranges)
        parts = Groups(body, (query, mask), shared, size, None, self.recompute_queries)
        element = tf.TensorShape([query.shape[1], value.shape[-1]])
        attended, seen = parts.map(element, observe.seen)
        observe.see(seen)
        return tf.transpose(attended, (1, 0, 2))

    def get_config(self):
        return super().get_config() | {
            "units": self.units,
            "heads": self.heads,
            "horizon": self.horizon,
            "query_size": self.query_size,
            "recompute_queries": self.recompute_queries,
        }


def head_weights(query, key, mask, observe):
    """Returns each head's attention weights.

    Args:
        query: (queries, batch, heads, size), scaled.
        key: (time, batch, heads, size).
        mask: (queries, time), 0 or a large negative number.

    Returns:
        (batch, heads, queries, time).
    """
    query, key = tf.transpose(query, (1, 2, 0, 3)), tf.transpose(key, (1, 2, 3, 0))
    scores = observe("scores", tf.matmul(query, key))
    scores = observe("masked_scores", scores + mask)
    return observe("head_weights", tf.nn.softmax(scores, axis=-1))


def causal_mask(horizon: int, time: int, masked: float) -> np.ndarray:
    """Returns (horizon, time): `masked` where a step would look at a later one, else 0."""
    asking = np.arange(time - horizon, time)[:, np.newaxis]
    return np.where(np.arange(time) > asking, masked, 0.0).astype(np.float32)
