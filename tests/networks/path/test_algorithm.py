"""The options of DecoupledGaussNewton: starts, memory, and whether it trusts its estimate."""

from __future__ import annotations

import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.networks.examples import Examples
from tests.networks.path_problems import close, recorded, rows, tanh_network
from tests.oracles import path as oracle


def test_several_starts_are_averaged():
    X, y = rows(24, 4)
    module = tanh_network(4, 3)
    run, seen = recorded(X, y, module, dd.DecoupledGaussNewton(starts=3), 4, loss="logistic")
    parts, outputs = [], []
    for beta in run.state.paths:
        parts.append(run.bound.with_parameters(beta.beta))
    mean = torch.stack([each(X) for each in parts]).mean(0).squeeze(1).detach()
    close(run.predict(X), mean)
    close(run.to_module()(X).squeeze(1).detach(), mean)
    starts = dd.DecoupledGaussNewton(starts=3).init(Examples(X, y), run.bound, seed=0).paths
    for path in starts:
        alone = run.bound.with_parameters(path.beta)
        outputs.append(recorded(X, y, alone, dd.DecoupledGaussNewton(), 4, loss="logistic")[1][3])
    close(seen[3], torch.stack(outputs).mean(0))
    assert float((starts[1].beta - starts[0].beta).abs().min()) > 0
    assert torch.equal(starts[0].beta, oracle.flat(module))


def test_an_estimate_that_errs_says_so():
    """Long steps through a network that bends: what the next refinement adds is no longer small."""
    X, y = rows(12, 3, seed=2)
    model = tanh_network(3, 8)
    with torch.no_grad():
        model[0].weight.mul_(5.0)
    algorithm = dd.DecoupledGaussNewton(ridge=0.01, rate=1.0, damping=0.02)
    infos = []
    dd.fit(X, y, model, algorithm, 12, loss="logistic", callbacks=lambda s: infos.append(s.info))
    assert infos[0].estimates
    assert not all(each.estimates for each in infos)
    failed = False
    for each in infos:
        error = abs(each.notes["drift"]) + each.notes["lost_error"]
        failed |= error > 2 * each.train_error_stderr or each.notes["lost"] > 0.2 * 12
        assert each.notes["failed"] == failed
        assert each.estimates == (error <= 0.5 * each.train_error_stderr and not failed)
    assert failed  # and stays so


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ridge": 0.0}, "ridge=0.0 must be a positive"),
        ({"rate": 1.5}, "rate=1.5 must be at most 1"),
        ({"damping": -1.0}, "damping=-1.0"),
        ({"starts": 0}, "starts=0"),
        ({"followed": 1}, "followed=1"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        dd.DecoupledGaussNewton(**options)


def test_memory_is_bounded():
    X, y = rows(50, 4)
    algorithm = dd.DecoupledGaussNewton(memory=1e-5)
    with pytest.raises(ValueError, match=r"need about .* GB, but memory=1e-05; pass followed=5"):
        dd.fit(X, y, tanh_network(4, 50), algorithm, 3, loss="logistic")
