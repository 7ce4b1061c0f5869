import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.theory.laws import atoms, can_be_enumerated, response_rule


def test_atoms_of_discrete_and_gaussian_responses():
    mixture = dd.theory.MixtureLimit(
        [[1.0, 0.0], [0.0, 1.0]],
        [0.25, 0.75],
        [dd.responses.flipped(1.0, 0.0, 0.2), dd.responses.Noisy(3.0, 0.5)],
    )
    result = atoms(mixture)
    assert sum(a.weight for a in result) == pytest.approx(1)
    assert [tuple(a) for a in result[:2]] == [(0, 1.0, 0.2), (0, 0.0, 0.05)]
    gaussian = [a for a in result if a.mode == 1]
    mean = sum(a.weight * a.response for a in gaussian) / 0.75
    fourth = sum(a.weight * (a.response - mean) ** 4 for a in gaussian) / 0.75
    assert (mean, fourth) == pytest.approx((3.0, 3 * 0.5**4))


def test_high_orders_leave_out_nodes_without_weight():
    nodes, weights = response_rule(256)
    assert len(nodes) == 86
    assert float(weights @ nodes**4) == pytest.approx(3, abs=1e-9)


def test_samplers_cannot_be_enumerated():
    mixture = dd.theory.MixtureLimit([[0.0]], [1.0], [lambda n, g: torch.zeros(n)])
    assert not can_be_enumerated(mixture)
    assert atoms(mixture) == [(0, None, 1.0)]


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
        dd.theory.MixtureLimit(overlaps, weights, responses)


def test_the_default_device_makes_no_difference():
    """The meta device has no values: whatever is made there fails when it is read."""

    def everything():
        mixture = dd.mixtures.flipped_classes(8, flip=0.1, labels=(0.0, 1.0))
        limit = dd.theory.MixtureLimit([[1.0]], [1.0], [dd.responses.Noisy(0.0, 0.5)])
        objective = dd.Objective(dd.heads.Linear(), "logistic")
        algorithm = dd.DecoupledDescent(0.1, 0.9)
        theory = dd.StateEvolution(mixture, objective, algorithm)
        evolution = theory.run(3)
        squared = dd.Objective(dd.heads.Linear(), "squared")
        paths = {"method": "paths", "paths": 64}
        return [
            evolution.test_error,
            dd.StateEvolution(limit, squared, algorithm, **paths).run(3).test_error,
            dd.StateEvolution(mixture, objective, dd.OrthogonalDecoupledDescent(0.1), **paths)
            .run(3)
            .test_error,
            dd.theory.taylor_terms(evolution).signal,
            dd.theory.fixed_point(theory).overlap,
            torch.tensor(
                tuple(dd.theory.asymptotic_test_error(limit, squared, [[0.0]], [[1.0]]))[:1],
                device="cpu",
            ),
        ]

    expected = everything()
    torch.set_default_device("meta")
    try:
        result = everything()
    finally:
        torch.set_default_device(None)
    for ours, theirs in zip(result, expected, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"theta": torch.zeros(1, 5)}, r"theta has shape \(1, 5\).*\(L, 4\)"),
        ({"theta": torch.zeros(2, 4)}, "L = 1"),
        ({"theta": torch.zeros(1, 4), "overlap": [[1.0]]}, "either theta or"),
        ({"alignment": [[0.1], [0.1]]}, "without overlap"),
        ({"overlap": [[-1.0]]}, "not positive semi-definite"),
        ({"overlap": [[1.0, 0.0]]}, r"must be \(L, L\)"),
        ({"overlap": [[1.0]], "alignment": [[0.1]]}, r"it must be \(2, 1\)"),
        ({"overlap": [[1.0]], "alignment": [[9.0], [-9.0]]}, "too large for this overlap"),
        ({"overlap": [[1.0]], "alignment": [[0.5], [0.5]]}, "Gram matrix"),
        ({"overlap": [[float("nan")]]}, "NaN"),
        ({"head": {"b": torch.zeros(1)}}, None),
    ],
)
def test_bad_starts(start, message):
    mixture = dd.mixtures.flipped_classes(4, labels=(0.0, 1.0))
    objective = dd.Objective(dd.heads.Linear(), "logistic")
    theory = dd.StateEvolution(mixture, objective, dd.DecoupledDescent(0.1))
    if message is None:  # a head without parameters takes any mapping
        assert theory.run(2, **start).head == {}
        return
    with pytest.raises(ValueError, match=message):
        theory.run(2, **start)


def test_labels_that_do_not_fit_the_loss():
    mixture = dd.mixtures.flipped_classes(4)
    theory = dd.StateEvolution(
        mixture, dd.Objective(dd.heads.Linear(), "logistic"), dd.DecoupledDescent(0.1)
    )
    with pytest.raises(ValueError, match="labels between 0 and 1"):
        theory.run(2)


def test_a_head_may_be_a_module_a_mapping_or_the_objective_s_own():
    mixture, objective = dd.mixtures.xor(10), dd.Objective(dd.heads.Product(a=2.0), "logistic")
    theta = torch.randn(2, 10, generator=torch.Generator().manual_seed(0))
    values = [
        float(dd.theory.population_test_error(mixture, objective, theta, head))
        for head in (None, dd.heads.Product(a=2.0), {"a": torch.tensor(2.0)})
    ]
    assert values == pytest.approx([values[0]] * 3, abs=1e-14)
    other = dd.theory.population_test_error(mixture, objective, theta, dd.heads.Product(a=1.0))
    assert abs(float(other) - values[0]) > 0.1


def test_limits_without_means_have_no_theta():
    limit = dd.theory.MixtureLimit([[0.0]], [1.0], [0.0])
    objective = dd.Objective(dd.heads.Linear(), "squared")
    with pytest.raises(ValueError, match="needs a mixture with means"):
        dd.theory.population_test_error(limit, objective, torch.zeros(1, 3))
