"""What a stacked sweep costs against a single run."""

from decoupled_descent.descent.passes import one_pass

import decoupled_descent as dd

from . import contenders as make


def stacked(X, y, width, count):
    """One step of ``count`` configurations together, as ``sweep`` makes it."""
    rows = dd.Rows(X, y)
    objective = dd.Objective(dd.heads.TwoLayer(width, seed=0), "logistic")
    algorithms = [
        dd.DecoupledDescent(0.1 * (k + 1) / count, reduction="mean") for k in range(count)
    ]
    states = [algorithm.init(rows, objective, seed=0) for algorithm in algorithms]

    def step():
        requests = [
            a.request(state, rows, objective) for a, state in zip(algorithms, states, strict=True)
        ]
        for k, found in enumerate(one_pass(rows, requests)):
            states[k], info = algorithms[k].advance(states[k], rows, found)
            info.losses.mean().item()

    return step


def test_sixteen_configurations(race):
    X, y = make.problem(4000, 2000)
    single = make.ours(X, y, 4, dd.DecoupledDescent(0.1, reduction="mean"))
    times = race({"sweep": stacked(X, y, 4, 16), "single": single}, rounds=20)
    ratio = times.ratio("sweep", "single")
    race.ratio("n=4000 d=2000 L=4", "sweep of 16 / single run", ratio, 6.0)
