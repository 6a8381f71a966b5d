"""The report of `tools.memory`: figures derived from the measured ones, as text and as bars."""

from __future__ import annotations

import pathlib
from typing import Any

from tft_keras.config import input_name
from tft_keras.step_memory import MemoryLine
from tft_keras.tiers import TIERS

FLOAT = "float, off"
DEVICES = (4, 8, 12, 16, 24, 48, 80)
MEGABYTE = 2**20
GIGABYTE = 2**30
# The rest of a device goes to its driver, to libraries and to gaps between tensors.
USABLE = 0.9
# A tier that saves a smaller share is not worth its time.
_WORTHWHILE = 0.1


def report(config: Any, measured: dict[str, list[Any]]) -> dict[str, Any]:
    """Returns all figures as plain JSON values; memory in bytes.

    Args:
        config: the `RunConfig` measured.
        measured: `StepMemory` of rising batch sizes by tier, and of one by block.
    """
    batch_size = config.training.batch_size
    whole = {name: _at(steps, batch_size) for name, steps in measured.items()}
    any_step = next(step for steps in measured.values() for step in steps)
    tiers = {name: _figures(whole[name], whole["off"]) for name in TIERS}
    for name, figures in tiers.items():
        figures["by_batch_size"] = {s.batch_size: s.activations for s in measured[name]}
        figures["largest_batch"] = _largest_batches(measured[name])
    return {
        "model": config.model.to_dict(),
        "batch_size": batch_size,
        "precision": config.training.precision,
        "device": any_step.device,
        "parameters": any_step.parameters,
        "state": any_step.state,
        "gradients": any_step.gradients,
        "tiers": tiers,
        "blocks": {
            name: _figures(step, whole["off"])
            for name, step in whole.items()
            if name not in (*TIERS, FLOAT)
        },
        "use_qat": config.training.use_qat,
        "float": _figures(whole[FLOAT], whole[FLOAT]) if FLOAT in whole else None,
        "recommendation": recommendation(tiers, batch_size),
    }


def _at(steps: list[Any], batch_size: int) -> Any:
    return next((step for step in steps if step.batch_size == batch_size), None)


def _figures(step: Any, off: Any) -> dict[str, Any]:
    """Memory and time of a tier or block, and against those of `off`; None where unknown."""
    measured = ("activations", "process", "seconds", "processor_seconds")
    figures: dict[str, Any] = dict.fromkeys((*measured, "share", "overhead", "saved_per_percent"))
    if step is None:
        return figures
    figures |= {name: getattr(step, name) for name in measured}
    if off is None or step is off:
        return figures
    overhead = 100 * (step.seconds / off.seconds - 1)
    figures |= {"share": step.activations / max(off.activations, 1), "overhead": overhead}
    # Below a percent the quotient would be noise.
    if overhead >= 1:
        figures["saved_per_percent"] = (off.activations - step.activations) / overhead
    return figures


def _largest_batches(steps: list[Any]) -> dict[int, int]:
    """Predicts the largest batch by a device's GB from a tier's measured batch sizes."""
    if not steps:
        return dict.fromkeys(DEVICES, 0)
    line = MemoryLine.through([s.batch_size for s in steps], [s.activations for s in steps])
    return {size: line.largest_batch(USABLE * size * GIGABYTE - steps[0].state) for size in DEVICES}


def recommendation(tiers: dict[str, dict[str, Any]], batch_size: int) -> list[str]:
    """Returns, line by line, which tier to train in and which to leave alone."""
    useless = [name for name, figures in tiers.items() if (figures["share"] or 0) > 1 - _WORTHWHILE]
    lines = [
        f"{name} is not worth it here: it saves {1 - tiers[name]['share']:.0%} of the peak."
        for name in useless
    ]
    choices: dict[str, list[int]] = {}
    for size in DEVICES:
        fitting = (
            name
            for name, figures in tiers.items()
            if name not in useless and figures["largest_batch"][size] >= batch_size
        )
        choices.setdefault(next(fitting, ""), []).append(size)
    for name, sizes in choices.items():
        devices = f"{sizes[0]} GB" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} GB"
        if name:
            lines.append(f"batch size {batch_size} on {devices}: {name}")
        else:
            most = tiers["full"]["largest_batch"][sizes[-1]]
            lines.append(f"batch size {batch_size} on {devices}: too large, full takes {most:,}")
    return lines


def text(report: dict[str, Any]) -> str:
    """Returns the report as tables."""
    model = report["model"]
    counts = [
        f"{model[input_name(role, 'real')] + len(model[input_name(role, 'categorical')])} {role}"
        for role in ("static", "observed", "known")
    ]
    state = report["state"] + report["gradients"]
    lines = [
        f"{', '.join(counts)} inputs, {model['encoder_steps']} encoder steps, horizon "
        f"{model['horizon']}, hidden size {model['hidden_size']}, batch size "
        f"{report['batch_size']}, {report['precision']}, on {report['device']}"
        + (", quantization-aware" if report["use_qat"] else ""),
        f"{report['parameters']:,} parameters; weights, optimizer and gradients "
        f"{state / MEGABYTE:,.0f} MB",
        "",
        _HEAD,
        *(_row(name, figures) for name, figures in report["tiers"].items()),
    ]
    if report["blocks"]:
        lines += ["", "one block alone", *(_row(*item) for item in report["blocks"].items())]
    if report["float"]:
        lines += ["", _row(FLOAT, report["float"]), *_against_float(report)]
    devices = "".join(f"{size:>7} GB" for size in DEVICES)
    lines += ["", f"{'largest batch on':<20}{devices}"]
    for name, figures in report["tiers"].items():
        batches = "".join(f"{figures['largest_batch'][size]:>10,}" for size in DEVICES)
        lines.append(f"{name:<20}{batches}")
    return "\n".join([*lines, "", "recommendation", *report["recommendation"]])


_HEAD = (
    f"{'':<20}{'activations':>13}{'of off':>9}{'step':>10}{'overhead':>10}"
    f"{'saved per % overhead':>23}"
)


def _against_float(report: dict[str, Any]) -> list[str]:
    """Returns how much longer quantization-aware steps take than a float one."""
    base = report["float"]["seconds"]
    times = {name: figures["seconds"] for name, figures in report["tiers"].items()}
    return [
        f"a quantization-aware step in {name} takes {seconds / base:.2f} times as long"
        for name, seconds in times.items()
        if seconds and base
    ]


def _row(name: str, figures: dict[str, Any]) -> str:
    def cell(key: str, width: int, form: str, scale: float = 1.0) -> str:
        value = figures[key]
        return f"{'-' if value is None else form.format(value / scale):>{width}}"

    if figures["seconds"] is None:
        return f"{name:<20}{'does not fit':>13}"
    return (
        f"{name:<20}"
        + cell("activations", 13, "{:,.0f} MB", MEGABYTE)
        + cell("share", 9, "{:.0%}")
        + cell("seconds", 10, "{:.3f} s")
        + cell("overhead", 10, "{:+.0f} %")
        + cell("saved_per_percent", 23, "{:,.0f} MB", MEGABYTE)
    )


def plot(report: dict[str, Any], path: pathlib.Path) -> None:
    """Draws peak activation memory as bars, with each one's time against that of `off`."""
    from matplotlib.figure import Figure

    bars = report["tiers"] | report["blocks"]
    bars = {name: figures for name, figures in bars.items() if figures["activations"] is not None}
    figure = Figure(figsize=(8, 1.2 + 0.4 * len(bars)), layout="constrained")
    axes = figure.add_subplot()
    sizes = [figures["activations"] / MEGABYTE for figures in bars.values()]
    colours = ["tab:blue" if name in report["tiers"] else "lightsteelblue" for name in bars]
    drawn = axes.barh(list(bars), sizes, color=colours)
    labels = [
        f"{size:,.0f} MB" + ("" if f["overhead"] is None else f", {f['overhead']:+.0f} % time")
        for size, f in zip(sizes, bars.values(), strict=True)
    ]
    axes.bar_label(drawn, labels, padding=3)
    axes.invert_yaxis()
    axes.margins(x=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(f"peak activation memory in MB, batch size {report['batch_size']}")
    axes.set_title("tiers of gradient checkpointing, and single blocks", loc="left")
    figure.savefig(path, dpi=120)
