"""What was fitted on training rows: the one place that knows names, order and scaling of inputs."""

from __future__ import annotations

import dataclasses
from typing import Any

from tft_keras.config import ROLES, DataConfig, input_name
from tft_keras.data.calibration import Calibration
from tft_keras.data.derived import Derived
from tft_keras.data.keys import key
from tft_keras.data.local_scaling import LocalScaler, is_local
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

    scaler: Scaler | LocalScaler
    indicator: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Returns the numbers as plain JSON values."""
        return {"scaler": self.scaler.to_dict(), "indicator": self.indicator}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RealVariable:
        """Makes the variable from `to_dict`'s result."""
        scaler = values["scaler"]
        local = "steps" in scaler
        scaler = LocalScaler(**scaler) if local else Scaler.from_dict(scaler)
        return cls(scaler, values["indicator"])


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
        derived: the inputs that no column holds.
        calibration: of the run's forecasts, once it is trained; None without one.
    """

    schema: Schema
    config: DataConfig
    step: Step
    reals: dict[str, RealVariable]
    vocabularies: dict[str, Vocabulary]
    series: tuple[tuple[str, ...], ...] = ()
    season: int | None = None
    derived: Derived = Derived()
    calibration: Calibration | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns everything as plain JSON values."""
        return {
            "schema": self.schema.to_dict(),
            "config": self.config.to_dict(),
            "step": self.step.to_dict(),
            "reals": {name: real.to_dict() for name, real in self.reals.items()},
            "vocabularies": {name: v.to_dict() for name, v in self.vocabularies.items()},
            "series": [list(name) for name in self.series],
            "season": self.season,
            "derived": self.derived.to_dict(),
            "calibration": self.calibration and self.calibration.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Preprocessing:
        """Makes the preprocessing from `to_dict`'s result."""
        calibration = values.get("calibration")
        return cls(
            schema=Schema.from_dict(values["schema"]),
            config=DataConfig.from_dict(values["config"]),
            step=Step.from_dict(values["step"]),
            reals={name: RealVariable.from_dict(real) for name, real in values["reals"].items()},
            vocabularies={
                name: Vocabulary.from_dict(v) for name, v in values["vocabularies"].items()
            },
            # Written before ids had keys: the values themselves.
            series=tuple(tuple(map(key, name)) for name in values["series"]),
            season=values.get("season"),
            derived=Derived.from_dict(values.get("derived", {})),
            calibration=Calibration.from_dict(calibration) if calibration else None,
        )

    @property
    def target_scaler(self) -> Scaler | LocalScaler:
        """The scaling that forecasts are undone with."""
        return self.reals[self.schema.target].scaler

    @property
    def reach(self) -> int:
        """Rows before a window that its inputs are made from, where there are so many."""
        local = [s.reach for s in (real.scaler for real in self.reals.values()) if is_local(s)]
        return max([0, *local, *self.derived.lags])

    def describe(self) -> str:
        """Returns in a line how the target is scaled and which inputs were made."""
        config, scaler = self.config, self.target_scaler
        if is_local(scaler):
            kind = "median and quartiles" if scaler.robust else "mean and deviation"
            scaling = f"each row by {kind} of the {scaler.steps} rows up to it"
        elif self.series:
            scaling = "each series by its training rows"
        else:
            scaling = "not at all" if config.scaling == "none" else "by all training rows"
        made = [*self.derived.calendar, *self.derived.waves, *self.derived.lag_names("known")]
        inputs = f"; inputs made: {', '.join(made)}" if made else ""
        return f"target scaled {scaling}{inputs}"

    def real_columns(self, role: str) -> list[str]:
        """Returns the real-valued columns of `static`, `known` or `observed`, in order.

        Derived ones that are computed for each row follow; see `Derived.real`.
        """
        target = [self.schema.target] if role == "observed" else []
        own = [c for c in getattr(self.schema, role) if c in self.reals]
        return target + own + list(self.derived.real(role))

    def given_columns(self, role: str) -> list[str]:
        """Returns the real-valued columns that are not made from the target, in order."""
        made = self.derived.real(role) if role == "observed" else ()
        return [column for column in self.real_columns(role) if column not in made]

    def categorical_columns(self, role: str) -> list[str]:
        """Returns the categorical columns of `static`, `known` or `observed`, in order."""
        own = [c for c in getattr(self.schema, role) if c in self.vocabularies]
        return own + list(self.derived.categorical(role))

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
        return names + self.derived.lag_names(role)

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
