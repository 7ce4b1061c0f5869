"""The objective against brute force: values, row derivatives, copies, and what it refuses."""

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, hessian

import decoupled_descent as dd
from tests.problems import binary, normal, two_layer, xor_objective

N, SHARE = 6, torch.rand(6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
CLASSES = torch.tensor([0, 1, 2, 2, 1, 0])


class Attention(nn.Module):
    """No closed form: outputs mix the pre-activations of a row through a softmax."""

    def __init__(self):
        super().__init__()
        self.value = nn.Parameter(normal(3, seed=8))

    def forward(self, h):
        return (torch.softmax(h, 1) * h * self.value).sum(1)


CASES = {
    "linear": (dd.heads.Linear(), "squared", SHARE, 1),
    "glm": (dd.heads.GeneralisedLinear("softplus"), "squared", SHARE, 1),
    "two-layer": (dd.heads.TwoLayer(3, "gelu", bias=True, seed=0).double(), "logistic", SHARE, 3),
    "deep": (dd.heads.Deep([3, 4, 2], "silu", seed=0).double(), "logistic", SHARE, 3),
    "softmax": (dd.heads.Deep([2, 4], outputs=3, seed=0).double(), "cross_entropy", CLASSES, 2),
    "vector": (dd.heads.TwoLayer(3, outputs=2, seed=0).double(), "squared", normal(6, 2), 3),
    "product": (dd.heads.Product(a=0.7).double(), "logistic", SHARE, 2),
    "attention": (Attention(), "squared", SHARE, 3),
    "shared activation": (dd.heads.Deep([3, 3], nn.Tanh(), seed=0).double(), "logistic", SHARE, 3),
}


def reference(head, loss, parameters, h, y):
    """Ψ of a single row, by torch's own losses."""
    u = functional_call(head, parameters, (h.unsqueeze(0),)).reshape(-1)
    if loss == "cross_entropy":
        return nn.functional.cross_entropy(u, y)
    if loss == "logistic":
        return nn.functional.binary_cross_entropy_with_logits(u, y.reshape(-1), reduction="sum")
    return (u - y.reshape(-1)).square().sum() / 2


@pytest.mark.parametrize("curvature", ["auto", "autodiff"])
@pytest.mark.parametrize("case", CASES)
def test_row_derivatives(case, curvature):
    head, loss, y, width = CASES[case]
    h, objective = normal(N, width, seed=3), dd.Objective(head, loss, curvature=curvature)
    a = objective.parameters()
    found = objective.derivatives(h, y)

    def psi(h, a, y):
        return reference(head, loss, a, h, y)

    rows = list(zip(h, y, strict=True))
    torch.testing.assert_close(found.loss, torch.stack([psi(x, a, t) for x, t in rows]))
    torch.testing.assert_close(found.direction, torch.stack([grad(psi)(x, a, t) for x, t in rows]))
    bend = torch.stack([hessian(psi)(x, a, t) for x, t in rows]).mean(0)
    torch.testing.assert_close(found.jacobian, bend)
    slopes = [grad(psi, argnums=1)(x, a, t) for x, t in rows]
    means = {name: torch.stack([s[name] for s in slopes]).mean(0) for name in a}
    torch.testing.assert_close(found.head, means)
    torch.testing.assert_close(objective.losses(h, y), found.loss)
    assert not any(t.requires_grad for t in (found.loss, found.direction, *found.head.values()))


def test_repeated_layers_are_not_mistaken_for_one():
    activation, linear = nn.Tanh(), nn.Linear(3, 3).double()
    head = nn.Sequential(activation, linear, activation, linear, nn.Linear(3, 1).double())
    objective, h = dd.Objective(head, "logistic"), normal(N, 3)
    plain = dd.Objective(head, "logistic", curvature="autodiff")
    torch.testing.assert_close(objective.derivatives(h, SHARE), plain.derivatives(h, SHARE))


def test_tied_weights():
    head = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3), nn.Linear(3, 1)).double()
    head[2].weight = head[0].weight
    objective, h = dd.Objective(head, "logistic"), normal(N, 3)
    plain = dd.Objective(head, "logistic", curvature="autodiff")
    torch.testing.assert_close(objective.derivatives(h, SHARE), plain.derivatives(h, SHARE))


def test_tied_buffers_follow_the_dtype():
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.full((3,), 2.0, dtype=torch.float64))
            self.register_buffer("shift", self.scale)

        def forward(self, h):
            return (torch.tanh(h) * self.scale + self.shift).sum(1)

    outputs = dd.Objective(Shifted(), "logistic").outputs(torch.zeros(N, 3))
    assert outputs.dtype == torch.float32
    assert outputs.tolist() == [6.0] * N


def test_own_loss():
    def pinball(u, y):
        return torch.logaddexp(u - y, y - u)

    objective, h = dd.Objective(Attention(), pinball), normal(N, 3)
    found = objective.derivatives(h, SHARE)
    leaf = h.clone().requires_grad_()
    value = pinball(objective.head(leaf), SHARE)
    torch.testing.assert_close(found.loss, value.detach())
    torch.testing.assert_close(found.direction, torch.autograd.grad(value.sum(), leaf)[0])


def test_the_head_is_never_changed():
    (X, y), head = binary(), dd.heads.Deep([3, 2], seed=0)
    before = copy.deepcopy(head)
    dd.fit(X, y, dd.Objective(head, "logistic"), dd.DecoupledDescent(0.1), 5)
    torch.testing.assert_close(dict(head.state_dict()), dict(before.state_dict()), rtol=0, atol=0)
    assert head[1].weight.dtype == torch.float32
    assert all(p.grad is None and p.requires_grad for p in head.parameters())


def test_module_carries_the_parameters_in_a_copy():
    objective = two_layer()
    a = {name: value + 1 for name, value in objective.parameters().items()}
    head = objective.module(a)
    assert torch.equal(head[1].weight, objective.head[1].weight + 1)
    a["1.weight"].zero_()
    assert head[1].weight.abs().min() > 0


def test_outputs():
    objective, h = two_layer(), normal(N, 3)
    expected = (torch.tanh(h) @ objective.head[1].weight.T).squeeze(1)
    torch.testing.assert_close(objective.outputs(h), expected)
    several = dd.Objective(dd.heads.TwoLayer(3, outputs=4).double(), "cross_entropy")
    assert several.outputs(h).shape == (N, 4)


def test_width_is_read_off_the_head():
    assert dd.Objective(nn.Sequential(nn.Tanh(), nn.Linear(5, 1)), "squared").width == 5
    assert dd.Objective(nn.Tanh(), "squared").width is None
    assert dd.Objective(nn.Tanh(), "squared", width=4).width == 4


def test_evaluation_mode_makes_batch_normalisation_welcome():
    (X, y), norm = binary(), nn.BatchNorm1d(3)
    head = nn.Sequential(nn.Tanh(), norm, nn.Linear(3, 1)).double().eval()
    before = copy.deepcopy(dict(norm.named_buffers()))
    run = dd.fit(X, y, dd.Objective(head, "logistic"), dd.DecoupledDescent(0.1), 4)
    assert run.train_error[-1] < run.train_error[0]
    torch.testing.assert_close(dict(norm.named_buffers()), before, rtol=0, atol=0)


def average(u, y):
    return (u - y).square().mean()


def check(head, loss, y=None, width=2, **options):
    labels = SHARE if y is None else y
    dd.Objective(head, loss, **options).check(
        labels, width, labels.new_zeros((), dtype=torch.float64)
    )


@pytest.mark.parametrize(
    ("head", "loss", "message"),
    [
        (nn.Linear(3, 1), "squared", r"Linear cannot take pre-activations of shape \(6, 2\)"),
        (dd.heads.TwoLayer(3), "squared", "the head takes L = 3 .*theta has 2 rows"),
        (nn.Unflatten(1, (1, 2)), "squared", r"returned shape \(6, 1, 2\) for 6 rows.*\(n, K\)"),
        (nn.Flatten(0), "squared", r"returned shape \(12,\) for 6 rows"),
        (nn.Linear(2, 3), "squared", r"the head has 3 output\(s\) but y has 1 column"),
        (nn.Linear(2, 3), "cross_entropy", "class indices 0 … 2; encode"),
        (nn.Linear(2, 1), "cross_entropy", "at least 2 outputs or use loss 'logistic'"),
        (dd.heads.Product(), average, r"'average' returned shape \(\).*without averaging"),
        (dd.heads.Product(), nn.MSELoss(), "'MSELoss' returned .*without averaging"),
        (nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 1)), "squared", r"dropout.*head\.eval\(\)"),
    ],
)
def test_what_does_not_fit_together(head, loss, message):
    with pytest.raises(ValueError, match=message):
        check(head, loss)


def test_training_mode_batch_normalisation():
    head = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1))
    before = copy.deepcopy(head.state_dict())
    with pytest.raises(ValueError, match=r"Sequential.*head\.eval\(\)"):
        check(head, "squared")
    torch.testing.assert_close(dict(head.state_dict()), dict(before), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dd.Objective(torch.tanh, "squared"), "head=.*must be a torch.nn.Module"),
        (lambda: dd.Objective(nn.Tanh(), "hinge"), "loss='hinge' is unknown"),
        (lambda: xor_objective(curvature="exact"), "curvature='exact' must be one of auto"),
        (
            lambda: dd.Objective(Attention(), "squared", curvature="structured"),
            "no closed form for head Attention.*curvature='auto'",
        ),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("p", [0.01, 0.5])
def test_active_dropout_is_found_whatever_chance_says(p):
    head = torch.nn.Sequential(torch.nn.Dropout(p), torch.nn.Linear(3, 1))
    with pytest.raises(ValueError, match=r"random .*head.eval\(\)"):
        dd.Objective(head, "squared").check(torch.zeros(8), 3, torch.zeros(()))
    dd.Objective(head.eval(), "squared").check(torch.zeros(8), 3, torch.zeros(()))


def test_a_head_with_nan_says_so():
    head = dd.heads.TwoLayer(2)
    torch.nn.init.constant_(head[1].weight, float("nan"))
    with pytest.raises(ValueError, match="returned nan for finite"):
        dd.Objective(head, "squared").check(torch.zeros(8), 2, torch.zeros(()))


@pytest.mark.parametrize(
    ("directions", "message"),
    [({}, "f returned nothing"), ({"1.weight": torch.ones(1, 2)}, r"f returned shape \(1, 2\)")],
)
def test_f_must_answer_for_every_parameter(directions, message):
    objective = dd.Objective(dd.heads.TwoLayer(2), "squared")
    with pytest.raises(ValueError, match=message):
        objective.derivatives(torch.ones(4, 2), torch.ones(4), f=lambda h, y, a: directions)
