"""``fit`` follows the paper's equations, written down independently, to 1e-10 over 100 steps."""

import numpy as np
import pytest
import torch
from torch import nn

import decoupled_descent as dd

from .oracles import descent as oracle

STEPS = 101
TOLERANCE = 1e-10


def data(n, d, width, seed, labels="binary"):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) / np.sqrt(d) + np.sign(rng.standard_normal((n, 1))) * 2 / d
    y = rng.integers(0, 2, n).astype(float) if labels == "binary" else rng.standard_normal(n)
    return X, y, rng.standard_normal((d, width)), rng


def compare(run, path, names=None):
    """Errors, θ and the head of the last iterate agree; ``names`` maps the oracle's to ours."""
    assert len(run.train_error) == STEPS
    scale = max(1.0, np.abs(path.theta[-1]).max())
    np.testing.assert_allclose(
        run.train_error, path.train_error, rtol=TOLERANCE, atol=TOLERANCE * scale
    )
    np.testing.assert_allclose(run.theta.T, path.theta[-1], rtol=0, atol=TOLERANCE * scale)
    trained = dict(run.head.named_parameters())
    for theirs, ours in (names or {}).items():
        expected = path.head[-1][theirs]
        np.testing.assert_allclose(
            trained[ours].detach().squeeze(), np.squeeze(expected), rtol=0, atol=TOLERANCE
        )


def fit(X, y, head, loss, algorithm, theta, curvature="auto"):
    objective = dd.Objective(head, loss, curvature=curvature)
    start = torch.from_numpy(np.ascontiguousarray(theta.T))
    return dd.fit(X, y, objective, algorithm, steps=STEPS, theta=start)


@pytest.mark.parametrize("decoupled", [True, False])
@pytest.mark.parametrize(("lr", "damping"), [(0.05, 1.0), (0.1, 0.95)])
def test_signalless_regression(lr, damping, decoupled):
    X, _, theta, _ = data(40, 80, 1, seed=0)
    kind = dd.DecoupledDescent if decoupled else dd.GradientDescent
    run = fit(X, np.zeros(40), dd.heads.Linear(), "squared", kind(lr, damping), theta)
    compare(run, oracle.signalless(X, theta, lr, damping, STEPS, decoupled))


@pytest.mark.parametrize("curvature", ["structured", "autodiff"])
@pytest.mark.parametrize("decoupled", [True, False])
def test_xor_pure(decoupled, curvature):
    X, y, theta, _ = data(60, 50, 2, seed=1)
    kind = dd.DecoupledDescent if decoupled else dd.GradientDescent
    run = fit(X, y, dd.heads.Product(a=0.7), "logistic", kind(0.05), theta, curvature)
    a = float(torch.tensor(0.7))  # the head keeps its start in float32
    compare(run, oracle.xor(X, y, theta, a, 0.05, STEPS, decoupled=decoupled), {"a": "a"})


@pytest.mark.parametrize("damping", [1.0, 0.9, 0.8])
def test_xor_damped_with_fixed_a(damping):
    X, y, theta, _ = data(60, 50, 2, seed=2)
    algorithm = dd.DecoupledDescent(0.05, damping, head_lr=0)
    run = fit(X, y, dd.heads.Product(a=1.0), "logistic", algorithm, theta)
    path = oracle.xor(X, y, theta, 1.0, 0.05, STEPS, damping=damping, fixed_a=True)
    compare(run, path, {"a": "a"})


@pytest.mark.parametrize("decoupled", [True, False])
def test_two_layer_listing_with_mean_reduction(decoupled):
    X, y, theta, _ = data(70, 60, 9, seed=3)
    head = dd.heads.TwoLayer(9, seed=0).double()
    kind = dd.DecoupledDescent if decoupled else dd.GradientDescent
    run = fit(X, y, head, "logistic", kind(1.0, reduction="mean"), theta / 8)
    w = head[1].weight.detach().numpy()[0]
    path = oracle.two_layer_listing(X, y, theta / 8, w, 1.0, STEPS, decoupled=decoupled)
    compare(run, path, {"w": "1.weight"})


def general(X, y, theta, a, rows, **rates):
    return oracle.general(X, y, theta, a, *rows, steps=STEPS, **rates)


RATES = {"lr": 0.05, "damping": 0.97, "head_lr": 0.2, "head_damping": 0.99}


@pytest.mark.parametrize("curvature", ["structured", "autodiff"])
def test_three_layer_head(curvature):
    X, y, theta, rng = data(40, 30, 4, seed=4)
    head = dd.heads.Deep([4, 3]).double()
    a = {"W1": rng.standard_normal((3, 4)), "w2": rng.standard_normal(3)}
    with torch.no_grad():
        head[1].weight.copy_(torch.from_numpy(a["W1"]))
        head[3].weight.copy_(torch.from_numpy(a["w2"]))
    run = fit(X, y, head, "logistic", dd.DecoupledDescent(**RATES), theta, curvature)
    path = general(X, y, theta, a, oracle.three_layer_rows(), **RATES)
    compare(run, path, {"W1": "1.weight", "w2": "3.weight"})


@pytest.mark.parametrize("curvature", ["structured", "autodiff"])
def test_head_with_bias(curvature):
    X, y, theta, rng = data(40, 30, 3, seed=5, labels="real")
    head = dd.heads.TwoLayer(3, bias=True).double()
    a = {"w": rng.standard_normal(3), "b": np.array(0.3)}
    with torch.no_grad():
        head[1].weight.copy_(torch.from_numpy(a["w"]))
        head[1].bias.fill_(0.3)
    run = fit(X, y, head, "squared", dd.DecoupledDescent(**RATES), theta, curvature)
    path = general(X, y, theta, a, oracle.biased_two_layer_rows(), **RATES)
    compare(run, path, {"w": "1.weight", "b": "1.bias"})


@pytest.mark.parametrize("curvature", ["structured", "autodiff"])
def test_softmax_head(curvature):
    X, _, theta, rng = data(40, 30, 3, seed=6)
    y = rng.integers(0, 4, 40)
    head = dd.heads.TwoLayer(3, outputs=4, seed=1).double()
    a = {"W": head[1].weight.detach().numpy().copy()}
    run = fit(X, y, head, "cross_entropy", dd.DecoupledDescent(**RATES), theta, curvature)
    path = general(X, y, theta, a, oracle.softmax_rows(), **RATES)
    compare(run, path, {"W": "1.weight"})


class FirstCoordinate(nn.Module):
    """tanh(h₀), with a parameter that only the user's g and f know what to do with."""

    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.tensor(0.5, dtype=torch.float64))

    def forward(self, h):
        return torch.tanh(h[:, 0])


def test_general_directions_with_a_non_symmetric_jacobian():
    X, y, theta, _ = data(40, 30, 3, seed=7, labels="real")
    rotation = torch.from_numpy(np.asarray(oracle.ROTATION))

    def g(h, y, a):
        return a["a"] * torch.tanh(h @ rotation.T - y.unsqueeze(1))

    def f(h, y, a):
        return {"a": torch.tanh(a["a"] * h.sum(1)) - y}

    algorithm = dd.DecoupledDescent(**RATES, g=g, f=f)
    run = fit(X, y, FirstCoordinate(), "squared", algorithm, theta)
    path = general(X, y, theta, {"a": np.array(0.5)}, oracle.rotational_rows(), **RATES)
    compare(run, path, {"a": "a"})
