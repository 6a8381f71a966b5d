"""How far a training has come, apart from weights and optimizer."""

from __future__ import annotations

import dataclasses
from typing import Any

WATCHED = "val_loss"


@dataclasses.dataclass(frozen=True)
class TrainingState:
    """What must be known beside weights and optimizer to go on as if never stopped.

    Args:
        epoch: epochs completed.
        best_epoch: the epoch, counted from 1, with the lowest validation loss; without a
            validation split the last one; 0 before the first.
        best_loss: the validation loss of `best_epoch`.
        epochs_without_better: epochs since `best_epoch`, the early-stopping count.
        history: one dict of metrics per completed epoch.
    """

    epoch: int = 0
    best_epoch: int = 0
    best_loss: float | None = None
    epochs_without_better: int = 0
    history: tuple[dict[str, float], ...] = ()

    def after_epoch(self, metrics: dict[str, float]) -> TrainingState:
        """Returns the state after one more epoch with these metrics."""
        epoch = self.epoch + 1
        loss = metrics.get(WATCHED)
        better = loss is None or self.best_loss is None or loss < self.best_loss
        return TrainingState(
            epoch=epoch,
            best_epoch=epoch if better else self.best_epoch,
            best_loss=loss if better else self.best_loss,
            epochs_without_better=0 if better else self.epochs_without_better + 1,
            history=(*self.history, {"epoch": epoch, **metrics}),
        )

    def is_over(self, epochs: int, patience: int) -> bool:
        """Says whether training ends here: all epochs are done, or it stops early.

        Args:
            epochs: epochs to train in all.
            patience: epochs without a better validation loss before stopping; 0 never stops.
        """
        return self.epoch >= epochs or 0 < patience <= self.epochs_without_better

    def to_dict(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return {**dataclasses.asdict(self), "history": list(self.history)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainingState:
        """Makes the state from `to_dict`'s result."""
        return cls(**{**values, "history": tuple(values["history"])})
