"""State evolution of momentum, schedules, heads with optimisers and mini-batches, against runs."""

from functools import partial

import pytest
import torch

import decoupled_descent as dd

COSINE = partial(torch.optim.lr_scheduler.CosineAnnealingLR, T_max=30)
ADAM = partial(torch.optim.Adam, lr=0.05)
D, PASSES = 600, 4
MEMBERS = {
    "momentum": (dd.DecoupledDescent(0.1, rule=dd.rules.SGD(0.1, 0.8)), 11),
    "Nesterov, weight decay, cosine, Adam": (
        dd.DecoupledDescent(
            0.1,
            rule=dd.rules.SGD(0.2, 0.7, nesterov=True, weight_decay=0.02, schedule=COSINE),
            head_optimizer=ADAM,
        ),
        11,
    ),
    "Hessian": (dd.DecoupledDescent(0.03, 0.97, head_lr=0.2, hessian_damping=0.1), 11),
    "batches": (dd.DecoupledDescent(0.2, 0.97, batch_size=D // 4), PASSES),
    "batches, momentum, unequal": (
        dd.DecoupledDescent(0.1, rule=dd.rules.SGD(0.1, 0.6), batch_size=170),
        PASSES,
    ),
}


@pytest.mark.parametrize(("algorithm", "steps"), MEMBERS.values(), ids=MEMBERS)
def test_runs_follow_their_limit(algorithm, steps):
    """Test errors of four runs from their own starts, within four standard errors of the limit."""
    mixture, gaps = dd.mixtures.flipped_classes(D, 2.0, labels=(0.0, 1.0)), []
    test = mixture.sample(8000, seed=99)
    for seed in range(4):
        objective = dd.Objective(dd.heads.TwoLayer(2, seed=seed), "logistic")
        rows = dd.Rows(*mixture.sample(D, seed=seed))
        state = algorithm.init(rows, objective, seed=seed)
        theory = dd.StateEvolution(mixture, objective, algorithm, paths=512, randomisations=2)
        limit = theory.run(steps, theta=state.theta, progress=False).test_error
        run = dd.fit(rows, None, objective, algorithm, steps, state=state, test=test)
        gaps.append(run.test_error - limit)
    differences = torch.stack(gaps)
    stderr = (differences.std(0) / 4**0.5).clamp_min(0.003)  # of the 8000 test rows they share
    assert stderr.max() < 0.03
    assert (differences.mean(0) / stderr).abs().max() < 4


@pytest.mark.parametrize("width", [1, 2])
def test_a_time_dependent_g_that_scales_is_a_schedule(width):
    mixture = dd.mixtures.flipped_classes(60, 2.0, labels=(0.0, 1.0))
    objective = dd.Objective(dd.heads.TwoLayer(width, seed=0).double(), "logistic")

    def g(h, y, parameters, step):
        h = h if h.requires_grad else h.detach().requires_grad_()
        losses = objective.losses(h, y, parameters)
        return torch.autograd.grad(losses.sum(), h, create_graph=True)[0] / (1 + step)

    by_g, by_rule = (
        dd.StateEvolution(mixture, objective, algorithm, paths=512).run(8).test_error
        for algorithm in (
            dd.DecoupledDescent(0.3, g=g),
            dd.DecoupledDescent(0.3, rule=dd.rules.SGD(0.3, schedule=lambda t: 1 / (1 + t))),
        )
    )
    torch.testing.assert_close(by_g, by_rule, rtol=1e-10, atol=0)


def test_a_single_batch_is_no_batch():
    mixture = dd.mixtures.flipped_classes(60, 2.0, labels=(0.0, 1.0))
    objective = dd.Objective(dd.heads.Linear(), "logistic")
    full, batch, wrong = (
        dd.StateEvolution(mixture, objective, dd.DecoupledDescent(0.2, **options)).run(6).test_error
        for options in ({}, {"batch_size": 60}, {"batch_size": 30})
    )
    torch.testing.assert_close(batch, full, rtol=1e-12, atol=0)
    assert not torch.allclose(wrong[1:], full[1:], atol=1e-3)


def test_what_has_no_limit_says_so():
    mixture = dd.mixtures.flipped_classes(60, 2.0, labels=(0.0, 1.0))
    objective = dd.Objective(dd.heads.Linear(), "logistic")
    theory = dd.StateEvolution(mixture, objective, dd.DecoupledDescent(0.1, batch_size=30))
    with pytest.raises(ValueError, match="batch_size"):
        dd.theory.taylor_terms(theory.run(3))
    timed = dd.DecoupledDescent(0.1, g=lambda h, y, a, t: h / (1 + t))
    with pytest.raises(ValueError, match="g depends on the step"):
        dd.theory.taylor_terms(dd.StateEvolution(mixture, objective, timed).run(3))
