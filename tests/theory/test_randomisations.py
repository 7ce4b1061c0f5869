import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.theory import engines
from decoupled_descent.theory.randomisations import average

from . import problems

LINEAR = dd.Objective(dd.heads.Linear(), "squared")


def test_divergence_ends_the_evolution_with_a_warning():
    algorithm = dd.DecoupledDescent(1e6)
    theory = dd.StateEvolution(dd.mixtures.signalless(10), LINEAR, algorithm)
    with pytest.warns(dd.DivergenceWarning, match="no longer finite at step"):
        evolution = theory.run(100)
    assert 1 < len(evolution.test_error) < 100
    assert evolution.omega.shape[:2] == (len(evolution.test_error),) * 2


@pytest.mark.parametrize("lr", [1.0, 3.0, 20.0])
def test_divergence_of_sampled_paths_ends_the_evolution_with_a_warning(lr):
    objective = dd.Objective(dd.heads.Product(a=10.0), "logistic")
    theory = dd.StateEvolution(
        dd.mixtures.xor(10, 8.0), objective, dd.DecoupledDescent(lr), paths=64, randomisations=2
    )
    theta = torch.randn(2, 10, generator=torch.Generator().manual_seed(0))
    with pytest.warns(dd.DivergenceWarning, match="no longer finite at step"):
        evolution = theory.run(60, theta=theta)
    assert 1 <= len(evolution.test_error) < 60
    assert bool(evolution.test_error.isfinite().all())


@pytest.mark.parametrize("algorithm", [dd.DecoupledDescent, dd.OrthogonalDecoupledDescent])
@pytest.mark.parametrize(("interrupt", "steps", "spread"), [(4, 3, False), (26, 10, True)])
def test_interruption_keeps_what_was_reached(monkeypatch, interrupt, steps, spread, algorithm):
    calls, step = [], engines.PathEngine.step

    def interrupted(self, at):
        calls.append(at)
        if len(calls) == interrupt:
            raise KeyboardInterrupt
        return step(self, at)

    monkeypatch.setattr(engines.PathEngine, "step", interrupted)
    mixture, objective, _, theta = problems.flipped(20)
    theory = dd.StateEvolution(mixture, objective, algorithm(0.1), method="paths", paths=64)
    evolution = theory.run(10, theta=theta)
    assert len(evolution.test_error) == steps
    assert bool(evolution.stderr["sigma"].max() > 0) is spread


def test_divergence_ends_the_evolution():
    objective = dd.Objective(dd.heads.Product(a=1.0), "squared")
    mixture = dd.mixtures.xor(20, snr=4.0)
    algorithm = dd.OrthogonalDecoupledDescent(5.0)
    theory = dd.StateEvolution(mixture, objective, algorithm, paths=64, randomisations=2)
    with pytest.warns(dd.DivergenceWarning, match="no longer finite") as caught:
        evolution = theory.run(200, torch.ones(2, 20).double())
    assert 1 <= len(evolution.test_error) < 200
    assert evolution.test_error.isfinite().all()
    assert caught[0].filename == __file__


def test_interruption_of_the_first_step_is_passed_on(monkeypatch):
    def interrupted(self, at):
        raise KeyboardInterrupt

    monkeypatch.setattr(engines.HermiteEngine, "step", interrupted)
    theory = dd.StateEvolution(dd.mixtures.signalless(4), LINEAR, dd.DecoupledDescent(0.1))
    with pytest.raises(KeyboardInterrupt):
        theory.run(10)


def test_averages_end_where_the_shortest_trajectory_does():
    result = [
        {"test_error": torch.tensor([1.0, 2.0]), "head.a": torch.tensor([0.0, 5.0])},
        {"test_error": torch.tensor([3.0]), "head.a": torch.tensor([2.0])},
    ]
    mean = average(result)
    assert mean["test_error"].tolist() == [2.0]
    assert mean["head"]["a"].tolist() == [1.0]
    assert mean["stderr"]["test_error"].tolist() == [1.0]
    assert mean["stderr"]["head.a"].tolist() == [1.0]
