"""The file of a model, as far as it can be read without PyTorch: its name and its description."""

from __future__ import annotations

import json
import os
from pathlib import Path

#: The name of the model file in a folder.
MODEL_FILE = "model.safetensors"
KEY = "decoupled-descent"  # in the header: the description
LONGEST_HEADER = 100_000_000  # bytes, the limit of safetensors itself


def model_file(path: str | os.PathLike[str]) -> Path:
    """Return the file of a model, which is given by its name or by its folder."""
    path = Path(path)
    return path / MODEL_FILE if path.is_dir() else path


def description(path: Path) -> tuple[str, str]:
    """Return the description of a model, in JSON, and the checksum, from the header of its file.

    Raises ``OSError`` if the file cannot be read, and ``ValueError`` if it is not a model.
    """
    stranger = f"{path} is not a model of decoupled-descent"
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
        text, checksum = metadata[KEY], metadata["sha256"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{stranger}, or truncated; name the file that train wrote") from error
    if not isinstance(text, str) or not isinstance(checksum, str):
        raise ValueError(f"{stranger}; name the file that train wrote")
    return text, checksum


def is_model(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a model of this library, of any version, perhaps damaged."""
    try:
        description(Path(path))
    except (OSError, ValueError):
        return False
    return True
