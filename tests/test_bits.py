"""The same call gives the same bits, on every path; algorithms are in descent/ and training/."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse
import torch
from torch.utils.data import DataLoader, TensorDataset

import decoupled_descent as dd
from decoupled_descent.descent import GreedyDescent
from tests.problems import binary, two_layer

X, Y = binary(60, 12)
DESCENTS = {
    "gd": dd.GradientDescent(0.05),
    "dd": dd.DecoupledDescent(0.05, 0.9),
    "odd": dd.OrthogonalDecoupledDescent(0.05, 0.9),
    "batches": dd.DecoupledDescent(0.05, batch_size=7),
    "batches, momentum": dd.DecoupledDescent(0.05, rule=dd.rules.SGD(0.02, 0.5), batch_size=7),
}
ALGORITHMS = DESCENTS | {
    "greedy": GreedyDescent.grid(0.05),
    "Hessian": dd.DecoupledDescent(0.01, hessian_damping=0.1),
    "newton": dd.DecoupledNewton(1.0),
}
LINEAR = dd.Objective(dd.heads.Linear(intercept=True), "logistic")


def from_a_map(folder):
    """Each call maps the file anew."""
    np.save(folder / "rows.npy", X.numpy())
    return np.load(folder / "rows.npy", mmap_mode="r")


SOURCES = {
    "map": from_a_map,
    "sparse": lambda _: scipy.sparse.csr_array(X.numpy()),
    "dataset": lambda _: TensorDataset(X),
    "blocks": lambda _: DataLoader(TensorDataset(X), batch_size=11),
}


def numbers(run: dd.Run) -> str:
    """All numbers of a run, each with all of its digits."""
    tensors = (run.theta, run.best_theta, run.best_losses, *run.state.head.values())
    return repr([run.history, *(each.tolist() for each in tensors)])


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("kind", SOURCES)
def test_rows_from_elsewhere(kind, name, tmp_path):
    algorithm, objective = ALGORITHMS[name], LINEAR if name == "newton" else two_layer()
    if kind == "blocks" and algorithm.settings.get("batch_size"):
        pytest.skip("blocks come in one order")

    def call() -> str:
        rows = dd.Rows(SOURCES[kind](tmp_path), Y, block_size=None if kind == "blocks" else 11)
        return numbers(dd.fit(rows, None, objective, algorithm, 6))

    assert call() == call()


def test_sweeps():
    def call() -> list[str]:
        found = dd.sweep(X, Y, two_layer(), DESCENTS, 6, seed=[0, 1])
        return [numbers(run) for run in found.runs]

    assert call() == call()


MODELS = {
    "kernel": lambda: {"features": "rbf", "ridge": 1.0},
    "linear": lambda: {"features": "linear"},
    "search": dict,
}
#: What is given to ``fit`` beside rows and labels.
GIVEN = {"search": {"sample_weight": 1.0 + np.arange(60) % 3, "groups": np.arange(60) // 2}}


@pytest.mark.parametrize("kind", [dd.DecoupledClassifier, dd.DecoupledRegressor])
@pytest.mark.parametrize("options", MODELS)
def test_models(kind, options, tmp_path):
    """Everything that a file keeps: parameters, estimates, curves and the diagnosis."""
    targets = Y.numpy() if kind is dd.DecoupledClassifier else X[:, 0].numpy() + Y.numpy()

    def call(name: str) -> tuple[object, bytes]:
        model = kind(**MODELS[options]()).fit(X.numpy(), targets, **GIVEN.get(options, {}))
        content = dd.save_model(model, tmp_path / name).read_bytes()
        size = int.from_bytes(content[:8], "little")  # the order of the header is chance
        return json.loads(content[8 : 8 + size]), content[8 + size :]

    assert call("one") == call("other")


def test_models_of_streamed_rows():
    def call() -> str:
        model = dd.DecoupledClassifier().fit(TensorDataset(X), Y.numpy())
        return repr([model.candidates_, model.corrected_proba_.tolist()])

    assert call() == call()


def test_products_of_many_threads():
    """Rows that are large enough for the caller's threads, whatever ran on one thread between."""
    before = torch.get_num_threads()
    large = torch.randn(2048, 2048, generator=torch.Generator().manual_seed(0)) / 45
    labels = (large[:, 0] > 0).float()
    objective = dd.Objective(dd.heads.TwoLayer(8, seed=0), "logistic")

    def call() -> tuple[str, int]:
        run = dd.fit(large, labels, objective, DESCENTS["dd"], 4)
        return numbers(run), run.metadata["threads"]

    torch.set_num_threads(2)
    try:
        first = call()
        dd.fit(X, Y, two_layer(), DESCENTS["odd"], 3)
        assert call() == first
        assert first[1] == 2
    finally:
        torch.set_num_threads(before)
