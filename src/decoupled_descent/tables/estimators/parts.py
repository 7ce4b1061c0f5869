"""A trained estimator as tensors and plain JSON, and the reverse."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoupled_descent.checks import is_finite_number
from decoupled_descent.evaluation.calibration import Calibration, CalibrationLine
from decoupled_descent.evaluation.checks.check import STATUSES, Finding
from decoupled_descent.evaluation.checks.diagnosis import Diagnosis
from decoupled_descent.evaluation.decision_rule import DecisionRule
from decoupled_descent.tables.prediction.jackknife import Jackknife
from decoupled_descent.tables.prediction.predictor import CLIP
from decoupled_descent.tables.schema import require

ESTIMATES = ("estimated_test_error_", "estimated_test_error_stderr_")
INTERVAL = "estimated_test_error_interval_"
DTYPE = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|object|<U[1-9]\d{0,6}")
PYTHON = {"b": bool, "i": int, "u": int, "f": float, "U": str, "O": str}
#: Options that are not saved: they belong to a process, or are not JSON.
LEFT_OUT = ("verbose", "time_columns")


def describe_estimator(estimator: Any) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors of a fitted estimator by name, and the rest as JSON, without its model."""
    arrays = {"error": estimator.train_error_curve_, "stderr": estimator.train_error_stderr_curve_}
    tensors = {name: torch.from_numpy(np.array(value)) for name, value in arrays.items()}
    if estimator._medians is not None:
        tensors["medians"] = torch.from_numpy(estimator._medians)
    task, names = estimator._task, getattr(estimator, "feature_names_in_", None)
    names = names if estimator.columns_ is None else None  # those of the raw table
    jackknife = estimator._jackknife
    kept = {name: torch.from_numpy(value) for name, value in jackknife.arrays().items()}
    size = sum(value.nbytes for value in kept.values())
    about = {"rows": len(jackknife.residuals), "constant": jackknife.constant, "bytes": size}
    of_task = _describe_classes if task.has_classes else _describe_targets
    description = of_task(estimator) | _describe_settings(estimator) | {
        "jackknife": about,
        "task": task,
        "columns_in": int(estimator._width),
        "clip": CLIP,
        "feature_names": None if names is None else [str(name) for name in names],
        **_describe_results(estimator),
    }  # fmt: skip
    return tensors | kept, description


def _describe_settings(estimator: Any) -> dict[str, Any]:
    """The options, and the values that were chosen for those left at "auto"."""
    settings = {k: v for k, v in estimator.get_params(deep=False).items() if k not in LEFT_OUT}
    used = estimator.algorithm_.settings if hasattr(estimator, "algorithm_") else {}
    return {
        "settings": {k: _plain(v) for k, v in settings.items() if _storable(v)},
        "chosen": {name: _plain(used[name]) for name in ("ridge",) if name in used},
    }


def _describe_results(estimator: Any) -> dict[str, Any]:
    """The estimates, the end of the training, the findings and the candidates."""
    score = estimator._task.score
    numbers = (*ESTIMATES, score, f"{score}stderr_")
    return {
        "how": estimator.evaluation_.how if hasattr(estimator, "evaluation_") else "",
        "estimates": {name: _finite(getattr(estimator, name)) for name in numbers},
        "intervals": {
            name: [_finite(end) for end in getattr(estimator, name)]
            for name in (INTERVAL, f"{score}interval_")
        },
        "training": {
            "best_iter_": estimator.best_iter_,
            "n_iter_": estimator.n_iter_,
            "stop_reason_": estimator.stop_reason_,
            "skipped_candidates_": [str(one) for one in estimator.skipped_candidates_],
        },
        "findings": [
            {f.name: _finite(getattr(finding, f.name)) for f in fields(Finding)}
            for finding in estimator.diagnostics_.findings
        ],
        "candidates": [
            {name: _finite(value) for name, value in one.items()} for one in estimator.candidates_
        ],
    }


def rebuild_estimator(estimator: Any, content: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Set the fitted attributes of a new estimator.

    The content comes from a file and is checked here: wrong values raise ``ValueError``, missing
    ones ``KeyError`` and the like.
    """
    clip = content["clip"]
    require(clip == CLIP, f"outliers were cut off at {clip!r:.20} instead of {CLIP:g} deviations")
    arrays = {name: value.numpy() for name, value in tensors.items()}
    estimator._jackknife = Jackknife.read(content["jackknife"]["constant"], arrays)
    count, names = content["columns_in"], content["feature_names"]
    estimator.n_features_in_ = count
    if names is not None:
        right = len(names) == count and all(isinstance(name, str) for name in names)
        require(right, "the column names do not match the weights")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    if "medians" in tensors:
        estimator._medians = _array(tensors, "medians")
    if estimator._task.has_classes:
        estimator.classes_ = _rebuild_classes(content["classes"])
        estimator.calibration_ = _rebuild_calibration(content["calibration"])
        estimator.decision_rule_ = DecisionRule(*content["decision_rule"])
    else:
        _rebuild_targets(estimator, content)
    _rebuild_training(estimator, content, tensors)


def _rebuild_training(estimator: Any, content: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Set the options and the attributes of the training."""
    settings = {name: _setting(name, value) for name, value in content["settings"].items()}
    estimator.set_params(**{k: v for k, v in settings.items() if k not in LEFT_OUT})
    curves = _array(tensors, "error"), _array(tensors, "stderr")
    training = content["training"]
    best, steps = training["best_iter_"], training["n_iter_"]
    if any(type(count) is not int for count in (best, steps)) or not 0 <= best < steps:
        raise ValueError(f"the best step {best!r:.20} of {steps!r:.20} is not valid")
    if curves[0].shape != (steps,) or curves[1].shape != (steps,):
        raise ValueError("the error curve has another length than the training")
    estimator.train_error_curve_, estimator.train_error_stderr_curve_ = curves
    estimator.best_iter_, estimator.n_iter_ = best, steps
    estimator.stop_reason_ = str(training["stop_reason_"])
    skipped = training.get("skipped_candidates_", [])
    right = isinstance(skipped, list) and all(isinstance(one, str) for one in skipped)
    require(right, f"its left-out candidates are {skipped!r:.40}")
    estimator.skipped_candidates_ = skipped
    score = estimator._task.score
    for name in (*ESTIMATES, score, f"{score}stderr_"):
        value = content["estimates"][name]
        require(value is None or is_finite_number(value), f"{name} is {value!r:.40}")
        setattr(estimator, name, math.nan if value is None else float(value))
    for name in (INTERVAL, f"{score}interval_"):
        ends = content["intervals"][name]
        right = isinstance(ends, list) and len(ends) == 2
        right = right and all(end is None or is_finite_number(end) for end in ends)
        require(right, f"{name} is {ends!r:.40}")
        setattr(estimator, name, tuple(math.nan if end is None else float(end) for end in ends))
    estimator.diagnostics_ = Diagnosis(tuple(_finding(one) for one in content["findings"]))
    estimator.candidates_ = [dict(one) for one in content["candidates"]]


def _finding(content: dict[str, Any]) -> Finding:
    numbers = {name: content[name] for name in ("value", "widening")}
    texts = [content[f.name] for f in fields(Finding) if f.name not in numbers]
    right = all(isinstance(text, str) for text in texts) and content["status"] in STATUSES
    right = right and all(v is None or is_finite_number(v) for v in numbers.values())
    require(right, f"the finding {content!r:.80} is not valid")
    filled = {name: math.nan if value is None else float(value) for name, value in numbers.items()}
    return Finding(**{**content, **filled})


def _array(tensors: dict[str, Tensor], name: str) -> NDArray[Any]:
    value = tensors[name]
    require(value.is_floating_point(), f"{name} has the type {value.dtype}")
    return value.clone().numpy()


def _describe_targets(estimator: Any) -> dict[str, Any]:
    centre, width = _plain(estimator.target_mean_), _plain(estimator.target_scale_)
    parts = [_plain(estimator.output_r2_), _plain(estimator.output_r2_stderr_)]
    return {"scale": [centre, width], "output_r2": parts}


def _rebuild_targets(estimator: Any, content: dict[str, Any]) -> None:
    """Set the means, scales and R² of the targets: numbers, or lists for several targets."""
    centre, width = content["scale"]
    several = isinstance(centre, list)
    centres, widths = (centre, width) if several else ([centre], [width])
    scores, stderrs = content["output_r2"]
    count, numbers = len(centres), [*centres, *widths, *scores, *stderrs]
    right = 0 < count == len(widths) == len(scores)
    right = right and len(numbers) == 4 * count and all(map(is_finite_number, numbers))
    require(right and min(widths) > 0, "the targets' scales are not finite and positive")
    estimator.target_mean_ = np.array(centres, dtype=float) if several else float(centre)
    estimator.target_scale_ = np.array(widths, dtype=float) if several else float(width)
    estimator.output_r2_, estimator.output_r2_stderr_ = np.array(scores), np.array(stderrs)


def _rebuild_calibration(content: dict[str, Any]) -> Calibration:
    bins = [content[name] for name in ("stated", "seen", "count")]
    numbers = [content[name] for name in ("error", "stderr", "chance")]
    flat = [*(value for column in bins for value in column), *numbers]
    right = len({len(column) for column in bins}) == 1 and all(map(is_finite_number, flat))
    line = None if content["line"] is None else CalibrationLine(**content["line"])
    right = right and all(map(is_finite_number, line or ()))
    require(right, "its calibration is not valid")
    stated, seen, count = map(tuple, bins)
    error, stderr, chance = map(float, numbers)
    return Calibration(stated, seen, count, error, stderr, chance, line)


def _describe_classes(estimator: Any) -> dict[str, Any]:
    classes = estimator.classes_
    if classes.dtype.kind == "U":
        classes = np.array(classes.tolist())  # no wider than its longest text
    dtype = classes.dtype
    name = dtype.str if dtype.kind == "U" else dtype.name
    labels = classes.tolist()
    if not DTYPE.fullmatch(name) or any(type(one) is not PYTHON[dtype.kind] for one in labels):
        raise ValueError(
            f"the classes {labels!r:.60} of type {dtype} cannot be saved; use whole numbers or text"
        )
    described = {"dtype": name, "labels": labels}
    rule = estimator.decision_rule_
    return {
        "classes": described,
        "calibration": estimator.calibration_.to_dict(),
        "decision_rule": [float(rule.threshold), int(rule.positive), rule.ordered],
    }


def _rebuild_classes(content: dict[str, Any]) -> NDArray[Any]:
    name, labels = content["dtype"], content["labels"]
    valid = isinstance(name, str) and DTYPE.fullmatch(name)
    require(valid and isinstance(labels, list), f"the classes have the type {name!r:.40}")
    dtype = np.dtype(name)
    longest = max((len(one) for one in labels if isinstance(one, str)), default=0)
    narrow = dtype.kind != "U" or dtype.itemsize <= 4 * max(1, longest)
    require(narrow, f"the classes have the type {name!r:.40}, wider than any of them")
    right = all(type(label) is PYTHON[dtype.kind] for label in labels)
    classes = np.array(labels, dtype=dtype) if right else np.array([])
    right = len(labels) > 1 and len(set(labels)) == len(labels) and classes.tolist() == labels
    require(right, f"the classes {labels!r:.80} are not valid")
    return classes


def _finite(value: Any) -> Any:
    """A value for JSON; None for numbers that are not finite."""
    value = _plain(value)
    return None if value in ("inf", "-inf", "nan") else value


def _plain(value: Any) -> Any:
    """A value for JSON; numbers that are not finite as text."""
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | int | str) or value is None:
        return str(value) if isinstance(value, str) else value
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else str(float(value))
    return str(value)


def _storable(value: Any) -> bool:
    if isinstance(value, list | tuple | np.ndarray):
        return all(map(_storable, value))
    return value is None or isinstance(value, bool | int | float | str | np.generic)


def _setting(name: str, value: Any) -> Any:
    """Check the type of an option; lists become tuples again."""
    if isinstance(value, list):
        return tuple(_setting(name, one) for one in value)
    right = value is None or isinstance(value, bool | int | float | str)
    require(right, f"the setting {name}={value!r:.40} is not valid")
    return math.inf if value == "inf" else value
