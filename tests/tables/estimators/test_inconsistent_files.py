"""Model files whose checksum fits and whose content does not."""

import math
import re

import numpy as np
import pandas as pd
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.tables.columns.rules import Columns
from decoupled_descent.tables.estimators.saving import save_model
from tests.tables.estimators.test_saving import classifier, put, refused, regressor, resigned


def drop(*keys):
    def change(content, tensors):
        for key in keys[:-1]:
            content = content[key]
        del content[keys[-1]]

    return change


def tensor(name, function):
    def change(content, tensors):
        tensors[name] = function(tensors[name]).contiguous()

    return change


def spoil(value):
    changed = value.clone()
    changed.view(-1)[0] = math.nan
    return changed


NESTED = "[" * 100_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("format", value=2), "format 2 and this version reads 1; update"),
        (put("format", value="1"), "format '1'"),
        (put("format", value=None), "format None"),
        (lambda content, tensors: "[1]", "format None"),
        (lambda content, tensors: "{", "Expecting property name"),
        (lambda content, tensors: f'{{"format": {NESTED}', "recursion depth exceeded|Expecting"),
        (put("task", value="ranking"), "task"),
        (put("task", value="regression"), "incomplete or inconsistent|scale"),
        (put("target", value=5), "target is 5"),
        (put("columns", value={}), "the columns cannot be used"),
        (put("columns", value=Columns.learn(pd.DataFrame({"a": [1, 2.5, 2]})).to_dict()),
         "columns make 1 features but it has 4"),
        (drop("columns"), "incomplete"),
        (put("clip", value=2), "cut off at 2 instead of"),
        (drop("findings"), "incomplete"),
        (drop("estimates", "estimated_accuracy_"), "incomplete"),
        (put("estimates", "estimated_accuracy_", value="high"), "estimated_accuracy_ is 'high'"),
        (put("estimates", "estimated_accuracy_", value=math.nan), "estimated_accuracy_ is nan"),
        (put("estimates", "estimated_accuracy_", value=math.inf), "estimated_accuracy_ is inf"),
        (put("classes", "labels", value=["a"]), "train the model again"),
        (put("classes", "labels", value=["a", "b", "a"]), "are not valid"),
        (put("classes", "labels", value=["a", "b", 1]), "are not valid"),
        (put("classes", "labels", value=["a", "b"]), "shape"),
        (put("classes", "labels", value="abc"), "classes have the type"),
        (put("classes", "dtype", value="int64"), "are not valid"),
        (put("classes", "dtype", value="<U2"), "are not valid"),
        (put("classes", "dtype", value="datetime64[s]"), "the type 'datetime64"),
        (put("classes", "dtype", value="O8,f4"), "the type 'O8,f4'"),
        (put("classes", value=None), "incomplete"),
        (put("settings", "stack", value={"a": 1}), "stack="),
        (put("settings", "unheard", value=1), "[Ii]nvalid parameter"),
        (put("feature_names", value=["a"]), "column names do not match"),
        (put("feature_names", value=["a", "b", "c", 4]), "column names do not match"),
        (put("training", "best_iter_", value=99), "best step 99 of"),
        (put("training", "n_iter_", value=9.0), "is not valid"),
        (put("training", "n_iter_", value=99), "another length"),
        (put("findings", 0, "status", value="fine"), "is not valid"),
        (put("findings", 0, "name", value=3), "is not valid"),
        (put("findings", 0, "extra", value=3), "incomplete"),
        (tensor("member.0.theta", spoil), "out of range"),
        (tensor("member.0.theta", lambda v: v[:, :3]), "shape"),
        (drop("mixture"), "incomplete"),
        (tensor("error", lambda v: v[:0]), "another length"),
    ],
)  # fmt: skip
def test_inconsistent_content_with_a_fitting_checksum(tmp_path, change, message):
    path = save_model(classifier(), tmp_path / "model.safetensors")
    resigned(path, change)
    assert re.search(message, refused(path))


@pytest.mark.parametrize(
    "change", [put("scale", value=[0.0, 0.0]), put("scale", value=["a", 1]), put("scale", value=1)]
)
def test_inconsistent_regressors(tmp_path, change):
    path = save_model(regressor(), tmp_path / "model.safetensors")
    resigned(path, change)
    refused(path)


@pytest.mark.parametrize("name", ["mean", "deviation", "projection", "shift", "landmarks"])
@pytest.mark.parametrize("kind", [lambda v: torch.zeros(3, 3, 3).double(), lambda v: v[:0]])
def test_feature_maps_that_do_not_match(tmp_path, name, kind):
    """They are refused when the file is read, not when a row is predicted."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    model = dd.DecoupledRegressor(features="rbf", ridge=1.0).fit(X, X[:, 0])
    path = save_model(model, tmp_path / "model.safetensors")
    resigned(path, tensor(f"map.0.{name}", kind))
    refused(path)
