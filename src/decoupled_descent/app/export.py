"""Write a model as NumPy code and a file of numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from decoupled_descent.files import temporary_folder, write_text
from decoupled_descent.tables.prediction import predictor
from decoupled_descent.tables.prediction.saved import (
    PredictionModel,
    described,
    is_covered,
    read_model,
)
from decoupled_descent.tensor_file import model_file, read_arrays

CODE, WEIGHTS = "predictor.py", "model.npz"


def export(model: Path, out: Path) -> None:
    """Write the files to a folder; raise ``ValueError`` for models that cannot be exported."""
    saved = read_model(model)
    check(saved)
    assert saved.columns is not None
    own = ("map.", "member.", "other.")
    numbers, _ = read_arrays(model_file(model))
    arrays: dict[str, Any] = {k: v for k, v in numbers.items() if k.startswith(own)}
    arrays["description"] = np.array(json.dumps(described(saved.content, saved.columns)))
    out.mkdir(parents=True, exist_ok=True)
    with temporary_folder(out) as partial:
        np.savez_compressed(partial / WEIGHTS, **arrays)
        code = Path(predictor.__file__).read_text(encoding="utf-8")
        write_text(partial / CODE, code)
        for name in (CODE, WEIGHTS):
            (partial / name).replace(out / name)


def check(saved: PredictionModel) -> None:
    """Raise ``ValueError`` if NumPy code cannot make the predictions of a model."""
    if saved.columns is None:
        raise ValueError("only models of decoupled train can be exported")
    others = [one.name for one in saved.columns.columns if one.needs_pandas]
    if others:
        raise ValueError(
            f"the column {others[0]!r} has dates, sentences or numbers in a style of their own, "
            "which need pandas; train with --drop and its name, or turn it into plain numbers"
        )
    if not is_covered(saved.content["mixture"]):
        raise ValueError("the model has features or members of your own; train without them")
