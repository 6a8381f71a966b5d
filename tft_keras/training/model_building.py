"""From a run's settings to a model that is built, and compiled for training."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tf_keras as keras

from tft_keras.config import TrainingConfig
from tft_keras.losses import QuantileLoss
from tft_keras.model import TemporalFusionTransformer
from tft_keras.training.fused_adam import FusedAdam
from tft_keras.training.run_config import RunConfig


def build_model(config: RunConfig) -> TemporalFusionTransformer:
    """Returns the model of a run with its weights at their start values.

    The one place where a run's settings become a model: training, evaluation and forecasting all
    build it here and then load weights.
    """
    training = config.training
    with _precision(training.precision):
        return TemporalFusionTransformer(
            config.model,
            # Keras would number the models of a process, and their weights' names with them.
            name="temporal_fusion_transformer",
            seed=training.seed,
            gradient_checkpointing=training.gradient_checkpointing,
            selection_group_size=training.selection_group_size or None,
            quantized=training.use_qat,
            observers=observer_settings(training),
            integer_layer_norm=training.integer_layer_norm,
        )


def observer_settings(training: TrainingConfig) -> dict[str, float]:
    """Returns the settings that a run's observers have beside their defaults."""
    if not training.use_qat or training.qat_percentile == 100:
        return {}
    return {"percentile": training.qat_percentile}


def compile_model(
    model: TemporalFusionTransformer, config: RunConfig, steps_per_epoch: int
) -> None:
    """Compiles a model for training with Adam and the quantile loss.

    Args:
        model: from `build_model`.
        config: settings of the run.
        steps_per_epoch: batches in an epoch, which the learning rate's decay is measured in.
    """
    optimizer = FusedAdam(
        learning_rate=learning_rate(config.training, steps_per_epoch),
        global_clipnorm=config.training.max_gradient_norm,
        use_ema=config.training.weight_averaging > 0,
        ema_momentum=config.training.weight_averaging,
    )
    # Otherwise `fit` creates its variables while tracing, and must trace a second time.
    optimizer.build(model.trainable_variables)
    model.compile(optimizer=optimizer, loss=QuantileLoss(config.model.quantiles))


def learning_rate(
    training: TrainingConfig, steps_per_epoch: int
) -> float | keras.optimizers.schedules.LearningRateSchedule:
    """Returns the learning rate: a number, or a function of the optimizer's iterations.

    Being a function of the iterations alone, a decay goes on where it was after a resume.
    """
    if training.learning_rate_decay == "constant":
        return training.learning_rate
    return keras.optimizers.schedules.CosineDecay(
        training.learning_rate, decay_steps=training.epochs * steps_per_epoch
    )


@contextlib.contextmanager
def _precision(policy: str) -> Iterator[None]:
    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy(policy)
    try:
        yield
    finally:
        keras.mixed_precision.set_global_policy(before)
