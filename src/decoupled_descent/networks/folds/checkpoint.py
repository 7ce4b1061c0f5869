"""Stacked folds as :func:`continued` saves them: an interrupted training continues bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from decoupled_descent.networks.folds.record import Epoch, epochs_of
from decoupled_descent.networks.folds.training import FoldTraining
from decoupled_descent.training.callbacks import StopReason
from decoupled_descent.training.checkpoint import resumable


@dataclass
class FoldCheckpoint:
    """A training between two epochs, with the random numbers of batches and of dropout.

    Learning rate schedules are not saved: they are made anew, and moved as often as before.

    Args:
        training: The copies, at the start.
        generator: Draws the batches.
        callbacks: Those with ``state_dict`` are saved, too.
        X: The inputs of all rows.
        replay: Moves the schedules as in these epochs.
        reason: Why training ended, if it did in an earlier call.
    """

    training: FoldTraining
    generator: torch.Generator
    callbacks: Sequence[Any]
    X: Tensor
    replay: Callable[[list[Epoch]], None]
    reason: StopReason | None = None

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to continue after an epoch."""
        random = {"batches": self.generator.get_state(), "all": torch.get_rng_state()}
        if self.training.device.type == "cuda":
            random["device"] = torch.cuda.get_rng_state(self.training.device)
        return {
            "training": self.training.state_dict(),
            "random": random,
            "callbacks": [each.state_dict() for each in resumable(self.callbacks)],
            "reason": self.reason,
        }

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`."""
        self.replay(epochs_of(saved["training"]["record"])[1:])
        self.training.load_state_dict(saved["training"], self.X)
        self.generator.set_state(saved["random"]["batches"])
        torch.set_rng_state(saved["random"]["all"])
        if self.training.device.type == "cuda":
            torch.cuda.set_rng_state(saved["random"]["device"], self.training.device)
        for callback, state in zip(resumable(self.callbacks), saved["callbacks"], strict=True):
            callback.load_state_dict(state)
        self.reason = None if saved["reason"] is None else StopReason(saved["reason"])
