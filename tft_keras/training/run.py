"""The run folder: all that one training wrote, and how to read it back."""

from __future__ import annotations

import json
import os
import pathlib
import warnings

from tft_keras import atomic
from tft_keras.data import Preprocessing
from tft_keras.errors import InputError
from tft_keras.model import TemporalFusionTransformer
from tft_keras.training.checkpoints import Checkpoints, load_weights
from tft_keras.training.model_building import build_model
from tft_keras.training.run_config import RunConfig
from tft_keras.training.state import TrainingState

_CONFIG = "config.json"
_PREPROCESSING = "preprocessing.json"
_METRICS = "metrics.jsonl"


class Run:
    """A folder holding all that one training wrote.

        config.json         RunConfig: schema and settings of data, model and training
        preprocessing.json  everything fitted on the training rows: scaling, categories, names; and
                            the calibration, once training has finished
        metrics.jsonl       one JSON object of metrics per completed epoch
        logs/               TensorBoard
        checkpoints/        tft_epoch_{N}: whole states, the best and the last are kept;
                            tft_final_epoch_{N}: the weights of the finished run

    Args:
        path: the folder.
        config: settings of the run.
    """

    def __init__(self, path: str | os.PathLike[str], config: RunConfig) -> None:
        self.path = pathlib.Path(path)
        self.config = config
        self.checkpoints = Checkpoints(self.path / "checkpoints")

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], config: RunConfig, preprocessing: Preprocessing
    ) -> Run:
        """Makes a run that has not begun.

        Raises:
            InputError: the folder holds a run already.
        """
        run = cls(path, config)
        cls.check_free(path)
        run.write_preprocessing(preprocessing)
        # Last: a folder with a config is a run, and a run is complete.
        run.write_config()
        return run

    @staticmethod
    def check_free(path: str | os.PathLike[str]) -> None:
        """Raises `InputError` if the folder holds a run already."""
        if (pathlib.Path(path) / _CONFIG).exists():
            raise InputError(
                f"A new run needs a folder without a run. Received: run_dir={str(path)!r}. "
                "Go on with that run by --resume, or choose another folder."
            )

    def discard(self) -> None:
        """Removes what `create` wrote, if there is no checkpoint; all other files stay."""
        if self.checkpoints.last() is not None:
            return
        for name in (_CONFIG, _PREPROCESSING):
            atomic.remove(self.path / name)
        if not any(self.path.iterdir()):
            self.path.rmdir()

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Run:
        """Opens a run that training wrote.

        Raises:
            InputError: there is no run in the folder, or its files are damaged.
        """
        file = pathlib.Path(path) / _CONFIG
        if not file.exists():
            raise InputError(
                f"A run is a folder with a {_CONFIG}. Received: run_dir={str(path)!r}. "
                "Train one with `python -m tools.train --run_dir ...`."
            )
        return cls(path, RunConfig.from_dict(_read_json(file)))

    def write_config(self) -> None:
        """Writes `config.json` anew."""
        atomic.write_text(self.path / _CONFIG, json.dumps(self.config.to_dict(), indent=1))

    def write_preprocessing(self, preprocessing: Preprocessing) -> None:
        """Writes `preprocessing.json` anew."""
        content = json.dumps(preprocessing.to_dict(), indent=1)
        atomic.write_text(self.path / _PREPROCESSING, content)

    def preprocessing(self) -> Preprocessing:
        """Returns the preprocessing fitted when the run was made, calibrated once it is trained."""
        return Preprocessing.from_dict(_read_json(self.path / _PREPROCESSING))

    def model(self) -> TemporalFusionTransformer:
        """Returns the model with the weights to forecast with.

        Those of the finished run; if it has not finished, the best so far, with a warning.

        Raises:
            InputError: no epoch has been completed.
        """
        model = build_model(self.config)
        load_weights(self.weights_path(), model)
        return model

    def weights_path(self) -> pathlib.Path:
        """Returns the checkpoint whose weights `model` loads."""
        final = self.checkpoints.final()
        if final is not None:
            return final
        last = self.checkpoints.last()
        if not last:
            raise InputError(
                f"A run forecasts after its first epoch. Received: {self.path} without a "
                "checkpoint. Go on training with --resume."
            )
        best = self.checkpoints.state(last).best_epoch
        warnings.warn(
            f"The run {self.path} has not finished; using its best epoch so far, {best} of {last}.",
            UserWarning,
            stacklevel=3,
        )
        return self.checkpoints.path(best)

    def write_metrics(self, state: TrainingState) -> None:
        """Writes the metrics of all completed epochs, one JSON object a line."""
        lines = [json.dumps(metrics) + "\n" for metrics in state.history]
        atomic.write_text(self.path / _METRICS, "".join(lines))

    @property
    def logs(self) -> pathlib.Path:
        """Folder of the TensorBoard logs."""
        return self.path / "logs"


def _read_json(path: pathlib.Path) -> dict:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"A run's files must be readable JSON. Received: {path} ({error})."
        ) from None
