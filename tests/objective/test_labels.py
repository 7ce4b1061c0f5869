"""Labels against the rules of a loss, and losses that mix rows."""

import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.objective.labels import check_labels, varied_rows
from decoupled_descent.objective.losses import LOSSES
from tests.problems import binary, normal


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
