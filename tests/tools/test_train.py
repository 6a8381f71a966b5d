"""`python -m tools.train`, with the real model on a small table."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests import runs
from tft_keras.commands import command, settings
from tft_keras.errors import InputError
from tft_keras.training import Run, load_model
from tools import train

tiny_model = runs.tiny_model
ROLES = ["--target=sales", "--time=day", "--group=store", "--static=store"]
ROLES += ["--known=promotion,weekday", "--observed=visitors", "--categorical=weekday"]
SIZES = ["--encoder-steps=10", "--horizon=3", "--hidden_size=8", "--num_heads=2"]
SIZES += ["--validation=0.2", "--test=0.2", "--batch_size=16", "--windows_per_epoch=64"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("train")
    pq.write_table(runs.sales_table(), folder / "sales.parquet")
    return folder


def _arguments(folder: pathlib.Path, name: str, *more: str) -> list[str]:
    table = f"--parquet_file={folder / 'sales.parquet'}"
    return [table, f"--run_dir={folder / name}", "--epochs=3", *ROLES, *SIZES, *more]


def _run(*arguments: str) -> int:
    return command.status(train.main, train.FLAGS, arguments)


@pytest.fixture(scope="module")
def whole(folder) -> Run:
    """A run of the real model from start to end."""
    assert _run(*_arguments(folder, "whole", f"--save_model={folder / 'model.keras'}")) == 0
    return Run.open(folder / "whole")


def test_settings_of_the_flags_reach_the_run(whole, folder):
    config = whole.config
    assert config.source == str(folder / "sales.parquet")
    assert config.schema == runs.SCHEMA
    assert config.data == runs.DATA
    assert (config.model.hidden_size, config.model.num_heads) == (8, 2)
    assert (config.training.epochs, config.training.batch_size) == (3, 16)


def test_save_model_gives_the_final_weights(whole, folder):
    loaded = load_model(folder / "model.keras")
    for ours, theirs in zip(loaded.get_weights(), whole.model().get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_killed_training_resumes_to_the_same_weights(whole, folder):
    """A real SIGKILL, in the middle of the second epoch."""
    command_line = [sys.executable, "-m", "tools.train", *_arguments(folder, "killed")]
    process = subprocess.Popen(command_line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    checkpoint = folder / "killed" / "checkpoints" / "tft_epoch_1"
    deadline = time.monotonic() + 300
    while not checkpoint.exists():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert Run.open(folder / "killed").checkpoints.final() is None
    assert _run(f"--run_dir={folder / 'killed'}", "--resume") == 0
    resumed = Run.open(folder / "killed")
    for ours, theirs in zip(
        resumed.model().get_weights(), whole.model().get_weights(), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    lines = (resumed.path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3]


def test_the_console_is_clean_and_says_what_is_next(folder):
    arguments = _arguments(folder, "clean", "--epochs=1")
    # As users have it: the tests set a log level of their own.
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, "-m", "tools.train", *arguments],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert [line.split("  ")[0] for line in done.stderr.splitlines()] == ["epoch 1/1"]
    assert "validation loss" in done.stderr
    assert f"next: python -m tools.evaluate --run_dir {folder / 'clean'}" in done.stdout
    for split, windows in (("train", 72), ("validation", 28), ("test", 28)):
        assert f"{split}: {windows} windows of 2 series\n" in done.stdout
    assert "\nstep: 1 day\n" in done.stdout


@pytest.mark.usefixtures("tiny_model")
class TestSettings:
    """How flags, files and a resumed run go together; with the tiny model."""

    def test_a_settings_file_and_a_runs_config_give_the_same_run(self, folder, tmp_path):
        assert _run(*_arguments(folder, "flags", "--quantiles=0.2,0.5")) == 0
        config = folder / "flags" / "config.json"
        assert _run(f"--config={config}", f"--run_dir={tmp_path / 'again'}", "--epochs=2") == 0
        first, again = Run.open(folder / "flags").config, Run.open(tmp_path / "again").config
        assert again.training.epochs == 2
        assert (again.schema, again.data, again.model) == (first.schema, first.data, first.model)

    def test_roles_from_a_schema_file(self, folder, tmp_path):
        schema = tmp_path / "schema.json"
        schema.write_text(json.dumps(runs.SCHEMA.to_dict()))
        table = f"--parquet_file={folder / 'sales.parquet'}"
        flags = [table, f"--schema={schema}", "--observed=", f"--run_dir={tmp_path / 'run'}"]
        assert _run(*flags, *SIZES, "--epochs=1") == 0
        assert Run.open(tmp_path / "run").config.schema.observed == ()
        assert Run.open(tmp_path / "run").config.schema.known == ("promotion", "weekday")

    def test_resume_refuses_other_settings_but_takes_more_epochs(self, folder, capsys):
        assert _run(*_arguments(folder, "more", "--epochs=1")) == 0
        resume = [f"--run_dir={folder / 'more'}", "--resume"]
        assert _run(*resume, "--hidden_size=16") == 1
        assert "hidden_size=16, started with 8" in capsys.readouterr().err
        assert _run(*resume, "--epochs=2", "--hidden-size=8", *ROLES) == 0
        run = Run.open(folder / "more")
        assert run.config.training.epochs == 2
        assert run.checkpoints.last() == 2

    def test_a_run_is_not_overwritten(self, folder, capsys):
        assert _run(*_arguments(folder, "once", "--epochs=1")) == 0
        assert _run(*_arguments(folder, "once", "--epochs=1")) == 1
        assert "--resume" in capsys.readouterr().err

    def test_start_from_the_weights_of_a_run(self, folder, capsys):
        assert _run(*_arguments(folder, "first", "--epochs=1")) == 0
        more = f"--load_model={folder / 'first'}"
        assert _run(*_arguments(folder, "second", "--epochs=1", more)) == 0
        assert Run.open(folder / "second").config.load_model == str(folder / "first")
        assert _run(*_arguments(folder, "third", more, "--hidden_size=16")) == 1
        assert "hidden_size=8 in load_model, 16 here" in capsys.readouterr().err
        assert not (folder / "third").exists()

    def test_an_interruption_names_the_last_checkpoint(self, folder, capsys, monkeypatch):
        def interrupt(run, data, callbacks):
            raise KeyboardInterrupt

        monkeypatch.setattr("tft_keras.training.train", interrupt)
        assert _run(*_arguments(folder, "interrupted")) == 130
        message = capsys.readouterr().err
        assert "interrupted; last checkpoint: none yet" in message
        assert f"--run_dir {folder / 'interrupted'} --resume" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--parquet_file=x.parquet", "--target=y"], r"target and time\. Received: no --time"),
        (["--target=y"], r"Received: target without --parquet_file"),
        (["--save_model=model.h5"], r"save_model must end in \.keras"),
        (["--resume"], r"no --run_dir"),
        (["--epochs=0"], r"Received: epochs=0"),
        (["--num_heads=3"], r"Received: num_heads=3"),
        (["--gradient_checkpointing=half"], r"one of off, aggressive, full"),
        (
            ["--use_gradient_checkpointing", "--gradient_checkpointing=off"],
            r"together with --gradient_checkpointing=off",
        ),
    ],
)
def test_wrong_flags_are_refused_before_tensorflow_is_needed(arguments, message, monkeypatch):
    monkeypatch.setattr(command, "import_tensorflow", lambda: pytest.fail("too late"))
    with pytest.raises(InputError, match=message):
        train.main(train.FLAGS.parse(arguments))


@pytest.mark.parametrize(
    ("arguments", "tier"),
    [
        ([], "off"),
        (["--use_gradient_checkpointing"], "aggressive"),
        (["--gradient_checkpointing=full"], "full"),
        (["--use-gradient-checkpointing", "--gradient-checkpointing=full"], "full"),
    ],
)
def test_gradient_checkpointing_flags(arguments, tier):
    assert settings.gradient_checkpointing(train.FLAGS.parse(arguments)) == tier


def test_every_setting_is_a_flag_with_help():
    import dataclasses

    from tft_keras.config import DataConfig, TrainingConfig

    text = train.FLAGS.help_text().splitlines()
    names = [
        field.name for kind in (DataConfig, TrainingConfig) for field in dataclasses.fields(kind)
    ]
    for name in [*names, *settings.MODEL_SETTINGS]:
        assert len(text[text.index(f"  --{name}") + 1].strip()) > 10


@pytest.mark.parametrize(
    ("text", "value"), [("0.2", 0.2), ("100", 100), ("2013-05-01", "2013-05-01")]
)
def test_a_split_is_a_share_a_number_or_a_time(text, value):
    assert settings.value(train.FLAGS.parse([f"--test={text}"]), "test") == value


def test_a_run_that_fails_before_its_first_step_leaves_nothing(folder, capsys):
    arguments = _arguments(folder, "failed", "--early_stopping_patience=2", "--validation=0")
    assert _run(*arguments) == 1
    assert "Early stopping needs windows" in capsys.readouterr().err
    assert not (folder / "failed").exists()


def test_what_else_is_in_the_folder_stays(folder):
    (folder / "mine" / "logs").mkdir(parents=True)
    (folder / "mine" / "logs" / "notes.txt").write_text("kept")
    assert _run(*_arguments(folder, "mine", "--early_stopping_patience=2", "--validation=0")) == 1
    assert [path.name for path in (folder / "mine").rglob("*")] == ["logs", "notes.txt"]


@pytest.mark.usefixtures("tiny_model")
def test_what_follows_from_the_table_is_told(folder, capsys):
    """Sizes, unless a flag gives them; those of the run that weights come from go first."""
    more = ["--nocalibrate", "--hidden_size=12", "--num_heads=3"]
    assert _run(*_arguments(folder, "told", *more)) == 0
    told = capsys.readouterr().out
    assert "chosen for this table: dropout 0.3, early_stopping_patience 5" in told
    assert "inputs made: 7 rows before" in told
    rest = [a for a in _arguments(folder, "told_again") if "hidden" not in a and "heads" not in a]
    assert _run(*rest, f"--load_model={folder / 'told'}") == 0
    config = Run.open(folder / "told_again").config.model
    assert (config.hidden_size, config.num_heads) == (12, 3)
