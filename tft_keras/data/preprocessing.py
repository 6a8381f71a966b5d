"""What was fitted on training rows: the one place that knows names, order and scaling of inputs."""

from __future__ import annotations

import dataclasses
from typing import Any

from tft_keras.config import ROLES, DataConfig, input_name
from tft_keras.data.keys import key
from tft_keras.data.missing import MissingValues
from tft_keras.data.scaling import Scaler
from tft_keras.data.schema import Schema
from tft_keras.data.steps import Step
from tft_keras.data.vocabulary import Vocabulary


@dataclasses.dataclass(frozen=True)
class RealVariable:
    """A real-valued column.

    Args:
        scaler: how it is scaled.
        indicator: whether a variable that is 1 where the column is missing, else 0, follows it.
    """

    scaler: Scaler
    indicator: bool = False


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """All that turns tables into the model's inputs, always in the same way; only data.

    Order of a model's inputs: the columns of a role as the schema lists them, real-valued ones and
    categorical ones apart; a column's is-missing indicator follows it; the target comes first among
    the observed ones.

    Args:
        schema: roles of the columns.
        config: treatment of the data.
        step: distance of rows.
        reals: the real-valued columns, the target among them.
        vocabularies: the categorical columns.
        series: keys (`keys.key`) of the group values of the series trained on, in the order of the
            scalers' values; empty where all are scaled alike.
        season: rows in a season, whose naive forecast is the best of those that the step suggests
            on the training split; None if there is none, or it was never looked for.
    """

    schema: Schema
    config: DataConfig
    step: Step
    reals: dict[str, RealVariable]
    vocabularies: dict[str, Vocabulary]
    series: tuple[tuple[str, ...], ...] = ()
    season: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns everything as plain JSON values."""
        return {
            "schema": self.schema.to_dict(),
            "config": self.config.to_dict(),
            "step": self.step.to_dict(),
            "reals": {
                name: {"scaler": real.scaler.to_dict(), "indicator": real.indicator}
                for name, real in self.reals.items()
            },
            "vocabularies": {name: v.to_dict() for name, v in self.vocabularies.items()},
            "series": [list(name) for name in self.series],
            "season": self.season,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Preprocessing:
        """Makes the preprocessing from `to_dict`'s result."""
        return cls(
            schema=Schema.from_dict(values["schema"]),
            config=DataConfig.from_dict(values["config"]),
            step=Step.from_dict(values["step"]),
            reals={
                name: RealVariable(Scaler.from_dict(real["scaler"]), real["indicator"])
                for name, real in values["reals"].items()
            },
            vocabularies={
                name: Vocabulary.from_dict(v) for name, v in values["vocabularies"].items()
            },
            # Written before ids had keys: the values themselves.
            series=tuple(tuple(map(key, name)) for name in values["series"]),
            season=values.get("season"),
        )

    @property
    def target_scaler(self) -> Scaler:
        """The scaling that forecasts are undone with."""
        return self.reals[self.schema.target].scaler

    def real_columns(self, role: str) -> list[str]:
        """Returns the real-valued columns of `static`, `known` or `observed`, in order."""
        target = [self.schema.target] if role == "observed" else []
        return target + [c for c in getattr(self.schema, role) if c in self.reals]

    def categorical_columns(self, role: str) -> list[str]:
        """Returns the categorical columns of `static`, `known` or `observed`, in order."""
        return [c for c in getattr(self.schema, role) if c in self.vocabularies]

    def missing_values(self, role: str) -> MissingValues:
        """Returns how a role's real-valued columns become variables."""
        return MissingValues(tuple(self.reals[c].indicator for c in self.real_columns(role)))

    def real_variables(self, role: str) -> list[str]:
        """Returns the names of a role's real-valued variables, indicators included."""
        names = []
        for column in self.real_columns(role):
            names.append(column)
            if self.reals[column].indicator:
                names.append(f"{column} is missing")
        return names

    def variable_names(self) -> dict[str, list[str]]:
        """Returns the names of the model's variables in its order: static, history, future."""
        static, known, observed = (
            (self.real_variables(role), self.categorical_columns(role)) for role in ROLES
        )
        return {
            "static": static[0] + static[1],
            "history": observed[0] + known[0] + observed[1] + known[1],
            "future": known[0] + known[1],
        }

    def model_sizes(self) -> dict[str, Any]:
        """Returns the keyword arguments of `ModelConfig` that follow from the data."""
        sizes: dict[str, Any] = {
            "encoder_steps": self.config.encoder_steps,
            "horizon": self.config.horizon,
        }
        for role in ROLES:
            sizes[input_name(role, "real")] = len(self.real_variables(role))
            columns = self.categorical_columns(role)
            categories = tuple(self.vocabularies[column].size for column in columns)
            sizes[input_name(role, "categorical")] = categories
        return sizes
