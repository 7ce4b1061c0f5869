"""The format of all files that are read again: tensors, and a description of them in JSON.

Models and checkpoints are safetensors files. The header holds the description and a SHA-256 of the
tensors and the description, so damaged and edited files are noticed. Reading a file runs no code.
PyTorch is imported for the tensors only, so that a command can look at a description at once.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

#: The name of the model file in a folder.
MODEL_FILE = "model.safetensors"
#: The version of model files, which is in their description.
MODEL_FORMAT = 1
#: The names of the description and of the checksum in the header.
DESCRIPTION, CHECKSUM = "decoupled-descent", "sha256"
#: Words for a file that is something else, and what to do.
OURS = "a model or checkpoint of decoupled-descent"
REMEDY = "name the file or folder that train wrote"
#: Bytes; the limit of safetensors itself.
LONGEST_HEADER = 100_000_000


def model_file(path: str | os.PathLike[str]) -> Path:
    """Return the file of a model, which is given by its name or by its folder."""
    path = Path(path)
    return path / MODEL_FILE if path.is_dir() else path


def read_header(path: Path) -> tuple[str, str]:
    """Return the description, as JSON text, and the checksum; the tensors are not read.

    Raises ``OSError`` if the file cannot be read, and ``ValueError`` if it has no description.
    """
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = file.read(min(size, LONGEST_HEADER))
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path} does not exist; name a file or folder of train") from error
    except OSError as error:
        raise OSError(f"{path} cannot be read ({error.strerror or error})") from error
    try:
        metadata = json.loads(header)["__metadata__"]
        text, checksum = metadata[DESCRIPTION], metadata[CHECKSUM]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is not {OURS}, or it was truncated; {REMEDY}") from error
    if not isinstance(text, str) or not isinstance(checksum, str):
        raise ValueError(f"{path} is not {OURS}; {REMEDY}")
    return text, checksum


def is_model(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a model of this library, of any version, perhaps damaged."""
    try:
        read_header(Path(path))
    except (OSError, ValueError):
        return False
    return True


def write_tensors(path: Path, tensors: Mapping[str, Tensor], description: object) -> None:
    """Write tensors and their description; use it within :func:`files.written_whole`.

    Example:
        >>> import tempfile, torch
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "a.safetensors")
        ...     write_tensors(path, {"x": torch.ones(2)}, {"kind": "example"})
        ...     read_tensors(path)
        ({'x': tensor([1., 1.])}, {'kind': 'example'})
    """
    import torch
    from safetensors.torch import save_file

    tensors = {  # cloned: tensors that share memory must not share it in a file
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in tensors.items()
    }
    text = json.dumps(description, sort_keys=True, separators=(",", ":"))
    save_file(tensors, path, {DESCRIPTION: text, CHECKSUM: content_checksum(tensors, text)})


def read_tensors(path: Path) -> tuple[dict[str, Tensor], Any]:
    """Return the tensors and the description of a file, after comparing the checksum.

    Raises ``OSError`` if the file cannot be read, ``ValueError`` if it is not as it was written.
    """
    from safetensors.torch import load

    return _read(path, load)


def packed(value: Any, tensors: dict[str, Tensor], name: str = "") -> Any:
    """Describe nested tuples, lists and dictionaries in JSON; their tensors go to ``tensors``.

    The order of a tensor's axes in memory is kept, because the rounding of products depends on it.

    Example:
        >>> import torch
        >>> tensors = {}
        >>> tree = packed({"a": (1, torch.ones(2))}, tensors)
        >>> tree
        {'items': [['a', {'tuple': [1, {'tensor': 'a.1', 'axes': [0]}]}]]}
        >>> unpacked(tree, tensors)
        {'a': (1, tensor([1., 1.]))}
    """
    if hasattr(value, "stride"):
        axes = sorted(range(value.ndim), key=lambda axis: -value.stride(axis))
        stored = next((key for key, each in tensors.items() if each is value), name)
        tensors[stored] = value
        return {"tensor": stored, "axes": axes}
    value = value._asdict() if hasattr(value, "_asdict") else value
    inner = f"{name}." if name else ""
    if isinstance(value, Mapping):
        return {"items": [[k, packed(v, tensors, f"{inner}{k}")] for k, v in value.items()]}
    if isinstance(value, tuple | list):
        parts = [packed(each, tensors, f"{inner}{k}") for k, each in enumerate(value)]
        return {"tuple": parts} if isinstance(value, tuple) else parts
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(
        f"{name} is a {type(value).__name__}, which no file can hold; states consist of tensors, "
        "numbers, texts, tuples, lists and dictionaries"
    )


def unpacked(tree: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The value that :func:`packed` has described; named tuples are dictionaries."""
    match tree:
        case {"tensor": name, "axes": axes}:
            back = [axes.index(axis) for axis in range(len(axes))]
            return tensors[name].permute(axes).contiguous().permute(back)
        case {"items": items}:
            return {key: unpacked(each, tensors) for key, each in items}
        case {"tuple": parts}:
            return tuple(unpacked(each, tensors) for each in parts)
        case list():
            return [unpacked(each, tensors) for each in tree]
    return tree


def read_arrays(path: Path) -> tuple[dict[str, Any], Any]:
    """As :func:`read_tensors`, for NumPy: PyTorch is not imported."""
    from safetensors.numpy import load

    return _read(path, load)


def _read(path: Path, load: Callable[[bytes], dict[str, Any]]) -> tuple[dict[str, Any], Any]:
    from safetensors import SafetensorError

    text, checksum = read_header(path)
    try:
        numbers = load(path.read_bytes())
    except OSError as error:
        raise OSError(f"{path} cannot be read ({error.strerror or error})") from error
    except (SafetensorError, KeyError, TypeError) as error:
        raise ValueError(f"{path} was damaged ({error!s:.200})") from error
    if content_checksum(numbers, text) != checksum:
        raise ValueError(f"{path}: the checksum is wrong: the file was damaged or edited")
    try:
        return numbers, json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: its description cannot be read ({error!s:.200})") from None


def content_checksum(tensors: Mapping[str, Any], text: str) -> str:
    """SHA-256 over names, types, shapes and bytes of tensors or arrays, and a text."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(
            f"{name}\0torch.{str(value.dtype).removeprefix('torch.')}\0{tuple(value.shape)}\0".encode()
        )
        digest.update(as_bytes(value))
    digest.update(text.encode())
    return digest.hexdigest()


def as_bytes(tensor: Any) -> Any:
    """The content of a tensor or array, in the order of its entries."""
    if not hasattr(tensor, "detach"):  # an array of NumPy
        return tensor.tobytes()
    import torch

    flat = tensor.detach().cpu().reshape(-1).contiguous()
    flat = flat.as_strided(flat.shape, (1,))  # a single entry may have any stride
    return flat.view(torch.uint8).numpy() if len(flat) else b""
