"""The file of a checkpoint: a state of nested tuples and dictionaries in safetensors and JSON."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from decoupled_descent.training.fingerprint import as_bytes

#: The format that this version reads and writes. It changes with the checksum, too: a file of
#: another version is no damaged file.
FORMAT = "2"
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
    """Put leaves back into the structure that they come from."""
    if not isinstance(like, Mapping | tuple):
        value = values[name]
        return value.to(like.device) if isinstance(like, Tensor) else value
    parts = {key: rebuilt(part, values, f"{name}.{key}") for key, part in _parts(like)}
    if isinstance(like, Mapping):
        return parts
    return type(like)(*parts.values()) if hasattr(like, "_fields") else tuple(parts.values())


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


def _stored(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Copies that share no memory, each tensor once; also which were the same, and the strides.

    The strides matter because the rounding of matrix products depends on the memory layout.
    """
    copies: dict[str, Tensor] = {}
    first: dict[int, str] = {}
    same, strides = {}, {}
    for name, value in tensors.items():
        if (earlier := first.setdefault(id(value), name)) != name:
            same[name] = earlier
            continue
        copy = value.detach().cpu().clone()
        if not copy.is_contiguous():
            strides[name] = copy.stride()
        copies[name] = copy.contiguous()
    return copies, {"same": same, "strides": strides}


def write(
    path: Path, parts: Mapping[str, Any], settings: Mapping[str, Any], made: Mapping[str, Any]
) -> None:
    """Write the leaves of nested parts, the settings of the call and what it was made with.

    When this returns, they are on the disk.
    """
    tensors, plain = flat(parts)
    tensors, layout = _stored(tensors)
    about = {"settings": settings, "plain": plain, **layout, MADE: made}
    text = json.dumps(about)
    metadata = {"format": FORMAT, "about": text, "checksum": content_checksum(tensors, text)}
    save_file(tensors, path, metadata)
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def content_checksum(tensors: Mapping[str, Tensor], text: str) -> str:
    """SHA-256 over names, types, shapes and bytes of tensors, and a text."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"{name}\0{value.dtype}\0{tuple(value.shape)}\0".encode())
        digest.update(as_bytes(value))
    digest.update(text.encode())
    return digest.hexdigest()


def read(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The leaves in a file and the settings of the call that wrote it, after checking the file."""
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        damaged(path, str(error))
    if metadata.get("format", FORMAT) != FORMAT:
        raise ValueError(
            f"{path} has format {metadata['format']!r:.20}, and this version reads {FORMAT}: use "
            "the version that wrote it to continue, or another folder to start anew"
        )
    text = metadata.get("about", "")
    if metadata.get("checksum") != content_checksum(tensors, text):
        damaged(path, "its checksum is wrong")
    about = json.loads(text)
    values: dict[str, Any] = {}
    for name, value in tensors.items():
        stride = about["strides"].get(name)
        like = {"dtype": value.dtype, "device": value.device}
        if stride is not None and not _fits(value, stride):
            damaged(path, f"the strides of {name} do not fit it")
        values[name] = (
            value.clone()  # in its own memory
            if stride is None
            else torch.empty_strided(value.shape, stride, **like).copy_(value)
        )
    values |= {name: values[earlier] for name, earlier in about["same"].items()}
    return values | about["plain"] | {MADE: about[MADE]}, about["settings"]


def _fits(value: Tensor, stride: Any) -> bool:
    """Whether strides lay a tensor out in no more memory than it has."""
    if not isinstance(stride, list) or len(stride) != value.ndim or 0 in value.shape:
        return isinstance(stride, list) and len(stride) == value.ndim
    reach = sum((size - 1) * step for size, step in zip(value.shape, stride, strict=True))
    return bool(reach < value.numel())


def damaged(path: Path, why: str) -> NoReturn:
    """Raise ``ValueError`` for a file that is not as it was written."""
    raise ValueError(
        f"{path} is damaged or no checkpoint ({why}): restore it from a copy to continue, or "
        "delete it to start anew"
    )
