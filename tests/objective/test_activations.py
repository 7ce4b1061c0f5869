"""σ, σ' and σ'' of every activation with a closed form, against autograd."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from decoupled_descent.objective.activations import FUNCTIONS, MODULES, closed_form
from decoupled_descent.objective.heads import Elementwise

Z = torch.cat([torch.linspace(-6, 6, 49), torch.tensor([-35.0, -18.0, 18.0, 35.0])]).double()
Z = Z[Z != 0]  # relu has no derivative there
DELTA = torch.linspace(-2, 3, len(Z)).double()
CASES = [
    *(kind() for kind in MODULES),
    *(Elementwise(function) for function in FUNCTIONS),
    nn.LeakyReLU(0.01),
    nn.LeakyReLU(0.3),
]
UNBOUNDED = (torch.exp, torch.square)  # whose values overflow far out
each = pytest.mark.parametrize("module", CASES, ids=repr)


def derivatives(module, z):
    """σ, σ' and σ'' by differentiating twice."""
    z = z.clone().requires_grad_()
    value = module(z)
    (first,) = torch.autograd.grad(value.sum(), z, create_graph=True)
    if not first.requires_grad:
        return value.detach(), first, torch.zeros_like(z)
    (second,) = torch.autograd.grad(first.sum(), z)
    return value.detach(), first.detach(), second


@each
def test_closed_form_is_autograds(module):
    z = Z.clamp(-20, 20) if getattr(module, "function", None) is torch.exp else Z
    value, first, bend = closed_form(module)(z)
    expected = derivatives(module, z)
    torch.testing.assert_close(value, expected[0], rtol=1e-7, atol=1e-8)
    torch.testing.assert_close(first, expected[1], rtol=1e-7, atol=1e-8)
    scale, left, right = bend(lambda: DELTA, DELTA * first)
    torch.testing.assert_close(scale * left * right, DELTA * expected[2], rtol=1e-7, atol=3e-8)


@pytest.mark.parametrize(
    "module", [m for m in CASES if getattr(m, "function", None) not in UNBOUNDED], ids=repr
)
def test_far_out_nothing_overflows_in_single_precision(module):
    z = torch.tensor([-500.0, -90.0, 90.0, 500.0])
    value, first, bend = closed_form(module)(z)
    assert value.isfinite().all()
    assert first.isfinite().all()
    scale, left, right = bend(lambda: torch.ones(4), first)
    assert (scale * left * right).isfinite().all()


@pytest.mark.parametrize(
    "module",
    [
        nn.Softplus(beta=2),
        nn.Softplus(threshold=5),
        nn.GELU(approximate="tanh"),
        nn.ELU(),
        nn.Dropout(),
        Elementwise(torch.atan),
        Elementwise(lambda z: torch.tanh(z)),
    ],
    ids=repr,
)
def test_what_has_no_closed_form_is_left_to_autodiff(module):
    assert closed_form(module) is None


def test_a_subclass_may_compute_something_else():
    class Louder(nn.Tanh):
        def forward(self, z):
            return 2 * functional.tanh(z)

    assert closed_form(Louder()) is None
