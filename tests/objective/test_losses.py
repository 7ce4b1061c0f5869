"""Losses against torch's own, their derivatives against autograd, labels against their rules."""

import copy
import pickle

import pytest
import torch
from torch.nn import functional as F

from decoupled_descent.objective.losses import LOSSES, get_loss
from tests.problems import normal

OUTPUTS = 3 * normal(12, 3, seed=1)
REAL = normal(12, 3, seed=2)
SHARE = torch.rand(12, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
CLASSES = torch.arange(12) % 3
COUNTS = torch.arange(36, dtype=torch.float64).reshape(12, 3) % 5

REFERENCES = {
    "squared": (REAL, lambda u, y: F.mse_loss(u, y, reduction="none").sum(1) / 2),
    "absolute": (REAL, lambda u, y: F.l1_loss(u, y, reduction="none").sum(1)),
    "logistic": (
        SHARE,
        lambda u, y: F.binary_cross_entropy_with_logits(u, y, reduction="none").sum(1),
    ),
    "poisson": (
        COUNTS,
        lambda u, y: (u.exp() - y * u + torch.xlogy(y, y) - y).sum(1),
    ),
    "proportion": (
        SHARE,
        lambda u, y: torch.distributions.kl_divergence(  # of Bernoulli laws
            torch.distributions.Bernoulli(y), torch.distributions.Bernoulli(logits=u)
        ).sum(1),
    ),
    "cross_entropy": (CLASSES, lambda u, y: F.cross_entropy(u, y, reduction="none")),
}


@pytest.mark.parametrize("name", LOSSES)
def test_value_is_torchs(name):
    labels, reference = REFERENCES[name]
    torch.testing.assert_close(get_loss(name).value(OUTPUTS, labels), reference(OUTPUTS, labels))


@pytest.mark.parametrize("name", [name for name, loss in LOSSES.items() if loss.expand])
def test_expansion_is_autograds(name):
    labels, reference = REFERENCES[name]
    result = LOSSES[name].expand(OUTPUTS.T, labels.T if labels.ndim == 2 else labels)
    torch.testing.assert_close(result.value, reference(OUTPUTS, labels))
    for i in range(len(OUTPUTS)):

        def row(u, i=i):
            return reference(u.unsqueeze(0), labels[i : i + 1]).squeeze()

        hessian = torch.diag(result.diagonal[:, i])
        if result.rank_one is not None:
            hessian = hessian - torch.outer(result.rank_one[:, i], result.rank_one[:, i])
        torch.testing.assert_close(result.slope[:, i], torch.func.grad(row)(OUTPUTS[i]))
        torch.testing.assert_close(hessian, torch.func.hessian(row)(OUTPUTS[i]))


def test_logistic_survives_huge_logits():
    u = torch.tensor([[-1e4, 1e4, -1e4, 1e4]])
    y = torch.tensor([[0.0, 1.0, 1.0, 0.0]])
    result = LOSSES["logistic"].expand(u, y)
    assert result.value.tolist() == [0.0, 0.0, 1e4, 1e4]
    assert result.slope[0].tolist() == [0.0, 0.0, -1.0, 1.0]
    assert result.diagonal.abs().max() == 0


def test_cross_entropy_survives_huge_logits():
    u = torch.tensor([[1e4, -1e4], [-1e4, 1e4]])  # symmetric: rows and columns alike
    result = LOSSES["cross_entropy"].expand(u, torch.tensor([0, 0]))
    assert result.value.tolist() == [0.0, 2e4]
    assert result.slope.isfinite().all()


def test_a_callable_is_taken_as_it_is():
    def huber(u, y):
        return F.huber_loss(u, y, reduction="none")

    loss = get_loss(huber)
    assert (loss.name, loss.value, loss.expand, loss.builtin) == ("huber", huber, None, False)


def test_unknown_name():
    with pytest.raises(ValueError, match=r"loss='hinge' is unknown; use one of squared.*callable"):
        get_loss("hinge")


def test_a_copy_from_another_process_is_the_loss_itself():
    for loss in LOSSES.values():
        assert pickle.loads(pickle.dumps(loss)) is loss is copy.deepcopy(loss)
