"""Tables of any mix of step, zone, ids, gaps and types: right dates and values, or one error."""

from __future__ import annotations

import dataclasses
import decimal
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tft_keras.config import DataConfig
from tft_keras.data import Schema, forecast_windows, prepare
from tft_keras.data.forecasts import forecast_table
from tft_keras.data.local_scaling import is_local
from tft_keras.errors import InputError
from tft_keras.evaluation import measure

HORIZON, PAST = 2, 4
CONFIG = DataConfig(encoder_steps=PAST, horizon=HORIZON, validation=0.2, test=0.2)
QUANTILES = (0.1, 0.5, 0.9)
FREQUENCIES = ("5min", "h", "6h", "D", "B", "W", "MS", "ME", "BMS", "BME", "QS", "YS", "index")
ZONES = (None, "UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Sydney")
# How a table may write the days of its rows, and what that looks like again.
WRITTEN = {
    "text": lambda days: [day.strftime("%Y-%m-%d") for day in days],
    "digits": lambda days: [int(day.strftime("%Y%m%d")) for day in days],
    "date": lambda days: pa.array(days.tz_localize(None)).cast(pa.date32()),
}
IDS = {
    "int": lambda n: [3 * i + 1 for i in range(n)],
    "wide": lambda n: [2**53 + i for i in range(n)],
    "float": lambda n: [i + 0.5 for i in range(n)],
    "text": lambda n: [f"s{i:02}" for i in range(n)],
    "digits": lambda n: [f"{i:03}" for i in range(n)],
    "bool": lambda n: [False, True][:n],
    "bytes": lambda n: [bytes([i, 255]) for i in range(n)],
    "decimal": lambda n: [decimal.Decimal(i) / 8 for i in range(n)],
    "date": lambda n: [pd.Timestamp(2024, 1, 1 + i).date() for i in range(n)],
    "stamp": lambda n: [pd.Timestamp(2024, 1, 1 + i, 12) for i in range(n)],
}
EXTRA = {
    "int8": lambda n, r: pa.array(r.integers(-9, 9, n), pa.int8()),
    "decimal": lambda n, r: pa.array([decimal.Decimal(int(v)) for v in r.integers(0, 99, n)]),
    "category": lambda n, r: pa.array(r.choice(["a", "b"], n)).dictionary_encode(),
    "bool": lambda n, r: pa.array(r.random(n) < 0.5),
    "view": lambda n, r: pa.array(r.choice(["a", "b"], n)).cast(pa.string_view()),
    "missing": lambda n, r: pa.array([None if v < 3 else v for v in r.integers(0, 9, n).tolist()]),
    "null": lambda n, r: pa.nulls(n),
    "list": lambda n, r: pa.array([[1]] * n),
    "struct": lambda n, r: pa.array([{"a": 1}] * n),
    "duration": lambda n, r: pa.array(r.integers(0, 9, n), pa.duration("s")),
    "constant": lambda n, r: pa.array([7.5] * n),
}


@dataclasses.dataclass
class Case:
    """A table, the same as pandas would have it, and what its forecast's rows should be."""

    table: pa.Table
    schema: Schema
    config: DataConfig
    targets: dict
    ahead: dict


@st.composite
def cases(draw) -> Case:
    frequency, zone = draw(st.sampled_from(FREQUENCIES)), draw(st.sampled_from(ZONES))
    kind = draw(st.sampled_from(sorted(IDS)))
    ids = IDS[kind](draw(st.integers(1, 2)))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    # Arrow knows no summer time after 2037.
    year = {"YS": 1974, "QS": 2004}.get(frequency, 2023)
    start = pd.Timestamp(year, 1, 1) + pd.Timedelta(days=draw(st.integers(0, 500)))
    written = draw(st.sampled_from([None, *WRITTEN]))
    days = frequency in ("D", "B", "W", "MS", "ME", "BMS", "BME", "QS", "YS")
    unit = draw(st.sampled_from(["s", "ms", "us"]))
    gap = draw(st.booleans())
    parts, targets, ahead = [], {}, {}
    for place, name in enumerate(ids):
        rows = draw(st.integers(32, 60))
        if frequency == "index":
            stamps = np.arange(100, 100 + 5 * (rows + HORIZON), 5)
        else:
            stamps = pd.date_range(start, periods=rows + HORIZON, freq=frequency).as_unit(unit)
            if zone:
                # Parts of days are moments, days and more are days of the zone's calendar.
                whole = stamps.tz_localize("UTC").tz_convert(zone)
                stamps = stamps.tz_localize(zone) if days else whole
            if days and written:
                stamps = WRITTEN[written](stamps)
        values = random.normal(10, 1, rows) * 10.0 ** (3 * place)
        keep = np.ones(rows, bool)
        keep[8] = not (gap and frequency != "B")
        times = pa.array(stamps)
        ids_column = pa.array(ids)[place : place + 1].take(pa.array([0] * rows))
        part = pa.table({"id": ids_column, "t": times[:rows], "y": values})
        parts.append(part.filter(pa.array(keep)))
        targets[name], ahead[name] = values, times[rows:].to_pylist()
    table = pa.concat_tables(parts)
    if draw(st.booleans()):
        table = table.take(pa.array(random.permutation(table.num_rows)))
    extra = draw(st.sampled_from(sorted(EXTRA)))
    table = table.append_column("x", EXTRA[extra](table.num_rows, random))
    per_series = draw(st.booleans())
    config = dataclasses.replace(CONFIG, scale_per_series=per_series)
    return Case(table, Schema("y", "t", ("id",), observed=("x",)), config, targets, ahead)


def _mean_of_the_past(windows):
    """A stand-in for a model: forecasts the mean of the past, which is 0 to local scaling."""
    local = is_local(windows.preprocessing.target_scaler)

    def predict(inputs):
        mean = inputs["observed_real"][..., 0].mean(axis=1) * (not local)
        steps = np.repeat(mean[:, None, None], HORIZON, axis=1)
        return steps + np.array([-1, 0, 1], np.float32)

    return predict


def check(case: Case) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            data = prepare(case.table, case.schema, case.config)
            windows = forecast_windows(case.table, data.preprocessing)
        except InputError as error:
            message = str(error)
            assert "Received" in message and "np." not in message, message
            return
        for inputs, targets in data.train.batches(16, shuffle_seed=0):
            assert all(np.isfinite(array).all() for array in inputs.values())
            assert np.isfinite(targets).any()
        predict = _mean_of_the_past(windows)
        found = forecast_table(predict, windows, QUANTILES, 8)
        results = measure(predict, QUANTILES, data.train, data.preprocessing.season)
    assert np.isfinite(results["model"]["mae"])
    assert found["id"].type == case.table["id"].type
    ids, times = found["id"].to_pylist(), found["t"].to_pylist()
    middle = found["q0.5"].to_numpy()
    assert list(dict.fromkeys(ids)) == sorted(case.targets)
    for name, later in case.ahead.items():
        rows = [row for row, each in enumerate(ids) if each == name]
        assert [times[row] for row in rows] == later
        np.testing.assert_allclose(middle[rows], case.targets[name][-PAST:].mean(), rtol=1e-4)


FEW = settings(
    max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


@FEW
@given(cases())
def test_any_table_is_read_rightly_or_refused(case):
    check(case)


@pytest.mark.slow
@settings(FEW, max_examples=2000, derandomize=False)
@given(cases())
def test_any_of_many_tables_is_read_rightly_or_refused(case):
    check(case)
