"""Flags in groups, with help, read from the command line and from a settings file."""

from __future__ import annotations

import contextlib
import json
import pathlib
import textwrap
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from absl import flags as absl_flags

from tft_keras.errors import InputError, nearest

_HELP_WIDTH = 96


class Values(types.SimpleNamespace):
    """The values of a command's flags, one attribute each.

    Attributes:
        given_flags: names of the flags set by the command line or the settings file.
    """

    given_flags: frozenset[str]


class Flags:
    """Defines the flags of one command and reads them.

    Dashes and underscores are the same in a flag's name. Every command has `--config`, a JSON file
    with the same settings, and `--help`. What the command line says wins over the file.

    Args:
        summary: what the command does; the first lines of its help.
        flatten: turns the content of a `--config` file into settings by flag name, for commands
            that also read files laid out in another way.
    """

    def __init__(
        self, summary: str, flatten: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    ) -> None:
        self._summary = textwrap.dedent(summary).strip()
        self._flatten = flatten or (lambda content: content)
        self._values = absl_flags.FlagValues()
        self._groups: dict[str, list[str]] = {}
        self._group = "Settings"
        with self.group("General"):
            self.string("config", None, "JSON file with settings by flag name; flags win.")
            self.boolean("help", False, "Show this help.")

    @contextlib.contextmanager
    def group(self, title: str) -> Iterator[None]:
        """Flags defined inside the `with` appear under `title` in the help."""
        before, self._group = self._group, title
        yield
        self._group = before

    def string(self, name: str, default: str | None, help: str) -> None:
        """Defines a flag whose value is a text."""
        self._define(absl_flags.ArgumentParser(), name, default, help)

    def integer(self, name: str, default: int | None, help: str) -> None:
        """Defines a flag whose value is a whole number."""
        self._define(absl_flags.IntegerParser(), name, default, help)

    def number(self, name: str, default: float | None, help: str) -> None:
        """Defines a flag whose value is a real number."""
        self._define(absl_flags.FloatParser(), name, default, help)

    def strings(self, name: str, default: Sequence[str], help: str) -> None:
        """Defines a flag whose value is a list of texts, separated by commas."""
        self._define(_TextsParser(), name, tuple(default), help)

    def numbers(self, name: str, default: Sequence[float], help: str) -> None:
        """Defines a flag whose value is a list of numbers, separated by commas."""
        self._define(_NumbersParser(), name, tuple(default), help)

    def choice(self, name: str, default: str, options: Sequence[str], help: str) -> None:
        """Defines a flag whose value is one of `options`."""
        help = f"{help} One of {', '.join(options)}."
        self._define(absl_flags.EnumParser(list(options)), name, default, help)

    def boolean(self, name: str, default: bool, help: str) -> None:
        """Defines a flag that is on (`--name`) or off (`--noname`, `--no-name`)."""
        absl_flags.DEFINE_boolean(name, default, help, flag_values=self._values)
        self._groups.setdefault(self._group, []).append(name)

    def parse(self, arguments: Sequence[str]) -> Values:
        """Reads the command line (without the program's name), then the `--config` file.

        Returns:
            The value of every flag, for `main`.

        Raises:
            InputError: a flag is unknown, a value is not of the flag's type, or the file is bad.
        """
        arguments = [self._standard_form(argument) for argument in arguments]
        for name in self._values:
            self._values[name].unparse()
        try:
            rest = self._values(["command", *arguments])[1:]
        except absl_flags.UnrecognizedFlagError as error:
            raise self._unknown(f"--{error.flagname}", "--") from None
        except absl_flags.Error as error:
            raise InputError(f"A flag's value is wrong: {error}. See --help.") from None
        if rest:
            raise InputError(
                "All settings are flags, as in --name=value. "
                f"Received: {rest[0]!r}. See --help for the names."
            )
        if self._values["config"].value:
            self._read(pathlib.Path(self._values["config"].value))
        given = frozenset(name for name in self._values if self._values[name].present)
        values = {name: self._values[name].value for name in self._values}
        return Values(given_flags=given, **values)

    def names(self) -> list[str]:
        """Names of all flags, in the order of the help."""
        return [name for group in self._groups.values() for name in group]

    def help_text(self) -> str:
        """The summary, then every flag with its help and default, group by group."""
        lines = [self._summary]
        for title in sorted(self._groups, key=lambda title: title == "General"):
            lines += ["", f"{title}:"]
            for name in self._groups[title]:
                lines += self._flag_help(name)
        return "\n".join(lines)

    def _define(self, parser: Any, name: str, default: Any, help: str) -> None:
        absl_flags.DEFINE(parser, name, default, help, flag_values=self._values)
        self._groups.setdefault(self._group, []).append(name)

    def _standard_form(self, argument: str) -> str:
        """`--batch-size=4` as `--batch_size=4`; `--no-resume` as `--noresume`."""
        if not argument.startswith("--") or argument == "--":
            return argument
        name, equals, value = argument[2:].partition("=")
        name = name.replace("-", "_")
        if name.startswith("no_") and name[3:] in self._values:
            name = f"no{name[3:]}"
        return f"--{name}{equals}{value}"

    def _unknown(self, name: str, prefix: str = "", where: str = "") -> InputError:
        options = [f"{prefix}{option}" for option in self.names()]
        hint = nearest(name, options) or " See --help for the names."
        return InputError(f"There is no such setting. Received: {name}{where}.{hint}")

    def _read(self, path: pathlib.Path) -> None:
        for name, value in self._flatten(read_json(path, "--config")).items():
            name = name.replace("-", "_")
            if name not in self._values:
                raise self._unknown(name, where=f"={value!r} in {path}")
            if value is None or self._values[name].present:
                continue
            try:
                self._values[name].parse(value if isinstance(value, (bool, list)) else str(value))
            except absl_flags.Error as error:
                raise InputError(
                    f"A setting's value is wrong: {error}. Received: {name}={value!r} in {path}."
                ) from None

    def _flag_help(self, name: str) -> list[str]:
        flag = self._values[name]
        default = flag.default
        silent = default is None or default is False or default == ()
        shown = "" if silent else f" Default: {_as_text(default)}."
        body = textwrap.wrap(f"{flag.help}{shown}", _HELP_WIDTH - 6)
        return [f"  --{name}", *(f"      {line}" for line in body)]


class _TextsParser(absl_flags.ArgumentParser):
    """Comma-separated texts, or a list, as a tuple."""

    def parse(self, argument: Any) -> tuple[str, ...]:
        parts = argument.split(",") if isinstance(argument, str) else argument
        return tuple(str(part).strip() for part in parts if str(part).strip())

    def flag_type(self) -> str:
        return "list"


class _NumbersParser(_TextsParser):
    """Comma-separated numbers, or a list, as a tuple."""

    def parse(self, argument: Any) -> tuple[float, ...]:
        return tuple(float(part) for part in super().parse(argument))


def read_json(path: pathlib.Path, flag: str) -> dict[str, Any]:
    """Returns the JSON object in a file that the user named by `flag`.

    Raises:
        InputError: there is no such file, or it does not hold a JSON object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"{flag} must name a file that can be read. Received: {path} ({error.strerror})."
        ) from None
    except ValueError as error:
        raise InputError(f"{flag} must be JSON. Received: {path} ({error}).") from None
    if not isinstance(content, dict):
        raise InputError(
            f"{flag} must hold one JSON object. Received: {path} with a {type(content).__name__}."
        )
    return content


def _as_text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
