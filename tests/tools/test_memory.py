"""`python -m tools.memory`: the figures it derives, its tables, and the command itself."""

from __future__ import annotations

import json
import re

import pytest

from tests.training.test_measuring import run_config
from tft_keras.apart import Ending
from tft_keras.commands import command
from tft_keras.config import ModelConfig
from tft_keras.step_memory import StepMemory
from tft_keras.tiers import BLOCKS, TIERS
from tools import memory, memory_report

MEGABYTE, GIGABYTE = 2**20, 2**30
CONFIG = run_config(ModelConfig(encoder_steps=5, horizon=2, observed_real=3), batch_size=8)


def step(batch_size: int, megabytes: float, seconds: float) -> StepMemory:
    activations = int(megabytes * MEGABYTE)
    return StepMemory("CPU:0", batch_size, 1000, 200 * MEGABYTE, 50, activations, 7, seconds, 1.0)


def steps(constant: float, per_window: float, seconds: float) -> list[StepMemory]:
    return [step(size, constant + per_window * size, seconds * size / 8) for size in (2, 4, 8)]


MEASURED = {
    "off": steps(0, 500, 1.0),
    "aggressive": steps(0, 490, 1.2),
    "full": steps(100, 50, 1.25),
    "lstm_encoder": [step(8, 4000, 0.9)],
}


@pytest.fixture
def report():
    return memory_report.report(CONFIG, MEASURED)


def test_shares_and_overheads(report):
    off, full = report["tiers"]["off"], report["tiers"]["full"]
    assert off["share"] is None and off["overhead"] is None
    assert full["share"] == pytest.approx(500 / 4000)
    assert full["overhead"] == pytest.approx(25)
    assert full["saved_per_percent"] == pytest.approx(3500 * MEGABYTE / 25)
    # What costs no time has no price.
    assert report["blocks"]["lstm_encoder"]["saved_per_percent"] is None


def test_largest_batches_leave_room_for_weights_and_a_reserve(report):
    full = report["tiers"]["full"]["largest_batch"]
    # 90 % of 4 GB without 200 MB of weights and 100 MB of what does not grow, at 50 MB a window
    assert full[4] == int((0.9 * 4 * 1024 - 200 - 100) / 50)
    assert report["tiers"]["off"]["largest_batch"][80] == int((0.9 * 80 * 1024 - 200) / 500)


def test_the_recommendation(report):
    assert report["recommendation"] == [
        "aggressive is not worth it here: it saves 2% of the peak.",
        "batch size 8 on 4 GB: full",
        "batch size 8 on 8 to 80 GB: off",
    ]


def test_a_batch_that_fits_nowhere(report):
    lines = memory_report.recommendation(report["tiers"], 100)
    assert "batch size 100 on 4 GB: too large, full takes 67" in lines


def test_a_tier_that_did_not_fit_is_told(report):
    some = MEASURED | {"off": MEASURED["off"][:1], "full": MEASURED["full"]}
    report = memory_report.report(CONFIG, some)
    assert report["tiers"]["off"]["activations"] is None
    assert report["tiers"]["full"]["share"] is None
    assert re.search(r"^off +does not fit$", memory_report.text(report), re.MULTILINE)


def test_the_text_has_every_figure(report):
    text = memory_report.text(report)
    assert "0 static, 3 observed, 0 known inputs, 5 encoder steps, horizon 2" in text
    assert "1,000 parameters; weights, optimizer and gradients 200 MB" in text
    assert re.search(r"^full +500 MB +12% +1\.250 s +\+25 % +140 MB$", text, re.MULTILINE)
    assert re.search(r"^lstm_encoder +4,000 MB +100% +0\.900 s +-10 % +-$", text, re.MULTILINE)
    assert re.search(r"^full +67 +", text, re.MULTILINE)


def test_the_plot(report, tmp_path):
    memory_report.plot(report, tmp_path / "memory.svg")
    text = (tmp_path / "memory.svg").read_text()
    assert text.count("<path") > 10


@pytest.mark.slow
def test_the_command_on_a_small_model(tmp_path, capsys):
    settings = {"model": ModelConfig(encoder_steps=4, horizon=2, hidden_size=8).to_dict()}
    settings["training"] = {"batch_size": 4, "epochs": 3}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    flags = [f"--config={tmp_path / 'config.json'}", f"--json={tmp_path / 'memory.json'}"]
    assert command.status(memory.main, memory.FLAGS, [*flags, "--steps=1", "--noblocks"]) == 0
    printed = capsys.readouterr()
    report = json.loads((tmp_path / "memory.json").read_text())
    assert printed.out.strip() == memory_report.text(_with_whole_keys(report)).strip()
    assert printed.err.splitlines()[-1] == "measuring 3/3: full"
    assert report["model"] == settings["model"]
    for tier in ("off", "aggressive", "full"):
        assert list(report["tiers"][tier]["by_batch_size"]) == ["1", "2", "4"]


def test_each_tier_and_block_is_measured_by_itself(monkeypatch, capsys):
    calls = []

    def run_apart(function, config, recomputed, batch_sizes, count):
        calls.append((recomputed, batch_sizes, count))
        sizes = batch_sizes if recomputed != "off" else batch_sizes[:2]
        # In `off` the whole batch does not fit.
        shortage = "" if sizes == batch_sizes else "MemoryError"
        return Ending(tuple(step(size, size, 1.0) for size in sizes), shortage=shortage)

    monkeypatch.setattr("tft_keras.apart.run_apart", run_apart)
    assert command.status(memory.main, memory.FLAGS, ["--batch_size=16", "--steps=2"]) == 0
    assert calls[:3] == [(tier, (4, 8, 16), 2) for tier in TIERS]
    assert calls[3:] == [((block,), (16,), 2) for block in BLOCKS]
    assert re.search(r"^off +does not fit$", capsys.readouterr().out, re.MULTILINE)


def _with_whole_keys(report):
    """JSON turns the GB of `largest_batch` into texts."""
    for figures in report["tiers"].values():
        largest = figures["largest_batch"]
        figures["largest_batch"] = {int(size): batch for size, batch in largest.items()}
    return report


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--batch_size=3", "batch_size must be at least 4"),
        ("--steps=0", "Received: steps=0"),
        ("--num_heads=5", "Received: num_heads=5"),
        ("--precision=float64", "Received: precision='float64'"),
    ],
)
def test_wrong_flags_are_refused_before_anything_is_measured(flag, message, capsys, monkeypatch):
    monkeypatch.setattr(command, "import_tensorflow", lambda: pytest.fail("too late"))
    assert command.status(memory.main, memory.FLAGS, [flag]) == 1
    assert message in capsys.readouterr().err
