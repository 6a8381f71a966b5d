import subprocess
import sys

import pytest

from tft_keras.commands import command
from tools import make_table
from tools.benchmark import __main__ as benchmark
from tools.benchmark import feeding


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("feeding") / "made.parquet"
    make_table.write_table(path, rows=6000, columns=6, series=4, rows_per_group=2000, seed=0)
    return path


@pytest.mark.parametrize("cached", [False, True])
def test_all_windows_are_fed_once(table, tmp_path, cached):
    roles = command.read_json(make_table.schema_path(table), "--schema")
    settings = {"encoder_steps": 24, "horizon": 6, "cache": str(tmp_path) if cached else None}
    figures = feeding.measure(str(table), roles, settings, 32, 0, 0)
    assert figures["rows"] == 6000
    assert figures["windows fed"] == figures["training windows"] == 4 * (1200 - 29)
    assert figures["windows per second"] > 0
    assert figures["peak MiB, whole process"] >= figures["peak MiB, preparing"] > 0
    assert bool(list(tmp_path.iterdir())) == cached


def test_the_command_prints_the_figures(table):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tools.benchmark", "feeding", f"--parquet-file={table}"),
            *("--encoder-steps=24", "--horizon=6", "--windows=500"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    figures = dict(line.rsplit(maxsplit=1) for line in done.stdout.splitlines())
    assert figures["windows fed"] == "500"
    assert float(figures["windows per second"].replace(",", "")) > 0
    assert float(figures["peak MiB, whole process"].replace(",", "")) < 2048


def test_help_and_wrong_names_are_answered_without_heavy_imports():
    code = (
        "import sys, tools.benchmark.feeding, tools.make_table, tools.benchmark.__main__\n"
        "sys.exit(bool({'tensorflow', 'pyarrow', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_benchmarks_are_listed_and_misspelt_ones_refused(capsys):
    assert benchmark.main(["--help"]) == 0
    assert "feeding" in capsys.readouterr().out
    assert benchmark.main(["feding"]) == command.EXIT_ERROR
    assert "Did you mean 'feeding'?" in capsys.readouterr().err


@pytest.mark.slow
def test_ten_million_rows_are_fed_within_two_gibibytes(tmp_path):
    path = tmp_path / "big.parquet"
    make_table.write_table(path, 10_000_000, 20, 1000, 250_000, 0)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tools.benchmark", "feeding", f"--parquet_file={path}"),
            *(f"--cache={tmp_path}", "--windows=500000"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    figures = dict(line.rsplit(maxsplit=1) for line in done.stdout.splitlines())
    assert float(figures["peak MiB, whole process"].replace(",", "")) < 2048
