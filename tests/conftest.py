"""Set-up of every test process: quiet TensorFlow, Keras 2, two logical CPU devices."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["TF_USE_LEGACY_KERAS"] = "1"

import pytest
import tensorflow as tf

import tests.support as support

# `MirroredStrategy` is tested on two logical devices; they must exist before anything runs.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)


@pytest.fixture
def config():
    return support.CONFIG


@pytest.fixture
def inputs():
    return support.random_inputs(support.CONFIG, windows=6)


@pytest.fixture
def targets():
    return support.random_targets(support.CONFIG, windows=6)


@pytest.fixture(scope="session")
def strategy():
    """Two replicas. One for all tests: a second strategy fails in the same process."""
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
