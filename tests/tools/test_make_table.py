import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from tft_keras.commands import command
from tft_keras.config import DataConfig
from tft_keras.data import Schema, prepare
from tools import make_table


def _make(path, **settings):
    arguments = [f"--{name}={value}" for name, value in settings.items()]
    return command.status(make_table.main, make_table.FLAGS, [f"--output={path}", *arguments])


@pytest.fixture(autouse=True)
def fresh_flags():
    yield
    make_table.FLAGS._values.unparse_flags()
    for name in make_table.FLAGS.names():
        make_table.FLAGS._values[name].unparse()


def test_writes_a_table_and_the_roles_of_its_columns(tmp_path):
    path = tmp_path / "made.parquet"
    assert _make(path, rows=3000, columns=8, series=6, **{"rows-per-group": 700}) == 0
    table = pq.read_table(path)
    assert table.shape == (3000, 8 + 2)
    assert pq.ParquetFile(path).num_row_groups == 5
    roles = json.loads((tmp_path / "made.schema.json").read_text())
    data = prepare(path, Schema.from_dict(roles), DataConfig(24, 6))
    assert len(data.preprocessing.schema.inputs) == 8 - 1
    assert len({*data.train.series(np.arange(len(data.train)))}) == 6


def test_the_same_seed_makes_the_same_table(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        _make(tmp_path / f"{name}.parquet", rows=600, series=2, seed=seed)
    first, second, third = (pq.read_table(tmp_path / f"{name}.parquet") for name in "abc")
    assert first.equals(second)
    assert not first.equals(third)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rows": 10, "series": 3}, "divide"),
        ({"columns": 2}, "at least 4"),
        ({"rows": 0}, "at least 1"),
    ],
)
def test_settings_that_make_no_table(tmp_path, capsys, settings, message):
    assert _make(tmp_path / "x.parquet", **settings) == command.EXIT_ERROR
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
