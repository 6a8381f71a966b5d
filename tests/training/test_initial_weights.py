"""Starting from another model's weights."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tf_keras as keras

from tests import runs
from tests.support import CONFIG
from tft_keras.errors import InputError
from tft_keras.model import TemporalFusionTransformer
from tft_keras.training import Run, build_model, load_model, train
from tft_keras.training.calibration import has_unseen
from tft_keras.training.checkpoints import load_weights
from tft_keras.training.initial_weights import check_load_model, copy_weights

tiny_model = runs.tiny_model


@pytest.fixture(scope="module")
def data():
    return runs.prepared()


@pytest.fixture
def trained(tmp_path, data, tiny_model) -> Run:
    run = runs.new_run(tmp_path / "first", data)
    train(run, data)
    return run


def _started_from(path, run: Run, data, **changes) -> Run:
    training = dataclasses.replace(run.config.training, **changes)
    config = dataclasses.replace(run.config, training=training, load_model=str(run.path))
    return Run.create(path, config, data.preprocessing)


def test_training_starts_from_the_weights_of_a_run(tmp_path, data, trained):
    # A learning rate so small that the weights stay what they were.
    second = _started_from(tmp_path / "second", trained, data, epochs=1, learning_rate=1e-12)
    kernels = [train(second, data).kernel.numpy(), trained.model().kernel.numpy()]
    np.testing.assert_allclose(*kernels, rtol=1e-6)


def test_resuming_does_not_need_the_other_run_any_more(tmp_path, data, trained):
    expected = train(_started_from(tmp_path / "whole", trained, data), data).get_weights()
    stopped = _started_from(tmp_path / "stopped", trained, data)

    class Stop(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(stopped, data, callbacks=[Stop()])
    trained.path.rename(tmp_path / "moved")
    for ours, theirs in zip(train(stopped, data).get_weights(), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert "tft_epoch_0" not in {path.name for path in stopped.checkpoints.folder.iterdir()}


def test_a_keras_file_gives_the_same_model(tmp_path, data):
    model = build_model(runs.run_config(data))
    model.save(tmp_path / "model.keras")
    loaded = load_model(tmp_path / "model.keras")
    assert loaded.config == model.config
    for ours, theirs in zip(loaded.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", ["none.keras", "text.keras"])
def test_what_is_no_model(tmp_path, name):
    (tmp_path / "text.keras").write_text("text")
    with pytest.raises(InputError, match=rf"a \.keras file or a run folder\. Received: .*{name}"):
        load_model(tmp_path / name)


def test_a_keras_file_of_another_kind(tmp_path):
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.save(tmp_path / "other.keras")
    with pytest.raises(InputError, match=r"TemporalFusionTransformer\. Received: .*a Sequential"):
        load_model(tmp_path / "other.keras")


def test_what_observes_more_takes_the_weights_and_is_to_be_calibrated():
    source = TemporalFusionTransformer(CONFIG, quantized=True)
    model = TemporalFusionTransformer(CONFIG, quantized=True, integer_layer_norm=True)
    copy_weights(source, model)
    pairs = zip(source.trainable_weights, model.trainable_weights, strict=True)
    assert all(np.array_equal(one, two) for one, two in pairs)
    assert has_unseen(model)


@pytest.mark.usefixtures("tiny_model")
def test_another_architecture_is_refused_naming_what_differs(data):
    model = runs.model_building.build_model(runs.run_config(data))
    other = runs.model_building.build_model(
        runs.run_config(data, hidden_size=16, quantiles=(0.2, 0.5))
    )
    with pytest.raises(InputError) as error:
        copy_weights(other, model)
    assert "hidden_size=16 in load_model, 8 here" in str(error.value)
    assert "quantiles=(0.2, 0.5) in load_model, (0.1, 0.5, 0.9) here" in str(error.value)
    assert "num_heads" not in str(error.value)


def test_a_checkpoint_of_another_architecture_is_refused(tmp_path, data, trained):
    config = dataclasses.replace(trained.config.model, encoder_steps=11)
    other = runs.TinyModel(config, name="temporal_fusion_transformer")
    with pytest.raises(InputError, match=r"kernel.* of shape \[10, 9\] where .* \[11, 9\]"):
        load_weights(trained.checkpoints.final(), other)


def test_variables_of_other_names_are_pointed_out(trained, data):
    names, config = data.preprocessing.variable_names(), trained.config.model
    check_load_model(trained.path, config, names)
    with pytest.warns(
        UserWarning, match=r"the future variables promotion, 7 rows before, weekday;"
    ):
        check_load_model(trained.path, config, names | {"future": ["weekday", "promotion"]})
