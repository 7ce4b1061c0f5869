"""Estimators as tensors and JSON: what comes back is what was taken apart."""

import json
import math

import numpy as np
import pytest

import decoupled_descent as dd
from decoupled_descent.tables.estimators.parts import describe_estimator, rebuild_estimator
from tests.tables.estimators.problems import binary, real, several, several_targets

QUICK = {"features": "linear", "ridge": 1.0}
FITTED = {
    "binary": (dd.DecoupledClassifier, binary),
    "several": (dd.DecoupledClassifier, several),
    "real": (dd.DecoupledRegressor, real),
    "several_targets": (dd.DecoupledRegressor, several_targets),
}


def fitted(name, **options):
    kind, data = FITTED[name]
    return kind(**QUICK | options).fit(*data(60))


def apart(model):
    tensors, description = describe_estimator(model)
    return tensors, json.loads(json.dumps(description, allow_nan=False))


@pytest.mark.parametrize("name", FITTED)
def test_what_is_rebuilt_is_what_was_there(name):
    model = fitted(name)
    tensors, description = apart(model)
    again = type(model)()
    rebuild_estimator(again, description, tensors)
    assert again.get_params() == model.get_params()
    score = model._task.score
    for attribute in ("estimated_test_error_", "estimated_test_error_stderr_", score):
        assert getattr(again, attribute) == getattr(model, attribute)
    assert again.diagnostics_ == model.diagnostics_
    assert again.candidates_ == model.candidates_
    if model._task.has_classes:
        assert again.calibration_ == model.calibration_
        assert again.classes_.tolist() == model.classes_.tolist()
        return
    for attribute in ("target_mean_", "target_scale_", "output_r2_", "output_r2_stderr_"):
        assert type(getattr(again, attribute)) is type(getattr(model, attribute))
        np.testing.assert_array_equal(getattr(again, attribute), getattr(model, attribute))


def changed(content, *keys, value):
    for key in keys[:-1]:
        content = content[key]
    content[keys[-1]] = value


@pytest.mark.parametrize(
    ("name", "keys", "value"),
    [
        ("binary", ("calibration", "stated"), [0.5]),
        ("binary", ("calibration", "error"), "low"),
        ("binary", ("calibration", "count"), None),
        ("several_targets", ("scale",), [[0.0, 1.0], [1.0, 1.0, 1.0]]),
        ("several_targets", ("scale",), [[0.0, 0.0, 0.0], [1.0, -1.0, 1.0]]),
        ("several_targets", ("scale",), [0.0, 1.0]),
        ("several_targets", ("output_r2", 0), [0.5, 0.5]),
        ("several_targets", ("output_r2", 1, 0), math.inf),
        ("real", ("scale",), [[], []]),
        ("real", ("output_r2",), []),
    ],
)
def test_what_does_not_fit_is_refused(name, keys, value):
    model = fitted(name)
    tensors, description = apart(model)
    changed(description, *keys, value=value)
    with pytest.raises((ValueError, TypeError)):
        rebuild_estimator(type(model)(), description, tensors)
