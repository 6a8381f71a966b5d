"""What to export, and how: settings and their checks, without TensorFlow."""

from __future__ import annotations

import dataclasses

from tft_keras.errors import InputError, nearest

INT8, FLOAT32, SAVED_MODEL = "tflite_int8", "tflite_float32", "saved_model"
FORMATS = (INT8, FLOAT32, SAVED_MODEL)
EDGES = ("int8", "float32")


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """What to export, and how.

    Args:
        formats: of `tflite_int8`, `tflite_float32`, `saved_model`.
        batch_size: windows of a call of the .tflite files; 0 for any number.
        edges: type of the int8 file's real inputs and of its quantiles, `int8` or `float32`.
        ptq: whether a float run is quantized after training.
        integer_layer_norm: with `ptq`: whether normalizations are quantized, too.
        calibration_batches: batches of the training split that its ranges come from.
        verify: whether the files are run and compared with the model.
        verify_windows: windows to compare on; 0 for the whole test split.
        by_tensor: whether every observed tensor is compared, too.
    """

    formats: tuple[str, ...] = FORMATS
    batch_size: int = 1
    edges: str = "int8"
    ptq: bool = False
    integer_layer_norm: bool = False
    calibration_batches: int = 100
    verify: bool = True
    verify_windows: int = 1000
    by_tensor: bool = False

    def __post_init__(self) -> None:
        for name in self.formats:
            if name not in FORMATS:
                raise InputError(
                    f"formats are among {', '.join(FORMATS)}. Received: {name!r}."
                    f"{nearest(name, FORMATS)}"
                )
        if not self.formats:
            raise InputError(f"formats are among {', '.join(FORMATS)}. Received: none.")
        if self.edges not in EDGES:
            raise InputError(
                f"edges must be one of {', '.join(EDGES)}. Received: edges={self.edges!r}."
            )
        for name, least in (("batch_size", 0), ("verify_windows", 0), ("calibration_batches", 1)):
            if getattr(self, name) < least:
                raise InputError(
                    f"{name} must be at least {least}. Received: {name}={getattr(self, name)}."
                )
