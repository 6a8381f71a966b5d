"""The run folder: made once, opened, and what is said when it is not as it should be."""

from __future__ import annotations

import dataclasses
import json

import pytest

from tests import runs
from tft_keras.errors import InputError
from tft_keras.training import Run, RunConfig, train
from tft_keras.training.model_building import build_model

tiny_model = runs.tiny_model


@pytest.fixture(scope="module")
def data():
    return runs.prepared()


def test_config_goes_to_json_and_back(data):
    config = dataclasses.replace(
        runs.run_config(data), source="table.parquet", load_model="model.keras"
    )
    assert RunConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_a_config_without_a_part_is_refused(data):
    values = runs.run_config(data).to_dict()
    del values["model"]
    with pytest.raises(InputError, match=r"Received: one without model\."):
        RunConfig.from_dict(values)


def test_a_folder_holds_one_run(tmp_path, data):
    runs.new_run(tmp_path / "run", data)
    with pytest.raises(InputError, match=r"run_dir='.*run'.*--resume"):
        runs.new_run(tmp_path / "run", data)


def test_opening_what_is_no_run(tmp_path):
    with pytest.raises(InputError, match=r"A run is a folder with a config\.json"):
        Run.open(tmp_path / "none")


def test_opening_a_damaged_run(tmp_path, data):
    runs.new_run(tmp_path, data)
    (tmp_path / "config.json").write_text('{"schema": ')
    with pytest.raises(InputError, match=r"readable JSON\. Received: .*config\.json"):
        Run.open(tmp_path)


def test_a_run_without_an_epoch_has_no_model(tmp_path, data, tiny_model):
    run = runs.new_run(tmp_path, data)
    with pytest.raises(InputError, match=r"without a checkpoint"):
        run.model()


def test_an_unfinished_run_gives_its_best_epoch_with_a_warning(
    tmp_path,
    data,
    tiny_model,
):
    run = runs.new_run(tmp_path, data)
    weights = train(run, data).get_weights()
    run.checkpoints.final().rename(tmp_path / "elsewhere")
    with pytest.warns(UserWarning, match=r"has not finished; using its best epoch so far, 3 of 3"):
        model = run.model()
    for ours, theirs in zip(model.get_weights(), weights, strict=True):
        assert (ours == theirs).all()


def test_settings_reach_the_model(data):
    training = dataclasses.replace(
        runs.TRAINING,
        gradient_checkpointing="full",
        selection_group_size=2,
        precision="mixed_bfloat16",
        seed=7,
    )
    model = build_model(runs.run_config(data, training, hidden_size=4, dropout=0.25))
    assert model.gradient_checkpointing == "full"
    assert (model.selection_group_size, model.seed) == (2, 7)
    assert (model.config.hidden_size, model.config.dropout) == (4, 0.25)
    assert model.dtype_policy.name == "mixed_bfloat16"
    # The policy of the process stays as it was.
    assert build_model(runs.run_config(data)).dtype_policy.name == "float32"
