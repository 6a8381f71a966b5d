"""`python -m tools.prepare_bars` and `python -m tools.bars_baselines`."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests import runs
from tests.data.bar_tables import bars, market, session_times, until
from tft_keras.commands import command
from tft_keras.training import Run
from tools import bars_baselines, forecast, prepare_bars, train

pytestmark = [
    pytest.mark.filterwarnings("default:.*missing bars within sessions:UserWarning"),
    pytest.mark.filterwarnings("default:Column .* is constant:UserWarning"),
]
tiny_model = runs.tiny_model
tiny_run = runs.tiny_run
WINDOWS = ["--encoder_steps=12", "--horizon=4"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bars")
    pq.write_table(market(), folder / "bars.parquet")
    assert _prepare(folder, "features", *WINDOWS) == 0
    return folder


def _prepare(folder, output: str, *more: str, source: str = "bars") -> int:
    arguments = [f"--parquet_file={folder / source}.parquet"]
    arguments.append(f"--output={folder / output}.parquet")
    return command.status(prepare_bars.main, prepare_bars.FLAGS, [*arguments, *more])


@pytest.mark.usefixtures("tiny_model")
def test_from_bars_to_a_forecast(folder, capsys):
    """Features, a run on them as the settings file has it, baselines, newer bars, a forecast."""
    run = folder / "run"
    arguments = [f"--config={folder / 'features.json'}", f"--run_dir={run}", "--epochs=1"]
    arguments.append(f"--parquet_file={folder / 'features.parquet'}")
    assert command.status(train.main, train.FLAGS, [*arguments, "--windows_per_epoch=64"]) == 0
    config = Run.open(run).config
    assert (config.data.encoder_steps, config.data.horizon, config.data.gaps) == (12, 4, "split")
    assert (config.model.static_real, config.model.observed_real) == (5, 210)
    assert config.model.known_real == 10

    capsys.readouterr()
    results = folder / "results.json"
    arguments = [f"--run_dir={run}", f"--json_file={results}"]
    assert command.status(bars_baselines.main, bars_baselines.FLAGS, arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    measured = json.loads(results.read_text())
    assert [line[:13].strip() for line in lines[2:]] == list(measured)
    assert lines[2].split()[:2] == ["model", f"{measured['model']['mae']:.4g}"]

    table = pq.read_table(folder / "bars.parquet")
    pq.write_table(until(table, "2024-03-08T15:29"), folder / "new.parquet")
    like = [f"--like={folder / 'features.parquet'}", "--future_rows=4"]
    assert _prepare(folder, "new_features", *like, source="new") == 0
    output = folder / "forecast.parquet"
    arguments = [f"--run_dir={run}", f"--parquet_file={folder / 'new_features.parquet'}"]
    arguments.append(f"--output={output}")
    assert command.status(forecast.main, forecast.FLAGS, arguments) == 0
    first = pq.read_table(output)["time"][0].as_py()
    assert first == datetime.datetime(2024, 3, 8, 15, 30)


@pytest.mark.usefixtures("tiny_model")
def test_daily_bars_in_new_york_over_a_change_of_clocks(folder):
    """Columns t, o, h, l, c, v; the forecast's days are the exchange's, at its local midnight."""
    days = np.busday_offset("2022-06-01", np.arange(470), roll="forward")
    holidays = ["2022-12-26", "2023-11-23", "2024-01-01", "2024-01-15", "2024-02-19"]
    days = days[~np.isin(days, np.array(holidays, days.dtype))]
    days = days[days <= np.datetime64("2024-03-07")]
    local = pa.array(days.astype("datetime64[s]"))
    zoned = pc.assume_timezone(local, "America/New_York")
    table = bars(days.astype("datetime64[s]"), None).set_column(4, "t", zoned)
    names = {"open": "o", "high": "h", "low": "l", "close": "c", "volume": "v"}
    table = table.rename_columns([names.get(name, name) for name in table.column_names])
    pq.write_table(table, folder / "daily.parquet")
    more = ["--exchange=NYSE", "--future_rows=3", "--encoder_steps=6", "--horizon=3"]
    assert _prepare(folder, "daily_features", *more, source="daily") == 0
    run, features = folder / "daily_run", folder / "daily_features.parquet"
    arguments = [f"--config={folder / 'daily_features.json'}", f"--run_dir={run}", "--epochs=1"]
    arguments += [f"--parquet_file={features}", "--windows_per_epoch=32"]
    assert command.status(train.main, train.FLAGS, arguments) == 0
    output = folder / "daily_forecast.parquet"
    arguments = [f"--run_dir={run}", f"--parquet_file={features}", f"--output={output}"]
    assert command.status(forecast.main, forecast.FLAGS, arguments) == 0
    times = pq.read_table(output)["t"]
    assert times.type.tz == "America/New_York"
    ahead = ["2024-03-08", "2024-03-11", "2024-03-12"]  # clocks change on 10 March
    assert [time.strftime("%Y-%m-%d %H:%M") for time in times.to_pylist()] == [
        f"{day} 00:00" for day in ahead
    ]


def test_like_takes_over_the_settings(folder):
    more = ["--target=realized_volatility", "--target_steps=3", *WINDOWS]
    assert _prepare(folder, "volatility", *more) == 0
    assert _prepare(folder, "again", f"--like={folder / 'volatility.parquet'}") == 0
    first, again = (pq.read_table(folder / f"{n}.parquet") for n in ("volatility", "again"))
    assert again.equals(first)
    assert (folder / "again.json").read_text() == (folder / "volatility.json").read_text()


def test_the_report(folder, capsys):
    assert _prepare(folder, "report", *WINDOWS) == 0
    printed = capsys.readouterr()
    rows = pq.read_metadata(folder / "report.parquet").num_rows
    assert f"{rows:,} rows, 2 instruments, gaps=split" in printed.out
    assert "5 static, 210 observed, 10 known inputs" in printed.out
    assert printed.err.startswith("warning: ")
    pq.write_table(bars(session_times(1, 300), None), folder / "one.parquet")
    assert _prepare(folder, "report", *WINDOWS, source="one") == 0
    assert "1 instruments" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no --parquet_file"),
        (["--parquet_file=x.parquet"], "no --output"),
        (["--parquet_file=x.parquet", "--output=x.json"], "must not end in .json"),
        (["--parquet_file=none.parquet", "--output=x.parquet"], "Received: none.parquet"),
        (["--parquet_file=x", "--output=x", "--target=retrun"], "target"),
    ],
)
def test_wrong_flags(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command.status(prepare_bars.main, prepare_bars.FLAGS, arguments) == 1
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_of_bars_that_cannot_be_used(folder, capsys):
    assert _prepare(folder, "bad", "--exchange=NYS", *WINDOWS) == 1
    assert "Did you mean 'XNYS'?" in capsys.readouterr().err
    assert not list(folder.glob("bad*"))


class TestBaselines:
    """On any run, whatever its table."""

    def test_of_any_run(self, tiny_run, capsys):
        arguments = [f"--run_dir={tiny_run.path}", "--split=validation"]
        assert command.status(bars_baselines.main, bars_baselines.FLAGS, arguments) == 0
        assert "validation: " in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [([], "no --run_dir"), (["--run_dir=none"], "A run is a folder")],
    )
    def test_wrong_flags(self, arguments, message, capsys):
        assert command.status(bars_baselines.main, bars_baselines.FLAGS, arguments) == 1
        assert message in capsys.readouterr().err
