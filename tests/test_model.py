"""The whole model: against the paper in NumPy, causality, and life in Keras."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tests.reference import Reference
from tests.support import CONFIG, TINY, random_inputs, random_targets, randomize
from tft_keras.errors import InputError
from tft_keras.losses import QuantileLoss
from tft_keras.model import TemporalFusionTransformer

VARIANTS = {
    "all roles": CONFIG,
    "real only": dataclasses.replace(
        CONFIG, static_categorical=(), known_categorical=(), observed_categorical=()
    ),
    "no static": dataclasses.replace(CONFIG, static_real=0, static_categorical=()),
    "no known": dataclasses.replace(CONFIG, known_real=0, known_categorical=()),
    "target alone": dataclasses.replace(
        CONFIG,
        static_real=0,
        static_categorical=(),
        known_real=0,
        known_categorical=(),
        observed_real=1,
        observed_categorical=(),
    ),
    "categorical static alone": dataclasses.replace(CONFIG, static_real=0, known_real=0),
}


@pytest.mark.parametrize("group_size", [None, 2])
@pytest.mark.parametrize("variant", VARIANTS)
def test_equals_the_papers_equations(variant, group_size):
    config = VARIANTS[variant]
    model = TemporalFusionTransformer(config, selection_group_size=group_size)
    randomize(model)
    inputs = random_inputs(config, windows=3)
    # float32 against float64 through about ten layers
    np.testing.assert_allclose(model(inputs), Reference(model)(inputs), rtol=1e-5, atol=1e-5)


def test_a_step_changes_no_output_before_it(config, inputs):
    model = TemporalFusionTransformer(config)
    randomize(model)
    before = model(inputs).numpy()
    for step in range(config.horizon):
        changed = {name: values.copy() for name, values in inputs.items()}
        at = config.encoder_steps + step
        changed["known_real"][:, at:] += 10
        changed["known_categorical"][:, at:] = 0
        after = model(changed).numpy()
        np.testing.assert_array_equal(after[:, :step], before[:, :step])
        assert np.abs(after[:, step] - before[:, step]).max() > 1e-3


def test_every_input_reaches_the_output(config, inputs):
    model = TemporalFusionTransformer(config)
    randomize(model)
    real = {name: tf.constant(values) for name, values in inputs.items()}
    floating = {name: values for name, values in real.items() if values.dtype.is_floating}
    with tf.GradientTape() as tape:
        tape.watch(floating)
        output = tf.reduce_sum(model(real) ** 2)
    for name, gradient in tape.gradient(output, floating).items():
        assert np.all(np.abs(gradient).max(axis=0) > 0), name


def test_interpretation_sums_to_one_and_is_causal(config, inputs):
    model = TemporalFusionTransformer(config)
    randomize(model)
    found = model.interpret(inputs)
    steps = config.encoder_steps + config.horizon
    assert found["static_weights"].shape == (6, 3)
    assert found["history_weights"].shape == (6, config.encoder_steps, 8)
    assert found["future_weights"].shape == (6, config.horizon, 3)
    assert found["attention"].shape == (6, 2, config.horizon, steps)
    for name in ("static_weights", "history_weights", "future_weights", "attention"):
        np.testing.assert_allclose(tf.reduce_sum(found[name], -1), 1, atol=1e-5)
    later = np.arange(steps) > np.arange(config.encoder_steps, steps)[:, np.newaxis]
    assert np.abs(found["attention"].numpy()[:, :, later]).max() == 0
    np.testing.assert_array_equal(found["quantiles"], model(inputs))


def test_dropout_changes_between_steps_and_is_off_at_inference(config, inputs):
    model = TemporalFusionTransformer(config)
    first, second = model(inputs, training=True), model(inputs, training=True)
    assert np.abs(first - second).max() > 1e-3
    np.testing.assert_array_equal(model(inputs), model(inputs, training=False))
    model.dropout_seeds.calls.assign(0)
    np.testing.assert_array_equal(model(inputs, training=True), first)


@pytest.mark.parametrize("eager", [False, True])
def test_fit_evaluate_predict(eager):
    config = TINY if eager else CONFIG
    inputs, targets = random_inputs(config, windows=6), random_targets(config, windows=6)
    keras.utils.set_random_seed(0)
    model = TemporalFusionTransformer(config)
    model.compile(keras.optimizers.legacy.Adam(0.03), QuantileLoss(), run_eagerly=eager)
    before = [weight.numpy() for weight in model.trainable_weights]
    history = model.fit(inputs, targets, epochs=5, batch_size=6, verbose=0).history["loss"]
    assert history[-1] < 0.8 * history[0]
    moved = [np.abs(w - b).max() > 0 for w, b in zip(model.trainable_weights, before, strict=True)]
    assert all(moved)
    loss = model.evaluate(inputs, targets, batch_size=6, verbose=0)
    expected = QuantileLoss()(targets, model.predict(inputs, verbose=0))
    np.testing.assert_allclose(loss, expected, rtol=1e-6)


def test_saves_and_loads(config, inputs, tmp_path):
    model = TemporalFusionTransformer(config, seed=3, gradient_checkpointing="full")
    randomize(model)
    model(inputs, training=True)  # the dropout counter is part of the state
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    again = TemporalFusionTransformer(config)
    again.load_weights(tmp_path / "model.weights.h5")
    assert loaded.config == config and loaded.gradient_checkpointing == "full"
    for other in (loaded, again):
        np.testing.assert_array_equal(other(inputs), model(inputs))
        assert other.dropout_seeds.calls.numpy() == 1


def test_mixed_precision_stays_close():
    inputs, targets = random_inputs(TINY, windows=6), random_targets(TINY, windows=6)
    plain = TemporalFusionTransformer(TINY)
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        mixed = TemporalFusionTransformer(TINY, gradient_checkpointing="full")
        mixed.set_weights(plain.get_weights())
        mixed.compile(keras.optimizers.legacy.Adam(0.01), QuantileLoss())
        outputs = mixed(inputs)
        losses = mixed.fit(inputs, targets, epochs=5, verbose=0).history["loss"]
    finally:
        keras.mixed_precision.set_global_policy("float32")
    assert outputs.dtype == tf.float32
    assert all(weight.dtype != tf.bfloat16 for weight in mixed.weights)
    # bfloat16 has 8 bits of mantissa, and there are about ten layers
    assert np.mean(np.abs(outputs - plain(inputs))) < 0.03
    assert losses[-1] < losses[0]


def test_two_replicas_train_like_one_device(strategy):
    config = dataclasses.replace(TINY, dropout=0.0, static_real=0, known_real=0)
    inputs, targets = random_inputs(config, windows=6), random_targets(config, windows=6)

    def train(make):
        keras.utils.set_random_seed(0)
        model = make()
        data = tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(6)
        model.fit(data, epochs=3, verbose=0)
        return model.get_weights()

    def make(**kwargs):
        model = TemporalFusionTransformer(config, **kwargs)
        model.compile(keras.optimizers.legacy.SGD(0.1), QuantileLoss())
        return model

    def distributed():
        with strategy.scope():
            return make(gradient_checkpointing="full", selection_group_size=2)

    # only the order of sums differs
    for one, two in zip(train(make), train(distributed), strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-4, atol=1e-5)


def test_unknown_tier_names_the_nearest(config):
    with pytest.raises(InputError, match="Did you mean 'aggressive'"):
        TemporalFusionTransformer(config, gradient_checkpointing="agressive")
