"""Measures what each tier of gradient checkpointing takes: memory, time, the largest batch.

At the default sizes, those of TFT-225, this takes some minutes:
  python -m tools.memory
At the sizes of a run of yours:
  python -m tools.memory --config runs/RUN/config.json --plot memory.png

Every tier, and every block by itself, trains a few steps on random windows in a process of its own.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import sys
from typing import Any

from tft_keras.commands import command
from tft_keras.config import ROLES, ModelConfig, TrainingConfig, input_name
from tft_keras.errors import InputError
from tft_keras.tiers import BLOCKS, TIERS
from tools import memory_report
from tools.sizes import TFT_225

_CATEGORICAL = tuple(input_name(role, "categorical") for role in ROLES)


def flatten(content: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings in a `--config` file, which may be a run's `config.json`."""
    if not isinstance(content.get("model"), dict):
        return content
    training = content.get("training", {})
    return content["model"] | {
        name: training[name]
        for name in ("batch_size", "precision", "selection_group_size")
        if name in training
    }


FLAGS = command.Flags(__doc__, flatten=flatten)
with FLAGS.group("Sizes"):
    for _role in ROLES:
        FLAGS.integer(input_name(_role, "real"), TFT_225.real(_role), f"Real {_role} inputs.")
        FLAGS.numbers(
            input_name(_role, "categorical"),
            (),
            f"Numbers of categories of the {_role} categorical inputs.",
        )
    FLAGS.integer("encoder_steps", TFT_225.encoder_steps, "Past rows of a window.")
    FLAGS.integer("horizon", TFT_225.horizon, "Future rows of a window.")
    FLAGS.integer("hidden_size", TFT_225.hidden_size, "The paper's d_model.")
    FLAGS.integer("num_heads", TFT_225.num_heads, "Attention heads.")
    FLAGS.number("dropout", TFT_225.dropout, "Share of units dropped.")
    FLAGS.numbers("quantiles", TFT_225.quantiles, "Quantiles forecast.")
with FLAGS.group("Training"):
    FLAGS.integer("batch_size", 64, "Windows of a step; a half and a quarter are measured, too.")
    FLAGS.string("precision", "float32", "One of float32, mixed_bfloat16, mixed_float16.")
    FLAGS.integer("selection_group_size", 0, "Variables at once; 0 chooses it from the sizes.")
    FLAGS.boolean(
        "use_qat", False, "Measure quantization-aware training, and a float step beside it."
    )
    FLAGS.boolean("freeze_qat_observers", True, "With --use_qat: with frozen observers, or live.")
with FLAGS.group("Measuring"):
    FLAGS.integer("steps", 4, "Measured steps of each batch size.")
    FLAGS.boolean("blocks", True, "Whether to measure each block by itself, too.")
with FLAGS.group("Output"):
    FLAGS.string("json", None, "Write all figures to this JSON file.")
    FLAGS.string("plot", None, "Draw a bar chart into this file (png, svg, pdf).")


def main(flags: command.Values) -> None:
    """Measures, then prints the table and the recommendation."""
    command.require_positive(flags, "steps")
    if flags.batch_size < 4:
        raise InputError(
            "batch_size must be at least 4, as its half and quarter are measured, too. "
            f"Received: batch_size={flags.batch_size}."
        )
    if flags.plot:
        import matplotlib  # noqa: F401 (to fail before, not after, all is measured)
    run_config = _run_config(flags)
    measured = _measure(run_config, flags)
    report = memory_report.report(run_config, measured)
    print(memory_report.text(report))
    if flags.json:
        from tft_keras import atomic

        atomic.write_text(flags.json, json.dumps(report, indent=1))
    if flags.plot:
        memory_report.plot(report, pathlib.Path(flags.plot))


def _run_config(flags: command.Values) -> Any:
    sizes = {name: getattr(flags, name) for name in FLAGS.names() if hasattr(TFT_225, name)}
    for name in _CATEGORICAL:
        sizes[name] = tuple(int(count) for count in sizes[name])
    model = ModelConfig(**sizes)
    training = TrainingConfig(
        batch_size=flags.batch_size,
        precision=flags.precision,
        selection_group_size=flags.selection_group_size,
        use_qat=flags.use_qat,
        freeze_qat_observers=flags.use_qat and flags.freeze_qat_observers,
        qat_calibration_batches=1 if flags.use_qat else 0,
    )
    command.import_tensorflow()
    from tft_keras.training.measuring import run_on_noise

    return run_on_noise(model, training)


def _measure(config: Any, flags: command.Values) -> dict[str, list[Any]]:
    """Returns the `StepMemory` of each batch size by tier, and by block."""
    from tft_keras.apart import run_apart
    from tft_keras.training.measuring import measure_steps

    # The C library gives each thread an arena of its own for small blocks and keeps there what was
    # freed, by which equal runs differ by a hundred MB. One arena for all shows what is needed.
    os.environ.setdefault("MALLOC_ARENA_MAX", "1")
    whole = flags.batch_size
    plan = {tier: (config, tier, (whole // 4, whole // 2, whole)) for tier in TIERS}
    if flags.blocks:
        plan |= {block: (config, (block,), (whole,)) for block in BLOCKS}
    if flags.use_qat:
        plan[memory_report.FLOAT] = (_without_qat(config), "off", (whole,))
    measured = {}
    for number, (name, arguments) in enumerate(plan.items(), 1):
        print(f"measuring {number}/{len(plan)}: {name}", file=sys.stderr, flush=True)
        ending = run_apart(measure_steps, *arguments, flags.steps)
        if not ending.shortage:
            ending.check()
        # A tier that does not fit at the full size is measured at the smaller ones.
        measured[name] = list(ending.values)
    return measured


def _without_qat(config: Any) -> Any:
    off = {"use_qat": False, "freeze_qat_observers": False, "qat_calibration_batches": 0}
    return dataclasses.replace(config, training=dataclasses.replace(config.training, **off))


if __name__ == "__main__":
    command.run(main, FLAGS)
