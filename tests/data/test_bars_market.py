"""Sessions of calendars and of gaps, bars that are filled in, and the known inputs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.data.bar_tables import bars, column, prepared, scaled, session_times
from tft_keras.data.bars.calendars import Hours, find_sessions
from tft_keras.data.bars.known import known
from tft_keras.errors import InputError


def _at(*times: str) -> np.ndarray:
    return np.array(times, "datetime64[ns]").astype(np.int64)


def _sessions(exchange, hours=None, first="2024-01-02", last="2024-12-31"):
    return find_sessions(exchange, hours, *_at(first, last))


class TestKnown:
    """Values at times of which they are known."""

    def test_new_york(self):
        times = _at("2024-07-03T15:00", "2024-01-31T14:30", "2024-11-29T17:30", "2024-01-12T20:00")
        values = known(times, _sessions("NYSE"), daily=False)
        assert len(values) == 10
        # The third of July and the day after Thanksgiving close at 13:00; 12 January is a Friday,
        # the Monday after it a holiday.
        np.testing.assert_array_equal(values["short_session"], [1, 0, 1, 0])
        np.testing.assert_array_equal(values["before_holiday"], [1, 0, 0, 1])
        np.testing.assert_array_equal(values["month_end"], [0, 1, 1, 0])
        np.testing.assert_array_equal(values["minutes_since_open"], [90, 0, 180, 330])
        np.testing.assert_array_equal(values["minutes_to_close"], [120, 390, 30, 60])
        # 11:00 in New York.
        assert values["time_of_day_sin"][0] == pytest.approx(np.sin(2 * np.pi * 11 / 24))
        assert values["time_of_day_cos"][0] == pytest.approx(np.cos(2 * np.pi * 11 / 24))
        assert values["weekday_sin"][3] == pytest.approx(np.sin(2 * np.pi * 4 / 7))
        np.testing.assert_allclose(values["month_progress"], [2 / 31, 30 / 31, 28 / 30, 11 / 31])

    def test_the_evening_before_belongs_to_the_trading_day(self):
        values = known(_at("2024-01-14T23:30"), _sessions("CMEGlobex_FX"), daily=False)
        assert values["weekday_sin"][0] == 0  # a Sunday evening of Monday's session
        assert values["minutes_since_open"][0] == 30

    def test_daily_bars_are_of_their_date(self):
        values = known(_at("2024-07-03T00:00"), _sessions("NYSE"), daily=True)
        assert values["short_session"][0] == 1

    def test_always_open(self):
        values = known(_at("2024-01-06T06:00"), _sessions("24/7"), daily=False)
        assert (values["minutes_since_open"][0], values["minutes_to_close"][0]) == (360, 1080)
        assert values["time_of_day_sin"][0] == 1

    def test_between_sessions_minutes_stay_in_bounds(self):
        values = known(_at("2024-01-07T12:00"), _sessions("NYSE"), daily=False)
        assert (values["minutes_since_open"][0], values["minutes_to_close"][0]) == (1440, 0)


def test_hours_over_midnight_are_of_the_day_they_end_on():
    sessions = _sessions("auto", Hours(23 * 60, 23 * 60, (6, 0, 1, 2, 3)))
    place = sessions.of(_at("2024-01-07T23:30"), daily=False)
    assert sessions.dates[place] == np.datetime64("2024-01-08")
    assert sessions.opens[place] == _at("2024-01-07T23:00")


@pytest.mark.parametrize(
    ("exchange", "hint"), [("NYS", "Did you mean 'XNYS'"), ("CMEGlobex_FY", "'CMEGlobex_FX'")]
)
def test_an_exchange_without_a_calendar(exchange, hint):
    with pytest.raises(InputError, match=f"exchange='{exchange}'.*{hint}"):
        _sessions(exchange)


class TestGaps:
    """Missing bars within a session, and the gaps between sessions."""

    def test_missing_bars_are_filled_with_bars_without_trades(self):
        times = session_times(1, 400)
        kept = np.delete(np.arange(400), [300, 301])
        table = bars(times[kept])
        with pytest.warns(UserWarning, match=r"^2 missing bars"):
            features = prepared(table)
        np.testing.assert_array_equal(column(features, "time"), times[240:])
        filled = slice(60, 62)
        assert (column(features, "target")[filled] == 0).all()
        assert (column(features, "candle_range")[filled] == 0).all()
        none = table["volume"].to_numpy()[:300] == 0
        shares = np.float32([(none[-19:].sum() + 1) / 20, (none[-18:].sum() + 2) / 20])
        np.testing.assert_array_equal(column(features, "zero_volume_share_20")[filled], shares)

    @pytest.mark.parametrize(("most", "filled"), [(2, 0), (3, 3)])
    def test_longer_gaps_begin_a_session(self, most, filled):
        times = np.delete(session_times(1, 400), [300, 301, 302])
        if filled:
            with pytest.warns(UserWarning, match="^3 missing bars"):
                features = prepared(bars(times), max_filled_bars=most)
        else:
            features = prepared(bars(times), max_filled_bars=most)
        assert features.filled == filled
        bars_since = np.expm1(column(features, "session_bars"))
        assert bars_since[60] == pytest.approx(301 if filled else 1, rel=1e-5)

    def test_no_bar_is_filled_while_the_market_is_closed(self):
        """Hourly bars with a break of one hour, which only the calendar can tell from a miss."""
        hours = np.arange(np.datetime64("2024-01-08T00", "h"), np.datetime64("2024-01-26T22", "h"))
        of_week = (hours.astype(np.int64) + 72) % 168
        is_open = (hours.astype(np.int64) % 24 != 22) & ((of_week < 118) | (of_week >= 167))
        times = hours[is_open].astype("datetime64[s]")
        assert prepared(bars(times), exchange="CMEGlobex_FX").filled == 0

    def test_an_unknown_exchange_has_the_hours_of_the_gaps(self):
        features = prepared(bars(session_times(5, 100)))
        first = column(features, "time").astype("datetime64[m]").astype(np.int64) % 1440 == 870
        np.testing.assert_array_equal(column(features, "minutes_since_open")[first], 0)
        np.testing.assert_array_equal(column(features, "minutes_to_close")[first], 100)

    def test_bars_at_all_hours_are_of_a_market_that_never_closes(self):
        times = np.datetime64("2024-03-04", "s") + np.arange(10 * 96) * np.timedelta64(15, "m")
        features = prepared(bars(np.delete(times, np.arange(500, 530))))
        assert column(features, "minutes_to_close").max() == 1440

    def test_bars_that_are_not_whole_steps_apart(self):
        times = session_times(1, 300).astype("datetime64[s]")
        times = times + (np.arange(300) % 3) * np.timedelta64(7, "s")
        with pytest.raises(InputError, match=r"whole steps apart\. Received: \d+% of them"):
            prepared(bars(times), bar_minutes=1.0)


def test_a_jump_within_the_bars_of_a_session_is_a_return():
    """Only gaps are taken out: a jump from bar to bar is a movement of the price."""
    table = bars(session_times(1, 300))
    features = prepared(scaled(table, np.arange(300) >= 270, 2.0))
    assert column(features, "target")[30] == pytest.approx(np.log(2), abs=0.01)
