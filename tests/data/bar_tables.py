"""Made-up bars that the tests of features share."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tft_keras.data.bars import BarFeatures, BarOptions, prepare_bars

MINUTE = np.timedelta64(60, "s")
MONDAY = np.datetime64("2024-03-04T14:30", "s")


def session_times(sessions: int, length: int, step: np.timedelta64 = MINUTE) -> np.ndarray:
    """Times of sessions that open at 14:30 UTC on weekdays."""
    days = np.busday_offset("2024-03-04", np.arange(sessions)) - np.datetime64("2024-03-04")
    return (MONDAY + days[:, None] + np.arange(length) * step).ravel()


def bars(
    times: np.ndarray, symbol: str | None = "AAA", seed: int = 0, decimals: int = 2
) -> pa.Table:
    """Bars at these times: a random walk of ticks of 0.01 with jumps at gaps.

    With many decimals no two movements are alike, of which rounding would say the larger one.
    """
    generator = np.random.default_rng(seed)
    rows = len(times)
    close = 100 + np.cumsum(generator.normal(0, 0.05, rows))
    opens = np.append(100, close[:-1]) + generator.normal(0, 0.01, rows)
    opens += np.append(False, np.diff(times) > MINUTE * 15) * generator.normal(0, 2, rows)
    high = np.maximum(opens, close) + generator.exponential(0.03, rows)
    low = np.minimum(opens, close) - generator.exponential(0.03, rows)
    prices = dict(zip(("open", "high", "low", "close"), (opens, high, low, close), strict=True))
    columns = {name: np.round(values, decimals) for name, values in prices.items()}
    columns |= {"time": times, "volume": generator.integers(0, 400, rows).astype(np.float64)}
    if symbol:
        columns["symbol"] = [symbol] * rows
    return pa.table(columns)


def market(sessions: int = 5, length: int = 130, decimals: int = 2) -> pa.Table:
    """Two instruments over some sessions, each with missing bars."""
    times = session_times(sessions, length)
    generator = np.random.default_rng(5)
    parts = []
    for seed, symbol in enumerate(("AAA", "BBB")):
        edge = (np.arange(len(times)) % length < 2) | (np.arange(len(times)) % length > length - 3)
        kept = edge | (generator.random(len(times)) > 0.02)
        parts.append(bars(times[kept], symbol, seed, decimals))
    return pa.concat_tables(parts)


def changed(table: pa.Table, **columns: object) -> pa.Table:
    """The table with some columns replaced."""
    for name, values in columns.items():
        if name in table.column_names:
            table = table.set_column(table.column_names.index(name), name, pa.array(values))
        else:
            table = table.append_column(name, pa.array(values))
    return table


def scaled(table: pa.Table, rows: np.ndarray, factor: float) -> pa.Table:
    """The table with all prices of some rows multiplied."""
    prices = {name: table[name].to_numpy() for name in ("open", "high", "low", "close")}
    return changed(table, **{name: np.where(rows, p * factor, p) for name, p in prices.items()})


def until(table: pa.Table, moment: str) -> pa.Table:
    """The rows up to a time, itself included."""
    return table.filter(pa.array(table["time"].to_numpy() <= np.datetime64(moment)))


def only(table: pa.Table, symbol: str) -> pa.Table:
    """The rows of one instrument."""
    return table.filter(pa.array(np.array(table["symbol"].to_pylist()) == symbol))


def prepared(table: pa.Table, like: pa.Table | None = None, **options: object) -> BarFeatures:
    """Features with small windows, so that short tables will do."""
    return prepare_bars(table, BarOptions(**({"encoder_steps": 12, "horizon": 4} | options)), like)


def column(features: BarFeatures, name: str) -> np.ndarray:
    """A column of features."""
    return features.table[name].to_numpy()
