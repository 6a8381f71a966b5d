"""`python -m tools.benchmark training`: its table, its checks, and one tiny run."""

from __future__ import annotations

import json
import re

import pytest

from tests.training.test_measuring import run_config
from tft_keras.commands import command
from tft_keras.config import ModelConfig
from tft_keras.errors import InputError
from tools.benchmark import peer, training

MEGABYTE = 2**20


def figures(tier, seconds, precision="float32", **kwargs):
    return training.Figures(
        "tft_225", precision, tier, 64, 12.5, seconds, seconds * 1.25, 300 * MEGABYTE, **kwargs
    )


MEASURED = [
    figures("off", 0.8, operations=(("MatMul", 0.4),)),
    figures("full", 1.0),
    figures(training.PEER, 2.0),
    figures("off", 0.5, "mixed_bfloat16"),
]


def test_ratios_are_to_the_peer_of_the_same_sizes_and_precision():
    ratios = [training.ratio_to_peer(each, MEASURED) for each in MEASURED]
    assert ratios == [pytest.approx(2.5), pytest.approx(2.0), None, None]


def test_the_table_has_every_figure():
    lines = training.text(MEASURED).splitlines()
    pattern = r"tft_225 +float32 +off +80\.0 +0\.800 s +1\.000 s +300 MB +12\.5 s +2\.50x$"
    assert re.match(pattern, lines[1])
    assert lines[4].endswith("12.5 s")
    assert lines[-2] == "tft_225, float32, off, per step:"
    assert lines[-1].split() == ["400.0", "ms", "MatMul"]


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--sizes=tft_22", "Received: sizes='tft_22'. Did you mean 'tft_225'?"),
        ("--tiers=ful", "Did you mean 'full'?"),
        ("--precisions=float16", "Received: precisions='float16'"),
        ("--peer=darts", "Received: peer='darts'"),
        ("--steps=0", "Received: steps=0"),
        ("--num_heads=5", "Received: num_heads=5"),
    ],
)
def test_wrong_flags_are_refused_before_anything_is_measured(flag, message, capsys, monkeypatch):
    monkeypatch.setattr(command, "import_tensorflow", lambda: pytest.fail("too late"))
    assert command.status(training.main, training.FLAGS, [flag]) == 1
    assert message in capsys.readouterr().err


def test_a_missing_peer_is_told_with_the_way_out(tmp_path):
    with pytest.raises(InputError, match=r"pip install 'tft-keras\[peer\]'"):
        peer.require(str(tmp_path / "python"))


def test_each_combination_is_measured_by_itself(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(peer, "require", lambda python: None)
    monkeypatch.setattr(
        training,
        "_measure_apart",
        lambda flags, sizes, precision, tier: training.Figures(
            sizes, precision, tier, flags.batch_size, 1.0, 0.5, 0.5, 0
        ),
    )
    given = {"first_step": 1.0, "seconds": 1.0, "median_seconds": 1.0, "memory": 5}
    monkeypatch.setattr(peer, "measure_apart", lambda python, **settings: given)
    flags = ["--tiers=off,full", f"--peer={training.PEER}", f"--json={tmp_path / 'figures.json'}"]
    assert command.status(training.main, training.FLAGS, flags) == 0
    content = json.loads((tmp_path / "figures.json").read_text())
    names = [(each["sizes"], each["precision"], each["tier"]) for each in content]
    assert len(set(names)) == 2 * 2 * 3
    assert content[0]["samples_per_second"] == 128
    assert capsys.readouterr().out.count("2.00x") == 8


def test_a_tiny_model_is_measured_and_profiled(tmp_path):
    config = run_config(
        ModelConfig(encoder_steps=4, horizon=2, observed_real=3, hidden_size=8), batch_size=4
    )
    measured = training.measure(config, steps=2, profile=str(tmp_path))
    assert 0 < measured["seconds"] <= measured["median_seconds"] < measured["first_step"]
    assert 1 <= len(measured["operations"]) <= 10
    assert any("MatMul" in name for name, _ in measured["operations"])
    assert list(tmp_path.rglob("*.xplane.pb"))


def test_the_peer_trains():
    pytest.importorskip("pytorch_forecasting")
    model = ModelConfig(encoder_steps=4, horizon=2, observed_real=3, hidden_size=8)
    assert peer.measure(model.to_dict(), 4, 1, "float32")["seconds"] > 0
