"""Tables of any kind through the commands: train, evaluate, forecast, or one clear error."""

from __future__ import annotations

import io
import logging
import pathlib
import tempfile
import warnings
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pyarrow.parquet as pq
import pytest
import tf_keras as keras
from hypothesis import Phase, given, settings

from tests.data.test_any_table import FEW, HORIZON, PAST, Case, cases
from tft_keras.commands import command
from tools import evaluate, forecast, train


def _run(module, *arguments: str) -> tuple[int, str]:
    """Returns a command's exit code and all that it printed."""
    printed = io.StringIO()
    handler = logging.StreamHandler(printed)
    logging.getLogger().addHandler(handler)
    try:
        with redirect_stdout(printed), redirect_stderr(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a series whose level is far from the others'
            code = command.status(module.main, module.FLAGS, arguments)
    finally:
        logging.getLogger().removeHandler(handler)
    return code, printed.getvalue()


def check(case: Case, *flags: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        table, run, output = (
            str(folder / part) for part in ("table.parquet", "run", "forecast.parquet")
        )
        try:
            pq.write_table(case.table, table)
        except NotImplementedError:  # a type that parquet has no place for
            return
        code, printed = _run(
            train,
            *(f"--parquet_file={table}", f"--run_dir={run}", "--epochs=1", "--batch_size=8"),
            *("--target=y", "--time=t", "--group=id", "--observed=x", "--windows_per_epoch=16"),
            *(f"--encoder_steps={PAST}", f"--horizon={HORIZON}", "--validation=0.2", "--test=0.2"),
            *("--hidden_size=4", "--num_heads=1", *flags),
            f"--scale_per_series={str(case.config.scale_per_series).lower()}",
        )
        assert "Traceback" not in printed, printed
        if code:
            assert "Received" in printed, printed
            return
        code, printed = _run(evaluate, f"--run_dir={run}", "--splits=test")
        assert code == 0, printed
        code, printed = _run(
            forecast, f"--run_dir={run}", f"--parquet_file={table}", f"--output={output}"
        )
        assert code == 0, printed
        found = pq.read_table(output)
        rows = zip(found["id"].to_pylist(), found["t"].to_pylist(), strict=True)
        expected = [(key, time) for key, times in case.ahead.items() for time in times]
        assert sorted(rows) == sorted(expected)
        assert np.isfinite(found["q0.5"].to_numpy()).all()
    keras.backend.clear_session()


# Cases are not made smaller: each takes seconds.
_QUICK = settings(FEW, phases=[Phase.generate])


@settings(_QUICK, max_examples=3)
@given(cases())
def test_any_table_is_forecast_rightly_or_refused(case):
    check(case)


@pytest.mark.slow
@settings(_QUICK, max_examples=100, derandomize=False)
@given(cases())
def test_any_of_many_tables_is_forecast_rightly_or_refused(case):
    check(case)


@pytest.mark.slow
@settings(_QUICK, max_examples=20, derandomize=False)
@given(cases())
def test_any_of_many_tables_is_forecast_rightly_in_quantization_aware_training(case):
    check(case, "--use_qat", "--gradient_checkpointing=full")
