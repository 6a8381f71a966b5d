"""Small tables and runs that the tests of training, evaluation and forecasting share."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import pathlib
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
import tf_keras as keras

from tft_keras.config import DataConfig, ModelConfig, TrainingConfig
from tft_keras.data import PreparedData, Schema, prepare
from tft_keras.training import Run, RunConfig, initial_weights, model_building, train

SCHEMA = Schema(
    target="sales",
    time="day",
    group=("store",),
    static=("store",),
    known=("promotion", "weekday"),
    observed=("visitors",),
    categorical=("weekday",),
)
DATA = DataConfig(encoder_steps=10, horizon=3, validation=0.2, test=0.2)
TRAINING = TrainingConfig(epochs=3, batch_size=16, learning_rate=5e-3, windows_per_epoch=64)


def sales_table(days: int = 80, stores: tuple[str, ...] = ("north", "south")) -> pa.Table:
    """Daily sales with a weekly pattern, promotions and noise; a few targets are missing."""
    generator = np.random.default_rng(3)
    parts = []
    for number, store in enumerate(stores):
        day = np.arange(days)
        promotion = (generator.random(days) < 0.3).astype(np.float64)
        visitors = generator.normal(50, 10, days)
        sales = 20 + 10 * number + 8 * np.sin(2 * np.pi * day / 7) + 6 * promotion
        sales = sales + generator.normal(0, 1, days)
        sales[generator.random(days) < 0.05] = np.nan
        times = np.datetime64("2024-01-01", "s") + day * np.timedelta64(86400, "s")
        columns = {
            "store": [store] * days,
            "day": pa.array(times).cast(pa.date32()),
            "sales": pa.array(sales, from_pandas=True),
            "promotion": promotion,
            "weekday": day % 7,
            "visitors": visitors,
        }
        parts.append(pa.table(columns))
    return pa.concat_tables(parts)


def future_table(stores: tuple[str, ...] = ("north", "south"), days: int = 40) -> pa.Table:
    """The sales table with no target yet on its last 3 days."""
    table = sales_table(days, stores)
    first = datetime.date(2024, 1, 1) + datetime.timedelta(days=days - 3)
    sales = pc.if_else(pc.less(table["day"], first), pc.fill_null(table["sales"], 20.0), None)
    return table.set_column(table.column_names.index("sales"), "sales", sales)


def prepared(table: pa.Table | None = None, data: DataConfig = DATA) -> PreparedData:
    """The sales table as windows."""
    return prepare(sales_table() if table is None else table, SCHEMA, data)


def run_config(
    data: PreparedData, training: TrainingConfig = TRAINING, **model: object
) -> RunConfig:
    """Settings of a run on `data` with a small model."""
    sizes = {"hidden_size": 8, "num_heads": 2} | model
    config = ModelConfig(**data.preprocessing.model_sizes(), **sizes)
    return RunConfig(SCHEMA, data.preprocessing.config, config, training)


def new_run(path: pathlib.Path, data: PreparedData, **changes: object) -> Run:
    """Makes a run whose training settings are `TRAINING` with some changed."""
    training = dataclasses.replace(TRAINING, **changes)
    return Run.create(path, run_config(data, training), data.preprocessing)


class TinyModel(keras.Model):
    """A linear forecast of the target's past, in the place of the TFT where it is not the subject.

    As in the TFT, dropout masks follow from a counter among its weights. It is built in no time.
    """

    quantized = False

    def __init__(self, config: ModelConfig, **options: object) -> None:
        super().__init__(name=options["name"])
        self.config = config
        shape = (config.encoder_steps, config.horizon * len(config.quantiles))
        self.calls = self.add_weight("calls", (), tf.int32, "zeros", trainable=False)
        self.kernel = self.add_weight("kernel", shape, initializer="glorot_uniform")
        self.bias = self.add_weight("bias", shape[1:], initializer="zeros")
        self.built = True

    def call(self, inputs: dict[str, tf.Tensor], training: bool = False) -> tf.Tensor:
        past = inputs["observed_real"][..., 0]
        if training:
            seed = tf.stack([1, self.calls.assign_add(1)])
            past *= tf.cast(tf.random.stateless_uniform(tf.shape(past), seed) > 0.1, past.dtype)
        outputs = past @ self.kernel + self.bias
        return tf.reshape(outputs, (-1, self.config.horizon, len(self.config.quantiles)))


@contextlib.contextmanager
def tiny_models() -> Iterator[None]:
    """Makes runs train `TinyModel` inside the `with`."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (model_building, initial_weights):
            patch.setattr(module, "TemporalFusionTransformer", TinyModel)
        yield


@pytest.fixture
def tiny_model() -> Iterator[None]:
    """Makes runs train `TinyModel` in this test."""
    with tiny_models():
        yield


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A finished run of `TinyModel` on the sales table, which is a Parquet file beside it."""
    folder = tmp_path_factory.mktemp("tiny")
    pq.write_table(sales_table(), folder / "sales.parquet")
    data = prepare(folder / "sales.parquet", SCHEMA, DATA)
    with tiny_models():
        config = dataclasses.replace(run_config(data), source=str(folder / "sales.parquet"))
        run = Run.create(folder / "run", config, data.preprocessing)
        train(run, data)
        yield run
