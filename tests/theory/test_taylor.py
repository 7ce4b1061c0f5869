import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.theory import pure_taylor_terms, taylor_terms

from . import problems
from .test_recursion import RowRates

EPSILONS = 2.0 ** -np.arange(4, 10)
NAMES = ["head_damping", "head_descent", "theta_damping", "signal", "variance_damping", "cross"]


def g(h, y, a):
    return torch.tanh(a["1.weight"][0, 0] * h - y.unsqueeze(1)) + 0.3 * h.sin()


def f(h, y, a):
    return {"1.weight": (torch.tanh(h) - y.unsqueeze(1) * h).unsqueeze(1), "1.bias": torch.cos(h)}


def biased(algorithm, ratio=0.8):
    """Flipped classes with a head that has a weight and a bias."""
    mixture = dd.mixtures.flipped_classes(100, snr=1.5, flip=0.1, labels=(0.0, 1.0))
    objective = dd.Objective(dd.heads.TwoLayer(1, bias=True, seed=0).double(), "logistic")
    return dd.StateEvolution(mixture, objective, algorithm, ratio)


def evolve(algorithm, steps=6):
    return biased(algorithm).run(steps, alignment=[[0.4], [-0.4]], overlap=[[1.2]])


def exponent(remainders):
    return np.polyfit(np.log(EPSILONS), np.log(remainders), 1)[0]


def test_pure_remainder_is_of_second_order():
    remainders = [
        float(taylor_terms(evolve(dd.DecoupledDescent(e))).remainder.abs().max()) for e in EPSILONS
    ]
    assert 1.9 < exponent(remainders) < 2.1


def general(e):
    return dd.DecoupledDescent(e, 1 - 0.7 * e, head_lr=0.8 * e, head_damping=1 - 0.5 * e, g=g, f=f)


def test_general_remainder_is_of_second_order():
    remainders = [float(taylor_terms(evolve(general(e))).remainder.abs().max()) for e in EPSILONS]
    assert 1.9 < exponent(remainders) < 2.1


def test_the_remainder_of_a_ridge_step_is_of_second_order():
    mixture = dd.mixtures.flipped_classes(40, snr=1.5, flip=0.1, labels=(0.0, 1.0))
    objective = dd.Objective(dd.heads.TwoLayer(1, bias=True, seed=0).double(), "logistic")
    theta, variances = problems.informed(mixture, [1]), torch.linspace(0.2, 1.8, 40)
    remainders = []
    for e in EPSILONS:
        algorithm = dd.OrthogonalDecoupledDescent(e, 1 - 0.7 * e, ridge=0.5)
        theory = dd.StateEvolution(mixture, objective, algorithm, 1.2, variances)
        remainders.append(float(taylor_terms(theory.run(6, theta)).remainder.abs().max()))
    assert 1.9 < exponent(remainders) < 2.1


@pytest.mark.parametrize("name", NAMES)
def test_every_term_is_needed(name):
    """At a small rate, leaving any of the six out leaves an error far above the remainder."""
    terms = taylor_terms(evolve(general(2.0**-14)))
    without = terms.remainder + terms.terms[name][:-1]
    assert float(without.abs().max()) > 5 * float(terms.remainder.abs().max())


def test_two_units_and_sampled_paths():
    """The steps of a sampled recursion are steps all the same: the remainder stays clean."""
    mixture = dd.mixtures.xor(100, snr=2.0)
    objective = dd.Objective(dd.heads.TwoLayer(2, seed=1).double(), "logistic")
    theta, remainders = problems.informed(mixture, [0, 2]), []
    for e in EPSILONS:
        algorithm = dd.DecoupledDescent(e, 1 - e / 2, head_damping=1 - 0.3 * e)
        theory = dd.StateEvolution(mixture, objective, algorithm, paths=256, randomisations=2)
        remainders.append(float(taylor_terms(theory.run(5, theta)).remainder.abs().max()))
    assert 1.9 < exponent(remainders) < 2.1


def test_the_theorem_for_pure_descent_is_the_general_one():
    evolution = evolve(dd.DecoupledDescent(0.05))
    pure, terms = pure_taylor_terms(evolution), taylor_terms(evolution)
    for name in ("head_descent", "signal", "cross"):
        np.testing.assert_allclose(getattr(pure, name), terms.terms[name], rtol=1e-10)
    assert (pure.signal <= 0).all()
    assert (pure.head_descent <= 0).all()
    for name in ("head_damping", "theta_damping", "variance_damping"):
        assert float(terms.terms[name].abs().max()) == 0


def test_the_unrolled_cross_term_carries_a_minus_sign():
    """Remark "TaylorError": −η ⟨H, α Σ m_1 lᵀ − η Σ_s V[s,t]⟩; the text has +η."""
    eta = 0.2
    evolution = evolve(dd.DecoupledDescent(eta), steps=8)
    terms, t = taylor_terms(evolution), 6
    ratio, start = evolution.theory.ratio, evolution.alignment[0]
    unrolled = ratio * (start * evolution.signal[t]).sum()
    unrolled = unrolled - eta * evolution.gradient_overlap[:t, t].sum()
    np.testing.assert_allclose(unrolled, evolution.xi[t, t, 0, 0], rtol=1e-10)
    curvature = float(terms.cross[t]) / (-eta * float(evolution.xi[t, t, 0, 0]))
    step = 1e-4
    up, down = (
        float(
            dd.theory.asymptotic_test_error(
                evolution.theory.mixture,
                evolution.theory.objective,
                evolution.alignment[t],
                evolution.overlap[t] + sign * step,
                evolution.parameters(t),
            )
        )
        for sign in (1, -1)
    )
    assert curvature == pytest.approx(2 * (up - down) / (2 * step), rel=1e-4)


def test_kinks_are_seen_by_the_curvature():
    """ReLU: pointwise second derivatives vanish almost everywhere, the variance still matters."""
    mixture = dd.mixtures.flipped_classes(50, snr=1.0, flip=0.1)
    objective = dd.Objective(
        dd.heads.TwoLayer(1, activation="relu", seed=0).double(), "squared", curvature="smoothed"
    )
    algorithm = dd.DecoupledDescent(1e-3, 1 - 1e-3, head_lr=0.0)
    theory = dd.StateEvolution(mixture, objective, algorithm)
    start = {"alignment": [[0.3], [-0.3]], "overlap": [[1.0]]}
    start["head"] = {"1.weight": torch.tensor([[0.8]])}
    terms = taylor_terms(theory.run(3, **start))
    assert float(terms.remainder.abs().max()) < 2e-5
    assert abs(float(terms.variance_damping[0])) > 1e-4


def absolute(g=None):
    """Absolute loss on flipped classes, with a slope that jumps or a smooth g of its own."""
    mixture = dd.mixtures.flipped_classes(100, snr=1.5, flip=0.1)
    objective = dd.Objective(dd.heads.Linear(), "absolute", curvature="auto")
    return dd.StateEvolution(mixture, objective, dd.DecoupledDescent(0.02, 0.98, g=g))


def smooth(h, y, a):
    return torch.tanh(h - y.unsqueeze(1))


@pytest.mark.filterwarnings("ignore::decoupled_descent.objective.KinkWarning")
def test_terms_do_not_depend_on_what_else_was_done_with_the_objective():
    theory = absolute()
    evolution = theory.run(4)
    before = taylor_terms(evolution)
    other = dd.DecoupledDescent(0.02, 0.98, g=smooth)
    dd.StateEvolution(theory.mixture, theory.objective, other).run(4)
    after = taylor_terms(evolution)
    for name in NAMES:
        np.testing.assert_array_equal(before.terms[name], after.terms[name])
    # E∇²Ψ = 2 E δ(h − y), and Ω = 1, m = 0 at the start; a jump may sit anywhere between two points
    expected = -0.98 * 0.02 * 2 * np.exp(-0.5) / np.sqrt(2 * np.pi)
    spacing = 18 / (2**15 / 4)
    assert float(before.variance_damping[0]) == pytest.approx(expected, rel=spacing / 2)


@pytest.mark.filterwarnings("ignore::decoupled_descent.objective.KinkWarning")
@pytest.mark.parametrize("g", [None, smooth])
def test_the_remainder_across_kinks_is_of_second_order(g):
    terms = taylor_terms(absolute(g).run(6))
    largest = max(float(term.abs().max()) for term in terms.terms.values())
    assert float(terms.remainder.abs().max()) < 0.02 * largest < 1e-3


def test_terms_sum_to_the_expansion():
    terms = taylor_terms(evolve(general(0.1)))
    assert list(terms.terms) == NAMES
    np.testing.assert_allclose(terms.expansion, terms.test_error + sum(terms.terms.values()))
    np.testing.assert_allclose(terms.remainder, terms.test_error[1:] - terms.expansion[:-1])


def test_mean_reduction_uses_the_effective_rate():
    by_mean = evolve(dd.DecoupledDescent(8.0, reduction="mean", head_lr=0.1))  # n = 80
    by_sum = evolve(dd.DecoupledDescent(0.1))
    np.testing.assert_allclose(taylor_terms(by_mean).signal, taylor_terms(by_sum).signal)


@pytest.mark.parametrize(
    "algorithm",
    [
        dd.DecoupledDescent(0.1, 0.9),
        dd.DecoupledDescent(0.1, head_lr=0.2),
        dd.OrthogonalDecoupledDescent(0.1, 1.0, ridge=np.inf),
        general(0.1),
    ],
)
def test_pure_terms_of_anything_else_are_refused(algorithm):
    with pytest.raises(ValueError, match="not pure"):
        pure_taylor_terms(evolve(algorithm, steps=2))


def test_other_update_rules_are_refused():
    algorithm = dd.DecoupledDescent(0.1, rule=RowRates([0.1], [0.9]))
    with pytest.raises(ValueError, match="not the paper's"):
        taylor_terms(evolve(algorithm, steps=2))


@pytest.mark.parametrize("algorithm", [dd.DecoupledDescent(0.3), general(0.2)])
def test_the_cross_term_never_exceeds_its_bound(algorithm):
    evolution = evolve(algorithm, 12)
    terms = taylor_terms(evolution)
    assert bool((terms.cross.abs() <= terms.cross_bound * (1 + 1e-12)).all())
    # at L = 1 the bound replaces Ξ by √(Ω V), step by step
    xi = evolution.xi.diagonal()[0, 0].abs()
    root = (evolution.overlap[:, 0, 0] * evolution.gradient_overlap.diagonal()[0, 0]).sqrt()
    np.testing.assert_allclose(terms.cross_bound * xi, terms.cross.abs() * root, rtol=1e-8)


def test_the_bound_of_the_pure_expansion_is_the_same():
    evolution = evolve(dd.DecoupledDescent(0.1))
    pure, full = pure_taylor_terms(evolution), taylor_terms(evolution)
    np.testing.assert_allclose(pure.cross_bound, full.cross_bound, rtol=1e-12)
