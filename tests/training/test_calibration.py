"""The phases of quantization-aware training in a run, and what can be wrong with them."""

import dataclasses

import numpy as np
import pytest

from tests import runs
from tft_keras.config import ModelConfig, TrainingConfig
from tft_keras.errors import InputError
from tft_keras.model import TemporalFusionTransformer
from tft_keras.quantization import calibrate, quantize_model
from tft_keras.training import Run, check_calibration, check_load_model, compare_accuracy, train
from tft_keras.training.calibration import FreezeLastEpochs
from tft_keras.training.comparison import FLOAT, FROZEN, LIVE, POST_TRAINING, table

QAT = dataclasses.replace(
    runs.TRAINING, epochs=2, use_qat=True, qat_calibration_batches=2, windows_per_epoch=32
)


@pytest.fixture(scope="module")
def data():
    return runs.prepared()


def _run(tmp_path, name, data, training):
    return Run.create(tmp_path / name, runs.run_config(data, training), data.preprocessing)


def _interrupted_after(epochs):
    def stop(epoch):
        if epoch == epochs:
            raise KeyboardInterrupt

    import tf_keras as keras

    return keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: stop(epoch))


@pytest.mark.slow
def test_a_stopped_run_goes_on_with_its_observers(data, tmp_path):
    training = dataclasses.replace(QAT, freeze_last_epochs=1, gradient_checkpointing="aggressive")
    whole = train(_run(tmp_path, "whole", data, training), data)
    run = _run(tmp_path, "stopped", data, training)
    with pytest.raises(KeyboardInterrupt):
        train(run, data, callbacks=[_interrupted_after(1)])
    resumed = train(Run.open(run.path), data)
    for one, two in zip(whole.get_weights(), resumed.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)
    loaded = Run.open(run.path).model()
    # two batches of calibration, and the two steps of the one epoch that was live
    best = run.checkpoints.state(run.checkpoints.last()).best_epoch
    rows = [row for row in loaded.observer_report() if row["state"] != "fixed"]
    assert {row["samples"] for row in rows} == {4}
    assert loaded.observers_frozen == (best == 2)


def test_calibration_needs_batches(data):
    training = dataclasses.replace(QAT, qat_calibration_batches=0, freeze_qat_observers=True)
    with pytest.raises(InputError, match=r"qat_calibration_batches=0 with observers that never"):
        check_calibration(training, data.train)


def test_fewer_batches_than_asked_for_are_told(data):
    training = dataclasses.replace(QAT, qat_calibration_batches=500)
    there = -(-len(data.train) // 16)
    with pytest.warns(UserWarning, match=f"on the {there} batches of 16 windows .*=500"):
        check_calibration(training, data.train)


@pytest.mark.parametrize(
    "setting",
    [
        {"freeze_qat_observers": True},
        {"freeze_last_epochs": 1},
        {"integer_layer_norm": True},
    ],
)
def test_freezing_needs_observers(setting):
    with pytest.raises(InputError, match="needs observers.* Add use_qat"):
        TrainingConfig(**setting)


def test_the_last_epochs_are_frozen():
    frozen, traced = [], []

    class Model:
        def freeze_observers(self):
            frozen.append(epoch)

        def make_train_function(self, force):
            traced.append(epoch)

    callback = FreezeLastEpochs(dataclasses.replace(QAT, epochs=5, freeze_last_epochs=2))
    callback.set_model(Model())
    for epoch in range(5):
        callback.on_epoch_begin(epoch)
    assert frozen == [3, 4] and traced == [3]


def test_what_kind_of_model_to_start_from(data, tmp_path):
    config = runs.run_config(data).model
    names = data.preprocessing.variable_names()
    model = TemporalFusionTransformer(config)
    twin = quantize_model(model)
    calibrate(twin, [data.train.gather(np.arange(8))])
    for name, kind in (("float", model), ("twin", twin)):
        kind.save(tmp_path / f"{name}.keras")
    check_load_model(tmp_path / "float.keras", config, names, use_qat=True)
    check_load_model(tmp_path / "twin.keras", config, names, use_qat=True)
    with pytest.raises(InputError, match="starts from float weights.* Add --use_qat"):
        check_load_model(tmp_path / "twin.keras", config, names, use_qat=False)
    other = ModelConfig.from_dict(config.to_dict() | {"hidden_size": 16})
    with pytest.raises(InputError, match="hidden_size=8 in load_model, 16 here"):
        check_load_model(tmp_path / "twin.keras", other, names, use_qat=True)


def test_accuracy_is_compared_with_a_float_model(data, tmp_path):
    run = Run(tmp_path, runs.run_config(data, QAT))
    with pytest.raises(InputError, match="the one that load_model names. Received: none"):
        compare_accuracy(run, data)


@pytest.mark.slow
def test_accuracy_of_all_variants_from_one_float_run(data, tmp_path):
    float_run = _run(tmp_path, "float", data, dataclasses.replace(runs.TRAINING, epochs=10))
    train(float_run, data)
    config = dataclasses.replace(runs.run_config(data, QAT), load_model=str(float_run.path))
    results = compare_accuracy(Run(tmp_path / "comparison", config), data)
    assert list(results) == [FLOAT, POST_TRAINING, FROZEN, LIVE]
    # 8 bits cost something, but not much
    for variant in (POST_TRAINING, FROZEN, LIVE):
        assert results[variant]["degradation"] == pytest.approx(
            100 * (results[variant]["loss"] / results[FLOAT]["loss"] - 1)
        )
        assert abs(results[variant]["degradation"]) < 20
    assert len(table(results).splitlines()) == 5
    frozen = Run.open(tmp_path / "comparison" / "frozen").model()
    assert frozen.observers_frozen
