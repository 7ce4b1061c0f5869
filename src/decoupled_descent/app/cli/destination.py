"""The folder that a training writes to: its files, and whether it can be used.

Nothing slow is imported, so that a wrong ``--out`` is an error at once.
"""

from __future__ import annotations

import os
from pathlib import Path

from decoupled_descent.app.cli.options import cannot_write
from decoupled_descent.files import temporary_folder
from decoupled_descent.tensor_file import MODEL_FILE, is_model

#: The file of the leave-one-out predictions.
LEFT_OUT = "left_out.csv"
#: What others must know about the model.
CARD = "model-card.md"
#: The files, in the order in which they are moved to the folder: the model is the last.
FILES = (LEFT_OUT, "report.html", CARD, MODEL_FILE)


def check_writable(out: Path) -> None:
    """Raise ``OSError`` if a folder, which need not exist, cannot be written to; write nothing."""
    nearest = next((one for one in (out, *out.absolute().parents) if os.path.exists(one)), out)
    try:
        with temporary_folder(nearest):
            pass
    except OSError as error:
        raise cannot_write(out, error, "; choose another folder") from error


def check_folder(out: Path, data: Path) -> bool:
    """Raise ``OSError`` if the results cannot be written to a folder, which need not exist.

    Nothing is written. Returns whether the folder has results of an earlier training, which will be
    replaced. Files of the same names that are not from a training are an error.
    """
    check_writable(out)
    if data.is_dir() and out.exists() and out.samefile(data):
        raise OSError(f"--out {out}: is the folder to read; choose another folder")
    taken = [name for name in FILES if (out / name).exists()]
    if taken and not is_model(out / MODEL_FILE):
        raise OSError(
            f"--out {out}: has a {taken[0]} that is not from a training; choose another folder"
        )
    if any((out / name).is_dir() for name in taken):
        raise OSError(f"--out {out}: a folder has the name of a file to write; choose another")
    if any(data.exists() and (out / name).samefile(data) for name in taken):
        raise OSError(f"--out {out}: {data.name} in it is the table to read; choose another folder")
    return bool(taken)


def failure(error: Exception) -> str:
    """An unexpected error in words, for a part of the results that is left out because of it."""
    return f"{type(error).__name__}: {error!s:.200}; please report it"
