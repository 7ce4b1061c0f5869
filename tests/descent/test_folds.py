"""Heads without the share of a row, against such heads in a plain loop, and training anew."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

import decoupled_descent as dd
from decoupled_descent.descent.folds import fold_of
from tests.problems import normal

N, D, L, STEPS = 24, 12, 3, 9
ADAM = partial(torch.optim.Adam, lr=0.05)


class Gated(nn.Module):
    """A head without a closed form."""

    width = L

    def __init__(self):
        super().__init__()
        self.value, self.gate = nn.Linear(L, 3), nn.Linear(L, 3)

    def forward(self, h):
        return torch.tanh(self.value(h)) * torch.sigmoid(self.gate(h))


def problem(head=None):
    X, y = normal(N, D) / D**0.5, torch.arange(N) % 3
    with torch.random.fork_rng():
        torch.manual_seed(0)
        head = Gated() if head == "gated" else nn.Sequential(nn.Tanh(), nn.Linear(L, 3))
    return dd.Rows(X, y), dd.Objective(head, "cross_entropy", width=L)


def plain_loop(infos, objective, y, count, make):
    """Losses by heads that autograd and an optimiser train without the share of a fold."""
    place = fold_of(N, count, y.device)
    result = [torch.empty(N, dtype=torch.float64) for _ in infos]
    for k in range(count):
        head = objective.module(objective.parameters(infos[0].preactivations))
        optimiser, own = make(list(head.parameters())), place == k
        part = int(own.sum()) / N
        for losses, info in zip(result, infos, strict=True):
            each = nn.functional.cross_entropy(head(info.preactivations), y, reduction="none")
            change = each.detach() - info.losses
            losses[own] = info.losses[own] + (1 - part) * (change[own] - change[~own].mean())
            optimiser.zero_grad()
            share = each[own].sum() - part * each.sum()  # centred
            (each.mean() - share / N).backward()
            optimiser.step()
    return result


ALGORITHMS = {
    "rates": (dd.DecoupledDescent(0.3), partial(torch.optim.SGD, lr=0.3)),
    "adam": (dd.DecoupledDescent(0.3, head_optimizer=ADAM), ADAM),
    "orthogonal": (dd.OrthogonalDecoupledDescent(0.3), partial(torch.optim.SGD, lr=0.3)),
}


def infos_of(rows, objective, algorithm):
    steps = []
    run = dd.fit(rows, None, objective, algorithm, STEPS, seed=0, callbacks=[steps.append])
    return run, [step.info for step in steps]


@pytest.mark.parametrize("head", ["chain", "gated"])
@pytest.mark.parametrize("count", [2, 5, N])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_rows_are_judged_by_heads_trained_without_them(name, count, head):
    rows, objective = problem(head)
    plain, make = ALGORITHMS[name]
    _, expected = infos_of(rows, objective, plain)
    _, result = infos_of(rows, objective, replace(plain, head_folds=count))
    without = plain_loop(expected, objective, rows.y, count, make)
    for own, info, others in zip(expected, result, without, strict=True):
        torch.testing.assert_close(info.losses, others, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(info.preactivations, own.preactivations)
    assert not torch.allclose(result[-1].losses, expected[-1].losses, rtol=1e-3)


def test_outputs_and_variance_by_loops():
    rows, objective = problem()
    run, infos = infos_of(rows, objective, dd.DecoupledDescent(0.3, head_folds=3))
    state, info = run.last.state, infos[-1]
    h, place = info.preactivations, fold_of(N, 3, rows.y.device)
    heads = [{name: value[k] for name, value in state.folds.heads.items()} for k in range(3)]
    for i, row in enumerate(run.algorithm.outputs(state, h, run.bound)):
        torch.testing.assert_close(row, objective.outputs(h[[i]], heads[place[i]])[0])
    before = objective.losses(h, rows.y, state.head)
    did = [before - objective.losses(h, rows.y, head) for head in heads]
    sums = [[did[k][place == m].sum() for m in range(3)] for k in range(3)]
    pairs = sum(sums[k][m] * sums[m][k] for k in range(3) for m in range(3) if k != m)
    overlap = state.memory @ objective.slopes(h, rows.y, state.head)
    alone = run.algorithm.pair_variance(overlap, rows, run.bound)
    torch.testing.assert_close(info.pairs, alone + pairs / N**2)


def test_a_batch_of_all_rows_is_the_whole():
    rows, objective = problem()
    complete = dd.DecoupledDescent(0.3, head_folds=4)
    _, expected = infos_of(rows, objective, complete)
    _, result = infos_of(rows, objective, replace(complete, batch_size=N))
    for one, other in zip(expected, result, strict=True):
        torch.testing.assert_close(one.losses, other.losses)
        torch.testing.assert_close(one.pairs, other.pairs)


def test_against_training_anew_without_single_rows():
    """The head's optimism: rows are left out of the head, and everything is trained anew."""
    n, d, lr = 60, 60, 0.3
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 3
    X = torch.randn(n, d, generator=generator, dtype=torch.float64) / d**0.5
    rows, objective = dd.Rows(X, y), problem()[1]
    plain, folds = (dd.DecoupledDescent(lr, head_folds=k) for k in (0, n))
    errors = [dd.fit(rows, None, objective, each, 15, seed=0) for each in (plain, folds)]
    optimism = float(errors[1].train_error[-1] - errors[0].train_error[-1])

    def without(i):
        def f(h, labels, head):
            counts = torch.full((n,), n / (n - 1), dtype=h.dtype)
            counts[i] = 0
            leaf = {name: value.detach().requires_grad_() for name, value in head.items()}
            with torch.enable_grad():
                total = (counts * objective.losses(h.detach(), labels, leaf)).sum()
                slopes = torch.autograd.grad(total, list(leaf.values()))
            means = (slope / n for slope in slopes)
            return {k: v.expand(n, *v.shape) for k, v in zip(leaf, means, strict=True)}

        return dd.fit(X, y, objective, dd.DecoupledDescent(lr, f=f), 15, seed=0)

    own = errors[0].last.info.losses
    anew = torch.stack([without(i).last.info.losses[i] - own[i] for i in range(0, n, 3)])
    expected = float(anew.mean())
    stderr = float(anew.std()) / len(anew) ** 0.5
    assert expected > 5 * stderr > 0
    assert abs(optimism / expected - 1) < 0.1 + 3 * stderr / expected


@pytest.mark.parametrize("folds", [1, -1, 2.5])
def test_refusals(folds):
    with pytest.raises(ValueError, match="head_folds"):
        dd.DecoupledDescent(0.1, head_folds=folds)


def test_a_head_that_is_not_trained_needs_no_folds():
    rows, objective = problem()
    frozen = dd.DecoupledDescent(0.3, head_lr=0)
    one, other = (infos_of(rows, objective, replace(frozen, head_folds=k))[1] for k in (0, 3))
    torch.testing.assert_close(one[-1].losses, other[-1].losses, rtol=0, atol=0)
