"""Measures a part of the project.

python -m tools.benchmark feeding --help
"""

from __future__ import annotations

import importlib
import sys

from tft_keras.commands import command
from tft_keras.errors import nearest

BENCHMARKS = {
    "feeding": "How fast windows come from a table, and the memory this takes.",
    "inference": "How fast exported files run, their size and memory, beside Keras.",
    "training": "How fast models train, what they take, and how another library compares.",
}


def main(arguments: list[str]) -> int:
    """Runs the benchmark that the first argument names and returns the exit status."""
    if not arguments or arguments[0] in ("-h", "--help", "-help"):
        print(f"{__doc__.strip()}\n\nBenchmarks:")
        for name, what in BENCHMARKS.items():
            print(f"  {name}\n      {what}")
        return 0
    if arguments[0] not in BENCHMARKS:
        hint = nearest(arguments[0], BENCHMARKS)
        known = ", ".join(BENCHMARKS)
        print(
            f"error: There are the benchmarks {known}. Received: {arguments[0]}.{hint}",
            file=sys.stderr,
        )
        return command.EXIT_ERROR
    module = importlib.import_module(f"tools.benchmark.{arguments[0]}")
    sys.argv = [f"tools.benchmark {arguments[0]}", *arguments[1:]]
    command.run(module.main, module.FLAGS)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
