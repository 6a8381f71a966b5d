"""Bars to the table of features, its schema and the settings to train on it."""

from __future__ import annotations

import dataclasses
import json
import os
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tft_keras.data import keys
from tft_keras.data.bars.future import future_times
from tft_keras.data.bars.instrument import Instrument, make_instrument
from tft_keras.data.bars.known import known
from tft_keras.data.bars.market import Market, find_market
from tft_keras.data.bars.observed import WARM_UP, observed
from tft_keras.data.bars.options import AUTO, BarOptions, plain
from tft_keras.data.bars.reading import Bars, read_bars
from tft_keras.data.bars.static import STATIC_NAMES, statics
from tft_keras.data.bars.target import TARGET, target
from tft_keras.data.schema import Schema
from tft_keras.data.series import describe_series
from tft_keras.errors import InputError

_KEY = b"tft_keras.bars"
# A session is worth cutting windows at if it has room for so many in a row.
_WINDOWS_PER_SESSION = 3


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class BarFeatures:
    """Features of bars.

    Attributes:
        table: the group and time columns, `target`, and the inputs.
        schema: the roles of its columns.
        settings: for `python -m tools.train --config`: the roles, gaps, splits and window sizes.
        filled: bars that were filled in.
    """

    table: pa.Table
    schema: Schema
    settings: dict[str, Any]
    filled: int


def prepare_bars(
    source: Any,
    options: BarOptions | None = None,
    like: str | os.PathLike[str] | pa.Table | None = None,
) -> BarFeatures:
    """Makes the features of bars: 5 static, 210 observed (the target among them), 10 known inputs.

    Args:
        source: path of a Parquet file, a folder of them, or a glob; a pandas or Arrow table.
        options: see `BarOptions`.
        like: features made before, as a table or its Parquet file. Static inputs and sessions are
            taken from there, as a forecast with a model trained on them needs it.

    Raises:
        InputError: the bars break a rule, no instrument has enough of them, or a library of the
            extra `bars` is missing.
    """
    options = options or BarOptions()
    before = read_description(like) if like is not None else {}
    bars = read_bars(source, options)
    market = find_market(bars, options, before)
    instruments, filled = _instruments(bars, options, market)
    known_statics = {tuple(name): values for name, values in before.get("statics", [])}
    parts, described = [], []
    gaps = _gaps(instruments, options, market.daily)
    for instrument in instruments:
        key = tuple(map(keys.key, instrument.name))
        own = known_statics.get(key)
        if own is None:
            rows = slice(WARM_UP, WARM_UP + options.training_rows(len(instrument.times) - WARM_UP))
            own = statics(instrument, rows, market.step)
            if like is not None:
                _warn(
                    f"{_series(bars, instrument)} is not in `like`: static inputs of its own bars."
                )
        described.append([list(key), own])
        parts.append(_features(bars, instrument, own, options, market, gaps))
    table = pa.concat_tables(parts)
    description = {
        "options": plain(options.to_dict()),
        "step": market.step,
        "hours": dataclasses.asdict(market.hours) if market.hours else None,
        "statics": described,
    }
    schema = _schema(bars, table)
    table = table.replace_schema_metadata({_KEY: json.dumps(description).encode()})
    return BarFeatures(table, schema, _settings(schema, options, gaps), filled)


def read_description(features: str | os.PathLike[str] | pa.Table) -> dict[str, Any]:
    """Returns what a table of features says on how it was made: options, sessions, static inputs.

    Raises:
        InputError: it was not made of bars.
    """
    try:
        schema = features.schema if isinstance(features, pa.Table) else pq.read_schema(features)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(
            f"`like` must be a Parquet file of features. Received: {features} ({error})."
        ) from None
    content = (schema.metadata or {}).get(_KEY)
    if content is None:
        raise InputError(
            "`like` must be features made of bars, which say how they were made. Received: "
            f"{'a table' if isinstance(features, pa.Table) else features} without that. Give the "
            "table that `prepare_bars` wrote."
        )
    return json.loads(content)


def _instruments(bars: Bars, options: BarOptions, market: Market) -> tuple[list[Instrument], int]:
    needed = WARM_UP + options.encoder_steps + options.horizon
    instruments, short, filled = [], [], 0
    for place in range(len(bars.names)):
        instrument, added = make_instrument(
            bars, place, market.step, market.sessions, options.max_filled_bars
        )
        filled += added
        (short if len(instrument.times) < needed else instruments).append(instrument)
    if short:
        first = short[0]
        received = f"{_series(bars, first)} with {len(first.times)} of {needed} bars"
        rule = (
            f"An instrument needs {WARM_UP} bars before its first row, then encoder_steps and "
            f"horizon: {needed}."
        )
        if not instruments:
            raise InputError(f"{rule} Received: {received}. Give more of the past.")
        _warn(f"{rule} {len(short)} instruments have fewer and are left out: {received}.")
    if filled:
        _warn(
            f"{filled} missing bars within sessions: filled with bars without trades, at the close "
            "before."
        )
    return instruments, filled


def _features(
    bars: Bars,
    instrument: Instrument,
    own: dict[str, float],
    options: BarOptions,
    market: Market,
    gaps: str,
) -> pa.Table:
    """Returns the rows of one instrument: after the warm-up, then the future ones."""
    future = _future(bars, instrument, options, market, gaps)
    times = np.append(instrument.times[WARM_UP:], future)
    rows = len(times)
    columns: dict[str, Any] = {}
    for name, type_, value in zip(bars.group, bars.group_types, instrument.name, strict=True):
        columns[name] = pa.repeat(pa.scalar(value, type_), rows)
    columns[bars.time] = bars.time_column(times)
    values = target(instrument, options.target, options.steps)
    columns[TARGET] = _with_future(values, len(future))
    for name in STATIC_NAMES:
        columns[name] = np.full(rows, own[name])
    columns |= known(times, market.sessions, market.daily)
    for name, values in observed(instrument).items():
        columns[name] = _with_future(values, len(future))
    return pa.table(columns)


def _with_future(values: np.ndarray, future: int) -> pa.Array:
    values = pa.array(values[WARM_UP:])
    return pa.concat_arrays([values, pa.nulls(future, values.type)]) if future else values


def _future(
    bars: Bars, instrument: Instrument, options: BarOptions, market: Market, gaps: str
) -> np.ndarray:
    if not options.future_rows:
        return np.zeros(0, np.int64)
    times, outside = future_times(
        int(instrument.times[-1]),
        options.future_rows,
        market.step,
        market.sessions,
        market.at_close,
        skip_closed=gaps == "ignore",
    )
    if outside:
        _warn(
            f"{_series(bars, instrument)}: {outside} of its {options.future_rows} future rows are "
            "beyond the close of the session; windows are cut at gaps, so they go on by the clock."
        )
    return times


def _gaps(instruments: list[Instrument], options: BarOptions, daily: bool) -> str:
    """Chooses whether windows are cut at gaps: only if most rows are in sessions long enough."""
    if options.gaps != AUTO:
        return options.gaps
    if daily:
        return "ignore"
    needed = _WINDOWS_PER_SESSION * (options.encoder_steps + options.horizon)
    lengths = np.concatenate([_session_lengths(instrument) for instrument in instruments])
    return "split" if lengths[lengths >= needed].sum() >= 0.5 * lengths.sum() else "ignore"


def _session_lengths(instrument: Instrument) -> np.ndarray:
    edges = np.flatnonzero(instrument.breaks)
    return np.diff(np.concatenate([[0], edges, [len(instrument.times)]]))


def _schema(bars: Bars, table: pa.Table) -> Schema:
    names = table.column_names
    first = names.index(STATIC_NAMES[-1]) + 1
    inputs = names[first:]
    return Schema(
        target=TARGET,
        time=bars.time,
        group=bars.group,
        static=STATIC_NAMES,
        known=tuple(inputs[:10]),
        observed=tuple(inputs[10:]),
    )


def _settings(schema: Schema, options: BarOptions, gaps: str) -> dict[str, Any]:
    return schema.to_dict() | {
        "gaps": gaps,
        "encoder_steps": options.encoder_steps,
        "horizon": options.horizon,
        "validation": options.split_share,
        "test": options.split_share,
        # The features are scaled by their own past and tell the calendar of the exchange.
        "scaling": "standard",
        "calendar": "none",
        "lags": "none",
    }


def _series(bars: Bars, instrument: Instrument) -> str:
    return describe_series(bars.group, instrument.name)


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=4)
