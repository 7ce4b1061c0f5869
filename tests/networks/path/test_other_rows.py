"""Left-out outputs that are predicted, against runs without each of these rows."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import decoupled_descent as dd
from decoupled_descent.networks.examples import Examples
from decoupled_descent.networks.modules import as_loss
from decoupled_descent.networks.path.curvature import assemble
from decoupled_descent.networks.path.losses import LossOfOutputs
from decoupled_descent.networks.path.other_rows import completed, own_effects
from tests.networks.path_problems import close, recorded, rows, tanh_network

LOSSES = {"squared": 1, "logistic": 1, "cross_entropy": 3}


@pytest.mark.parametrize("size", [5, 40], ids=["primal", "dual"])
@pytest.mark.parametrize("groups", [None, [0, 1, 1, 2, 2, 2, 3, 4]], ids=["rows", "groups"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_effects_on_the_own_row_equal_those_of_dense_matrices(size, groups, outputs):
    draw = torch.Generator().manual_seed(0)
    J = torch.randn(8, outputs, size, generator=draw).double()
    weights = 0.5 + torch.rand(8, generator=draw).double()
    values, vectors = torch.linalg.eigh(torch.randn(8, outputs, outputs, generator=draw).double())
    root = vectors * values.abs().sqrt().unsqueeze(1)  # its columns are orthogonal
    if outputs == 3:  # as of a softmax, which has no curvature along the sum of its outputs
        root[:, :, 0] = 0.0
    W = root @ root.mT
    right = torch.einsum("jab,qjb->qja", W, torch.randn(2, 8, outputs, generator=draw).double())
    data = Examples(torch.zeros(8, 1).double(), torch.zeros(8), groups=groups)
    everyone, scaled = data.follow(outputs), root * weights.sqrt()[:, None, None]
    curvature = assemble(iter([scaled.mT @ J]), size >= 8 * outputs).with_damping(0.3)
    found = own_effects(scaled, weights[:, None] * right, curvature, everyone)
    A = torch.einsum("j,jkp,jkl,jlq->pq", weights, J, W, J) + 0.3 * torch.eye(size).double()
    for group in range(everyone.count):
        own = data.groups == group
        part = torch.einsum("j,jkp,jkl,jlq->pq", weights[own], J[own], W[own], J[own])
        pulled = torch.einsum("jkp,j,qjk->qp", J[own], weights[own], right[:, own])
        moved = J[own] @ torch.linalg.solve(A - part, pulled.T)
        along = W[own] @ moved  # a softmax does not see the sum of its outputs
        close(torch.einsum("jab,qjb->jaq", W[own], found[:, own]), along)


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_that_are_followed_are_exact_and_others_are_close(loss):
    X, y = rows(60, 4, max(2, LOSSES[loss]))
    model, given = tanh_network(4, 4, LOSSES[loss]), {"loss": loss}
    all_rows, exact = recorded(X, y, model, dd.DecoupledGaussNewton(), 5, **given)
    run, some = recorded(X, y, model, dd.DecoupledGaussNewton(followed=30), 5, **given)
    assert run.followed.unique().numel() == 30
    close(run.theta, all_rows.theta)
    close(some[4][run.followed], exact[4][run.followed], 1e-8)
    fitted = run.bound.outputs(run.theta[0], X)
    missed = (some[4] - exact[4]).square().sum()
    assert 0 < float(missed) < 0.1 * float((exact[4] - fitted).square().sum())


@pytest.mark.parametrize("certain", [0, 10])
@pytest.mark.parametrize("grouped", [False, True], ids=["rows", "groups with weights"])
def test_the_mean_has_no_bias_and_its_variance_is_said(grouped, certain):
    """Predictions that miss much, of 240 rows of which 60 (or groups of them) are followed."""
    draw = torch.Generator().manual_seed(0)
    fitted, noise = torch.randn(2, 240, 1, generator=draw).double()
    y = (torch.rand(240, generator=draw) < torch.sigmoid(fitted[:, 0])).double()
    effects = (torch.sigmoid(fitted) - y.unsqueeze(1)) * torch.tensor([1.0, 0.3])[:, None, None]
    left_out = fitted + effects.sum(0) * (1 + 0.5 * noise)
    weights = torch.linspace(1, 2, 240).double() if grouped else None
    data = Examples(
        torch.zeros(240, 1).double(), y, weights, torch.arange(240) // 2 if grouped else None
    )
    network = LossOfOutputs()
    network.loss = as_loss("logistic")
    everyone = data.follow(1)
    exact = everyone.averaged(data, network.losses(left_out, y)).mean()
    errors, said = [], []
    for seed in range(300):
        first = torch.arange(certain) * 3
        followed = data.follow(1, everyone.count // 4, seed, first=first)
        assert followed.certain == certain
        given = (left_out[followed.rows], fitted, effects)
        outputs, variance = completed(network, data, followed, *given)
        assert torch.equal(outputs[followed.rows], given[0])
        values = everyone.averaged(data, network.losses(outputs, y))
        errors.append(float(values.mean() - exact))
        said.append(variance + float(values.var()) / everyone.count)
    found = torch.tensor(errors)
    assert abs(float(found.mean())) < 3 * float(found.std()) / 300**0.5
    sampling = float(everyone.averaged(data, network.losses(left_out, y)).var()) / everyone.count
    total = sampling + float(found.var())  # of the rows, and of those that are followed
    assert sum(said) / 300 == pytest.approx(total, rel=0.05)
    assert float(found.var()) > 0.1 * sampling
    whole, nothing = completed(network, data, everyone, left_out, fitted, effects)
    assert (torch.equal(whole, left_out), nothing) == (True, 0.0)


def test_all_of_few_rows_are_followed_and_the_farthest_of_many():
    X, y = rows(100, 3)
    model, algorithm = tanh_network(3, 3), dd.DecoupledGaussNewton()
    assert len(dd.fit(X, y, model, algorithm, 2, loss="logistic").followed) == 100
    X, y = rows(150, 3)
    X[140:] *= 10
    run = dd.fit(X, y, nn.Linear(3, 1).double(), algorithm, 2, loss="logistic")
    assert len(run.followed.unique()) == 100
    assert set(range(140, 150)) <= set(run.followed[:20].tolist())
    assert len(run.outputs) == 150


def test_a_checkpoint_continues_with_the_same_predictions(tmp_path):
    X, y = rows(90, 4)
    model, algorithm = tanh_network(4, 3), dd.DecoupledGaussNewton(followed=20)
    whole = dd.fit(X, y, model, algorithm, 6, loss="logistic")

    def interrupt(step):
        if step.index == 3:
            raise KeyboardInterrupt

    given = {"loss": "logistic", "checkpoint": dd.Checkpoint(tmp_path / "run", every=1)}
    dd.fit(X, y, model, algorithm, 6, **given, callbacks=interrupt)
    resumed = dd.fit(X, y, model, algorithm, 6, **given)
    assert torch.equal(resumed.train_error, whole.train_error)
    assert torch.equal(resumed.outputs, whole.outputs)
