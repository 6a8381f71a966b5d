"""Runs that are finished but barely trained, and what is exported of them, shared by all tests."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow.parquet as pq
import pytest
import tf_keras as keras

from export.exporting import ExportOptions, export_run
from tests import runs
from tft_keras import quantization
from tft_keras.data.calibration import Calibration
from tft_keras.training import Run, build_model
from tft_keras.training.state import TrainingState


def finished_run(folder, quantized: bool, calibrated: bool = True) -> Run:
    """A run whose weights are a little off their start, as if it had been trained."""
    pq.write_table(runs.sales_table(), folder / "sales.parquet")
    data = runs.prepared()
    config = runs.run_config(data)
    training = dataclasses.replace(config.training, use_qat=quantized)
    config = dataclasses.replace(config, training=training, source=str(folder / "sales.parquet"))
    run = Run.create(folder / "run", config, data.preprocessing)
    keras.utils.set_random_seed(0)
    model = build_model(run.config)
    generator = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign_add(generator.normal(0, 0.05, weight.shape).astype(np.float32))
    if quantized and calibrated:
        quantization.calibrate(model, data.train.dataset(32), 3)
        model.freeze_observers()
    run.checkpoints.folder.mkdir(parents=True)
    run.checkpoints.save_final(model, 1)
    run.write_metrics(TrainingState())
    # Large enough that what leaves it out is seen.
    calibration = Calibration(((-0.5, 0.25, 0.5), (-0.75, 0.0, 0.25), (-0.25, -0.25, 1.0)))
    run.write_preprocessing(dataclasses.replace(data.preprocessing, calibration=calibration))
    return run


@pytest.fixture(scope="session")
def quantized_run(tmp_path_factory) -> Run:
    return finished_run(tmp_path_factory.mktemp("quantized"), quantized=True)


@pytest.fixture(scope="session")
def float_run(tmp_path_factory) -> Run:
    return finished_run(tmp_path_factory.mktemp("float"), quantized=False)


@pytest.fixture(scope="session")
def exported(quantized_run, tmp_path_factory):
    """The folder with all formats, and its manifest."""
    folder = tmp_path_factory.mktemp("export") / "exported"
    content = export_run(quantized_run, folder, ExportOptions(by_tensor=True, verify_windows=0))
    return folder, content
