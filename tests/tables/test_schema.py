"""Model files that were made by hand: their checksum is right, their numbers are not."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.app.cli import command
from decoupled_descent.tables import schema
from decoupled_descent.tables.estimators.saving import load_model, save_model
from decoupled_descent.tables.features.kernels import KERNELS
from decoupled_descent.tables.members.any_estimator import AnyEstimator
from decoupled_descent.tables.members.catalogue import KINDS
from decoupled_descent.tensor_file import read_tensors
from tests.tables.estimators.test_saving import put, resigned

FEATURES = ["linear", "rbf", "matern(2)/ranks", "laplace1(1)/levels"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Models with features and members of all kinds that files have, and their table."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=80), "b": rng.choice(["x", "y"], 80)})
    frame["c"] = rng.integers(0, 4, 80)
    folder = tmp_path_factory.mktemp("models")
    crossed = 3.0 * ((frame["c"] > 1) ^ (frame["b"] == "x"))  # for trees
    stepped, straight = frame["c"].map([0.0, 5.0, 1.0, 4.0].__getitem__), 5 * frame["a"]
    words = pd.cut(straight + frame["c"], 3, labels=["low", "mid", "top"]).astype(str)
    two = np.where(crossed > 0, "yes", "no")
    regressor, classifier = dd.DecoupledRegressor, dd.DecoupledClassifier
    paths = []
    for kind, y, features, members in (
        (regressor, crossed, "linear", ["random forest"]),
        (classifier, two, "linear", ["extra trees"]),
        (regressor, stepped, FEATURES, []),
        (regressor, straight, "linear/ranks", ["sparse linear"]),
        (classifier, words, "linear/ranks", ["naive Bayes"]),
        (classifier, np.roll(words, 3), "linear", ["constant"]),
        (regressor, crossed, "linear", ["boosting"]),
        (classifier, two, "linear", ["boosting"]),
    ):
        noise = rng.normal(size=80) if kind is regressor else ""
        model = kind(features=features, members=members, random_state=0).fit(frame, y + noise)
        paths.append(save_model(model, folder / f"model{len(paths)}.safetensors"))
    frame.to_csv(folder / "new.csv", index=False)
    return paths, frame


def forged(path, change):
    """A copy of a model with a change, and a checksum that fits again."""
    copy = path.with_name(f"forged-{path.name}")
    copy.write_bytes(path.read_bytes())
    resigned(copy, change)
    return copy


def refused(path, change):
    copy = forged(path, change)
    with pytest.raises(ValueError, match="forged-") as error:
        load_model(copy)
    assert "\n" not in str(error.value)
    return copy


def replace(name, change):
    def forge(content, tensors):
        tensors[name] = change(tensors[name]).contiguous()

    return forge


def drop(name):
    return lambda content, tensors: tensors.pop(name) is None or None


def test_all_kinds_have_a_schema(models):
    assert set(schema.KERNELS) == set(KERNELS)
    assert set(schema.MEMBERS) == set(KINDS) - {AnyEstimator.kind}
    for path in models[0]:
        tensors, content = read_tensors(path)
        schema.check_model(content, {name: one.numpy() for name, one in tensors.items()})


def test_no_array_may_have_another_shape_type_or_number(models):
    for path in models[0]:
        for name, tensor in read_tensors(path)[0].items():
            if name == "stderr":  # may have no number
                continue
            refused(path, drop(name))
            refused(path, replace(name, lambda one: one[:-1]))
            refused(path, replace(name, lambda one: one.reshape(-1)[0].clone()))
            refused(path, replace(name, lambda one: one.unsqueeze(0)))
            if tensor.is_floating_point() and name != "error":
                refused(path, replace(name, lambda one: one.float()))
                refused(path, replace(name, lambda one: one * torch.nan))
        refused(path, lambda content, tensors: tensors.update(more=torch.ones(1)))


#: Whether the name of an array ends like this, and how its numbers are changed.
RANGES = [
    (".keep", lambda one: one - 1), (".keep", lambda one: one + 0.5),
    (".keep", lambda one: one * 0),
    (".keep", lambda one: one.flip(0)), (".deviation", lambda one: one * 0),
    (".deviation", lambda one: -one), (".knots", lambda one: one.flip(1)),
    (".knot_counts", lambda one: one.roll(1) + 0.5), (".values", lambda one: -one),
    (".level_columns", lambda one: one - 10), (".level_columns", lambda one: one + 10),
    (".level_values", lambda one: one * 0), (".scale", lambda one: one * 0),
    (".scale", lambda one: -one), (".columns", lambda one: one - 10),
    (".columns", lambda one: one + 10), (".left", torch.zeros_like),
    (".right", lambda one: one + 9999), (".right", lambda one: one - 1),
    (".feature", lambda one: one + 99), (".roots", lambda one: one + 1),
    (".high", lambda one: -one.abs() - 1e9), (".shares", lambda one: one * 2),
    (".groups", lambda one: one + 1000), (".groups", lambda one: one - 1),
    (".weights", lambda one: -one), (".residuals", lambda one: -one - 1),
]  # fmt: skip


@pytest.mark.parametrize(("end", "change"), RANGES)
def test_numbers_out_of_range_or_order(models, end, change):
    names = [(path, name) for path in models[0] for name in read_tensors(path)[0]]
    chosen = [(path, name) for path, name in names if name.endswith(end)]
    assert chosen
    for path, name in chosen:
        tensor = read_tensors(path)[0][name]
        if tensor.numel() > 1 and not (end == ".roots" and tensor.is_floating_point()):
            refused(path, replace(name, change))


MEMBER, MAP = ("mixture", "members", 0), ("mixture", "maps", 0)
VALUES = [
    ((*MEMBER, "map"), -1), ((*MEMBER, "map"), True), ((*MEMBER, "map"), 99),
    ((*MEMBER, "ridge"), "1"), ((*MEMBER, "ridge"), 0), ((*MEMBER, "ridge"), True),
    ((*MEMBER, "share"), True), ((*MEMBER, "share"), -0.1), ((*MEMBER, "share"), "1"),
    (("mixture", "rows"), 0), (("mixture", "rows"), True), (("mixture", "rows"), "9"),
    (("mixture", "members"), []), (("mixture", "members"), {}), (("mixture", "maps"), "linear"),
    ((*MAP, "ranks"), 1), ((*MAP, "columns", "count"), 99), ((*MAP, "columns", "sparse"), None),
    (("mixture", "others", 0, "model", "kind"), "other"), (("mixture", "others", 0, "share"), None),
    (("target",), 7), (("columns_in",), True), (("columns_in",), -3), (("task",), ["regression"]),
    (("jackknife", "constant"), "x"), (("jackknife", "constant"), -1.0),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "value"), VALUES)
def test_values_of_another_kind(models, keys, value):
    for path in models[0][:2]:
        refused(path, put(*keys, value=value))


def test_the_command_refuses_them_in_one_line(models, capsys):
    paths, frame = models
    new = str(paths[0].with_name("new.csv"))
    for path in paths[:2]:
        assert command.answer(["predict", str(path), new]) == 0
        assert len(capsys.readouterr().out.splitlines()) == len(frame) + 1
        value = next(name for name in read_tensors(path)[0] if name.endswith(".value"))
        for change in (
            replace(value, lambda one: one[:-1]), put("target", value=7),
            put(*MEMBER, "ridge", value="1"), put("columns", value=json.loads("[[1]]")),
        ):  # fmt: skip
            assert command.answer(["predict", str(forged(path, change)), new]) == 2
            said, error = capsys.readouterr()
            assert (said, error.count("\n")) == ("", 1)
            assert error.startswith("error: ")
