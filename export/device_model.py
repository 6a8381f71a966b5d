"""A quantized model as an int8 device runs it."""

from __future__ import annotations

from export.inference import inference_model
from tft_keras.config import input_name
from tft_keras.layers.input_embedding import Embedded, concatenate
from tft_keras.layers.network_tables import REAL_ROWS, all_codes, network_tables
from tft_keras.model import TemporalFusionTransformer
from tft_keras.quantization.control import observers_of

_SELECTIONS = {"static": ("static",), "history": ("observed", "known"), "future": ("known",)}


def device_model(
    model: TemporalFusionTransformer, rounds_sums: bool = False
) -> TemporalFusionTransformer:
    """Returns the inference model that takes real inputs divided by their sizes, in its tables.

    What each variable's own network makes of each of its codes is computed here, once.

    Args:
        model: quantized, its observers calibrated; see `QuantizedInputs` and `NetworkTables`.
        rounds_sums: whether it rounds its sums as the runtime does, as the trained model does;
            a graph to be converted leaves that to the runtime.
    """
    copy = inference_model(model)
    for name, roles in _SELECTIONS.items():
        selection = getattr(copy, f"{name}_selection", None)
        if selection is not None:
            embedded, categories = _every_value(copy, roles)
            outputs = selection.network_outputs(embedded)
            selection.tables = network_tables(outputs, selection.real, categories)
    copy.quantized_inputs.takes_quotients = True
    for observers in observers_of(copy).values():
        observers.rounds_sums = rounds_sums
    return copy


def _every_value(
    model: TemporalFusionTransformer, roles: tuple[str, ...]
) -> tuple[Embedded, tuple[int, ...]]:
    """Returns embedded variables, each in all of its values, and the numbers of categories."""
    config, sizes = model.config, model.quantized_inputs.known_sizes()
    categories = config.categories(*roles)
    rows = max((REAL_ROWS, *categories))
    parts = []
    with model.observing_vectors(False) as observe:
        for role in roles:
            real, codes = all_codes(config.real(role), config.categories(role), rows)
            inputs = {input_name(role, "real"): real, input_name(role, "categorical"): codes}
            parts.append(model.embed_role(role, inputs, sizes, observe))
    parts = [part for part in parts if part is not None]
    return concatenate(parts), categories
