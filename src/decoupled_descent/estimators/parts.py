"""What a trained estimator consists of, as tensors and plain JSON, and back again."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from decoupled_descent.descent import METHODS
from decoupled_descent.diagnostics.checks import STATUSES, Finding
from decoupled_descent.diagnostics.diagnosis import Diagnosis
from decoupled_descent.estimators.base import CLIP
from decoupled_descent.estimators.newton import Member, Mixture
from decoupled_descent.objective import heads
from decoupled_descent.rows.features import restore

#: Layers without parameters, and the options that matter to what they compute.
LAYERS: dict[type[nn.Module], tuple[str, ...]] = {
    kind: {"gelu": ("approximate",), "softplus": ("beta", "threshold")}.get(name, ())
    for name, kind in heads.ACTIVATIONS.items()
} | {nn.LeakyReLU: ("negative_slope",)}
CHAINS = (nn.Sequential, heads.Deep, heads.TwoLayer, heads.Linear, heads.GeneralisedLinear)
KINDS = {kind.__name__: kind for kind in LAYERS}
SCORES = {"classification": "estimated_accuracy_", "regression": "estimated_r2_"}
ESTIMATES = ("estimated_test_error_", "estimated_test_error_stderr_")
DTYPE = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|object|<U[1-9]\d{0,6}")
PYTHON = {"b": bool, "i": int, "u": int, "f": float, "U": str, "O": str}
#: Options that belong to a process, not to a model, or that JSON cannot hold.
LEFT_OUT = ("head", "verbose")


def describe_head(head: nn.Module) -> dict[str, Any]:
    """Describe a head layer by layer.

    Args:
        head: A chain of linear maps and activations, or :class:`~decoupled_descent.heads.Product`.

    Returns:
        Its description.

    Raises:
        ValueError: If it has a layer of another kind.

    Example:
        >>> [layer["kind"] for layer in describe_head(heads.TwoLayer(3))["layers"]]
        ['Tanh', 'Linear']
    """
    kind = type(head)
    if kind in CHAINS and isinstance(head, nn.Sequential):
        return {"kind": "Sequential", "layers": [describe_head(layer) for layer in head]}
    if isinstance(head, nn.Linear) and kind is nn.Linear:
        sizes = {"inputs": head.in_features, "outputs": head.out_features}
        return {"kind": "Linear", **sizes, "bias": head.bias is not None}
    if kind is heads.Product:
        return {"kind": "Product"}
    if kind in LAYERS:
        return {"kind": kind.__name__} | {name: getattr(head, name) for name in LAYERS[kind]}
    raise ValueError(
        f"the head has a layer of type {kind.__name__}, which a model file cannot describe; save "
        "estimator.head_.state_dict() and estimator.theta_ yourself"
    )


def rebuild_head(
    description: Any, tensors: dict[str, Tensor], theta: NDArray[np.floating[Any]]
) -> nn.Module:
    """Build a described head and give it its parameters.

    Args:
        description: Perhaps of a head.
        tensors: Of the file; the parameters are called ``head.…``.
        theta: θ, shape (L, d).

    Returns:
        The head.

    Raises:
        ValueError: If kinds, shapes or values are not as they must be.
    """
    with torch.device("meta"):  # sizes from a file claim no memory
        head = _layer(description)
    state = {k.removeprefix("head."): v for k, v in tensors.items() if k.startswith("head.")}
    wanted = {name: tuple(value.shape) for name, value in head.state_dict().items()}
    if {name: tuple(value.shape) for name, value in state.items()} != wanted:
        raise ValueError("the head's parameters do not fit its layers; train the model again")
    if not all(v.is_floating_point() and v.isfinite().all() for v in state.values()):
        raise ValueError("the head has parameters that are not finite; train the model again")
    head.load_state_dict({name: value.clone() for name, value in state.items()}, assign=True)
    head.width = len(theta)  # type: ignore[assignment]
    return head


def _layer(content: Any) -> nn.Module:
    kind = content["kind"]
    options = {name: value for name, value in content.items() if name != "kind"}
    if kind == "Sequential":
        return nn.Sequential(*(_layer(layer) for layer in options["layers"]))
    if kind == "Linear":
        sizes = options["inputs"], options["outputs"]
        if any(type(size) is not int or not 0 < size < 2**31 for size in sizes):
            raise ValueError(f"a layer has the sizes {sizes!r:.60}; train the model again")
        return nn.Linear(*sizes, bias=bool(options["bias"]))
    if kind == "Product":
        return heads.Product(a=0.0)
    if kind not in KINDS or set(options) != set(LAYERS[KINDS[kind]]):
        raise ValueError(f"the layer {content!r:.80} is not known; update decoupled-descent")
    for name, value in options.items():
        known = value in ("none", "tanh") if name == "approximate" else _is_finite(value)
        if not known:
            raise ValueError(f"a layer has {name}={value!r:.40}; train the model again")
    return KINDS[kind](**options)


def describe_estimator(estimator: Any) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Take a fitted estimator apart, but for its head.

    Args:
        estimator: Fitted.

    Returns:
        Tensors by name, and all else as JSON has it.

    Raises:
        ValueError: If its classes are neither numbers nor text.
    """
    arrays: dict[str, Any] = {}
    if estimator.method_ != "newton":
        arrays = {"theta": estimator.theta_, "mean": estimator.mean_, "scale": estimator.scale_}
    arrays |= {"error": estimator.train_error_curve_, "stderr": estimator.train_error_stderr_curve_}
    tensors = {name: torch.from_numpy(np.array(value)) for name, value in arrays.items()}
    task, names = estimator._task, getattr(estimator, "feature_names_in_", None)
    settings = {k: v for k, v in estimator.get_params(deep=False).items() if k not in LEFT_OUT}
    judged = (
        estimator._left_out_scores if task == "classification" else estimator._left_out_residuals
    )
    tensors["judged"] = torch.from_numpy(np.array(judged))
    score = SCORES[task]
    numbers = (*ESTIMATES, score, f"{score}stderr_")
    description = {
        "task": task,
        "columns_in": int(estimator.n_features_in_),
        "method": estimator.method_,
        "clip": CLIP,
        "classes": _describe_classes(estimator.classes_) if task == "classification" else None,
        "scale": [estimator.target_mean_, estimator.target_scale_] if task != "classification"
        else None,
        "feature_names": None if names is None else [str(name) for name in names],
        "settings": {k: _plain(v) for k, v in settings.items() if _storable(v)},
        "own_head": estimator.head is not None,
        "chosen": {
            name: _plain(getattr(estimator.algorithm_, name))
            for name in ("lr", "damping", "ridge")
            if hasattr(estimator.algorithm_, name)
        } if hasattr(estimator, "algorithm_") else {},
        "estimates": {name: _finite(getattr(estimator, name)) for name in numbers},
        "training": {
            "best_iter_": estimator.best_iter_,
            "n_iter_": estimator.n_iter_,
            "stop_reason_": estimator.stop_reason_,
        },
        "findings": [
            {f.name: _finite(getattr(found, f.name)) for f in fields(Finding)}
            for found in estimator.diagnostics_.findings
        ],
        "candidates": [
            {name: _finite(value) for name, value in one.items()} for one in estimator.candidates_
        ],
    }  # fmt: skip
    return tensors, description


def rebuild_estimator(estimator: Any, content: dict[str, Any], tensors: dict[str, Tensor]) -> bool:
    """Set the fitted attributes of a new estimator, but for its head.

    Args:
        estimator: New.
        content: Perhaps what :func:`describe_estimator` returned.
        tensors: Likewise.

    Returns:
        Whether the head was the user's own.

    Raises:
        ValueError: If something is not as it must be; KeyError and the like where it is missing.
    """
    if content["clip"] != CLIP:
        raise ValueError(
            f"outliers were cut off at {content['clip']!r:.20} instead of {CLIP:g} deviations; "
            "train the model again"
        )
    judged = np.sort(_array(tensors, "judged"))
    classes = estimator._task == "classification"
    setattr(estimator, "_left_out_scores" if classes else "_left_out_residuals", judged)
    if content["method"] not in METHODS:
        raise ValueError(f"it has the method {content['method']!r:.20}; update decoupled-descent")
    estimator.method_ = content["method"]
    if estimator.method_ == "newton":
        count = content["columns_in"]
        if type(count) is not int or count < 1:
            raise ValueError(f"it has {count!r:.20} columns; train the model again")
        return _rebuild_rest(estimator, content, tensors, count)
    theta, mean, scale = (_array(tensors, name) for name in ("theta", "mean", "scale"))
    if theta.ndim != 2 or 0 in theta.shape or not mean.shape == scale.shape == theta.shape[1:]:
        raise ValueError("the weights do not fit the columns; train the model again")
    if not (np.isfinite(theta).all() and np.isfinite(mean).all() and (scale > 0).all()):
        raise ValueError("weights, means or scales are not finite; train the model again")
    estimator.theta_, estimator.mean_, estimator.scale_ = theta, mean, scale
    return _rebuild_rest(estimator, content, tensors, theta.shape[1])


def _rebuild_rest(
    estimator: Any, content: dict[str, Any], tensors: dict[str, Tensor], count: int
) -> bool:
    """Set what all methods have; say whether the head was the user's own."""
    estimator.n_features_in_ = count
    names = content["feature_names"]
    if names is not None:
        if len(names) != count or not all(isinstance(name, str) for name in names):
            raise ValueError("the column names do not fit the weights; train the model again")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    if estimator._task == "classification":
        estimator.classes_ = _rebuild_classes(content["classes"])
    else:
        centre, width = content["scale"]
        if not (_is_finite(centre) and _is_finite(width) and width > 0):
            raise ValueError("the target's scale is not finite; train the model again")
        estimator.target_mean_, estimator.target_scale_ = float(centre), float(width)
    _rebuild_training(estimator, content, tensors)
    return bool(content["own_head"])


def describe_mixture(mixture: Mixture) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Take a mixture of models apart: feature maps, coefficients, shares."""
    maps = {id(member.features): member.features for member in mixture.members}
    places = {key: place for place, key in enumerate(maps)}
    tensors: dict[str, Tensor] = {}
    described = []
    for place, features in enumerate(maps.values()):
        settings, parts = features.state()
        described.append(settings)
        tensors |= {f"map.{place}.{name}": value for name, value in parts.items()}
    members = []
    for index, (share, features, theta, bias) in enumerate(mixture.members):
        members.append({"share": float(share), "map": places[id(features)]})
        tensors |= {f"member.{index}.theta": theta, f"member.{index}.bias": bias}
    about = {"loss": mixture.loss, "rows": mixture.rows, "maps": described, "members": members}
    return tensors, about


def rebuild_mixture(content: Any, tensors: dict[str, Tensor], outputs: int) -> Mixture:
    """Put a mixture together again, or raise ``ValueError`` if something does not fit."""
    loss = {"squared": "squared", 1: "logistic"}.get(content["loss"] if outputs == 0 else outputs)
    loss = loss or "cross_entropy"
    if content["loss"] != loss:
        raise ValueError(f"it has the loss {content['loss']!r:.20}; train the model again")
    maps = []
    for place, settings in enumerate(content["maps"]):
        start = f"map.{place}."
        parts = {
            k.removeprefix(start): v.clone() for k, v in tensors.items() if k.startswith(start)
        }
        if not all(v.isfinite().all() for v in parts.values() if v.is_floating_point()):
            raise ValueError("a feature map has numbers that are not finite; train the model again")
        maps.append(restore(settings, parts))
    members = []
    for index, member in enumerate(content["members"]):
        theta, bias = (tensors[f"member.{index}.{name}"].clone() for name in ("theta", "bias"))
        features, share = maps[member["map"]], member["share"]
        wanted = (max(outputs, 1), len(features.map_.shift))
        if theta.shape != wanted or bias.shape != wanted[:1] or not _is_finite(share):
            raise ValueError("its coefficients do not fit its features; train the model again")
        if not (theta.isfinite().all() and bias.isfinite().all() and 0 < share <= 1):
            raise ValueError("its coefficients or shares make no sense; train the model again")
        members.append(Member(float(share), features, theta, bias))
    if not members or abs(sum(member.share for member in members) - 1) > 1e-6:
        raise ValueError("the shares of its members do not sum to 1; train the model again")
    rows = content["rows"]
    if not _is_finite(rows) or not rows > 0:
        raise ValueError(f"its number of rows is {rows!r:.20}; train the model again")
    return Mixture(loss, tuple(members), rows)


def _rebuild_training(estimator: Any, content: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Set the options, and what is known of the training."""
    settings = {name: _setting(name, value) for name, value in content["settings"].items()}
    estimator.set_params(**{k: v for k, v in settings.items() if k not in LEFT_OUT})
    curves = _array(tensors, "error"), _array(tensors, "stderr")
    training = content["training"]
    best, steps = training["best_iter_"], training["n_iter_"]
    if any(type(count) is not int for count in (best, steps)) or not 0 <= best < steps:
        raise ValueError(f"the best step {best!r:.20} of {steps!r:.20} makes no sense")
    if curves[0].shape != (steps,) or curves[1].shape != (steps,):
        raise ValueError("the error curve has another length than the training")
    estimator.train_error_curve_, estimator.train_error_stderr_curve_ = curves
    estimator.best_iter_, estimator.n_iter_ = best, steps
    estimator.stop_reason_ = str(training["stop_reason_"])
    score = SCORES[estimator._task]
    for name in (*ESTIMATES, score, f"{score}stderr_"):
        value = content["estimates"][name]
        if not (value is None or _is_finite(value)):
            raise ValueError(f"{name} is {value!r:.40}; train the model again")
        setattr(estimator, name, math.nan if value is None else float(value))
    estimator.diagnostics_ = Diagnosis(tuple(_finding(one) for one in content["findings"]))
    estimator.candidates_ = [dict(one) for one in content["candidates"]]
    estimator._continuation = None  # the run itself is not in the file


def _finding(content: dict[str, Any]) -> Finding:
    numbers = {name: content[name] for name in ("value", "widening")}
    texts = [content[f.name] for f in fields(Finding) if f.name not in numbers]
    right = all(isinstance(text, str) for text in texts) and content["status"] in STATUSES
    if not right or not all(value is None or _is_finite(value) for value in numbers.values()):
        raise ValueError(f"the finding {content!r:.80} makes no sense; train the model again")
    known = {name: math.nan if value is None else float(value) for name, value in numbers.items()}
    return Finding(**{**content, **known})


def _array(tensors: dict[str, Tensor], name: str) -> NDArray[Any]:
    value = tensors[name]
    if not value.is_floating_point():
        raise ValueError(f"{name} has the type {value.dtype}; train the model again")
    return value.clone().numpy()


def _describe_classes(classes: NDArray[Any]) -> dict[str, Any]:
    if classes.dtype.kind == "U":
        classes = np.array(classes.tolist())  # no wider than its longest text
    dtype = classes.dtype
    name = dtype.str if dtype.kind == "U" else dtype.name
    labels = classes.tolist()
    if not DTYPE.fullmatch(name) or any(type(one) is not PYTHON[dtype.kind] for one in labels):
        raise ValueError(
            f"the classes {labels!r:.60} of type {dtype} cannot be saved; use whole numbers or text"
        )
    return {"dtype": name, "labels": labels}


def _rebuild_classes(content: dict[str, Any]) -> NDArray[Any]:
    name, labels = content["dtype"], content["labels"]
    if not isinstance(labels, list) or not isinstance(name, str) or not DTYPE.fullmatch(name):
        raise ValueError(f"the classes have the type {name!r:.40}; train the model again")
    dtype = np.dtype(name)
    longest = max((len(one) for one in labels if isinstance(one, str)), default=0)
    if dtype.kind == "U" and dtype.itemsize > 4 * max(1, longest):
        raise ValueError(f"the classes have the type {name!r:.40}, wider than any of them")
    right = all(type(label) is PYTHON[dtype.kind] for label in labels)
    classes = np.array(labels, dtype=dtype) if right else np.array([])
    if len(labels) < 2 or len(set(labels)) < len(labels) or classes.tolist() != labels:
        raise ValueError(f"the classes {labels!r:.80} make no sense; train the model again")
    return classes


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _finite(value: Any) -> Any:
    """A plain value, None for numbers that JSON does not have."""
    value = _plain(value)
    return None if value in ("inf", "-inf", "nan") else value


def _plain(value: Any) -> Any:
    """A value as JSON has it; infinities as text."""
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
    """Check an option's type; what was a tuple is one again."""
    if isinstance(value, list):
        return tuple(_setting(name, one) for one in value)
    if value is not None and not isinstance(value, bool | int | float | str):
        raise ValueError(f"the setting {name}={value!r:.40} makes no sense; train the model again")
    return math.inf if value == "inf" else value
