"""The arguments of a call as text by name: two calls are the same if their texts agree."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cached_property, partial
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from decoupled_descent.objective import BoundObjective, Objective
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.tensor_file import as_bytes

#: Packages whose functions and classes are identified by their names, besides Python's own. Those
#: of other packages are identified by their code.
KNOWN = ("decoupled_descent", "numpy", "torch")


def described(asked: Mapping[str, Any]) -> dict[str, str]:
    """Describe arguments part by part; tensors by their checksums, functions by their code.

    Example:
        >>> described({"steps": 5, "rates": (0.1, 0.2)})
        {'steps': '5', 'rates.0': '0.1', 'rates.1': '0.2'}
    """
    return dict(_parts(asked, "", ()))


def checksum(*parts: Tensor | bytes) -> str:
    """Sixteen hexadecimal digits that depend on all of the content."""
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(as_bytes(part) if isinstance(part, Tensor) else part)
    return digest.hexdigest()


def _parts(value: Any, name: str, within: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    """Yield the parts of a value, each with its name; ``within`` are the values around it."""
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        yield name, repr(value.item() if isinstance(value, np.generic) else value)
    elif isinstance(value, Tensor | np.ndarray):
        tensor = value if isinstance(value, Tensor) else torch.as_tensor(value, device="cpu")
        yield name, f"{tensor.dtype} {tuple(tensor.shape)} with checksum {checksum(tensor)}"
    elif id(value) not in within:
        for key, part in _inside(value):
            inner = f"{name}.{key}" if name and key else name or key
            yield from _parts(part, inner, (*within, id(value)))


def _inside(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a value consists of, by name."""
    if isinstance(value, Mapping):
        yield from ((str(key), part) for key, part in value.items())
    elif isinstance(value, tuple | list):
        names = getattr(value, "_fields", range(len(value)))
        yield from ((str(key), part) for key, part in zip(names, value, strict=True))
    elif isinstance(value, Rows):
        shape = f"{value.like.dtype} {(value.n, value.d)} with checksum "
        yield "X", shape + checksum(*(block.X for block in value.blocks()))
        names = ("y", "weights", "groups", "block_size")
        yield from ((key, getattr(value, key)) for key in names)
    elif isinstance(value, BoundObjective | Objective):
        value = getattr(value, "objective", value)
        names = ("head", "loss", "curvature", "width", "theta")
        yield from ((key, getattr(value, key)) for key in names)
    elif isinstance(value, partial):
        yield from (("", value.func), ("args", value.args), *value.keywords.items())
    elif isinstance(value, MethodType):
        yield from (("", value.__func__), ("self", value.__self__))
    elif isinstance(value, FunctionType):
        code = "" if _known(value) else f" with checksum {checksum(_text(value.__code__).encode())}"
        yield "function", f"{value.__module__}.{value.__qualname__}{code}"
        cells = enumerate(value.__closure__ or ())
        yield from ((f"closure.{k}", cell.cell_contents) for k, cell in cells)
        yield from (("defaults", value.__defaults__ or ()), ("", value.__kwdefaults__ or {}))
    elif isinstance(value, type):
        yield "kind", f"{value.__module__}.{value.__qualname__}"
        yield from _methods(value)
    elif isinstance(value, Enum) or not hasattr(value, "__dict__"):
        text = repr(sorted(map(repr, value)) if isinstance(value, set | frozenset) else value)
        yield "", text.split(" at 0x")[0]  # addresses differ from process to process
    else:
        yield "", type(value)
        yield from _of_object(value)


def _of_object(value: Any) -> Iterator[tuple[str, Any]]:
    """The options of a dataclass, and the public attributes of anything else."""
    if is_dataclass(value):
        yield from ((each.name, getattr(value, each.name)) for each in fields(value) if each.init)
        return
    yield from (
        (key, part)
        for key, part in vars(value).items()
        if not key.startswith("_")
        and key != "training"
        and not isinstance(getattr(type(value), key, None), cached_property)  # follows from them
    )
    if isinstance(value, nn.Module):
        own = (*value.named_parameters(recurse=False), *value.named_buffers(recurse=False))
        yield from own
        yield "trained", [key for key, part in own if part.requires_grad]
        yield from value.named_children()


def _known(value: Any) -> bool:
    """Whether a function or a class is known by its name, its code being that of a version."""
    package = str(value.__module__).split(".")[0]
    return package in KNOWN or package in sys.stdlib_module_names


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    """The functions of a class and of those it inherits from, except for known ones."""
    for each in kind.__mro__:
        for name, held in () if _known(each) else vars(each).items():
            function = getattr(held, "fget", getattr(held, "__func__", held))  # of properties, …
            if isinstance(function, FunctionType):
                yield f"{each.__name__}.{name}", function


def _text(code: CodeType) -> str:
    """The code of a function as text that is the same in every process."""
    constants = [
        _text(each)
        if isinstance(each, CodeType)
        else repr(sorted(map(repr, each)) if isinstance(each, frozenset) else each)
        for each in code.co_consts
    ]
    return f"{code.co_code.hex()} {code.co_names} {constants}"
