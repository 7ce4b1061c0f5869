"""Checkpoints of stacked folds: an interrupted training continues bit for bit.

Between two epochs the state is that of the training, and the random numbers of batches and of
dropout. Learning rate schedules are not saved: they are made anew, and moved as often as before.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

import decoupled_descent
from decoupled_descent.networks.folds.record import Epoch, epochs_of
from decoupled_descent.networks.folds.training import FoldTraining
from decoupled_descent.training.checkpoint import lasting
from decoupled_descent.training.checkpoint_file import Checkpoint, CheckpointFile
from decoupled_descent.training.state_file import damaged


class FoldSaver:
    """Saves a training with stacked folds, and continues from what an earlier call saved.

    Args:
        checkpoint: Where, and how often; a step is an epoch.
        asked: The arguments of the call.
        training: The copies, at the start.
        generator: Draws the batches.
        callbacks: Those with ``state_dict`` are saved, too.

    Attributes:
        message: Why training ended, if it did in an earlier call.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        asked: Mapping[str, Any],
        training: FoldTraining,
        generator: torch.Generator,
        callbacks: list[Any],
    ) -> None:
        self._training, self._generator = training, generator
        self._callbacks: list[Any] = lasting(callbacks)
        self.message: str | None = None
        assignment, record = training.assignment, training.record
        rows = {"assignment": assignment, "groups": record.groups, "weights": record.weights}
        self._file = CheckpointFile(checkpoint, {**asked, **rows, "callbacks": self._callbacks})

    def close(self) -> None:
        """Let other calls have the folder."""
        self._file.close()

    def take_up(self, x: Tensor, replay: Callable[[list[Epoch]], None]) -> None:
        """Continue from the last save, if there is one.

        Args:
            x: Any batch of two or more rows.
            replay: Moves the schedules as in these epochs, before the optimisers are restored.
        """
        saves = self._file.saves()
        if not saves:
            return
        try:
            self._restore(saves[0], x, replay)
        except (LookupError, TypeError, AttributeError, RuntimeError, ValueError) as error:
            damaged(self._file.path, f"{type(error).__name__}: {error}")

    def __call__(self, epoch: int) -> None:
        """Save after an epoch if it is time to."""
        if self._file.due(epoch - 1):
            self.write()

    def write(self, message: str | None = None) -> None:
        """Replace the file; the message says that training ended."""
        training, state = self._training, self._training.state_dict()
        states = {str(k): _flat(each) for k, each in enumerate(state["optimizers"])}
        random = {"batches": self._generator.get_state(), "all": torch.get_rng_state()}
        if training.device.type == "cuda":
            random["device"] = torch.cuda.get_rng_state(training.device)
        parts = {
            "training": {**state, "optimizers": states},
            "random": random,
            "callbacks": [each.state_dict() for each in self._callbacks],
            "message": message,
        }
        made = {
            "decoupled_descent": decoupled_descent.__version__,
            "torch": torch.__version__,
            "machine": platform.machine(),
            "threads": torch.get_num_threads(),
            "device": str(training.device),
        }
        self._file.write(parts, made)

    def _restore(
        self, values: Mapping[str, Any], x: Tensor, replay: Callable[[list[Epoch]], None]
    ) -> None:
        training = self._training
        record = _within(values, "training.record")
        replay(epochs_of(record)[1:])
        states = [
            _unflat(each, _within(values, f"training.optimizers.{k}"))
            for k, each in enumerate(training.optimizers)
        ]
        state = {
            "weights": _within(values, "training.weights"),
            "kept": _within(values, "training.kept"),
            "labels": values["training.labels"],
            "record": record,
            "optimizers": states,
        }
        training.load_state_dict(state, x)
        self._generator.set_state(values["random.batches"])
        torch.set_rng_state(values["random.all"])
        if training.device.type == "cuda":
            torch.cuda.set_rng_state(values["random.device"], training.device)
        for callback, content in zip(self._callbacks, values["callbacks"], strict=True):
            callback.load_state_dict(content)
        self.message = values["message"]


def _flat(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state of an optimiser by names; keys that are numbers go into a list."""
    memory = {}
    for place, held in state["state"].items():
        for index, value in enumerate(held.values()):
            if not (value is None or isinstance(value, Tensor | bool | int | float | str)):
                raise ValueError(
                    f"checkpoint: the optimiser has a {type(value).__name__} in its memory, which "
                    "no checkpoint can hold; leave checkpoint out, or use another optimiser"
                )
            memory[f"{place} {index}"] = value
    options = {
        f"{place} {name}": list(value) if isinstance(value, tuple) else value
        for place, group in enumerate(state["param_groups"])
        for name, value in group.items()
        if name != "params"
    }
    names = [[place, list(held)] for place, held in state["state"].items()]
    return {"names": names, "memory": memory, "options": options}


def _unflat(optimizer: Optimizer, values: Mapping[str, Any]) -> dict[str, Any]:
    """The state of an optimiser like this one from what :func:`_flat` made of it."""
    memory = {
        place: {name: values[f"memory.{place} {index}"] for index, name in enumerate(names)}
        for place, names in values["names"]
    }
    groups = optimizer.state_dict()["param_groups"]
    for place, group in enumerate(groups):
        for name in group.keys() - {"params"}:
            result = values[f"options.{place} {name}"]
            group[name] = tuple(result) if isinstance(group[name], tuple) else result
    return {"state": memory, "param_groups": groups}


def _within(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The entries of one part, by their names within it."""
    prefix = f"{name}."
    return {key.removeprefix(prefix): v for key, v in values.items() if key.startswith(prefix)}
