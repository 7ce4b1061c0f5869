"""Losses against torch's own, their derivatives against autograd, labels against their rules."""

import pytest
import torch
from torch.nn import functional as F

import decoupled_descent as dd
from decoupled_descent.objective.losses import (
    LOSSES,
    check_labels,
    get_loss,
    varied_rows,
)
from tests.problems import binary, normal

OUTPUTS = 3 * normal(12, 3, seed=1)
REAL = normal(12, 3, seed=2)
SHARE = torch.rand(12, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
CLASSES = torch.arange(12) % 3

REFERENCES = {
    "squared": (REAL, lambda u, y: F.mse_loss(u, y, reduction="none").sum(1) / 2),
    "absolute": (REAL, lambda u, y: F.l1_loss(u, y, reduction="none").sum(1)),
    "logistic": (
        SHARE,
        lambda u, y: F.binary_cross_entropy_with_logits(u, y, reduction="none").sum(1),
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


@pytest.mark.parametrize(
    ("name", "labels", "outputs", "message"),
    [
        ("logistic", torch.tensor([0.0, -1.0]), 1, r"y contains -1.*\(y \+ 1\) / 2"),
        ("logistic", torch.tensor([0, 2]), 1, "y contains 2"),
        ("squared", torch.zeros(4), 2, r"2 output\(s\) but y has 1 column\(s\)"),
        ("squared", torch.zeros(4, 3), 1, r"1 output\(s\) but y has 3 column\(s\)"),
        ("cross_entropy", torch.tensor([0, 3]), 3, "from 0 to 3.*0 … 2"),
        ("cross_entropy", torch.tensor([-1, 0]), 3, "from -1 to 0"),
        ("cross_entropy", torch.tensor([0.5, 1.0]), 3, "from 0.5 to 1.*encode the classes"),
        ("cross_entropy", torch.zeros(4, 3), 3, r"shape \(4, 3\).*argmax"),
        ("cross_entropy", torch.tensor([0, 1]), 1, "one output per class.*'logistic'"),
    ],
)
def test_labels_that_do_not_fit(name, labels, outputs, message):
    with pytest.raises(ValueError, match=message):
        check_labels(LOSSES[name], labels, outputs)


@pytest.mark.parametrize(
    ("name", "labels", "outputs"),
    [
        ("logistic", torch.tensor([0.0, 0.3, 1.0]), 1),
        ("logistic", torch.tensor([[0.0, 1.0]]), 2),
        ("squared", torch.tensor([-5, 7]), 1),
        ("cross_entropy", torch.tensor([0.0, 2.0]), 3),
        ("cross_entropy", torch.tensor([0, 2], dtype=torch.uint8), 3),
    ],
)
def test_labels_that_fit(name, labels, outputs):
    check_labels(LOSSES[name], labels, outputs)


def broadcast(u, y):
    return ((u - y) ** 2).mean(1) / 2


def balanced(u, y):
    return torch.where(y > 0, 1 / y.mean(), 1.0) * (u.squeeze(1) - y) ** 2


@pytest.mark.parametrize("loss", [broadcast, balanced])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_loss_that_mixes_rows(loss, dtype):
    X, y = binary(dtype=dtype)
    message = r"mixes rows.*outputs of shape \(n, 1\) and y of shape \(n,\).*squeeze\(1\)"
    with pytest.raises(ValueError, match=message):
        dd.fit(X, y.sort().values, dd.Objective(dd.heads.Linear(), loss), dd.DecoupledDescent(0.1))


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize(
    "loss",
    [
        lambda u, y: (u.squeeze() - y.squeeze()) ** 2,
        lambda u, y: torch.logaddexp(u[:, 0] - y, y - u[:, 0]),
        lambda u, y: torch.log(u[:, 0]) + y,  # nan for some outputs
        lambda u, y: u.sub_(y.unsqueeze(1)).square().sum(1),
    ],
)
def test_losses_that_treat_rows_one_by_one(loss, scale):
    for dtype in (torch.float32, torch.float64):
        y = (scale * normal(50)).to(dtype)
        dd.Objective(dd.heads.Linear(), loss).check(y, 1, torch.zeros((), dtype=dtype))


def test_weights_per_row_belong_to_the_labels():
    (X, y), weights = binary(), normal(24).abs()
    head, algorithm = dd.heads.Linear(), dd.DecoupledDescent(0.1)
    with pytest.raises(ValueError, match=r"'<lambda>' fails .*size of tensor.*passed as weights="):
        dd.fit(X, y, dd.Objective(head, lambda u, y: weights * (u[:, 0] - y) ** 2), algorithm, 2)
    inside = dd.Objective(head, lambda u, y: y[:, 1] * (u[:, 0] - y[:, 0]) ** 2)
    dd.fit(X, torch.stack([y, weights], 1), inside, algorithm, 2)


@pytest.mark.parametrize(
    ("labels", "count", "picked"),
    [
        ([3.0, 3.0, 1.0, 3.0, 2.0], 3, [1.0, 2.0, 3.0]),
        ([True, False, False, False], 4, [False, False, True, True]),
        (list(range(100)), 4, [0, 33, 66, 99]),
        ([7], 2, [7, 7]),
        ([[0, 5], [0, 6], [1, 5], [0, 7]], 4, [[0, 5], [1, 5], [0, 5], [0, 7]]),
    ],
)
def test_varied_rows(labels, count, picked):
    y = torch.tensor(labels)
    assert y[varied_rows(y, count)].tolist() == picked
