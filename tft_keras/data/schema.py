"""Which column of a table plays which role."""

from __future__ import annotations

import dataclasses

import pyarrow as pa

from tft_keras.config import ROLES, Config
from tft_keras.data import columns
from tft_keras.data.table import Table
from tft_keras.data.time_columns import check_time_type
from tft_keras.errors import InputError, nearest

_LISTS = ("group", "static", "known", "observed", "categorical")


@dataclasses.dataclass(frozen=True)
class Schema(Config):
    """Roles of the columns; goes to JSON and back by `to_dict` and `from_dict`.

    Args:
        target: the column to forecast; its past is an observed input.
        time: the column that orders the rows of a series.
        group: the columns whose values together name a series; none: the table is one series.
        static: inputs that are constant in a series. A group column may be static too.
        known: inputs known in advance over the horizon.
        observed: inputs known only up to the forecast origin, the target not among them.
        categorical: inputs that are categories although their type is a number. Strings,
            dictionaries and booleans are categories by their type.
    """

    target: str
    time: str
    group: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    observed: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in _LISTS:
            if isinstance(getattr(self, name), str):
                object.__setattr__(self, name, (getattr(self, name),))
        super().__post_init__()

    def _check(self) -> None:
        for name in ("target", "time"):
            value = getattr(self, name)
            rule = f"{name} must be the name of one column."
            self._require(isinstance(value, str) and bool(value), rule, name)
        for name in _LISTS:
            value = getattr(self, name)
            rule = f"{name} must be a list of column names, each once."
            strings = isinstance(value, tuple) and all(isinstance(v, str) for v in value)
            self._require(strings and len(set(value)) == len(value), rule, name)
        self._check_one_role_each()
        for name in self.categorical:
            self._require(
                name in self.inputs,
                "categorical names columns that are static, known or observed inputs.",
                "categorical",
                f"Column {name!r} is none of them.{nearest(name, self.inputs)}",
            )

    def _check_one_role_each(self) -> None:
        roles: dict[str, str] = {}
        named = [(self.target, "target"), (self.time, "time")]
        for role in ROLES:
            named += [(column, role) for column in getattr(self, role)]
        for column, role in named:
            if column in roles:
                raise InputError(
                    "A column plays one role. "
                    f"Received: {column!r} as {roles[column]} and {role}. Take it out of one."
                )
            roles[column] = role
        for column in self.group:
            if roles.get(column, "static") != "static":
                raise InputError(
                    "A group column may only be a static input besides. "
                    f"Received: {column!r} as group and {roles[column]}. Take it out of one."
                )

    @property
    def inputs(self) -> tuple[str, ...]:
        """All input columns but the target: static, known, observed."""
        return self.static + self.known + self.observed

    def check_columns(self, table: Table) -> None:
        """Checks that a table has every column once, in a type that suits its role.

        Raises:
            InputError: a column is not there, is there twice, or cannot play its role.
        """
        types = table.columns
        for role in ("target", "time", *_LISTS[:-1]):
            value = getattr(self, role)
            for column in (value,) if isinstance(value, str) else value:
                if column not in types:
                    raise InputError(
                        f"The {role} column must be in the table. Received: {role}={column!r}."
                        f"{nearest(column, types)} The table has: {', '.join(types)}."
                    )
                if column in table.repeated:
                    raise InputError(
                        "A column's name must be its own. "
                        f"Received: {role}={column!r}, which several columns have. Rename them."
                    )
        check_time_type(types[self.time], self.time)
        columns.check_real_type(types[self.target], self.target, "the target")
        for column in self.inputs:
            if not self.is_categorical(column, types[column]):
                columns.check_real_type(types[column], column, "a real-valued input")

    def is_categorical(self, column: str, type_: pa.DataType) -> bool:
        """Whether an input column is read as categories."""
        return column in self.categorical or columns.is_categorical_type(type_)
