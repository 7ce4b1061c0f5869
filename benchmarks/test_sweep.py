"""What a stacked sweep costs against a single run; the factorisation is shared, and not timed."""

import pytest

import decoupled_descent as dd
from decoupled_descent.descent.requests import run_stacked

from . import contenders as make


def stacked(X, y, width, algorithms):
    """One step of all algorithms together, as ``sweep`` makes it."""
    rows = dd.Rows(X, y)
    objective = dd.Objective(dd.heads.TwoLayer(width, seed=0), "logistic")
    bound = objective.bind(rows.y, width, rows.X)
    states = [algorithm.init(rows, bound, seed=0) for algorithm in algorithms]

    def step():
        pairs = zip(algorithms, states, strict=True)
        moves = run_stacked([each.stacked_step(state, rows, bound) for each, state in pairs], rows)
        states[:] = [state for state, _ in moves]
        for _, info in moves:
            info.losses.mean().item()

    return step


def decoupled(k, count):
    return dd.DecoupledDescent(0.1 * (k + 1) / count, reduction="mean")


def orthogonal(k, count):
    return dd.OrthogonalDecoupledDescent(0.1, 0.98, ridge=0.3 * 2**k, reduction="mean")


@pytest.mark.parametrize(
    ("kind", "count", "target"),
    [(decoupled, 16, 6.0), (orthogonal, 8, 3.0)],
    ids=["16 decoupled", "8 orthogonal"],
)
def test_stack_of_configurations(race, kind, count, target):
    X, y = make.problem(4000, 2000)
    algorithms = [kind(k, count) for k in range(count)]
    contenders = {
        "sweep": stacked(X, y, 4, algorithms),
        "single": make.ours(X, y, 4, algorithms[0]),
        "stacked products": make.two_products(X, 4 * count),
        "single products": make.two_products(X, 4),
    }
    times, size = race(contenders, rounds=20), "n=4000 d=2000 L=4"
    what = f"sweep of {count} {kind.__name__} runs / single run"
    race.ratio(size, what, times.ratio("sweep", "single"), target)
    floor = times.ratio("stacked products", "single products")  # the processor's own ratio
    race.ratio(size, f"two bare products of {count} runs / of one", floor)
