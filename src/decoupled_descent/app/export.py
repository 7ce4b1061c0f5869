"""Write a model as NumPy code and a file of numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from decoupled_descent.files import temporary_folder, write_text
from decoupled_descent.tables import columns
from decoupled_descent.tables.prediction import predictor
from decoupled_descent.tables.prediction.saved import (
    PredictionModel,
    described,
    is_covered,
    read_model,
)
from decoupled_descent.tensor_file import model_file, read_arrays

CODE, WEIGHTS = "predictor.py", "model.npz"


def export(model: Path, out: Path) -> list[Path]:
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
        sources = {CODE: Path(predictor.__file__)}
        readers = sorted({name for one in saved.columns.columns for name in one.readers})
        sources |= {
            f"{predictor.READERS}/{name}.py": Path(columns.__file__).with_name(f"{name}.py")
            for name in readers
        }
        for name, source in sources.items():
            (partial / name).parent.mkdir(exist_ok=True)
            write_text(partial / name, source.read_text(encoding="utf-8"))
        for name in (*sources, WEIGHTS):
            (out / name).parent.mkdir(exist_ok=True)
            (partial / name).replace(out / name)
    return [out / name for name in (*sources, WEIGHTS)]


def check(saved: PredictionModel) -> None:
    """Raise ``ValueError`` if NumPy code cannot make the predictions of a model."""
    if saved.columns is None:
        raise ValueError("only models of decoupled train can be exported")
    if not is_covered(saved.content["mixture"]):
        raise ValueError("the model has features or members of your own; train without them")
