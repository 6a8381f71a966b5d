"""Retry on out-of-memory: tier after tier, from the last checkpoint, and an error at the end."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tft_keras.apart import ProcessError
from tft_keras.errors import InputError
from tft_keras.retry import OutOfMemoryError, train_with_retry

ROOT = pathlib.Path(__file__).parent.parent


def attempt(folder: str, fitting: str, failing: str, tier: str | None) -> str:
    """Stands for a training that fits in one tier and runs out of memory in the weaker ones."""
    path = pathlib.Path(folder)
    with (path / "attempts").open("a") as file:
        file.write(f"{tier}\n")
    tier = tier or "off"
    training = {"gradient_checkpointing": tier, "batch_size": 8}
    (path / "config.json").write_text(json.dumps({"training": training}))
    if tier == fitting:
        return f"trained in {tier}"
    if failing == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if failing == "error":
        raise ZeroDivisionError
    if failing == "input":
        raise InputError("the table is empty.")
    raise MemoryError


def attempts(folder: pathlib.Path) -> list[str]:
    return (folder / "attempts").read_text().split()


@pytest.mark.parametrize("failing", ["memory", "killed"])
def test_the_next_stronger_tier_is_tried_and_this_is_said(tmp_path, failing):
    with pytest.warns(UserWarning) as warned:
        result = train_with_retry(
            functools.partial(attempt, str(tmp_path), "full", failing), tmp_path
        )
    assert result == "trained in full"
    assert attempts(tmp_path) == ["None", "aggressive", "full"]
    for warning, (failed, chosen) in zip(
        warned, [("off", "aggressive"), ("aggressive", "full")], strict=True
    ):
        assert re.search(
            rf"out of memory with gradient_checkpointing={failed} \(.+\); going on from the last "
            rf"checkpoint with gradient_checkpointing={chosen}",
            str(warning.message),
        )


def test_a_training_that_fits_runs_once(tmp_path):
    assert train_with_retry(functools.partial(attempt, str(tmp_path), "off", ""), tmp_path)
    assert attempts(tmp_path) == ["None"]


@pytest.mark.parametrize(
    ("failing", "error", "message"),
    [("input", InputError, r"table is empty"), ("error", ProcessError, r"exit status 1")],
)
def test_other_failures_are_not_tried_again(tmp_path, failing, error, message):
    with pytest.raises(error, match=message):
        train_with_retry(functools.partial(attempt, str(tmp_path), "full", failing), tmp_path)
    assert attempts(tmp_path) == ["None"]


def fail_before_the_run(tier: str | None) -> None:
    raise MemoryError


def test_memory_that_ends_before_training_begins(tmp_path):
    with pytest.raises(OutOfMemoryError, match=r"before training began \(MemoryError\).*--cache"):
        train_with_retry(fail_before_the_run, tmp_path)


def try_batch_size(run_path: str, batch_size: int) -> int:
    """Stands for a training in which batches of 4 fit at most: 100 MB, and 10 a window."""
    if batch_size > 4:
        raise MemoryError
    return 2**20 * (100 + 10 * batch_size)


@pytest.mark.filterwarnings("ignore:training ran out")
def test_when_full_fails_too_the_error_tells_what_it_needs_and_what_fits(tmp_path, monkeypatch):
    monkeypatch.setattr("tft_keras.retry.try_batch_size", try_batch_size)
    with pytest.raises(OutOfMemoryError) as caught:
        train_with_retry(functools.partial(attempt, str(tmp_path), "none", "memory"), tmp_path)
    message = str(caught.value)
    # 0.9 of the largest batch that fitted
    assert "A batch size of 3 fits: start a run with --batch_size=3" in message
    assert "batch_size=8, which needs about 180 MB (measured: 110 MB at 1, 120 MB at 2" in message


def test_the_waiting_process_does_without_tensorflow():
    code = "import sys, tft_keras.retry, tools.train; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


OBSERVED = 40
GIGABYTES = 2**30


def write_table(path: pathlib.Path, rows: int) -> None:
    generator = np.random.default_rng(0)
    columns = {f"x{number}": generator.normal(size=rows) for number in range(OBSERVED)}
    columns |= {"time": np.arange(rows), "y": generator.normal(size=rows)}
    pq.write_table(pa.table(columns), path)


def train(folder: pathlib.Path, *flags: str, limit: int | None = None):
    """Runs `tools.train`, whose activations take 2.3 GB in `off`, within an address space."""

    def set_limit() -> None:
        if limit:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    observed = ",".join(f"x{number}" for number in range(OBSERVED))
    return subprocess.run(
        [sys.executable, "-m", "tools.train", f"--parquet_file={folder / 'wide.parquet'}"]
        + ["--target=y", "--time=time", f"--observed={observed}", "--hidden_size=32"]
        + ["--encoder_steps=40", "--horizon=4", "--validation=0.1", "--test=0.1"]
        + ["--batch_size=1024", "--windows_per_epoch=1024", "--selection_group_size=2"]
        + [f"--run_dir={folder / 'run'}", *flags],
        capture_output=True,
        text=True,
        cwd=ROOT,
        preexec_fn=set_limit,  # noqa: PLW1509
        check=False,
    )


@pytest.mark.slow
class TestAddressSpaceLimit:
    """The real command, in less memory than `off` and `aggressive` take."""

    def test_training_goes_on_in_a_stronger_tier_from_the_last_checkpoint(self, tmp_path):
        write_table(tmp_path / "wide.parquet", rows=1400)
        done = train(tmp_path, "--epochs=1")
        assert done.returncode == 0, done.stderr
        before = (tmp_path / "run" / "metrics.jsonl").read_text()
        flags = ["--resume", "--epochs=2", "--auto_gradient_checkpointing"]
        done = train(tmp_path, *flags, limit=5 * GIGABYTES)
        assert done.returncode == 0, done.stderr
        assert "out of memory with gradient_checkpointing=off" in done.stderr
        assert "going on from the last checkpoint with gradient_checkpointing=full" in done.stderr
        after = (tmp_path / "run" / "metrics.jsonl").read_text()
        # The first epoch was not trained again.
        assert after.startswith(before) and len(after.splitlines()) == 2
        config = json.loads((tmp_path / "run" / "config.json").read_text())
        assert config["training"]["gradient_checkpointing"] == "full"

    def test_the_batch_size_that_the_error_names_does_fit(self, tmp_path):
        write_table(tmp_path / "wide.parquet", rows=1400)
        flags = ["--gradient_checkpointing=full", "--selection_group_size=20", "--epochs=1"]
        flags += ["--auto_gradient_checkpointing"]
        done = train(tmp_path, *flags, limit=int(4.6 * GIGABYTES))
        assert done.returncode == 1
        assert re.search(r"batch_size=1024, which needs about [\d,]+ MB", done.stderr), done.stderr
        fitting = re.search(r"--batch_size=(\d+)", done.stderr)[1]
        flags += [f"--batch_size={fitting}", f"--run_dir={tmp_path / 'smaller'}"]
        done = train(tmp_path, *flags, limit=int(4.6 * GIGABYTES))
        assert done.returncode == 0, done.stderr
