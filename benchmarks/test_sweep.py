"""What a stacked sweep costs against a single run."""

import decoupled_descent as dd
from decoupled_descent.descent.stepping import together

from . import contenders as make


def stacked(X, y, width, algorithms):
    """One step of several configurations together, as ``sweep`` makes it."""
    rows = dd.Rows(X, y)
    objective = dd.Objective(dd.heads.TwoLayer(width, seed=0), "logistic")
    bounds = [algorithm.bind(rows, objective) for algorithm in algorithms]
    states = [a.init(rows, bound, seed=0) for a, bound in zip(algorithms, bounds, strict=True)]

    def step():
        moves = [
            algorithm.moves(state, rows, bound)
            for algorithm, state, bound in zip(algorithms, states, bounds, strict=True)
        ]
        for k, (state, info) in enumerate(together(moves, rows)):
            states[k] = state
            info.losses.mean().item()

    return step


def test_sixteen_configurations(race):
    X, y = make.problem(4000, 2000)
    algorithms = [dd.DecoupledDescent(0.1 * (k + 1) / 16, reduction="mean") for k in range(16)]
    single = make.ours(X, y, 4, dd.DecoupledDescent(0.1, reduction="mean"))
    times = race({"sweep": stacked(X, y, 4, algorithms), "single": single}, rounds=20)
    ratio = times.ratio("sweep", "single")
    race.ratio("n=4000 d=2000 L=4", "sweep of 16 / single run", ratio, 6.0)


def test_eight_orthogonal_configurations(race):
    """Steps only: the factorisation of XᵀX is shared by all and made before."""
    X, y = make.problem(4000, 2000)
    algorithms = [
        dd.OrthogonalDecoupledDescent(0.1 * (k + 1) / 8, 0.98, reduction="mean") for k in range(8)
    ]
    single = make.ours(X, y, 4, algorithms[-1])
    times = race({"sweep": stacked(X, y, 4, algorithms), "single": single}, rounds=20)
    ratio = times.ratio("sweep", "single")
    race.ratio("n=4000 d=2000 L=4", "orthogonal sweep of 8 / single run", ratio, 3.0)
