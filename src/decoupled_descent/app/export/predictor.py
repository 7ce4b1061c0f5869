"""Predictions of a model of decoupled-descent with NumPy alone.

``decoupled export`` writes this file and ``model.npz`` beside it:

    from predictor import Predictor
    model = Predictor("model.npz")
    model.predict([{"age": 31, "town": "Ulm"}])
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

CLIP, SAME, FAR = 5.0, 1e-14, 1e30
BLOCK = 500  # rows at a time


class Predictor:
    """A model from a file; rows are dictionaries with the columns of the training."""

    def __init__(self, path: Any = "model.npz") -> None:
        with np.load(path, allow_pickle=False) as file:
            self.arrays: dict[str, Any] = {name: file[name] for name in file.files}
        self.about = json.loads(str(self.arrays.pop("description")))
        self.classes = self.about["classes"]

    def predict(self, rows: list[dict[str, Any]]) -> list[Any]:
        """One class or number per row."""
        outputs = self.outputs(self.matrix(rows))
        if self.classes is not None:
            return [self.classes[k] for k in self.decide(outputs)]
        numbers: list[Any] = self.in_units(outputs)[:, 0].tolist()
        return numbers

    def decide(self, outputs: Any) -> Any:
        """The number of the class of each row: the most probable one, or by the threshold."""
        threshold, positive = self.about["rule"]
        if outputs.shape[1] != 2:
            return outputs.argmax(1)
        return np.where(outputs[:, positive] > threshold, positive, 1 - positive)

    def predict_proba(self, rows: list[dict[str, Any]]) -> list[dict[str, float]]:
        """For each row, the probability of each class by its name."""
        if self.classes is None:
            raise ValueError("this model predicts numbers, which have no probabilities")
        shares = self.outputs(self.matrix(rows)).tolist()
        return [dict(zip(map(str, self.classes), row, strict=True)) for row in shares]

    def matrix(self, rows: list[dict[str, Any]]) -> Any:
        """Turn rows into numbers, shape (m, d); None and "" are missing."""
        parts = []
        for column in self.about["columns"]:
            name = column["name"]
            absent = [k for k, row in enumerate(rows) if name not in row]
            if absent:
                raise ValueError(f"row {absent[0]} has no {name!r}")
            parts.append(_encoded(column, [row[name] for row in rows]))
        return np.hstack(parts)

    def outputs(self, X: Any) -> Any:
        """Probabilities of the classes, or numbers on the scale of the fit, shape (m, K)."""
        parts = [self._mixed(X[start : start + BLOCK]) for start in range(0, len(X), BLOCK)]
        return np.concatenate(parts)

    def in_units(self, outputs: Any) -> Any:
        """Numbers in the units of the target."""
        centre, width = self.about["scale"]
        scaled = outputs * width + centre
        largest = np.where(np.isposinf(scaled), np.inf, self.about["largest"])
        return np.exp(np.minimum(scaled, largest)) if self.about["log"] else scaled

    def _mixed(self, X: Any) -> Any:
        maps = [self.features(k, one, X) for k, one in enumerate(self.about["maps"])]
        total: Any = 0.0
        for k, member in enumerate(self.about["members"]):
            theta, bias = (self.arrays[f"member.{k}.{name}"] for name in ("theta", "bias"))
            total = total + member["share"] * self._smoothed(maps[member["map"]] @ theta.T + bias)
        for k, other in enumerate(self.about["others"]):
            arrays = starting_with(f"other.{k}.", self.arrays)
            if other["model"]["kind"] == "forest":
                part = self._smoothed(_forest(arrays, X), logits=False)
            elif other["model"]["kind"] == "constant":
                part = self._smoothed(np.tile(arrays["shares"], (len(X), 1)), logits=False)
            elif other["model"]["kind"] == "gaussian classes":
                part = self._smoothed(_logs_of_densities(arrays, X))
            elif other["model"]["kind"] == "boosting":
                part = self._smoothed(_boosting(arrays, X))
            else:
                values = (X[:, arrays["columns"]] - arrays["mean"]) / arrays["scale"]
                part = self._smoothed(
                    np.clip(values, -CLIP, CLIP) @ arrays["theta"] + arrays["bias"]
                )
            total = total + other["share"] * part
        return total

    def _smoothed(self, outputs: Any, logits: bool = True) -> Any:
        """Probabilities, with one row of all classes added; numbers as they are."""
        if self.classes is None:
            return outputs
        if logits:
            if outputs.shape[1] == 1:
                outputs = np.hstack([np.zeros_like(outputs), outputs])
            powers = np.exp(outputs - outputs.max(1, keepdims=True))
            outputs = powers / powers.sum(1, keepdims=True)
        n = self.about["rows"]
        return (n * outputs + 1 / outputs.shape[1]) / (n + 1)

    def features(self, number: int, settings: Any, X: Any) -> Any:
        """The features of rows by one map, shape (m, r)."""
        arrays = starting_with(f"map.{number}.", self.arrays)
        if "level_columns" in arrays:  # a column of zeros and ones for each level
            settings, levels = settings["kernel"], arrays["level_columns"]
            plain = np.setdiff1d(np.arange(X.shape[1]), levels)
            ones = X[:, levels] == arrays["level_values"]
            X = np.hstack([X[:, plain], ones.astype(float)])
        A = X[:, arrays["keep"].astype(int)]
        if settings["ranks"]:
            A = _scores(arrays, A)
        A = np.clip((A - arrays["mean"]) / arrays["deviation"], -CLIP, CLIP)
        if settings["kind"] != "linear":
            A = _kernel(settings, A, arrays["landmarks"])
        return A @ arrays["projection"] - arrays["shift"]


def _scores(arrays: dict[str, Any], A: Any) -> Any:
    """Normal scores of ranks, interpolated between values of the training."""
    ends = np.cumsum(arrays["knot_counts"].astype(int))
    values, scores = (np.split(one, ends[:-1]) for one in arrays["knots"])
    return np.stack([np.interp(*each) for each in zip(A.T, values, scores, strict=True)], 1)


def _encoded(column: dict[str, Any], values: list[Any]) -> Any:
    """The numbers made from one column, shape (m, outputs)."""
    missing = np.array([value is None or value == "" or value != value for value in values])
    levels = column["levels"]
    if column["kind"] == "presence":
        return missing[:, None].astype(float)
    if column["kind"] == "number":
        numbers = [
            column["fill"] if gone else float(v) for v, gone in zip(values, missing, strict=True)
        ]
        marks = [missing.astype(float)] if column["missing"] else []
        return np.stack([np.array(numbers), *marks], 1)
    result = np.zeros((len(values), len(levels) + column["other"] + column["missing"]))
    alike = {_spelling(level): k for k, level in enumerate(levels)}
    for k, value in enumerate(values):
        if missing[k]:
            place = result.shape[1] - 1 if column["missing"] else -1
        else:
            unknown = len(levels) if column["other"] else -1
            place = alike.get(_spelling(str(value)), unknown)
            place = levels.index(str(value)) if str(value) in levels else place
        if place >= 0:
            result[k, place] = 1.0
    return result


def _spelling(text: str) -> str:
    text = " ".join(text.split())
    return text.casefold() if len(text) > 1 else text


def _kernel(settings: dict[str, Any], A: Any, B: Any) -> Any:
    """Kernel values between rows A and landmarks B."""
    (squared, l1), s = settings["units"], settings["scale"]
    kind = settings["kind"]
    if kind == "laplace1":
        return np.exp(-np.abs(A[:, None] - B).sum(2) / l1 / s)
    products = A @ B.T * (2 / squared)
    a, b = (np.square(one).sum(1) * (2 / squared) for one in (A, B))
    if kind == "poly2":
        return np.square((products + s**2) / (s**2 + 1))
    if kind == "arccos":
        size = np.sqrt(a + s**2)[:, None] * np.sqrt(b + s**2)
        cosine = np.clip((products + s**2) / size, -1, 1)
        angle = (math.pi - np.arccos(cosine)) * cosine
        return (np.sqrt(1 - np.square(cosine)) + angle) * size / math.pi
    total = a[:, None] + b
    gaps = total - 2 * products
    gaps = np.where(gaps < SAME * total, 0, gaps) * 0.5
    if kind == "rbf":
        return np.exp(gaps / (-2 * s**2))
    if kind == "laplace":
        return np.exp(np.sqrt(gaps) / -s)
    t = np.sqrt(gaps) * (math.sqrt(3) / s)  # Matérn 3/2
    return np.exp(-t) * (t + 1)


def _forest(arrays: dict[str, Any], X: Any) -> Any:
    """The mean over all trees, shape (m, C)."""
    return arrays["value"][leaves(arrays, X)].mean(1)


def leaves(arrays: dict[str, Any], X: Any) -> Any:
    """The leaf of each row in each tree, shape (m, trees)."""
    low, high = arrays["low"], arrays["high"]
    halves = high / 2 - low / 2
    with np.errstate(over="ignore"):
        scaled = (X / 2 - low / 2) / np.where(halves > 0, halves, 1.0)
    return _leaves(arrays, np.clip(scaled, -FAR, FAR).astype(np.float32))


def _boosting(arrays: dict[str, Any], X: Any) -> Any:
    """Sums over the trees of each output, shape (m, K)."""
    values, outputs = arrays["value"][_leaves(arrays, X)], np.arange(len(arrays["start"]))
    return arrays["start"] + values @ (arrays["output"][:, None] == outputs)


def _leaves(arrays: dict[str, Any], X: Any) -> Any:
    """The leaf of each row of scaled columns in each tree, shape (m, trees)."""
    feature, threshold, count = arrays["feature"], arrays["threshold"], len(arrays["roots"])
    node = np.tile(arrays["roots"], len(X))
    active = np.flatnonzero(feature[node] >= 0)
    while active.size:
        at = node[active]
        go_left = X[active // count, feature[at]] <= threshold[at]
        at = np.where(go_left, arrays["left"][at], arrays["right"][at])
        node[active] = at
        active = active[feature[at] >= 0]
    return node.reshape(len(X), count)


def _logs_of_densities(arrays: dict[str, Any], X: Any) -> Any:
    """Logarithms of shares times normal densities of the classes, shape (m, C)."""
    Z = np.clip((X - arrays["mean"]) / arrays["scale"], -CLIP, CLIP)
    away, roots = Z[:, None] - arrays["centres"], arrays["roots"]
    away = away * roots if roots.ndim == 2 else np.einsum("mcd,cde->mce", away, roots)
    return arrays["offsets"] - np.square(away).sum(2) / 2


def starting_with(start: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """The arrays whose names start with a text, by the rest of their names."""
    return {name[len(start) :]: one for name, one in arrays.items() if name.startswith(start)}
