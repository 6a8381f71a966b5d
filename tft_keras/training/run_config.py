"""Everything a run was made with, as one value that goes to JSON and back."""

from __future__ import annotations

import dataclasses
from typing import Any

from tft_keras.config import DataConfig, ModelConfig, TrainingConfig
from tft_keras.data import Schema
from tft_keras.errors import InputError


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """The settings of one run; with the table, they determine its weights.

    Args:
        schema: roles of the table's columns.
        data: how the table became windows.
        model: sizes of the model.
        training: how it is trained.
        source: path of the table; None for one that was given in memory.
        load_model: path of the model whose weights training started from, if any.
    """

    schema: Schema
    data: DataConfig
    model: ModelConfig
    training: TrainingConfig
    source: str | None = None
    load_model: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns plain JSON values, one entry per field."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {
            name: value.to_dict() if hasattr(value, "to_dict") else value
            for name, value in values.items()
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RunConfig:
        """Makes the config from `to_dict`'s result.

        Raises:
            InputError: a part is missing, or holds settings that are unknown or break a rule.
        """
        parts = {
            "schema": Schema,
            "data": DataConfig,
            "model": ModelConfig,
            "training": TrainingConfig,
        }
        missing = [name for name in parts if not isinstance(values.get(name), dict)]
        if missing:
            raise InputError(
                f"A run's config has the parts {', '.join(parts)}. "
                f"Received: one without {', '.join(missing)}."
            )
        return cls(
            **{name: part.from_dict(values[name]) for name, part in parts.items()},
            source=values.get("source"),
            load_model=values.get("load_model"),
        )
