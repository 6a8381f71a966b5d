"""Which parts of the model gradient checkpointing recomputes: blocks, and tiers of them."""

from __future__ import annotations

from tft_keras.errors import InputError, nearest

BLOCKS = (
    "static_encoder",
    "history_encoder",
    "future_encoder",
    "lstm_encoder",
    "lstm_decoder",
    "temporal_attention",
    "variable_selection",
)
# From the weakest to the strongest.
TIERS = {"off": (), "aggressive": BLOCKS[:6], "full": BLOCKS}


def blocks_of(choice: str | tuple[str, ...]) -> tuple[str, ...]:
    """Returns the blocks of a tier, or the blocks listed.

    Raises:
        InputError: there is no such tier or block.
    """
    names = TIERS.get(choice) if isinstance(choice, str) else tuple(choice)
    for name in (choice,) if names is None else names:
        if names is None or name not in BLOCKS:
            raise InputError(
                f"gradient_checkpointing is one of {', '.join(TIERS)}, or lists blocks out of "
                f"{', '.join(BLOCKS)}. Received: gradient_checkpointing={choice!r}."
                f"{nearest(str(name), (*TIERS, *BLOCKS))}"
            )
    return names
