"""Adam with one operation per weight."""

from __future__ import annotations

import tensorflow as tf
import tf_keras as keras


@keras.utils.register_keras_serializable("tft_keras")
class FusedAdam(keras.optimizers.Adam):
    """`keras.optimizers.Adam`, the same update by TensorFlow's fused kernel.

    A TFT has a hundred weights or more, most of them small. Keras writes some twenty operations for
    the update of each, which for a small model take longer than the model itself, to trace and to
    run; the fused kernel is one. Variables, settings and, up to rounding, results are those of
    Keras' Adam, but for the moving average of the weights (`use_ema`): it begins with a short
    memory, that of a mean, so that a short training is not averaged with its start values.
    """

    def build(self, var_list: list[tf.Variable]) -> None:
        """Makes the optimizer's variables for these weights."""
        super().build(var_list)
        self._weights = list(var_list)

    def swap_averages(self) -> None:
        """Exchanges the weights and their moving averages; without averages it does nothing."""
        if self.use_ema:
            for weight, average in zip(
                self._weights, self._model_variables_moving_average, strict=True
            ):
                kept = tf.identity(weight)
                weight.assign(average)
                average.assign(kept)

    def start_averages(self) -> None:
        """Begins the moving averages at the weights as they are now."""
        if self.use_ema:
            for weight, average in zip(
                self._weights, self._model_variables_moving_average, strict=True
            ):
                average.assign(weight)

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable) -> None:
        """Updates one weight; sparse gradients take Keras' own way."""
        if isinstance(gradient, tf.IndexedSlices) or self.amsgrad:
            super().update_step(gradient, variable)
            return
        key = self._index_dict[self._var_key(variable)]
        step = tf.cast(self.iterations + 1, variable.dtype)
        beta_1, beta_2 = (tf.cast(beta, variable.dtype) for beta in (self.beta_1, self.beta_2))
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[key].handle,
            v=self._velocities[key].handle,
            beta1_power=tf.pow(beta_1, step),
            beta2_power=tf.pow(beta_2, step),
            lr=tf.cast(self.learning_rate, variable.dtype),
            beta1=beta_1,
            beta2=beta_2,
            epsilon=tf.cast(self.epsilon, variable.dtype),
            grad=gradient,
        )

    def _update_model_variables_moving_average(self, var_list: list[tf.Variable]) -> None:
        if not self.use_ema:
            return
        step = tf.cast(self.iterations, tf.float32)
        momentum = tf.minimum(self.ema_momentum, step / (step + 9))

        def update(average: tf.Variable, weight: tf.Variable) -> None:
            share = tf.cast(1 - momentum, average.dtype)
            average.assign_add(share * (weight - average))

        for weight in var_list:
            average = self._model_variables_moving_average[self._index_dict[self._var_key(weight)]]
            self._distribution_strategy.extended.update(
                average, update, args=(weight,), group=False
            )
