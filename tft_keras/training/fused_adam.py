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
    Keras' Adam.
    """

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
