"""Flags, help, settings files, and how a command ends."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import warnings

import pytest

from tft_keras.commands import command
from tft_keras.errors import InputError


def _flags() -> command.Flags:
    flags = command.Flags("Says hello.")
    with flags.group("Greeting"):
        flags.string("name", "world", "Whom to greet.")
        flags.integer("batch_size", 3, "How many at once.")
        flags.number("rate", 0.5, "How fast.")
        flags.strings("known", (), "What is known.")
        flags.numbers("quantiles", (0.1, 0.9), "Which quantiles.")
        flags.choice("tier", "off", ("off", "full"), "How much.")
        flags.boolean("resume", False, "Whether to go on.")
    return flags


def _parsed(*arguments: str) -> command.Values:
    return _flags().parse(arguments)


def test_defaults():
    flags = _parsed()
    assert (flags.name, flags.batch_size, flags.rate, flags.tier) == ("world", 3, 0.5, "off")
    assert flags.known == ()
    assert flags.quantiles == (0.1, 0.9)
    assert flags.resume is False
    assert flags.given_flags == set()


@pytest.mark.parametrize("arguments", [["--batch-size=7"], ["--batch_size", "7"]])
def test_dashes_and_underscores_are_the_same(arguments):
    flags = _parsed(*arguments)
    assert flags.batch_size == 7
    assert flags.given_flags == {"batch_size"}


def test_a_dash_in_a_value_stays():
    assert _parsed("--name=well-known").name == "well-known"
    assert _parsed("--rate", "-0.25").rate == -0.25


@pytest.mark.parametrize("argument", ["--noresume", "--no-resume", "--no_resume"])
def test_a_boolean_can_be_switched_off(argument):
    assert _parsed("--resume").resume is True
    assert _parsed("--resume", argument).resume is False


def test_lists():
    flags = _parsed("--known=a, b", "--quantiles=0.2,0.8")
    assert flags.known == ("a", "b")
    assert flags.quantiles == (0.2, 0.8)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--bacth-size=4", r"Received: --bacth_size\. Did you mean '--batch_size'\?"),
        ("--batch_size=x", r"--batch_size=x: invalid literal"),
        ("--tier=half", r"value should be one of <off\|full>"),
        ("--quantiles=low", r"--quantiles=low: could not convert"),
        ("data.parquet", r"Received: 'data\.parquet'"),
    ],
)
def test_wrong_arguments(argument, message):
    with pytest.raises(InputError, match=message):
        _parsed(argument)


def test_a_settings_file_gives_the_same_settings_and_flags_win(tmp_path):
    path = tmp_path / "settings.json"
    content = {
        "batch-size": 9,
        "known": ["x", "y"],
        "quantiles": [0.5],
        "rate": 1,
        "resume": True,
        "name": None,
    }
    path.write_text(json.dumps(content))
    flags = _parsed(f"--config={path}", "--rate=2")
    assert flags.batch_size == 9
    assert flags.known == ("x", "y")
    assert flags.quantiles == (0.5,)
    assert flags.rate == 2.0
    assert flags.resume is True
    assert flags.name == "world"
    assert flags.given_flags == {"config", "batch_size", "known", "quantiles", "rate", "resume"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"batchsize": 9}', r"Received: batchsize=9 in .*Did you mean 'batch_size'"),
        ('{"batch_size": 9.5}', r"Received: batch_size=9\.5 in "),
        ('{"batch_size": [9]}', r"Received: batch_size=\[9\] in "),
        ("[1]", r"one JSON object\. Received: .* with a list"),
        ("{", r"must be JSON"),
    ],
)
def test_wrong_settings_files(tmp_path, content, message):
    path = tmp_path / "settings.json"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        _parsed(f"--config={path}")


def test_a_settings_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"Received: .*none\.json \(No such file"):
        _parsed(f"--config={tmp_path / 'none.json'}")


def test_a_settings_file_in_another_layout_is_flattened(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text('{"greeting": {"rate": 4}}')
    flags = command.Flags("Says hello.", flatten=lambda content: content["greeting"])
    flags.number("rate", 0.5, "How fast.")
    assert flags.parse([f"--config={path}"]).rate == 4.0


def test_a_flag_may_have_any_name():
    flags = command.Flags("Says hello.")
    for name in ("group", "parse", "names", "string"):
        flags.string(name, None, "A name that definitions use, too.")
    assert flags.parse(["--group=a", "--parse=b"]).group == "a"


def test_parsing_anew_forgets_what_was_given():
    flags = _flags()
    flags.parse(["--rate=2"])
    assert flags.parse([]) == _parsed()


def test_help_lists_every_flag_with_its_help_and_default(capsys):
    assert command.status(_fail, _flags(), ["--help", "--wrong"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Says hello.")
    for line in ("Greeting:", "How many at once. Default: 3.", "One of off, full. Default: off."):
        assert line in text
    for name in _flags().names():
        assert f"--{name}\n" in text


def _fail(flags: command.Values) -> None:
    raise InputError("x must be 1.\nReceived: x=2.")


def test_an_input_error_is_one_line_and_status_1(capsys):
    assert command.status(_fail, _flags(), []) == 1
    captured = capsys.readouterr()
    assert captured.err == "error: x must be 1. Received: x=2.\n"
    assert captured.out == ""


def test_a_files_error_is_one_line_and_status_1(capsys, tmp_path):
    def main(flags: command.Values) -> None:
        (tmp_path / "none" / "file").write_text("")

    assert command.status(main, _flags(), []) == 1
    assert re.fullmatch(r"error: .*No such file.*none/file'\n", capsys.readouterr().err)


def test_other_errors_keep_their_traceback():
    def broken(flags: command.Values) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        command.status(broken, _flags(), [])


def test_an_interruption_is_status_130(capsys):
    def interrupted(flags: command.Values) -> None:
        raise KeyboardInterrupt("last checkpoint: here")

    assert command.status(interrupted, _flags(), []) == 130
    assert capsys.readouterr().err.strip() == "interrupted; last checkpoint: here"


def test_warnings_to_the_user_are_one_line_and_others_are_silent(capsys):
    def warn(flags: command.Values) -> None:
        warnings.simplefilter("always")
        warnings.warn("column a is constant", UserWarning, stacklevel=1)
        warnings.warn("old", DeprecationWarning, stacklevel=1)

    assert command.status(warn, _flags(), []) == 0
    assert capsys.readouterr().err == "warning: column a is constant\n"


def test_positive_numbers():
    command.require_positive(_parsed(), "batch_size")
    with pytest.raises(InputError, match=r"Received: batch_size=0"):
        command.require_positive(_parsed("--batch_size=0"), "batch_size")


@pytest.mark.parametrize("tool", ["train", "evaluate", "forecast"])
@pytest.mark.parametrize("argument", ["--help", "--wrong=1"])
def test_help_and_flag_errors_come_at_once(tool, argument):
    # The fastest of three: other work on the machine is not the command's fault.
    took = []
    for _ in range(3):
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", f"tools.{tool}", argument], capture_output=True, text=True
        )
        took.append(time.perf_counter() - began)
    assert done.returncode == (0 if argument == "--help" else 1)
    assert "Traceback" not in done.stderr
    assert min(took) < 0.5
