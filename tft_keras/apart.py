"""Running a function in a process of its own, and learning how that ended.

Whatever the function does to memory stays in that process: figures measured there are not blurred
by what ran before, and when the system kills it for memory, its parent lives on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import inspect
import mmap
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import pickle
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tft_keras.errors import InputError

# What native code says when an allocation, or the start of a thread with its stack, has failed.
_SHORTAGE = re.compile(
    r"OOM when allocating|bad_alloc|dnnl::error|out of memory|OUT_OF_MEMORY|cannot allocate"
    r"|RESOURCE_EXHAUSTED|failed to allocate|allocation failed|pthread_create\S* failed",
    re.IGNORECASE,
)
_EXCERPT = 80
_SECONDS_TO_END = 10.0
_EXIT_SHORTAGE = 71  # any status that neither Python nor a shell uses
# Address space to speak with when there is none left.
_RESERVE = 2**26


class ProcessError(RuntimeError):
    """A process ended without a result, and not for lack of memory."""


@dataclasses.dataclass(frozen=True)
class Ending:
    """How a function in a process of its own ended.

    Args:
        values: what it returned; of a generator, what it yielded until it ended.
        error: an `InputError` or `KeyboardInterrupt` that it raised.
        shortage: if memory ran out, in what way; otherwise empty.
        exit_code: of the process; negative for the signal that killed it.
    """

    values: tuple[Any, ...] = ()
    error: BaseException | None = None
    shortage: str = ""
    exit_code: int = 0

    def check(self) -> None:
        """Raises the function's error, or `ProcessError` if the process ended otherwise."""
        if self.error is not None:
            raise self.error
        if self.shortage:
            raise ProcessError(f"The process ran out of memory: {self.shortage}.")
        if self.exit_code:
            raise ProcessError(f"The process ended with exit status {self.exit_code}.")


def run_apart(function: Callable[..., Any], *arguments: Any) -> Ending:
    """Calls `function(*arguments)` in a new process and waits for its end.

    Args:
        function: importable by its name, and so are the classes of its arguments and results. It
            may be a generator function; what it yielded before it was killed is not lost.
        *arguments: picklable.

    Returns:
        The ending; only an interruption of this process itself is raised here. Errors other than
        `InputError` and lack of memory leave their traceback on the error stream. What native code
        writes there is shown only if the process fails for another reason.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder:
        native = pathlib.Path(folder) / "native.log"
        process = context.Process(
            target=_call, args=(sender, native, pickle.dumps((function, arguments))), daemon=True
        )
        process.start()
        sender.close()
        try:
            received = list(_messages(receiver))
            process.join()
        except KeyboardInterrupt as interruption:
            # On a terminal the other process was interrupted as well, and knows more to say.
            received = [*_end(process, receiver), ("error", interruption)]
        text = native.read_text(errors="replace") if native.exists() else ""
    return _ending(received, process.exitcode or 0, text)


def _messages(receiver: multiprocessing.connection.Connection) -> Iterator[tuple[str, Any]]:
    with contextlib.suppress(EOFError):
        while True:
            yield receiver.recv()


def _end(process: Any, receiver: multiprocessing.connection.Connection) -> list[tuple[str, Any]]:
    process.join(_SECONDS_TO_END)
    if process.is_alive():
        os.kill(process.pid, signal.SIGINT)
        process.join(_SECONDS_TO_END)
    if process.is_alive():
        process.kill()
        process.join()
    return list(_messages(receiver))


def _ending(received: list[tuple[str, Any]], exit_code: int, native: str) -> Ending:
    values = tuple(content for kind, content in received if kind == "value")
    error = next((content for kind, content in received if kind == "error"), None)
    shortage = next((content for kind, content in received if kind == "shortage"), "")
    if not shortage and exit_code == _EXIT_SHORTAGE:
        shortage = "an allocation failed"
    if not shortage and exit_code == -signal.SIGKILL:
        shortage = "it was killed (signal 9), as the system does when memory runs out"
    if not shortage and exit_code:
        shortage = _excerpt(native)
    if exit_code and not shortage:
        sys.stderr.write(native)
    return Ending(values, error, shortage, exit_code)


def _call(
    sender: multiprocessing.connection.Connection,
    native: pathlib.Path,
    call: bytes,
) -> None:
    """Runs in the new process; sends values and the error, each with its kind."""
    _end_with_parent()
    _native_messages_to(native)
    reserve = mmap.mmap(-1, _RESERVE)
    try:
        # Only now, as what this imports may write messages and take memory, too.
        function, arguments = pickle.loads(call)
        result = function(*arguments)
        for value in result if inspect.isgenerator(result) else [result]:
            sender.send(("value", value))
    except (InputError, KeyboardInterrupt) as error:
        sender.send(("error", error))
    except Exception as error:
        reserve.close()
        text = shortage(error)
        if not text:
            raise
        with contextlib.suppress(MemoryError):
            sender.send(("shortage", text))
        # At once: to tidy up takes memory, too.
        os._exit(_EXIT_SHORTAGE)


def _end_with_parent() -> None:
    """Lets no process train on unseen after the one that waits for it was killed."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _native_messages_to(path: pathlib.Path) -> None:
    """Sends what native code writes to the error stream to a file; Python's stays where it was."""
    sys.stderr.flush()
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)


def shortage(error: BaseException | None) -> str:
    """Returns how memory ran out if that is what an error, or what led to it, tells; else ''."""
    while error is not None:
        name, text = type(error).__name__, str(error)
        # TensorFlow's own class is not imported, as this module does without TensorFlow.
        if name == "ResourceExhaustedError":
            return f"{name}: {_excerpt(text)}".rstrip(": ")
        if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
            return f"{name}: {' '.join(text.split())[:_EXCERPT]}".rstrip(": ")
        if type(error).__module__.startswith("tensorflow") and _excerpt(text):
            return _excerpt(text)
        error = error.__cause__ or error.__context__
    return ""


def _excerpt(text: str) -> str:
    """Returns the part of the last line that tells of a lack of memory; empty if none does."""
    matches = list(_SHORTAGE.finditer(text))
    if not matches:
        return ""
    start, end = matches[-1].span()
    before = text[max(start - _EXCERPT, 0) : start].rpartition("\n")[2]
    after = text[end : end + _EXCERPT].partition("\n")[0]
    # Without the date, thread and file that a log begins its lines with.
    return re.sub(r"^[A-Z]\d{4} .*?\] ", "", f"{before}{text[start:end]}{after}").strip()
