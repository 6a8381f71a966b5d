"""Bars in the wild: what is read as it is, what is repaired and counted, what is refused."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.data.bar_tables import bars, changed, session_times
from tft_keras.data.bars.options import BarOptions
from tft_keras.data.bars.reading import Bars, read_bars
from tft_keras.errors import InputError

TIMES = session_times(2, 10)


def _read(table: pa.Table, **options: object) -> Bars:
    return read_bars(table, BarOptions(**options))


def _with(name: str, row: int, value: float) -> pa.Table:
    values = bars(TIMES)[name].to_numpy().copy()
    values[row] = value
    return changed(bars(TIMES), **{name: values})


def _assert_equal(ours: Bars, theirs: Bars) -> None:
    assert ours.names == theirs.names
    for mine, other in ((ours.codes, theirs.codes), (ours.times, theirs.times)):
        np.testing.assert_array_equal(mine, other)
    for name, values in ours.values.items():
        np.testing.assert_array_equal(values, theirs.values[name])


class TestTypes:
    """The same bars in other types."""

    def test_rows_in_any_order(self):
        table = pa.concat_tables([bars(TIMES), bars(TIMES, "BBB", 1)])
        shuffled = table.take(np.random.default_rng(0).permutation(table.num_rows))
        _assert_equal(_read(shuffled), _read(table))
        assert _read(table).names == [("AAA",), ("BBB",)]

    def test_decimal_prices(self):
        prices = bars(TIMES)["close"].to_pylist()
        close = pa.array([decimal.Decimal(f"{price:.2f}") for price in prices])
        read = _read(changed(bars(TIMES), close=close))
        np.testing.assert_allclose(read.values["close"], prices, rtol=1e-15)

    @pytest.mark.parametrize("type_", [pa.int64(), pa.float32()])
    def test_whole_and_single_precision_prices(self, type_):
        table = bars(TIMES)
        names = ("open", "high", "low", "close")
        whole = {name: np.round(table[name].to_numpy()) for name in names}
        typed = changed(table, **{name: pa.array(p).cast(type_) for name, p in whole.items()})
        _assert_equal(_read(typed), _read(changed(table, **whole)))

    @pytest.mark.parametrize(
        ("unit", "size"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)]
    )
    def test_counts_since_1970(self, unit, size):
        read = _read(changed(bars(TIMES), time=TIMES.astype(np.int64) * size))
        assert read.time_type == pa.timestamp(unit, "UTC")
        _assert_equal(read, _read(bars(TIMES)))

    @pytest.mark.parametrize("suffix", ["", "Z"])
    def test_times_as_text(self, suffix):
        text = [f"{np.datetime_as_string(time)}{suffix}" for time in TIMES]
        _assert_equal(_read(changed(bars(TIMES), time=text)), _read(bars(TIMES)))

    def test_times_in_a_zone(self):
        zoned = pa.array(TIMES).cast(pa.timestamp("s", "UTC")).cast(pa.timestamp("s", "Asia/Tokyo"))
        read = _read(changed(bars(TIMES), time=zoned))
        _assert_equal(read, _read(bars(TIMES)))
        assert read.time_type == pa.timestamp("s", "Asia/Tokyo")

    def test_daily_bars_are_days_of_their_zone(self):
        days = np.array(["2024-03-29", "2024-04-01", "2024-04-02"], "datetime64[s]")
        for zone in ("Asia/Tokyo", "Europe/Berlin"):  # midnight is on the day before in UTC
            zoned = pc.assume_timezone(pa.array(days), zone)
            read = _read(changed(bars(days), time=zoned))
            np.testing.assert_array_equal(read.times.astype("datetime64[ns]"), days)
            assert read.time_column(read.times).equals(zoned)

    def test_local_times_without_a_zone(self):
        local = TIMES - np.timedelta64(5, "h")
        read = _read(changed(bars(TIMES), time=local), time_zone="America/New_York")
        _assert_equal(read, _read(bars(TIMES)))

    def test_usual_names(self):
        names = {"time": "ts_event", "open": "Open", "symbol": "pair", "volume": "Vol"}
        table = bars(TIMES)
        renamed = table.rename_columns([names.get(name, name) for name in table.column_names])
        read = _read(renamed)
        assert (read.time, read.group) == ("ts_event", ("pair",))
        _assert_equal(read, _read(table))

    def test_given_names(self):
        table = changed(bars(TIMES), settlement=bars(TIMES, seed=3)["close"].to_numpy())
        table = changed(table, exchange=["X"] * len(TIMES), high=np.full(len(TIMES), 200.0))
        table = changed(table, low=np.full(len(TIMES), 1.0))
        read = _read(table, close="settlement", group=("exchange", "symbol"))
        np.testing.assert_array_equal(read.values["close"], table["settlement"].to_numpy())
        assert read.names == [("X", "AAA")]


class TestRepairs:
    """What is safe to repair, counted in a warning."""

    def test_identical_duplicates(self):
        table = pa.concat_tables([bars(TIMES), bars(TIMES).slice(3, 2)])
        with pytest.warns(UserWarning, match=r"^2 bars that are there twice"):
            _assert_equal(_read(table), _read(bars(TIMES)))

    def test_high_and_low_that_do_not_enclose(self):
        with pytest.warns(UserWarning, match=r"^1 bars whose high or low .*T14:35"):
            read = _read(_with("high", 5, 1.0))
        table = bars(TIMES)
        assert read.values["high"][5] == max(table["open"][5].as_py(), table["close"][5].as_py())
        assert read.values["low"][5] == 1.0

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_a_price_that_is_not_finite(self, value):
        with pytest.warns(UserWarning, match=r"^1 bars without four finite prices: dropped"):
            read = _read(_with("open", 4, value))
        np.testing.assert_array_equal(read.times, _read(bars(TIMES)).times[np.arange(20) != 4])

    def test_a_missing_volume(self):
        with pytest.warns(UserWarning, match=r"^1 bars without a finite volume"):
            assert _read(_with("volume", 4, np.nan)).values["volume"][4] == 0

    def test_no_volume_is_a_volume(self):
        assert _read(_with("volume", 4, 0.0)).values["volume"][4] == 0


class TestErrors:
    """What cannot be mended here."""

    @pytest.mark.parametrize("name", ["open", "high", "low", "close"])
    @pytest.mark.parametrize("value", [0.0, -3.0])
    def test_prices_that_are_not_above_zero(self, name, value):
        message = rf"Prices must be above 0\. Received: {name}={value:g} .*'AAA'.*T14:33.*1 such"
        with pytest.raises(InputError, match=message):
            _read(_with(name, 3, value))

    def test_negative_volume(self):
        with pytest.raises(InputError, match=r"Volumes must be 0 or more\. Received: volume=-1"):
            _read(_with("volume", 3, -1.0))

    def test_different_bars_at_one_time(self):
        table = pa.concat_tables([bars(TIMES), _with("close", 3, 99.5).slice(3, 1)])
        with pytest.raises(InputError, match=r"different bars in .*'AAA'.*T14:33.*; 1 such bars"):
            _read(table)

    def test_no_finite_price(self):
        with pytest.raises(InputError, match="20 bars, none with four"):
            _read(changed(bars(TIMES), close=np.full(20, np.nan)))

    def test_columns_that_are_not_there(self):
        table = bars(TIMES).rename_columns(["opening", *bars(TIMES).column_names[1:]])
        with pytest.raises(InputError, match=r"no open\. Did you mean 'opening'\?"):
            _read(table)
        with pytest.raises(InputError, match=r"close='closing'\. Did you mean 'close'\?"):
            _read(bars(TIMES), close="closing")

    def test_an_instrument_without_a_name(self):
        symbols = ["AAA"] * 19 + [None]
        with pytest.raises(InputError, match=r"no 'symbol' in row 19"):
            _read(changed(bars(TIMES), symbol=symbols))

    def test_whole_numbers_that_are_no_times(self):
        with pytest.raises(InputError, match="nanoseconds since 1970"):
            _read(changed(bars(TIMES), time=np.arange(20)))

    def test_text_that_is_no_time(self):
        with pytest.raises(InputError, match="must be ISO dates"):
            _read(changed(bars(TIMES), time=["yesterday"] * 20))

    def test_local_times_that_are_two_moments(self):
        twice = np.datetime64("2024-11-03T01:00", "s") + np.arange(20) * np.timedelta64(60, "s")
        with pytest.raises(InputError, match="time_zone must be a zone in which each"):
            _read(bars(twice), time_zone="America/New_York")

    def test_years_beyond_nanoseconds(self):
        times = pa.array([datetime.datetime(3000, 1, 1)] * 20).cast(pa.timestamp("s"))
        with pytest.raises(InputError, match="between the years 1678 and 2262"):
            _read(changed(bars(TIMES), time=times))
