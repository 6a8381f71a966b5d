"""Trains pytorch-forecasting's Temporal Fusion Transformer on random windows, for comparison.

It runs as a module in a process, and may be in an environment, of its own: beside the standard
library it imports PyTorch, pytorch-forecasting, and of this project what needs no more than that.
"""

from __future__ import annotations

import contextlib
import json
import operator
import pathlib
import statistics
import subprocess
import sys
import time
from typing import Any

from tft_keras import process_memory
from tft_keras.config import ROLES, input_name

_ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
_WAY_OUT = "Install it: pip install 'tft-keras[peer]', or name an interpreter by --peer_python."


def require(python: str) -> None:
    """Raises `InputError` if the interpreter has no pytorch-forecasting."""
    from tft_keras.errors import InputError

    code = "import importlib.util as u, sys; sys.exit(u.find_spec('pytorch_forecasting') is None)"
    try:
        found = subprocess.run([python, "-c", code], check=False).returncode == 0
    except OSError:
        found = False
    if not found:
        raise InputError(
            f"The comparison needs pytorch-forecasting. Received: none in {python}. {_WAY_OUT}"
        )


def measure_apart(python: str, **settings: Any) -> dict[str, Any]:
    """Runs `measure(**settings)` by another interpreter and returns its figures."""
    done = subprocess.run(
        [python, "-W", "ignore", "-m", "tools.benchmark.peer", json.dumps(settings)],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"The peer's process ended with exit status {done.returncode}.")
    return json.loads(done.stdout.splitlines()[-1])


def measure(model: dict[str, Any], batch_size: int, steps: int, precision: str) -> dict[str, Any]:
    """Trains as `tools.benchmark.training.measure` does: Adam, quantile loss, clipped gradients.

    Args:
        model: a `ModelConfig` as a dict, with real inputs only.
        batch_size: windows of a step.
        steps: measured steps; two more warm up before.
        precision: `float32`, or `mixed_bfloat16` for PyTorch's autocast.
    """
    import torch

    started = process_memory.in_use()
    began = time.perf_counter()
    network, loss = build(model)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    inputs, targets = _windows(model, batch_size)

    def step() -> float:
        optimizer.zero_grad()
        reduced = precision == "mixed_bfloat16"
        context = torch.autocast("cpu", torch.bfloat16) if reduced else contextlib.nullcontext()
        with context:
            prediction = network(inputs)["prediction"]
        value = loss(prediction.float(), targets)
        value.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        return value.item()

    step()
    first_step = time.perf_counter() - began
    step()
    times = []
    for _ in range(steps):
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    return {
        "first_step": first_step,
        "seconds": min(times),
        "median_seconds": statistics.median(times),
        "memory": max(process_memory.peak() - started, 0),
    }


def build(model: dict[str, Any]) -> tuple[Any, Any]:
    """Returns the network of the same sizes, in training mode, and its loss."""
    from pytorch_forecasting import TemporalFusionTransformer
    from pytorch_forecasting.metrics import QuantileLoss

    names = {
        role: [f"{role}_{place}" for place in range(model[input_name(role, "real")])]
        for role in ROLES
    }
    loss = QuantileLoss(quantiles=list(model["quantiles"]))
    network = TemporalFusionTransformer(
        hidden_size=model["hidden_size"],
        hidden_continuous_size=model["hidden_size"],
        attention_head_size=model["num_heads"],
        dropout=model["dropout"],
        output_size=len(model["quantiles"]),
        loss=loss,
        max_encoder_length=model["encoder_steps"],
        static_categoricals=[],
        static_reals=names["static"],
        time_varying_categoricals_encoder=[],
        time_varying_categoricals_decoder=[],
        time_varying_reals_encoder=names["known"] + names["observed"],
        time_varying_reals_decoder=names["known"],
        x_reals=names["static"] + names["known"] + names["observed"],
        x_categoricals=[],
        embedding_sizes={},
        embedding_paddings=[],
        embedding_labels={},
    )
    network.output_transformer = operator.itemgetter("prediction")  # targets are scaled already
    return network.train(), loss


def _windows(model: dict[str, Any], batch_size: int) -> tuple[dict[str, Any], Any]:
    import torch

    torch.manual_seed(0)
    past, horizon = model["encoder_steps"], model["horizon"]
    reals = sum(model[input_name(role, "real")] for role in ROLES)
    inputs = {
        "encoder_cont": torch.randn(batch_size, past, reals),
        "decoder_cont": torch.randn(batch_size, horizon, reals),
        "encoder_cat": torch.zeros(batch_size, past, 0, dtype=torch.long),
        "decoder_cat": torch.zeros(batch_size, horizon, 0, dtype=torch.long),
        "encoder_lengths": torch.full((batch_size,), past),
        "decoder_lengths": torch.full((batch_size,), horizon),
        "target_scale": torch.tensor([[0.0, 1.0]]).repeat(batch_size, 1),
    }
    return inputs, torch.randn(batch_size, horizon)


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
