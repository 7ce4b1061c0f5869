import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.state_evolution.laws import atoms


def test_atoms_of_discrete_and_gaussian_responses():
    mixture = dd.MixtureLimit(
        [[1.0, 0.0], [0.0, 1.0]],
        [0.25, 0.75],
        [dd.responses.flipped(1.0, 0.0, 0.2), dd.responses.Noisy(3.0, 0.5)],
    )
    found = atoms(mixture)
    assert sum(a.weight for a in found) == pytest.approx(1)
    assert [tuple(a) for a in found[:2]] == [(0, 1.0, 0.2), (0, 0.0, 0.05)]
    gaussian = [a for a in found if a.mode == 1]
    mean = sum(a.weight * a.response for a in gaussian) / 0.75
    fourth = sum(a.weight * (a.response - mean) ** 4 for a in gaussian) / 0.75
    assert (mean, fourth) == pytest.approx((3.0, 3 * 0.5**4))


def test_samplers_cannot_be_enumerated():
    assert atoms(dd.MixtureLimit([[0.0]], [1.0], [lambda n, g: torch.zeros(n)])) is None


@pytest.mark.parametrize(
    ("overlaps", "weights", "responses", "message"),
    [
        ([[1.0, 2.0]], [1.0], [0.0], r"overlaps has shape \(1, 2\)"),
        ([[1.0]], [0.5], [0.0], "weights="),
        ([[1.0, 2.0], [2.0, 1.0]], [0.5, 0.5], [0.0, 0.0], "lowest eigenvalue is -1"),
        ([[1.0, 2.0], [0.0, 9.0]], [0.5, 0.5], [0.0, 0.0], "not symmetric"),
        ([[1.0]], [1.0], [], "responses has 0 entries"),
    ],
)
def test_inconsistent_limits(overlaps, weights, responses, message):
    with pytest.raises(ValueError, match=message):
        dd.MixtureLimit(overlaps, weights, responses)
