"""The quantile loss, which leaves missing targets out."""

from __future__ import annotations

import tensorflow as tf
import tf_keras as keras


@keras.utils.register_keras_serializable("tft_keras")
class QuantileLoss(keras.losses.Loss):
    """Mean over windows and steps of the quantile losses' sum (paper, equations 24 and 25).

    For a quantile q and an error e = target - forecast it is max(q e, (q - 1) e). Steps whose
    target is NaN (missing) neither count nor have a gradient.

    Args:
        quantiles: the quantiles, in the order of the forecasts' last axis.

    Call arguments:
        y_true: (batch, horizon), NaN where missing.
        y_pred: (batch, horizon, quantiles).
    """

    def __init__(self, quantiles=(0.1, 0.5, 0.9), name="quantile_loss", **kwargs):
        super().__init__(name=name, **kwargs)
        self.quantiles = tuple(float(quantile) for quantile in quantiles)

    def call(self, y_true, y_pred):
        """Returns the losses (batch, horizon), scaled so that their mean is that of the present."""
        y_pred = tf.cast(y_pred, tf.float32)
        y_true = tf.cast(y_true, tf.float32)
        present = tf.math.is_finite(y_true)
        error = tf.where(present, y_true, 0.0)[..., tf.newaxis] - y_pred
        quantiles = tf.constant(self.quantiles)
        losses = tf.reduce_sum(tf.maximum(quantiles * error, (quantiles - 1) * error), axis=-1)
        share = tf.reduce_mean(tf.cast(present, tf.float32))
        return tf.where(present, losses, 0.0) / tf.maximum(share, 1e-12)

    def get_config(self):
        return super().get_config() | {"quantiles": self.quantiles}
