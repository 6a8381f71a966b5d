"""Features of bars as a whole: sizes, causality, gaps, units, splits, future rows."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from tests.data.bar_tables import (
    bars,
    changed,
    column,
    market,
    only,
    prepared,
    scaled,
    session_times,
    until,
)
from tft_keras.config import DataConfig
from tft_keras.data import PreparedData, forecast_windows, prepare
from tft_keras.data.bars import TARGETS, WARM_UP, BarFeatures, BarOptions, read_description
from tft_keras.errors import InputError

ROOT = pathlib.Path(__file__).parent.parent.parent
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*missing bars within sessions:UserWarning"),
    pytest.mark.filterwarnings("ignore:Column .* is constant:UserWarning"),
]


def _windows(features: BarFeatures) -> PreparedData:
    roles = features.schema.to_dict()
    settings = {name: v for name, v in features.settings.items() if name not in roles}
    config = DataConfig(**settings)
    return prepare(features.table, features.schema, config)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return market()


@pytest.fixture(scope="module")
def whole(table) -> BarFeatures:
    with pytest.warns(UserWarning, match=r"^\d+ missing bars within sessions: filled"):
        return prepared(table)


@pytest.mark.parametrize("target", TARGETS)
def test_the_model_has_5_static_210_observed_and_10_known_inputs(table, target):
    features = prepared(table, target=target)
    sizes = _windows(features).preprocessing.model_sizes()
    real = {name: sizes[f"{name}_real"] for name in ("static", "observed", "known")}
    assert real == {"static": 5, "observed": 210, "known": 10}
    assert not any(sizes[f"{name}_categorical"] for name in real)
    for name in (*features.schema.inputs, features.schema.target):
        assert np.isfinite(column(features, name)).all(), name


def test_windows_in_every_split(whole):
    data = _windows(whole)
    assert min(map(len, (data.train, data.validation, data.test))) > 50


@pytest.mark.parametrize("how", ["removed", "changed"])
@pytest.mark.parametrize(
    "cut", ["2024-03-06T15:31", "2024-03-06T16:39", "2024-03-07T14:30", "2024-03-08T16:00"]
)
@pytest.mark.parametrize(
    ("target", "exchange"), [("log_return", "auto"), ("realized_volatility", "NYSE")]
)
def test_later_rows_change_no_column_of_earlier_ones(table, how, cut, target, exchange):
    """Every column, bit by bit; a cut within sessions, at an end and at a beginning of one."""
    options = {"target": target, "exchange": exchange, "encoder_steps": 1, "horizon": 1}
    full = prepared(table, **options)
    later = table["time"].to_numpy() > np.datetime64(cut)
    if how == "removed":
        other = table.filter(pa.array(~later))
    else:
        other = changed(scaled(table, later, 1.7), volume=np.where(later, 7.0, table["volume"]))
    ours, theirs = full, prepared(other, full.table, **options)
    assert ours.table.column_names == theirs.table.column_names
    kept = [until(f.table, cut) for f in (ours, theirs)]
    assert kept[0].num_rows > 100
    for name in kept[0].column_names:
        assert kept[0][name].equals(kept[1][name]), name


def test_static_inputs_are_of_the_rows_that_training_sees(table, whole):
    windows = _windows(prepared(table, gaps="ignore"))
    for symbol in ("AAA", "BBB"):
        own = only(whole.table, symbol)
        series = windows.validation.series(np.arange(len(windows.validation)))
        first = windows.validation.times(np.array([series.index((symbol,))]))[0, 0]
        # The median close of the filled grid; filled bars repeat the close before.
        given = only(table, symbol)
        place = np.searchsorted(given["time"].to_numpy(), own["time"].to_numpy(), "right") - 1
        close = given["close"].to_numpy()[place][own["time"].to_numpy() < first]
        assert own["log_price"][0].as_py() == pytest.approx(np.log(np.median(close)), rel=1e-12)
        assert own["log_tick"][0].as_py() == pytest.approx(
            np.log(0.01 / np.median(close)), rel=1e-6
        )


def test_rows_after_the_training_rows_change_no_static_input_and_no_hours(table, whole):
    later = table["time"].to_numpy() > np.datetime64("2024-03-08T15:30")
    other = prepared(scaled(table, later, 3.0))
    ours, theirs = (read_description(f.table) for f in (whole, other))
    assert ours == theirs
    assert ours["hours"] == {"open_minute": 870, "minutes": 130, "weekdays": [0, 1, 2, 3, 4]}


def test_the_jump_over_a_gap_reaches_no_other_input():
    table = market(decimals=12)
    whole = prepared(table)
    later = table["time"].to_numpy() > np.datetime64("2024-03-07T00:00")
    other = prepared(scaled(table, later, 1.5))
    for name in (*whole.schema.observed, "target"):
        ours, theirs = column(whole, name), column(other, name)
        if name == "overnight_return":
            after = column(whole, "time") > np.datetime64("2024-03-07T00:00")
            same_session = after & (column(whole, "time") < np.datetime64("2024-03-08T00:00"))
            np.testing.assert_allclose(
                theirs[same_session] - ours[same_session], np.log(1.5), rtol=1e-5
            )
            ours, theirs = ours[~after], theirs[~after]
        tolerance = 1e-5 * max(np.abs(ours).max(), 1e-9)
        np.testing.assert_allclose(theirs, ours, atol=tolerance, rtol=1e-4, err_msg=name)


def test_observed_inputs_do_not_depend_on_the_units():
    table = market(decimals=12)
    whole = prepared(table)
    small = scaled(table, np.ones(table.num_rows, bool), 1e-6)
    other = prepared(changed(small, volume=table["volume"].to_numpy() * 1e-4))
    for name in whole.schema.observed:
        ours, theirs = column(whole, name), column(other, name)
        tolerance = 1e-5 * max(np.abs(ours).max(), 1e-9)
        np.testing.assert_allclose(theirs, ours, atol=tolerance, rtol=1e-4, err_msg=name)


def test_warm_up_rows_are_dropped():
    times = session_times(1, 400)
    features = prepared(bars(times, None))
    np.testing.assert_array_equal(column(features, "time"), times[WARM_UP:])
    assert features.schema.group == ()


def test_prices_that_stand_still_and_no_trades():
    rows = 300
    flat = {name: np.full(rows, 5.0) for name in ("open", "high", "low", "close")}
    table = changed(bars(session_times(1, rows)), volume=np.zeros(rows), **flat)
    features = prepared(table)
    for name in features.schema.inputs:
        assert np.isfinite(column(features, name)).all(), name
    assert column(features, "zero_volume_share_20")[0] == 1
    assert column(features, "williams_r_14")[0] == -50
    assert column(features, "mfi_14")[0] == 50


def test_daily_bars_have_no_sessions():
    days = np.busday_offset("2022-01-03", np.arange(300)).astype("datetime64[D]")
    table = bars(days.astype("datetime64[s]"))
    features = prepared(table, exchange="NYSE")
    close, opens = table["close"].to_numpy(), table["open"].to_numpy()
    returns = np.log(close[1:] / close[:-1])[WARM_UP - 1 :]
    np.testing.assert_allclose(column(features, "target"), returns)
    jumps = np.log(opens[1:] / close[:-1])[WARM_UP - 1 :]
    np.testing.assert_allclose(column(features, "overnight_return"), jumps, atol=1e-7)
    assert (features.settings["gaps"], features.filled) == ("ignore", 0)


@pytest.mark.parametrize(("length", "gaps"), [(130, "split"), (40, "ignore")])
def test_windows_are_cut_at_gaps_where_sessions_are_long_enough(length, gaps):
    times = session_times(600 // length, length)
    assert prepared(bars(times)).settings["gaps"] == gaps


class TestTargets:
    """The target at a bar, and what a window's future targets sum up to."""

    @pytest.fixture(scope="class")
    def table(self):
        return bars(session_times(3, 200))

    @pytest.fixture(scope="class")
    def returns(self, table):
        """The first bar of a session counts from its open."""
        close, opens = table["close"].to_numpy(), table["open"].to_numpy()
        before = np.append(opens[0], close[:-1])
        before[::200] = opens[::200]
        return np.log(close / before)

    def test_log_return(self, table, returns):
        features = prepared(table)
        np.testing.assert_allclose(column(features, "target"), returns[WARM_UP:], atol=1e-15)

    def test_the_return_over_the_horizon_is_that_of_its_last_bar(self, table, returns):
        features = prepared(table, target_steps=4)
        windows = _windows(features).train
        actual = windows.actuals(np.array([3]))[0]
        start = np.searchsorted(table["time"].to_numpy(), windows.times(np.array([3]))[0, 0])
        assert actual[-1] == pytest.approx(returns[start : start + 4].sum(), abs=1e-14)

    def test_realized_volatility(self, table, returns):
        features = prepared(table, target="realized_volatility", target_steps=5)
        expected = [np.sqrt((returns[r - 4 : r + 1] ** 2).sum()) for r in range(WARM_UP, 600)]
        np.testing.assert_allclose(column(features, "target"), expected, rtol=1e-12)

    def test_price(self, table):
        features = prepared(table, target="price")
        expected = np.log(table["close"].to_numpy()[WARM_UP:])
        np.testing.assert_array_equal(column(features, "target"), expected)


class TestFuture:
    """Rows after the last bar."""

    def test_forecast_windows_take_them(self, table, whole):
        early = until(table, "2024-03-08T15:59")
        later = prepared(early, whole.table, future_rows=4)
        windows = forecast_windows(later.table, _windows(whole).preprocessing)
        assert windows.series(np.arange(2)) == [("AAA",), ("BBB",)]
        expected = np.datetime64("2024-03-08T16:00") + np.arange(4) * np.timedelta64(1, "m")
        np.testing.assert_array_equal(windows.times(np.arange(2)), [expected] * 2)
        inputs, _ = windows.gather(np.arange(2))
        assert all(np.isfinite(values).all() for values in inputs.values())
        full = only(whole.table, "AAA")
        for name in whole.schema.known:
            ours = later.table[name].to_numpy()[column(later, "symbol") == "AAA"]
            np.testing.assert_array_equal(ours, full[name].to_numpy()[: len(ours)], err_msg=name)

    def test_cut_at_gaps_they_go_on_by_the_clock_and_say_so(self, table):
        with pytest.warns(UserWarning, match=r"'AAA'\): 4 of its 4 future rows are beyond the"):
            features = prepared(only(table, "AAA"), future_rows=4)
        assert column(features, "time")[-1] == np.datetime64("2024-03-08T16:43")

    def test_else_they_go_on_in_the_next_session(self):
        table = bars(session_times(5, 78, np.timedelta64(5, "m")))
        features = prepared(table, exchange="NYSE", future_rows=4, gaps="ignore")
        # New York changed to summer time over the weekend.
        expected = np.datetime64("2024-03-11T13:30") + np.arange(4) * np.timedelta64(5, "m")
        np.testing.assert_array_equal(column(features, "time")[-4:], expected)
        assert features.table["target"].null_count == 4
        data = _windows(features)
        assert data.preprocessing.model_sizes()["observed_real"] == 210
        times = forecast_windows(features.table, data.preprocessing).times(np.array([0]))
        np.testing.assert_array_equal(times[0], expected)

    def test_of_daily_bars_they_are_trading_days(self):
        days = np.busday_offset("2022-04-01", np.arange(300)).astype("datetime64[s]")
        table = bars(days[days <= np.datetime64("2023-04-06")])
        features = prepared(table, exchange="NYSE", future_rows=2)
        # The Friday is Good Friday.
        expected = np.array(["2023-04-10", "2023-04-11"], "datetime64[s]")
        np.testing.assert_array_equal(column(features, "time")[-2:], expected)


class TestLike:
    """Features made as others were."""

    def test_an_instrument_that_is_not_there(self, table, whole):
        renamed = changed(table, symbol=["CCC"] * table.num_rows).slice(0, 600)
        with pytest.warns(UserWarning, match=r"symbol='CCC'\) is not in `like`"):
            prepared(renamed, whole.table)

    def test_the_sessions_are_taken_over(self, table):
        of_exchange = prepared(table, exchange="NYSE")
        again = prepared(table, of_exchange.table)
        for name in of_exchange.schema.known:
            np.testing.assert_array_equal(column(again, name), column(of_exchange, name))

    def test_another_step(self, whole):
        table = bars(session_times(5, 78, np.timedelta64(5, "m")))
        with pytest.raises(InputError, match=r"bars of 5 minutes, 1 in `like`"):
            prepared(table, whole.table)

    @pytest.mark.parametrize("kind", ["table", "no file"])
    def test_what_was_not_made_of_bars(self, table, tmp_path, kind):
        with pytest.raises(InputError, match=r"`like` must be .*features"):
            prepared(table, table if kind == "table" else tmp_path / "none.parquet")


def test_instruments_with_too_few_bars_are_left_out():
    table = pa.concat_tables([bars(session_times(1, 400)), bars(session_times(1, 255), "SHORT")])
    with pytest.warns(UserWarning, match=r"256\. 1 instruments have fewer .*'SHORT'\) with 255 of"):
        features = prepared(table)
    assert set(features.table["symbol"].to_pylist()) == {"AAA"}
    with pytest.raises(InputError, match=r"Received: series \(symbol='AAA'\) with 200 of 256 bars"):
        prepared(table.slice(0, 200))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"target": "return"}, "target must be one of log_return"),
        ({"target": "price", "target_steps": 2}, "target_steps must be 1"),
        ({"target_steps": 121}, "at most 120"),
        ({"training_share": 1.0}, "below 1"),
        ({"future_rows": -1}, "at least 0"),
        ({"gaps": "fill"}, "one of split, ignore, auto"),
    ],
)
def test_options_that_break_a_rule(option, message):
    with pytest.raises(InputError, match=message):
        BarOptions(**option)


@pytest.mark.parametrize("library", ["talib", "pandas_market_calendars"])
def test_a_missing_library_is_named_with_its_extra(monkeypatch, table, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError, match=rf"{library}.*pip install 'tft-keras\[bars\]'"):
        prepared(table, exchange="NYSE")


def test_no_library_is_imported_before_it_is_needed():
    unwanted = "{'tensorflow', 'pandas', 'talib', 'pandas_market_calendars'}"
    code = f"import sys, tft_keras.data.bars; sys.exit(bool({unwanted} & {{*sys.modules}}))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_the_documentation_lists_every_input(whole):
    text = (ROOT / "docs" / "bars.md").read_text().partition("## The inputs")[2]
    rows = re.findall(r"^\| `([^|]*)` \|", text, re.MULTILINE)
    listed = [name for row in rows for name in re.split(r"`, `", row)]
    assert sorted(listed) == sorted((*whole.schema.inputs, "target"))
