"""Saving iterates while training: safetensors files, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from decoupled_descent.checks import whole_number
from decoupled_descent.files import written_whole
from decoupled_descent.training.callbacks import Step

StateT = TypeVar("StateT")


@dataclass(frozen=True)
class SaveIterates:
    """A callback that writes every k-th iterate to a folder: θ, the head, and all else it carries.

    Files are named by how many updates the state has seen, so that a continued run adds to what is
    there. In a sweep every run has a folder of its own, see :meth:`for_run`.

    Args:
        folder: Where; made if missing.
        every: k.

    Example:
        >>> import tempfile, torch, decoupled_descent as dd
        >>> rows = dd.Rows(*dd.mixtures.signalless(20).sample(10, seed=0))
        >>> objective = dd.Objective(dd.heads.Linear(), "squared")
        >>> algorithm = dd.DecoupledDescent(0.1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save = dd.SaveIterates(folder, every=4)
        ...     run = dd.fit(rows, None, objective, algorithm, 9, callbacks=[save])
        ...     theta, head = dd.load_iterate(save.path(8))
        ...     state = save.load(4, like=algorithm.init(rows, objective))
        >>> bool(torch.equal(theta, run.theta))
        True
        >>> continued = dd.fit(rows, None, objective, algorithm, 5, state=state)
        >>> bool(torch.equal(continued.theta, run.theta))
        True
    """

    folder: str | Path
    every: int = 10

    def __post_init__(self) -> None:
        """Check the options and make the folder."""
        whole_number("every", self.every)
        Path(self.folder).mkdir(parents=True, exist_ok=True)

    def for_run(self, name: str) -> SaveIterates:
        """Return the same for one run of a sweep, in a folder with its name.

        Args:
            name: One of ``sweep.names``; for :func:`tune`, the settings: ``"lr=1 damping=0.95
                ridge=3"``.

        Returns:
            A callback whose :meth:`path` and :meth:`load` are those of the run.
        """
        return replace(self, folder=Path(self.folder) / quote(name, safe=" =,#+()[]"))

    def path(self, step: int) -> Path:
        """Where the iterate after this many updates goes."""
        return Path(self.folder) / f"step-{step:06d}.safetensors"

    def __call__(self, step: Step) -> None:
        """Save every k-th iterate."""
        made = getattr(step.state, "step", step.index)
        if made % self.every:
            return
        parts = dict(leaves(step.state))
        if "theta" not in parts:  # a state of the user's own making
            parts = dict(leaves({"theta": step.state.theta, "head": step.state.head}))
        tensors = {
            name: value.clone(memory_format=torch.contiguous_format)  # a file shares no memory
            for name, value in parts.items()
            if isinstance(value, Tensor)
        }
        rest = {k: v for k, v in parts.items() if isinstance(v, int | float | str)}
        metadata = {"train_error": repr(step.train_error), "step": str(made)}
        metadata["rest"] = json.dumps(rest)
        with written_whole(self.path(made)) as partial:
            save_file(tensors, partial, metadata)

    def load(self, step: int, like: StateT) -> StateT:
        """Read a whole state, from which ``fit(…, state=…)`` goes on as if it had never stopped.

        Args:
            step: After how many updates.
            like: A state of the same algorithm and head, such as ``algorithm.init(rows,
                objective)``.
        """
        path = self.path(step)
        tensors, rest = _read(path)
        found, wanted = tensors | rest, dict(leaves(like))
        for name in wanted | found:
            has, wants = (_kind(each.get(name)) for each in (found, wanted))
            if has != wants:
                raise ValueError(
                    f"{path} holds {has} for {name!r}, but like has {wants}; give a state of the "
                    "algorithm, the head and the rows that the file comes from"
                )
        return _rebuilt(like, found)  # type: ignore[no-any-return]


def load_iterate(path: str | Path) -> tuple[Tensor, dict[str, Tensor]]:
    """Read the model in an iterate that :class:`SaveIterates` wrote.

    Args:
        path: A file.

    Returns:
        θ, shape (L, d), and the head's parameters by name; ``objective.module(head)`` makes a
        module of them. To continue training, take the whole state: :meth:`SaveIterates.load`.
    """
    tensors, _ = _read(path)
    head = {
        name.removeprefix("head."): value
        for name, value in tensors.items()
        if name.startswith("head.")
    }
    return tensors["theta"], head


def leaves(state: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the tensors and numbers of a state of (named) tuples and dictionaries.

    Their names are such as ``"head.1.weight"`` and ``"slots.0.1"``.
    """
    if not isinstance(state, Mapping | tuple):
        yield name, state
        return
    for key, part in _parts(state):
        yield from leaves(part, f"{name}.{key}" if name else key)


def _parts(state: Mapping[str, Any] | tuple[Any, ...]) -> list[tuple[str, Any]]:
    if isinstance(state, Mapping):
        return list(state.items())
    names = getattr(state, "_fields", None) or [str(k) for k in range(len(state))]
    return list(zip(names, state, strict=True))


def _rebuilt(like: Any, found: Mapping[str, Any], name: str = "") -> Any:
    """Put leaves back into the structure that they come from."""
    if not isinstance(like, Mapping | tuple):
        return found[name].to(like, copy=True) if isinstance(like, Tensor) else found[name]
    parts = {
        key: _rebuilt(part, found, f"{name}.{key}" if name else key) for key, part in _parts(like)
    }
    if isinstance(like, Mapping):
        return parts
    return type(like)(*parts.values()) if hasattr(like, "_fields") else tuple(parts.values())


def _kind(value: Any) -> str:
    """What two states must agree about in a leaf: its type, and shape and dtype of tensors."""
    if isinstance(value, Tensor):
        return f"{value.dtype} of shape {tuple(value.shape)}"
    return "nothing" if value is None else type(value).__name__


def _read(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a file, and what else its state consists of."""
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            rest = json.loads((file.metadata() or {}).get("rest", "{}"))
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(f"{path} is not a saved iterate: {error}") from error
    if "theta" not in tensors:
        raise ValueError(f"{path} holds no theta; it was not written by SaveIterates")
    return tensors, rest
