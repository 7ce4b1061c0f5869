import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.theory import critical_point, fixed_point

from . import problems
from .test_equations import flipped_theory


@pytest.mark.parametrize(("c", "ratio"), [(0.5, 1.0), (1.5, 0.6), (3.0, 1.0), (5.0, 1.0)])
def test_the_recursion_ends_where_the_solver_says(c, ratio):
    theory = flipped_theory(c, ratio=ratio)
    point, evolution = fixed_point(theory), theory.run(300)
    assert point.stable
    np.testing.assert_allclose(evolution.alignment[-1], point.alignment, rtol=0, atol=1e-6)
    np.testing.assert_allclose(evolution.overlap[-1], point.overlap, rtol=0, atol=1e-6)
    assert float(evolution.test_error[-1]) == pytest.approx(point.test_error, abs=1e-6)
    # iterates become one vector: overlaps at a distance are those at no distance
    np.testing.assert_allclose(evolution.omega[-1, -60], point.overlap, rtol=0, atol=1e-3)


@pytest.mark.parametrize("ridge", [0.5, np.inf])
@pytest.mark.parametrize("loss", ["logistic", "absolute"])
@pytest.mark.filterwarnings("ignore::decoupled_descent.objective.KinkWarning")
def test_orthogonal_descent_ends_where_the_solver_says(ridge, loss):
    mixture = dd.mixtures.flipped_classes(60, snr=2.0, flip=0.1, labels=(0.0, 1.0))
    smooth = loss == "logistic"
    objective = dd.Objective(dd.heads.Linear(), loss)
    algorithm = dd.OrthogonalDecoupledDescent(0.05, 0.9, ridge=ridge)
    variances = torch.linspace(0.4, 1.6, 60)
    theory = dd.StateEvolution(mixture, objective, algorithm, 1.5, variances, paths=1024)
    point = fixed_point(theory, tolerance=1e-10 if smooth else 1e-3)
    evolution = theory.run(250 if smooth else 3)
    assert point.stable == smooth == np.isfinite(point.replicon)
    if smooth:
        np.testing.assert_allclose(evolution.alignment[-1], point.alignment, rtol=0, atol=1e-6)
        np.testing.assert_allclose(evolution.overlap[-1], point.overlap, rtol=0, atol=1e-6)
        gap = (evolution.overlap[:, 0, 0] - point.overlap[0, 0]).abs()
        measured = float((gap[150] / gap[110]) ** (1 / 40))
        assert point.rate - 0.012 < measured < point.rate + 0.001
    with pytest.raises(ValueError, match="covariance=None only"):
        critical_point(theory)


def test_two_units_within_sampling_error():
    mixture = dd.mixtures.xor(100, snr=2.0)
    objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
    algorithm = dd.DecoupledDescent(0.3, 0.8, head_lr=0.0)
    theory = dd.StateEvolution(mixture, objective, algorithm, paths=2**10)
    theta = problems.informed(mixture, [0, 1]) + 0.3 * mixture.means[[2, 2]]
    evolution = theory.run(120, theta=theta)
    point = fixed_point(theory, theta)
    assert point.stable
    gap = (evolution.overlap[-1] - point.overlap).abs()
    assert (gap < 5 * evolution.stderr["overlap"][-1] + 1e-4).all()
    gap = (evolution.alignment[-1] - point.alignment).abs()
    assert (gap < 5 * evolution.stderr["alignment"][-1] + 1e-4).all()
    assert point.alignment.abs().max() > 0.5


@pytest.mark.parametrize(("options", "message"), [({}, "damping=1"), ({"head_damping": 0.9}, "")])
def test_only_the_damped_subspace(options, message):
    damping = 0.9 if options else 1.0
    theory = dd.StateEvolution(
        dd.mixtures.signalless(10),
        dd.Objective(dd.heads.Linear(), "squared"),
        dd.DecoupledDescent(0.1, damping, **options),
    )
    with pytest.raises(ValueError, match=message or "head_damping=0.9"):
        fixed_point(theory)


def test_no_fixed_point_is_an_error():
    """Squared loss with noise: beyond c² α = 1 the variance has none."""
    mixture = dd.theory.MixtureLimit([[0.0]], [1.0], [dd.responses.Noisy(0.0, 1.0)])
    objective = dd.Objective(dd.heads.Linear(), "squared")
    theory = dd.StateEvolution(mixture, objective, dd.DecoupledDescent(0.1 * 1.0, 0.9))
    with pytest.raises(ValueError, match="no fixed point was found"):
        fixed_point(theory)


def test_critical_points_are_critical():
    """The population test error does not change to first order in any direction of θ and a."""
    mixture = dd.mixtures.flipped_classes(40, snr=2.0, flip=0.1, labels=(0.0, 1.0))
    objective = dd.Objective(dd.heads.Linear(), "logistic")
    theory = dd.StateEvolution(mixture, objective, dd.DecoupledDescent(0.1, 0.9))
    point = critical_point(theory)
    theta = float(point.alignment[0]) / 4.0 * mixture.means[:1]  # in the span of the means
    np.testing.assert_allclose(theta @ theta.T / 40, point.overlap, atol=1e-9)
    generator = torch.Generator().manual_seed(0)
    for direction in (mixture.means[:1], torch.randn(1, 40, generator=generator).double()):
        up, down = (
            float(
                dd.theory.population_test_error(mixture, objective, theta + sign * 1e-4 * direction)
            )
            for sign in (1, -1)
        )
        assert abs(up - down) / 2e-4 < 1e-8
    below = dd.theory.population_test_error(mixture, objective, 0.9 * theta)
    assert float(below) > point.test_error


def test_matching_c_makes_the_alignment_equations_the_same():
    """c = 1/(α c*), not c*; and the variance is larger by c² α Σ, which the text leaves out."""
    ratio = 0.5
    theory = flipped_theory(1.0, ratio=ratio)
    critical = critical_point(theory)
    assert critical.anisotropy == 0
    c = critical.matching_c(ratio)
    assert c == pytest.approx(1 / (ratio * float(critical.hessian[0, 0])))
    mixture, objective = theory.mixture, theory.objective
    nodes, masses = np.polynomial.hermite_e.hermegauss(60)
    masses /= masses.sum()
    h = critical.alignment.numpy() + float(critical.overlap[0, 0]) ** 0.5 * nodes
    y = np.array([[0.1], [0.9]])
    signal = 0.5 * (1 / (1 + np.exp(-h)) - y) @ masses
    chi = mixture.overlaps.numpy()
    np.testing.assert_allclose(
        critical.alignment.numpy()[:, 0], -c * ratio * chi @ signal, rtol=0, atol=1e-8
    )
    wrong = -(1 / c) * ratio * chi @ signal
    assert np.abs(critical.alignment.numpy()[:, 0] - wrong).max() > 0.5
    pulled = c**2 * ratio**2 * signal @ chi @ signal
    assert float(critical.overlap[0, 0]) == pytest.approx(pulled, abs=1e-8)
    matched = dd.StateEvolution(mixture, objective, dd.DecoupledDescent(0.02 * c, 0.98), ratio)
    descent = fixed_point(matched)
    assert float(descent.overlap[0, 0]) > 1.2 * float(critical.overlap[0, 0])
    assert descent.test_error > critical.test_error


def test_no_critical_point_is_an_error():
    mixture = dd.mixtures.xor(20, snr=2.0)
    objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
    theory = dd.StateEvolution(mixture, objective, dd.DecoupledDescent(0.1, 0.9))
    with pytest.raises(ValueError, match="no critical point was found"):
        critical_point(theory, problems.informed(mixture, [0, 1]), tolerance=-1.0)
