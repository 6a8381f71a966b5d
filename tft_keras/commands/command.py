"""What every command shares: flags with help, and errors in one line.

A command is a module with a `Flags` object and a `main` that takes the parsed flags:

    FLAGS = command.Flags("Says hello.")
    with FLAGS.group("Greeting"):
        FLAGS.string("name", "world", "Whom to greet.")

    def main(flags: command.Values) -> None:
        print(f"hello {flags.name}")

    if __name__ == "__main__":
        command.run(main, FLAGS)

This module imports neither TensorFlow nor pyarrow, so that help and flag errors come at once. A
command calls `import_tensorflow()` when its flags are checked and it is about to need TensorFlow.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tft_keras.commands.flags import Flags, Values, read_json
from tft_keras.errors import InputError

__all__ = [
    "Flags",
    "Values",
    "import_tensorflow",
    "one_line_warnings",
    "read_json",
    "require_positive",
    "run",
    "status",
]

EXIT_ERROR = 1
EXIT_INTERRUPTED = 130
_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


def require_positive(flags: Values, *names: str) -> None:
    """Raises `InputError` for the first of these whole-number flags that is below 1."""
    for name in names:
        value = getattr(flags, name)
        if value < 1:
            raise InputError(
                f"{name} must be a whole number of at least 1. Received: {name}={value}."
            )


def import_tensorflow() -> None:
    """Imports TensorFlow without the lines it writes to the console.

    A `TF_CPP_MIN_LOG_LEVEL` in the environment brings TensorFlow's own messages back.
    """
    if "tensorflow" in sys.modules or _LOG_LEVEL in os.environ:
        return
    # Some lines come while it is loaded, whatever the level.
    os.environ[_LOG_LEVEL] = "3"
    sys.stderr.flush()
    console = os.dup(2)
    with tempfile.TemporaryFile() as swallowed:
        os.dup2(swallowed.fileno(), 2)
        try:
            import tensorflow  # noqa: F401
        except BaseException:
            swallowed.seek(0)
            os.write(console, swallowed.read())
            raise
        finally:
            os.dup2(console, 2)
            os.close(console)


def run(main: Callable[[Values], None], flags: Flags) -> None:
    """Runs a command on the command line's arguments and leaves the process.

    `InputError` and errors of files become one line on the error stream and exit status 1; an
    interruption `interrupted`, with the message of the `KeyboardInterrupt` if it has one, and
    status 130. Other errors are faults of the program and keep their traceback.
    """
    sys.exit(status(main, flags, sys.argv[1:]))


def status(main: Callable[[Values], None], flags: Flags, arguments: Sequence[str]) -> int:
    """Runs a command on `arguments` and returns its exit status, as `run` describes."""
    with one_line_warnings():
        return _status(main, flags, arguments)


@contextlib.contextmanager
def one_line_warnings() -> Iterator[None]:
    """Within the `with`, this project's warnings are one line each and others are silent."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        yield


def _status(main: Callable[[Values], None], flags: Flags, arguments: Sequence[str]) -> int:
    try:
        # Help is asked for by a flag that may stand beside wrong ones.
        if {"--help", "-h", "-help"} & set(arguments):
            print(flags.help_text())
            return 0
        main(flags.parse(arguments))
    except InputError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt as interruption:
        print("; ".join(["\ninterrupted", *map(str, interruption.args)]), file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has gone; Python would complain again while flushing at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_ERROR
    except OSError as error:
        # No room, no permission, no such folder: a traceback would not help.
        print(f"error: {error}", file=sys.stderr)
        return EXIT_ERROR
    return 0


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    # Users can act on this project's warnings; those of libraries on their innards they cannot.
    if issubclass(category, UserWarning):
        print(f"warning: {message}", file=sys.stderr)
