"""Linear layers of many copies as one product: the same values and derivatives."""

from __future__ import annotations

import torch
from torch import nn
from torch.func import functional_call, jvp, vjp, vmap
from torch.nn import functional

from decoupled_descent.networks.path.shared_linear import SharedLinear, linear
from tests.networks.path_problems import close, tanh_network


def test_values_and_both_derivatives_are_those_of_the_function():
    draw = torch.Generator().manual_seed(0)
    given = [torch.randn(*s, generator=draw).double() for s in ((5, 2, 3), (4, 3), (4,))]
    moved = [torch.randn(*each.shape, generator=draw).double() for each in given]
    pulled = torch.randn(5, 2, 4, generator=draw).double()
    for found, wanted in zip(
        jvp(linear, tuple(given), tuple(moved)),
        jvp(functional.linear, tuple(given), tuple(moved)),
        strict=True,
    ):
        close(found, wanted)
    for found, wanted in zip(
        vjp(linear, *given)[1](pulled), vjp(functional.linear, *given)[1](pulled), strict=True
    ):
        close(found, wanted)


def test_copies_of_a_network_have_the_same_derivatives_along_a_shared_direction():
    model = tanh_network(3, 4, 2)
    names = [name for name, _ in model.named_parameters()]
    draw = torch.Generator().manual_seed(0)
    copies = {k: torch.randn(6, *p.shape, generator=draw).double()
              for k, p in model.named_parameters()}  # fmt: skip
    along = {k: torch.randn(*p.shape, generator=draw).double()
             for k, p in model.named_parameters()}  # fmt: skip
    X = torch.randn(5, 3, generator=draw).double()

    def one(parameters):
        def moved(at):
            return jvp(lambda to: functional_call(model, to, (X,)), (at,), (along,))

        outputs, pull, change = vjp(moved, parameters, has_aux=True)
        return outputs, change, pull(torch.ones_like(outputs))[0]

    wanted = vmap(one)(copies)
    with SharedLinear():
        found = vmap(one)(copies)
    for k in (0, 1):
        close(found[k], wanted[k])
    for name in names:
        close(found[2][name], wanted[2][name])


def test_other_functions_are_left_alone():
    with SharedLinear():
        close(nn.functional.relu(torch.tensor([-1.0, 2.0])), torch.tensor([0.0, 2.0]))
