import pytest
import torch

import decoupled_descent as dd


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
