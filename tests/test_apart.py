"""Functions in a process of their own: results, errors, and every way to run out of memory."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time

import pytest

from tft_keras.apart import ProcessError, run_apart, shortage
from tft_keras.errors import InputError


def add(one: int, two: int) -> tuple[int, int]:
    return one + two, os.getpid()


def count_until_killed(total: int):
    yield from range(total)
    os.kill(os.getpid(), signal.SIGKILL)


def fail(error: BaseException) -> None:
    raise error


def abort_saying(text: str) -> None:
    os.write(2, f"a line before\n{text}\n".encode())
    os.abort()


def allocate_beyond_a_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (2**30, hard))
    bytearray(2**31)


def test_the_result_comes_from_another_process():
    ending = run_apart(add, 1, 2)
    ending.check()
    (total, process), *rest = ending.values
    assert total == 3 and process != os.getpid() and not rest


def test_what_was_yielded_before_a_kill_is_not_lost():
    ending = run_apart(count_until_killed, 3)
    assert ending.values == (0, 1, 2)
    assert ending.exit_code == -signal.SIGKILL
    assert "signal 9" in ending.shortage
    with pytest.raises(ProcessError, match=r"ran out of memory: it was killed"):
        ending.check()


def test_a_real_lack_of_memory_is_recognized():
    assert run_apart(allocate_beyond_a_limit).shortage == "MemoryError"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("terminate called after 'std::bad_alloc'", "terminate called after 'std::bad_alloc'"),
        (
            "F0000 00:00:1 1 env.cc:84] Check failed: Thread creation via pthread_create() failed.",
            "Check failed: Thread creation via pthread_create() failed.",
        ),
    ],
)
def test_native_code_that_aborts_for_memory_is_recognized(text, shown, capfd):
    assert run_apart(abort_saying, text).shortage == shown
    assert capfd.readouterr().err == ""


def test_native_code_that_aborts_for_another_reason_is_shown(capfd):
    ending = run_apart(abort_saying, "the disk is on fire")
    assert ending.shortage == "" and ending.exit_code == -signal.SIGABRT
    assert "the disk is on fire" in capfd.readouterr().err
    with pytest.raises(ProcessError, match=r"exit status -6"):
        ending.check()


def test_an_input_error_comes_through():
    with pytest.raises(InputError, match=r"x must be 1"):
        run_apart(fail, InputError("x must be 1.")).check()


def test_an_interruption_comes_through_with_its_message():
    with pytest.raises(KeyboardInterrupt, match=r"last checkpoint"):
        run_apart(fail, KeyboardInterrupt("last checkpoint: here")).check()


def test_other_errors_show_their_traceback(capfd):
    with pytest.raises(ProcessError, match=r"exit status 1"):
        run_apart(fail, ZeroDivisionError("oh")).check()
    assert "ZeroDivisionError: oh" in capfd.readouterr().err


class ResourceExhaustedError(Exception):
    """Stands for TensorFlow's, which is known by its name."""


def _caused_by(cause: BaseException) -> BaseException:
    try:
        raise RuntimeError("reading the table") from cause
    except RuntimeError as error:
        return error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (MemoryError("no room"), "MemoryError: no room"),
        (OSError(12, "Cannot allocate memory"), "OSError: [Errno 12] Cannot allocate memory"),
        (
            ResourceExhaustedError("{{node a}} OOM when allocating tensor"),
            "ResourceExhaustedError: {{node a}} OOM",
        ),
        (_caused_by(MemoryError("inner")), "MemoryError: inner"),
    ],
)
def test_lack_of_memory_is_known_by_the_error(error, text):
    assert shortage(error).startswith(text)


@pytest.mark.parametrize("error", [ValueError("out of memory"), OSError(2, "No such file"), None])
def test_other_errors_are_no_lack_of_memory(error):
    assert shortage(error) == ""


def test_the_process_ends_with_its_parent(tmp_path):
    """A parent killed by force leaves nobody behind."""
    code = f"""
import sys, time
from tft_keras.apart import run_apart
from tests.test_apart import note_and_sleep
if __name__ == "__main__":
    run_apart(note_and_sleep, {str(tmp_path / "pid")!r})
"""
    script = tmp_path / "parent.py"
    script.write_text(code)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(["."])}
    parent = subprocess.Popen([sys.executable, str(script)], env=environment)
    child = int(_content(tmp_path / "pid"))
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 20
    while _is_alive(child):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def note_and_sleep(path: str) -> None:
    with open(path, "w") as file:  # noqa: PTH123
        file.write(f"{os.getpid()}\n")
    time.sleep(60)


def _content(path) -> str:
    deadline = time.monotonic() + 30
    while not path.exists() or not path.read_text().endswith("\n"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return path.read_text()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
