"""Makes a large table of made-up series, to try out speed and memory.

  python -m tools.make_table --rows 10000000 --columns 20 --series 1000 --output big.parquet

Beside the table it writes the roles of its columns, here big.schema.json.
"""

from __future__ import annotations

import json
import pathlib
from typing import TYPE_CHECKING, Any

from tft_keras.commands import command

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

FLAGS = command.Flags(__doc__)
with FLAGS.group("Table"):
    FLAGS.string("output", None, "Parquet file to write.")
    FLAGS.integer("rows", 1_000_000, "Rows of all series together.")
    FLAGS.integer(
        "columns", 20, "Columns of values, the target among them; series and time come on top."
    )
    FLAGS.integer("series", 100, "Series of equal length; divides rows.")
    FLAGS.integer("rows_per_group", 250_000, "Rows made, and written as a row group, at a time.")
    FLAGS.integer("seed", 0, "Seed of all values.")

_MISSING_SHARE = 0.01
_REGIONS = ("north", "east", "south", "west")


def main(flags: command.Values) -> None:
    """Writes the table and its schema."""
    from tft_keras.errors import InputError

    if not flags.output:
        raise InputError("The table needs a name. Received: no --output. Give one.")
    command.require_positive(flags, "rows", "series", "rows_per_group")
    if flags.columns < 4:
        raise InputError(f"columns must be at least 4. Received: columns={flags.columns}.")
    if flags.rows % flags.series:
        raise InputError(
            f"series must divide rows. Received: rows={flags.rows}, series={flags.series}."
        )
    path = pathlib.Path(flags.output)
    write_table(path, flags.rows, flags.columns, flags.series, flags.rows_per_group, flags.seed)
    print(f"{path}: {flags.rows:,} rows, {flags.columns} columns, {flags.series:,} series")
    print(f"roles of the columns: {schema_path(path)}")


def schema_path(path: pathlib.Path) -> pathlib.Path:
    """Returns where the roles of a made table's columns are written."""
    return path.with_suffix(".schema.json")


def write_table(
    path: pathlib.Path, rows: int, columns: int, series: int, rows_per_group: int, seed: int
) -> None:
    """Writes a table, one row group at a time, and its schema.

    The target is a daily wave, moved by the first known input, with noise. One value in a hundred
    of the observed inputs is missing.
    """
    import pyarrow.parquet as pq

    from tft_keras import atomic

    roles = _roles(columns)
    writer = None
    with atomic.replacing(path) as temporary:
        for start in range(0, rows, rows_per_group):
            count = min(rows_per_group, rows - start)
            table = _make_rows(start, count, rows // series, roles, (seed, start))
            writer = writer or pq.ParquetWriter(temporary, table.schema)
            writer.write_table(table)
        if writer:
            writer.close()
    atomic.write_text(schema_path(path), json.dumps(roles, indent=2) + "\n")


def _roles(columns: int) -> dict[str, Any]:
    inputs = columns - 3
    known = max(1, inputs // 4)
    return {
        "target": "target",
        "time": "time",
        "group": ["series"],
        "static": ["region"],
        "known": ["hour", *(f"known_{i}" for i in range(known))],
        "observed": [f"observed_{i}" for i in range(inputs - known)],
        "categorical": ["hour"],
    }


def _make_rows(
    start: int, count: int, length: int, roles: dict[str, Any], seed: tuple[int, int]
) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    generator = np.random.default_rng(seed)
    row = np.arange(start, start + count)
    series, step = np.divmod(row, length)
    columns: dict[str, Any] = {
        "series": series.astype(np.int32),
        "time": np.datetime64("2000-01-01", "s") + step * np.timedelta64(3600, "s"),
        "region": pa.array(_REGIONS).take(pa.array(series % len(_REGIONS))).dictionary_encode(),
        "hour": (step % 24).astype(np.int8),
    }
    for name in roles["known"][1:]:
        columns[name] = _noise(generator, count)
    first_known = columns[roles["known"][1]] if len(roles["known"]) > 1 else 0.0
    wave = np.sin(2 * np.pi * (step % 24) / 24)
    columns["target"] = wave + 0.5 * first_known + 0.3 * _noise(generator, count)
    for name in roles["observed"]:
        missing = generator.random(count, np.float32) < _MISSING_SHARE
        columns[name] = pa.array(_noise(generator, count), mask=missing)
    return pa.table(columns)


def _noise(generator: np.random.Generator, count: int) -> np.ndarray:
    return generator.standard_normal(count, "float32")


if __name__ == "__main__":
    command.run(main, FLAGS)
