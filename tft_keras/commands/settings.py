"""Flags that set a run's configs: every setting of a config is a flag of the same name."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import pathlib
import re
from typing import Any, TypeVar

from tft_keras.commands.flags import Flags, Values, read_json
from tft_keras.config import Config, DataConfig, ModelConfig, TrainingConfig
from tft_keras.errors import InputError

# What ModelConfig has beyond these follows from the table.
MODEL_SETTINGS = ("hidden_size", "num_heads", "dropout", "quantiles")
# Flags without a value of their own: what suits follows from the amount of data.
BY_DATA = ("hidden_size", "dropout", "epochs", "early_stopping_patience")
_ROLES = {
    "target": "Column to forecast.",
    "time": "Column that orders the rows of a series: a timestamp, a date or a whole number.",
    "group": "Columns whose values together name a series; none if the table is one series.",
    "static": "Input columns that are constant in a series.",
    "known": "Input columns known in advance over the horizon.",
    "observed": "Input columns known only up to the forecast origin.",
    "categorical": "Input columns that are categories though their type is a number.",
}
_MANY = ("group", "static", "known", "observed", "categorical")
_SHARE_OR_TIME = ("validation", "test")
_Config = TypeVar("_Config", bound=Config)


def define(flags: Flags) -> None:
    """Defines the flags of columns, data, model and training, as their configs describe them."""
    with flags.group("Columns"):
        flags.string("schema", None, "JSON file with the column roles below; flags win.")
        for name, help in _ROLES.items():
            if name in _MANY:
                flags.strings(name, (), f"{help} Separated by commas.")
            else:
                flags.string(name, None, help)
    for title, config in (("Data", DataConfig), ("Model", ModelConfig)):
        with flags.group(title):
            _define_config(flags, config)
    with flags.group("Training"):
        _define_config(flags, TrainingConfig)
        flags.boolean(
            "use_gradient_checkpointing", False, "Short for --gradient_checkpointing=aggressive."
        )
        flags.boolean(
            "auto_gradient_checkpointing",
            False,
            "When memory runs out, go on from the last checkpoint in the next stronger tier.",
        )


def flatten(content: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings in a `--config` file by flag name.

    The file has either the flags' names, or the parts of a run's `config.json`, which so trains
    the same once more. Sizes of the model that follow from the table are left out.
    """
    settings: dict[str, Any] = {}
    for name, value in content.items():
        if name == "model" and isinstance(value, dict):
            settings |= {key: value[key] for key in MODEL_SETTINGS if key in value}
        elif name == "source":
            settings["parquet_file"] = value
        elif isinstance(value, dict):
            before = {"data": DataConfig, "training": TrainingConfig}.get(name, Config).BEFORE
            settings |= before | value
        else:
            settings[name] = value
    return settings


def config(
    flags: Values, kind: type[_Config], defaults: dict[str, Any] | None = None, **derived: Any
) -> _Config:
    """Makes a config from the flags.

    Args:
        flags: parsed.
        kind: class of the config.
        defaults: values for flags that were not given; without one of them a flag in `BY_DATA` has
            the config's own.
        derived: settings that are no flags.
    """
    values = {name: value(flags, name) for name in _settings(kind)}
    given = flags.given_flags
    for name, default in (defaults or {}).items():
        if name in values and name not in given:
            values[name] = default
    values = {name: v for name, v in values.items() if name not in BY_DATA or v is not None}
    return kind(**(values | derived))


def value(flags: Values, name: str) -> Any:
    """Returns a flag's value as the config has it."""
    if name in _SHARE_OR_TIME:
        return _number_if_it_is(getattr(flags, name))
    return getattr(flags, name)


def roles(flags: Values) -> dict[str, Any]:
    """Returns the column roles given by `--schema` and flags; empty if none are given."""
    settings = _stored_roles(pathlib.Path(flags.schema)) if flags.schema else {}
    given = flags.given_flags
    return settings | {name: value(flags, name) for name in _ROLES if name in given}


def gradient_checkpointing(flags: Values) -> str:
    """Returns the tier that the two gradient checkpointing flags ask for."""
    if not flags.use_gradient_checkpointing:
        return flags.gradient_checkpointing
    if "gradient_checkpointing" in flags.given_flags and flags.gradient_checkpointing == "off":
        raise InputError(
            "--use_gradient_checkpointing means --gradient_checkpointing=aggressive. Received: it "
            "together with --gradient_checkpointing=off. Give one of them."
        )
    stronger = flags.gradient_checkpointing != "off"
    return flags.gradient_checkpointing if stronger else "aggressive"


def _stored_roles(path: pathlib.Path) -> dict[str, Any]:
    """The roles in a `--schema` file, which may be a run's `config.json` as well."""
    content = read_json(path, "--schema")
    return content["schema"] if isinstance(content.get("schema"), dict) else content


def _settings(kind: type[Config]) -> list[str]:
    names = [field.name for field in dataclasses.fields(kind)]
    return [name for name in names if kind is not ModelConfig or name in MODEL_SETTINGS]


def _define_config(flags: Flags, kind: type[Config]) -> None:
    helps = _setting_helps(kind)
    define_by_type = {
        "int": flags.integer,
        "float": flags.number,
        "bool": flags.boolean,
        "tuple[float, ...]": flags.numbers,
    }
    for field in dataclasses.fields(kind):
        if field.name in _settings(kind):
            default = field.default
            one = define_by_type.get(str(field.type))
            if one is None:
                one, default = flags.string, None if default is None else str(default)
            help = helps[field.name]
            if field.name in BY_DATA:
                default, help = None, f"{help} Default: by the amount of data."
            one(field.name, default, help)


def _setting_helps(kind: type[Config]) -> dict[str, str]:
    """Takes each setting's help from the `Args:` of the config's docstring."""
    text = inspect.getdoc(kind) or ""
    arguments = text.partition("Args:")[2]
    helps: dict[str, str] = {}
    for names, help in re.findall(
        r"^    (\w+(?:, \w+)*): (.*?)(?=^    \w|\Z)", arguments, re.MULTILINE | re.DOTALL
    ):
        help = " ".join(help.split())
        # A choice in backticks keeps the form in which it must be typed.
        help = (help[:1].upper() + help[1:]).replace("`", "")
        helps |= dict.fromkeys(names.split(", "), help)
    return helps


def _number_if_it_is(text: str) -> float | int | str:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text
