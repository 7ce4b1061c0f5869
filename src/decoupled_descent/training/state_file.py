"""The file of a checkpoint: the tensors and numbers of nested tuples and dictionaries, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

from decoupled_descent.tensor_file import read_tensors, write_tensors

#: The format that this version reads and writes.
FORMAT = 3
#: The name under which a file keeps what its run was made with.
MADE = "made with"


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


def rebuilt(like: Any, values: Mapping[str, Any], name: str) -> Any:
    """Put leaves back into the structure that they come from; raise ``TypeError`` for others."""
    if not isinstance(like, Mapping | tuple):
        value = values[name]
        if not isinstance(like, Tensor):
            if like is not None and type(value) is not type(like):
                raise TypeError(f"{name} is not a {type(like).__name__}")
            return value
        fits = isinstance(value, Tensor) and value.dtype == like.dtype
        if not fits or grown(like.shape, value.shape) != value.shape:
            raise TypeError(f"{name} is not a {like.dtype} of shape {tuple(like.shape)}")
        return value.to(like.device)
    parts = {key: rebuilt(part, values, f"{name}.{key}") for key, part in _parts(like)}
    if isinstance(like, Mapping):
        return parts
    return type(like)(*parts.values()) if hasattr(like, "_fields") else tuple(parts.values())


def grown(start: torch.Size, now: torch.Size) -> torch.Size:
    """The shape at the start of a run; axes that are empty then have their present length."""
    if len(start) != len(now):
        return start
    return torch.Size(b if a == 0 else a for a, b in zip(start, now, strict=True))


def flat(parts: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Divide leaves into tensors and what goes into JSON; refuse anything else."""
    tensors, plain = {}, {}
    for name, value in leaves(parts):
        if isinstance(value, Tensor):
            tensors[name] = value
        elif value is None or isinstance(value, bool | int | float | str | list):
            plain[name] = value
        else:
            raise ValueError(
                f"checkpoint: {name} is a {type(value).__name__}, which no checkpoint can hold; "
                "states consist of tensors, numbers, (named) tuples and dictionaries"
            )
    return tensors, plain


def _layout(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Each tensor once; also which were the same, and the strides of those that are not contiguous.

    The strides matter because the rounding of matrix products depends on the memory layout.
    """
    once: dict[str, Tensor] = {}
    first: dict[int, str] = {}
    same, strides = {}, {}
    for name, value in tensors.items():
        if (earlier := first.setdefault(id(value), name)) != name:
            same[name] = earlier
            continue
        once[name] = value
        copy = torch.empty_like(value, device="meta")  # strides as of a clone
        if not copy.is_contiguous():
            strides[name] = copy.stride()
    return once, {"same": same, "strides": strides}


def write(
    path: Path, parts: Mapping[str, Any], settings: Mapping[str, Any], made: Mapping[str, Any]
) -> None:
    """Write the leaves of nested parts, the settings of the call and what it was made with."""
    tensors, plain = flat(parts)
    tensors, layout = _layout(tensors)
    content = {"format": FORMAT, "settings": settings, "plain": plain, **layout, MADE: made}
    write_tensors(path, tensors, content)


def read(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The leaves in a file and the settings of the call that wrote it, after checking the file."""
    try:
        tensors, content = read_tensors(path)
    except (OSError, ValueError) as error:
        damaged(path, str(error))
    if content.get("format") != FORMAT:
        raise ValueError(
            f"{path} has format {content.get('format')!r:.20}, and this version reads {FORMAT}: "
            "use the version that wrote it to continue, or another folder to start anew"
        )
    values: dict[str, Any] = {}
    for name, value in tensors.items():
        stride = content["strides"].get(name)
        if stride is not None and not _fits(value, stride):
            damaged(path, f"the strides of {name} do not fit it")
        values[name] = (
            value
            if stride is None
            else torch.empty_strided(value.shape, stride, dtype=value.dtype).copy_(value)
        )
    values |= {name: values[earlier] for name, earlier in content["same"].items()}
    return values | content["plain"] | {MADE: content[MADE]}, content["settings"]


def _fits(value: Tensor, stride: Any) -> bool:
    """Whether strides lay a tensor out in no more memory than it has."""
    if not isinstance(stride, list) or len(stride) != value.ndim or 0 in value.shape:
        return isinstance(stride, list) and len(stride) == value.ndim
    reach = sum((size - 1) * step for size, step in zip(value.shape, stride, strict=True))
    return bool(min(stride) >= 0 and reach < value.numel())


def damaged(path: Path, why: str) -> NoReturn:
    """Raise ``ValueError`` for a file that is not as it was written."""
    why = why.removeprefix(f"{path}: ").removeprefix(f"{path} ").splitlines()[0].split(";")[0]
    raise ValueError(
        f"{path} is damaged or no checkpoint ({why:.200}): restore it from a copy to continue, or "
        "delete it to start anew"
    )
