"""Write a model as NumPy code and a file of numbers, and check both against the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from decoupled_descent.app.export.light_model import described, is_covered
from decoupled_descent.app.export.predictor import Predictor
from decoupled_descent.files import temporary_folder, write_text
from decoupled_descent.tables.estimators.saving import SavedModel, load_model
from decoupled_descent.tensor_file import model_file, read_tensors

CODE, WEIGHTS = "predictor.py", "model.npz"
#: Kinds of columns that NumPy code reads without pandas.
KINDS = ("number", "category", "presence")
#: The largest difference from the model, relative to the size of its predictions, on drawn rows.
TOLERANCE, ROWS = 1e-5, 200


def export(model: Path, out: Path) -> float:
    """Write the files to a folder; return the largest difference from the model's predictions.

    Raises ``ValueError`` for models that cannot be exported, and if the files predict otherwise.
    """
    saved = load_model(model)
    tensors, content = read_tensors(model_file(model))
    check(saved, content)
    assert saved.columns is not None
    kept = {k: v for k, v in tensors.items() if k.startswith(("map.", "member.", "other."))}
    arrays: dict[str, Any] = {name: value.numpy() for name, value in kept.items()}
    arrays["description"] = np.array(json.dumps(described(content, saved.columns)))
    out.mkdir(parents=True, exist_ok=True)
    with temporary_folder(out) as partial:
        np.savez_compressed(partial / WEIGHTS, **arrays)
        code = Path(__file__).with_name(CODE).read_text(encoding="utf-8")
        write_text(partial / CODE, code)
        gap = difference(saved, Predictor(partial / WEIGHTS), model)
        if not gap <= TOLERANCE:
            raise ValueError(f"{model}: NumPy predicts otherwise, by {gap:.1e}; use the model")
        for name in (CODE, WEIGHTS):
            (partial / name).replace(out / name)
    return gap


def check(saved: SavedModel, content: Any) -> None:
    """Raise ``ValueError`` if NumPy code cannot make the predictions of a model."""
    if saved.columns is None or content.get("mixture") is None:
        raise ValueError("only models of decoupled train can be exported")
    others = [one.name for one in saved.columns.columns if one.kind not in KINDS or one.style]
    if others:
        raise ValueError(
            f"the column {others[0]!r} has dates, sentences or numbers in a style of their own, "
            "which need pandas; train with --drop and its name, or turn it into plain numbers"
        )
    if not is_covered(content["mixture"]):
        raise ValueError("the model has features or members of your own; train without them")


def difference(saved: SavedModel, predictor: Predictor, model: Path) -> float:
    """The largest difference on rows drawn around the training rows, relative to the outputs.

    Raises ``ValueError`` if the two decide for different classes.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, saved.on_matrix.n_features_in_))
    X[: ROWS // 2] = X[: ROWS // 2].round()  # some have levels
    for columns, mean, scale in scales_of(predictor):
        X[ROWS // 4 :, columns] = mean + scale * X[ROWS // 4 :, columns]
    wanted = saved.on_matrix.model_.predict(X)
    size = max(1.0, float(np.abs(wanted).max()))
    found = predictor.outputs(X)
    if saved.task == "classification":
        rule = saved.estimator.decision_rule_
        if (predictor.decide(wanted) != rule.decide(np.asarray(wanted, np.float64))).any():
            raise ValueError(f"{model}: NumPy decides for other classes; use the model")
    return float(np.abs(found - wanted).max()) / size


def scales_of(predictor: Predictor) -> list[tuple[Any, Any, Any]]:
    """Columns of the matrix, their means and deviations, by the first map without levels."""
    for k in range(len(predictor.about["maps"])):
        if f"map.{k}.level_columns" not in predictor.arrays:
            names = ("keep", "mean", "deviation")
            keep, mean, scale = (predictor.arrays[f"map.{k}.{name}"] for name in names)
            return [(keep.astype(int), mean, scale)]
    return []
