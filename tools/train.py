"""Trains a Temporal Fusion Transformer on a parquet table and writes a run folder.

Without arguments it trains on the demonstration table (flights from New York, 2013):
  python -m tools.train
On a table of your own:
  python -m tools.train --parquet_file sales.parquet --target sales --time month --group store,item
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pathlib
import time
from typing import Any

from tft_keras.commands import command, settings
from tft_keras.config import DataConfig, ModelConfig, TrainingConfig
from tft_keras.errors import InputError

FLAGS = command.Flags(__doc__, flatten=settings.flatten)
with FLAGS.group("Input and output"):
    FLAGS.string(
        "parquet_file",
        None,
        "Parquet file, folder of parquet files, or glob. Without one: the demonstration table.",
    )
    FLAGS.string("run_dir", None, "Folder of the run. Default: runs/<date and time>.")
    FLAGS.boolean("resume", False, "Go on with the run in --run_dir from its last checkpoint.")
    FLAGS.string("load_model", None, "Start from the weights of this .keras file or run folder.")
    FLAGS.string("save_model", None, "Save the trained model as this .keras file, too.")
    FLAGS.boolean(
        "compare_accuracy",
        False,
        "With --use_qat and a float --load_model: compare float, post-training quantization and "
        "training with frozen and with live observers on the validation split.",
    )
settings.define(FLAGS)

# With these the demonstration beats both baselines in less than three minutes on two cores.
DEMO = {
    "hidden_size": 32,
    "epochs": 4,
    "windows_per_epoch": 5120,
    "learning_rate": 3e-3,
    "learning_rate_decay": "cosine",
}
_LISTED = 5


def main(flags: command.Values) -> None:
    """Trains a new run, or goes on with one."""
    if flags.save_model and not flags.save_model.endswith(".keras"):
        raise InputError(
            f"save_model must end in .keras. Received: save_model={flags.save_model!r}."
        )
    if not flags.auto_gradient_checkpointing:
        _attempt(flags)
        return
    from tft_keras.retry import train_with_retry

    if not flags.resume and not flags.run_dir:
        flags.run_dir = _new_run_dir()
    train_with_retry(functools.partial(_attempt, flags), flags.run_dir or "")


def _attempt(flags: command.Values, tier: str | None = None) -> None:
    """Trains; on from the last checkpoint in another tier, if the one before ran out of memory."""
    with command.one_line_warnings():
        if flags.resume or tier:
            _resume(flags, tier)
        else:
            _start(flags)


def _start(flags: command.Values) -> None:
    path = flags.run_dir or _new_run_dir()
    tier = settings.gradient_checkpointing(flags)
    # What can be wrong without a look at the table shall be said at once.
    settings.config(flags, ModelConfig, _demo(flags), encoder_steps=1, horizon=1)
    settings.config(flags, TrainingConfig, _demo(flags), gradient_checkpointing=tier)
    source, schema, data_config = _data_settings(flags)
    command.import_tensorflow()
    from tft_keras.data import prepare
    from tft_keras.training import NonFiniteLossError, Run, RunConfig, check_load_model, suited

    Run.check_free(path)
    data = prepare(source, schema, data_config)
    chosen = suited(len(data.train), validated=len(data.validation) > 0)
    if flags.load_model and pathlib.Path(flags.load_model).is_dir():
        start = Run.open(flags.load_model).config.model
        chosen |= {name: getattr(start, name) for name in settings.MODEL_SETTINGS}
    defaults = chosen | _demo(flags)
    model = settings.config(flags, ModelConfig, defaults, **data.preprocessing.model_sizes())
    training = settings.config(flags, TrainingConfig, defaults, gradient_checkpointing=tier)
    if flags.load_model:
        names = data.preprocessing.variable_names()
        check_load_model(flags.load_model, model, names, training.use_qat)
    config = RunConfig(schema, data_config, model, training, source, _absolute(flags.load_model))
    if flags.compare_accuracy:
        _compare(Run(path, config), data)
        return
    run = Run.create(path, config, data.preprocessing)
    told = flags.given_flags | {*_demo(flags)}
    if chosen := [f"{name} {value}" for name, value in chosen.items() if name not in told]:
        print(f"chosen for this table: {', '.join(chosen)}")
    try:
        _train(run, data, flags)
    except NonFiniteLossError:
        raise
    except InputError:
        # The same command, put right, shall find a free folder.
        run.discard()
        raise


def _compare(run: Any, data: Any) -> None:
    from tft_keras import atomic
    from tft_keras.commands.progress import Progress
    from tft_keras.training import compare_accuracy, comparison

    results = compare_accuracy(run, data, lambda: [Progress(run.config.training.epochs)])
    file = run.path / "comparison.json"
    atomic.write_text(file, json.dumps(results, indent=1))
    print(f"{comparison.table(results)}\nas JSON: {file}")


def _resume(flags: command.Values, tier: str | None) -> None:
    if not flags.run_dir:
        raise InputError("--resume needs the run to go on with. Received: no --run_dir.")
    command.import_tensorflow()
    from tft_keras.data import prepare_again
    from tft_keras.evaluation import table_of
    from tft_keras.training import Run

    run = Run.open(flags.run_dir)
    changes = {"gradient_checkpointing": tier} if tier else _changes(flags)
    if not tier:
        _check_same_settings(flags, run.config.to_dict())
    training = dataclasses.replace(run.config.training, **changes)
    if training != run.config.training:
        run.config = dataclasses.replace(run.config, training=training)
        run.write_config()
    data = prepare_again(table_of(run, flags.parquet_file), run.preprocessing())
    _train(run, data, flags)


def _changes(flags: command.Values) -> dict[str, Any]:
    """What a resumed run may change; a tier changes the memory that training takes, and no more."""
    changes = {}
    if "epochs" in flags.given_flags:
        changes["epochs"] = flags.epochs
    if flags.given_flags & {"gradient_checkpointing", "use_gradient_checkpointing"}:
        changes["gradient_checkpointing"] = settings.gradient_checkpointing(flags)
    return changes


def _new_run_dir() -> str:
    return time.strftime("runs/%Y-%m-%d_%H-%M-%S")


def _train(run: Any, data: Any, flags: command.Values) -> None:
    from tft_keras.commands.progress import Progress, duration
    from tft_keras.training import train

    progress = Progress(run.config.training.epochs)
    callbacks = [progress]
    if run.config.training.use_qat:
        callbacks.append(_observer_report(run))
    print(f"run {run.path}\n{data.describe()}")
    if data.skipped:
        print(_skipped(data.skipped))
    began = time.monotonic()
    try:
        model = train(run, data, callbacks=callbacks)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_last_checkpoint(run)) from None
    except InputError:
        progress.break_off()
        raise
    if flags.save_model:
        _save(run, pathlib.Path(flags.save_model))
    print(_report(run, model, duration(time.monotonic() - began), flags))


def _observer_report(run: Any) -> Any:
    """A callback that prints what the observers know when training begins, and keeps it."""
    import tf_keras as keras

    from tft_keras import atomic
    from tft_keras.quantization import report_table

    def report(logs: dict[str, float] | None = None) -> None:
        rows = callback.model.observer_report()
        atomic.write_text(run.path / "observers.json", json.dumps(rows, indent=1))
        print(f"{report_table(rows)}\nas JSON: {run.path / 'observers.json'}")

    callback = keras.callbacks.LambdaCallback(on_train_begin=report)
    return callback


def _save(run: Any, path: pathlib.Path) -> None:
    from tft_keras import atomic

    with atomic.replacing(path) as temporary:
        # Not the compiled one: the file shall load where only the model's classes are known.
        run.model().save(temporary)


def _report(run: Any, model: Any, took: str, flags: command.Values) -> str:
    state = run.checkpoints.state(run.checkpoints.last())
    # Epoch 0 are the weights that training started from.
    best = {"val_loss": state.best_loss}
    if state.best_epoch:
        best = state.history[state.best_epoch - 1]
    losses = [
        f"{title} {best[name]:.4f}"
        for name, title in (("loss", "loss"), ("val_loss", "validation loss"))
        if name in best
    ]
    lines = [
        f"trained {state.epoch} epochs in {took}, {model.count_params():,} weights",
        f"best epoch {state.best_epoch}: {', '.join(losses)}",
        f"weights: {run.checkpoints.final()}",
        *([f"model: {flags.save_model}"] if flags.save_model else []),
        f"next: python -m tools.evaluate --run_dir {run.path}",
    ]
    return "\n".join(lines)


def _skipped(skipped: Any) -> str:
    listed = [f"{', '.join(map(str, s.name))} ({s.rows} of {s.needed} rows)" for s in skipped]
    more = "" if len(listed) <= _LISTED else f" and {len(listed) - _LISTED} more"
    return f"{len(listed)} series too short for a window: {'; '.join(listed[:_LISTED])}{more}"


def _last_checkpoint(run: Any) -> str:
    last = run.checkpoints.last()
    where = "none yet" if last is None else run.checkpoints.path(last)
    return f"last checkpoint: {where}; go on with --run_dir {run.path} --resume"


def _data_settings(flags: command.Values) -> tuple[str, Any, DataConfig]:
    """The table's path, its schema and the data config; the demonstration's without a table."""
    roles = settings.roles(flags)
    if flags.parquet_file:
        missing = [f"--{name}" for name in ("target", "time") if name not in roles]
        if missing:
            raise InputError(
                "A table needs at least the roles target and time. "
                f"Received: no {' and no '.join(missing)}. Give them as flags or in --schema."
            )
        from tft_keras.data import Schema

        source = _absolute(flags.parquet_file)
        return source, Schema.from_dict(roles), settings.config(flags, DataConfig)
    if roles:
        raise InputError(
            "The demonstration table has its column roles. "
            f"Received: {', '.join(roles)} without --parquet_file. Name a table."
        )
    from tft_keras.data import demo

    config = settings.config(flags, DataConfig, demo.demo_config().to_dict())
    return str(demo.demo_table()), demo.demo_schema(), config


def _check_same_settings(flags: command.Values, stored: dict[str, Any]) -> None:
    """A resumed run keeps its settings but for these and the table's path."""
    stored = settings.flatten(stored)
    free = {"epochs", "gradient_checkpointing", "parquet_file"}
    for name in sorted(flags.given_flags & set(stored) - free):
        ours, theirs = settings.value(flags, name), stored[name]
        theirs = tuple(theirs) if isinstance(theirs, list) else theirs
        if name == "load_model":
            ours = _absolute(ours)
        if ours != theirs:
            raise InputError(
                "A run is resumed with the settings it was started with, except epochs and "
                f"gradient_checkpointing. Received: {name}={ours!r}, started with {theirs!r}. "
                "Leave the flag out or start a new run."
            )


def _demo(flags: command.Values) -> dict[str, Any]:
    return {} if flags.parquet_file else DEMO


def _absolute(path: str | None) -> str | None:
    return None if path is None else os.path.abspath(path)  # noqa: PTH100 (a glob is no Path)


if __name__ == "__main__":
    command.run(main, FLAGS)
