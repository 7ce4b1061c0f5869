"""Rows that resemble each other, and whether they err in the same way."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import decoupled_descent as dd
from decoupled_descent.networks import agreement as module
from decoupled_descent.networks.agreement import Nearest, copies, nearest_rows
from tests.networks.path_problems import recorded, rows, tanh_network
from tests.oracles import path as oracle


@pytest.mark.parametrize("block", [1, 2**24])
def test_nearest_rows_of_other_groups_by_definition(monkeypatch, block):
    monkeypatch.setattr(module, "BLOCK", block)
    draw = torch.Generator().manual_seed(0)
    X = torch.randn(20, 3, generator=draw) * torch.tensor([1.0, 50.0, 0.0])  # a constant column
    X[7] = X[3]
    groups = torch.arange(20) // 2
    found = nearest_rows(X, groups)
    scaled = X[:, :2] / X[:, :2].std(0)
    for i in range(20):
        others = [k for k in range(20) if groups[k] != groups[i]]
        distances = (scaled[i] - scaled).norm(dim=1)
        order = sorted(float(distances[k]) for k in others)
        assert float(distances[found.row[i]]) == pytest.approx(order[0], abs=1e-5)
        assert distances[found.next[i]].tolist() == pytest.approx(order[5:10], abs=1e-5)
        assert groups[i] not in groups[found.next[i]]
    assert found.copy.nonzero().squeeze(1).tolist() == [3, 7]
    groups[7] = groups[3]
    assert not nearest_rows(X, groups).copy.any()


def test_copies_are_alike_by_a_weighted_cosine():
    slopes = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0], [7.0, 7.0]])
    row, copy = torch.tensor([2, 0, 0, 1]), torch.tensor([True, True, True, False])
    found = copies(slopes, Nearest(row, copy, row.unsqueeze(1)))
    assert found == {"copies": 0.75, "alike": pytest.approx((3 + 0 + 3) / (3 + 2 + 3))}
    nothing = Nearest(row, torch.zeros_like(copy), row.unsqueeze(1))
    assert copies(slopes, nothing) == {"copies": 0.0, "alike": 0.0}


def test_a_run_measures_copies_and_the_rise_without_nearest_rows():
    X, y = rows(30, 3)
    twice = torch.arange(30).repeat(2)
    model, given = tanh_network(3, 4), {"loss": "logistic"}
    algorithm = dd.DecoupledGaussNewton()
    alone, _ = recorded(X, y, model, algorithm, 4, **given)
    doubled, seen = recorded(X[twice], y[twice], model, algorithm, 4, **given)
    grouped, _ = recorded(X[twice], y[twice], model, algorithm, 4, groups=twice, **given)
    some = dd.DecoupledGaussNewton(followed=40)
    partly, _ = recorded(X[twice], y[twice], model, some, 4, **given)
    notes = [run.last.info.notes for run in (alone, doubled, grouped, partly)]
    assert [each["copies"] for each in notes] == [0.0, 1.0, 0.0, 1.0]
    assert notes[1]["alike"] == pytest.approx(1.0)
    path, lo = doubled.last.state.paths[0], seen[-1][:, 0]
    outputs = [oracle.outputs(model, path.beta + d, X[twice]).detach() for d in path.differences]
    fitted = oracle.outputs(model, path.beta, X[twice]).detach()[:, 0]
    slopes, old = torch.sigmoid(lo) - y[twice], torch.sigmoid(fitted) - y[twice]
    near = nearest_rows(X[twice], torch.arange(60))
    effect = lambda i, k: float(slopes[i] * (outputs[k][i, 0] - fitted[i]))  # noqa: E731
    first = sum(effect(i, int(near.row[i])) for i in range(60)) / 60
    others = sum(effect(i, int(k)) for i in range(60) for k in near.next[i]) / 300
    factor = float((slopes.square().sum() / old.square().sum()).sqrt())
    assert notes[1]["rise"] == pytest.approx(factor * (first - others), rel=1e-8)
    assert notes[1]["rise"] > abs(notes[0]["rise"])
    assert notes[3]["rise"] == pytest.approx(notes[1]["rise"], rel=0.3)  # 40 of 60 are followed
    assert notes[1]["rise"] > abs(notes[2]["rise"])


def test_folds_count_copies_in_other_folds():
    X, y = rows(40, 3)
    twice = torch.arange(40).repeat(2)
    options = (nn.BCEWithLogitsLoss(), lambda p: torch.optim.AdamW(p, lr=0.01))
    cross = dd.CrossFit(tanh_network(3, 4), *options, folds=4)
    found = cross.fit(X[twice], y[twice], 2, groups=None)
    fold = found.record.assignment.fold
    apart = (fold[:40] != fold[40:]).double().mean()
    assert found.notes["copies"] == pytest.approx(float(apart))
    assert found.notes["alike"] > 0.9  # copies are predicted by different models
    assert found.estimate("accuracy").verdict == "do not trust"
    grouped = cross.fit(X[twice], y[twice], 2, groups=twice)
    assert grouped.notes["copies"] == 0.0
