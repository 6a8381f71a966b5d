"""Measures one pass over a table's training windows: windows per second, peak resident memory.

python -m tools.make_table --rows 10000000 --columns 20 --series 1000 --output big.parquet
python -m tools.benchmark feeding --parquet_file big.parquet --cache /tmp/cache
"""

from __future__ import annotations

import pathlib
import time
from typing import Any

from tft_keras import process_memory
from tft_keras.commands import command
from tft_keras.errors import InputError
from tools.make_table import schema_path

FLAGS = command.Flags(__doc__)
with FLAGS.group("Table"):
    FLAGS.string("parquet_file", None, "Parquet file, folder of Parquet files, or glob.")
    FLAGS.string(
        "schema", None, "JSON file with the column roles. Default: as `tools.make_table` names it."
    )
    FLAGS.string("cache", None, "Folder of a memory-mapped copy; without one, rows are in memory.")
with FLAGS.group("Windows"):
    FLAGS.integer("encoder_steps", 48, "Past rows of a window.")
    FLAGS.integer("horizon", 12, "Future rows of a window.")
    FLAGS.integer("batch_size", 64, "Windows per batch.")
    FLAGS.integer("windows", 0, "At most so many windows; 0 takes all of them once.")
    FLAGS.boolean("shuffle", True, "Whether the windows come shuffled.")
    FLAGS.integer("seed", 0, "Seed of the shuffling.")


def main(flags: command.Values) -> None:
    """Prepares the table, passes over its training windows once and prints the figures."""
    if not flags.parquet_file:
        raise InputError("A table is needed. Received: no --parquet_file. Name one.")
    command.require_positive(flags, "encoder_steps", "horizon", "batch_size")
    schema = flags.schema or str(schema_path(pathlib.Path(flags.parquet_file)))
    figures = measure(
        flags.parquet_file,
        command.read_json(pathlib.Path(schema), "--schema"),
        {"encoder_steps": flags.encoder_steps, "horizon": flags.horizon, "cache": flags.cache},
        flags.batch_size,
        flags.windows,
        flags.seed if flags.shuffle else None,
    )
    for name, figure in figures.items():
        print(
            f"{name:<28} {figure:>14,.1f}"
            if isinstance(figure, float)
            else f"{name:<28} {figure:>14,}"
        )


def measure(
    source: str,
    roles: dict[str, Any],
    settings: dict[str, Any],
    batch_size: int,
    windows_per_epoch: int,
    shuffle_seed: int | None,
) -> dict[str, float | int]:
    """Returns the figures by name.

    Args:
        source: the table.
        roles: of its columns, as a `Schema` has them.
        settings: of the `DataConfig`.
        batch_size: windows per batch.
        windows_per_epoch: at most so many windows; 0 takes all.
        shuffle_seed: None does not shuffle.
    """
    from tft_keras.config import DataConfig
    from tft_keras.data import Schema, prepare

    began = time.monotonic()
    data = prepare(source, Schema.from_dict(roles), DataConfig(**settings))
    prepared = time.monotonic() - began
    after_preparing = peak_memory()
    command.import_tensorflow()
    dataset = data.train.dataset(
        batch_size, shuffle_seed=shuffle_seed, windows_per_epoch=windows_per_epoch
    )
    began = time.monotonic()
    count = _count(dataset)
    took = time.monotonic() - began
    return {
        "rows": data.train.store.rows,
        "training windows": len(data.train),
        "windows fed": count,
        "seconds to prepare": prepared,
        "seconds to feed": took,
        "windows per second": count / took,
        "peak MiB, preparing": after_preparing,
        "peak MiB, whole process": peak_memory(),
    }


def _count(dataset: Any) -> int:
    """Consumes a dataset inside TensorFlow, as `fit` does, and returns its number of windows."""
    import tensorflow as tf

    def add(total: Any, batch: Any) -> Any:
        return total + tf.shape(batch[1], tf.int64)[0]

    return int(dataset.reduce(tf.constant(0, tf.int64), add))


def peak_memory() -> float:
    """Returns this process's peak resident memory in MiB."""
    return process_memory.peak() / 2**20
