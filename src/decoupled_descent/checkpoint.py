"""Saving iterates while training: safetensors files, written whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from decoupled_descent.callbacks import Step


@dataclass(frozen=True)
class SaveIterates:
    """A callback that writes θ and the head of every k-th iterate to a folder.

    Args:
        folder: Where; made if missing.
        every: k.

    Example:
        >>> import tempfile, torch, decoupled_descent as dd
        >>> X, y = dd.mixtures.signalless(20).sample(10, seed=0)
        >>> objective = dd.Objective(dd.heads.Linear(), "squared")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save = dd.SaveIterates(folder, every=4)
        ...     run = dd.fit(X, y, objective, dd.DecoupledDescent(0.1), 9, callbacks=[save])
        ...     theta, head = dd.load_iterate(save.path(8))
        >>> bool(torch.equal(theta, run.theta))
        True
    """

    folder: str | Path
    every: int = 10

    def __post_init__(self) -> None:
        """Check the options and make the folder."""
        if self.every < 1:
            raise ValueError(f"every={self.every!r} must be at least 1")
        Path(self.folder).mkdir(parents=True, exist_ok=True)

    def path(self, index: int) -> Path:
        """Where the iterate with this index goes."""
        return Path(self.folder) / f"step-{index:06d}.safetensors"

    def __call__(self, step: Step) -> None:
        """Save the iterate if its turn has come."""
        if step.index % self.every:
            return
        tensors = {"theta": step.state.theta}
        tensors |= {f"head.{name}": value for name, value in step.state.head.items()}
        target = self.path(step.index)
        partial = target.with_name(f".{target.name}.partial")
        metadata = {"train_error": repr(step.train_error), "step": str(step.index)}
        contiguous = {name: value.contiguous() for name, value in tensors.items()}
        save_file(contiguous, partial, metadata)
        partial.replace(target)


def load_iterate(path: str | Path) -> tuple[Tensor, dict[str, Tensor]]:
    """Read an iterate that :class:`SaveIterates` wrote.

    Args:
        path: A file.

    Returns:
        θ, shape (L, d), and the head's parameters by name; ``objective.module(head)`` makes a
        module of them.
    """
    try:
        tensors = load_file(path)
    except (SafetensorError, FileNotFoundError) as error:
        raise ValueError(f"{path} is not a saved iterate: {error}") from error
    if "theta" not in tensors:
        raise ValueError(f"{path} holds no theta; it was not written by SaveIterates")
    theta = tensors.pop("theta")
    return theta, {name.removeprefix("head."): value for name, value in tensors.items()}
