"""Mini-batches: which rows they have, and passes against a loop that moves every row."""

from functools import partial

import pytest
import torch
from torch import nn

import decoupled_descent as dd
from decoupled_descent.descent.batches import Batches
from decoupled_descent.descent.noise import RowNorms
from tests.oracles.shadow import dense
from tests.problems import binary, normal, two_layer

PASSES = 3
COSINE = partial(torch.optim.lr_scheduler.CosineAnnealingLR, T_max=13)
OPTIONS = {
    "plain": {},
    "weight decay": {"weight_decay": 0.1},
    "momentum": {"momentum": 0.8, "dampening": 0.3},
    "nesterov": {"momentum": 0.8, "nesterov": True, "weight_decay": 0.02},
}


def rows_of(batches):
    return [batches[k].index for k in range(len(batches))]


def test_a_pass_has_every_row_once():
    rows = dd.Rows(*binary(23, 4))
    for number in range(3):
        result = rows_of(Batches(rows, 5, 0, number))
        assert [len(index) for index in result] == [5, 5, 5, 5, 3]
        assert torch.equal(torch.cat(result).sort().values, torch.arange(23))
    first, again = (torch.cat(rows_of(Batches(rows, 5, 0, 1))) for _ in range(2))
    others = [torch.cat(rows_of(Batches(rows, 5, s, k))) for s, k in ((1, 1), (0, 2))]
    assert torch.equal(first, again)
    assert not any(torch.equal(first, other) for other in others)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size=0 must be a whole number of at least 1"),
        ({"batch_size": 2.5}, "batch_size=2.5 must be a whole number"),
        ({"batch_seed": -1}, "batch_seed=-1 must be a whole number of at least 0"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        dd.DecoupledDescent(0.1, **options)


@pytest.mark.parametrize("kind", [dd.DecoupledDescent, dd.GradientDescent])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_passes_are_those_of_a_dense_loop(options, reduction, kind):
    (X, y), theta, objective = binary(20, 12), normal(3, 12), two_layer(3)
    lr, scale = (0.05, 1.0) if reduction == "sum" else (0.5, 1 / 20)
    rule = dd.rules.SGD(lr, schedule=COSINE, **options)
    algorithm = kind(0.2, reduction=reduction, rule=rule, batch_size=6, batch_seed=3)
    run = dd.fit(X, y, objective, algorithm, PASSES + 1, theta=theta)
    rows = dd.Rows(X, y)
    batches = [rows_of(Batches(rows, 6, 3, number)) for number in range(PASSES + 1)]
    made = (partial(torch.optim.SGD, lr=lr, **options), scale, 0.2)
    corrected, norms = kind is dd.DecoupledDescent, torch.ones(20, dtype=X.dtype)
    w, about = objective.head[1].weight.detach()[0], (corrected, norms, COSINE)
    upto = [index for number in batches[:-1] for index in number]
    end, memory, last, _ = dense(X, y, theta, w, upto, *made, *about)
    torch.testing.assert_close(run.theta, end, rtol=0, atol=1e-10)
    torch.testing.assert_close(run.head[1].weight[0].detach(), last, rtol=0, atol=1e-10)
    if corrected:
        torch.testing.assert_close(run.state.memory.T, memory, rtol=0, atol=1e-10)
    h = X @ end.T + (memory if corrected else 0)
    losses = nn.functional.binary_cross_entropy_with_logits(torch.tanh(h) @ last, y)
    assert run.train_error[-1].item() == pytest.approx(losses.item(), abs=1e-10)
    full = [index for number in batches for index in number]
    during = dense(X, y, theta, w, full, *made, *about)[3]
    count = sum(map(len, batches[-1]))
    noted = run.last.info.notes
    assert noted["pass_error"] == pytest.approx(during[-count:].mean().item(), abs=1e-10)
    spread = during[-count:].std().item() / count**0.5
    assert noted["pass_error_stderr"] == pytest.approx(spread, abs=1e-10)


def test_rows_of_unequal_norm():
    (X, y), theta, objective = binary(20, 12), normal(3, 12), two_layer(3)
    norms = normal(20, seed=5).square()
    algorithm = dd.DecoupledDescent(0.05, head_lr=0.2, batch_size=6, noise=RowNorms(norms))
    run = dd.fit(X, y, objective, algorithm, PASSES + 1, theta=theta)
    rows = dd.Rows(X, y)
    upto = [i for number in range(PASSES) for i in rows_of(Batches(rows, 6, 0, number))]
    w = objective.head[1].weight.detach()[0]
    made = (partial(torch.optim.SGD, lr=0.05), 1.0, 0.2)
    end, memory, _, _ = dense(X, y, theta, w, upto, *made, True, norms)
    torch.testing.assert_close(run.theta, end, rtol=0, atol=1e-10)
    torch.testing.assert_close(run.state.memory.T, memory, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", [dd.DecoupledDescent, dd.GradientDescent])
def test_a_batch_of_all_rows_is_no_batch(kind):
    X, y = binary()
    full = dd.fit(X, y, two_layer(), kind(0.1), 8)
    batched = dd.fit(X, y, two_layer(), kind(0.1, batch_size=1000), 8)
    torch.testing.assert_close(batched.theta, full.theta, rtol=0, atol=1e-12)
    torch.testing.assert_close(batched.train_error, full.train_error, rtol=0, atol=1e-12)


def test_kinks_are_seen_in_batches():
    (X, y), head = binary(40, 12), dd.heads.TwoLayer(3, "relu", seed=0).double()
    objective = dd.Objective(head, "logistic", curvature="smoothed")
    run = dd.fit(X, y, objective, dd.DecoupledDescent(0.05, batch_size=8), 10)
    assert run.train_error.isfinite().all()


def test_the_identity_holds_in_batches():
    """Bias of the train error over twelve data sets: none for DD, plenty for SGD."""
    mixture, gaps = dd.mixtures.flipped_classes(300, 2.0, labels=(0, 1)), {}
    for kind in (dd.DecoupledDescent, dd.GradientDescent):
        result = []
        for seed in range(12):
            X, y = mixture.sample(300, seed=2 * seed)
            objective = dd.Objective(dd.heads.TwoLayer(3, seed=seed), "logistic")
            test = mixture.sample(4000, seed=2 * seed + 1)
            algorithm = kind(0.1, batch_size=30)
            run = dd.fit(X, y, objective, algorithm, 8, seed=seed, test=test)
            result.append(float(run.gap[2:].mean()))
        gaps[kind] = torch.tensor(result)
    mean, stderr = gaps[dd.DecoupledDescent].mean(), gaps[dd.DecoupledDescent].std() / 12**0.5
    assert abs(mean) < 3 * stderr + 0.01  # 0.01: finite-size bias at n = 300
    assert gaps[dd.GradientDescent].mean() < -0.1
