"""Closed forms against reverse passes and differences."""

import copy
import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import decoupled_descent as dd
from decoupled_descent.objective import activations
from decoupled_descent.objective.derivatives import Ask
from decoupled_descent.objective.heads import Elementwise
from tests.objective.references import (
    LOSSES,
    assert_agree,
    by_rows,
    differences,
    labels,
    row_losses,
)
from tests.problems import normal

N = 7
ACTIVATIONS = {kind.__name__: kind for kind in activations.MODULES}
ACTIVATIONS |= {"LeakyReLU": lambda: nn.LeakyReLU(0.3)}
ACTIVATIONS |= {
    f"{function.__module__}.{function.__name__}": functools.partial(Elementwise, function)
    for function in activations.FUNCTIONS
}
SMOOTH = [name for name in ACTIVATIONS if "relu" not in name.lower()]

HEADS = {  # (activation, outputs) -> head; the first number is L
    "two-layer": (4, lambda s, k: dd.heads.TwoLayer(4, s(), k, seed=1)),
    "bias and link": (3, lambda s, k: dd.heads.TwoLayer(3, s(), k, bias=True, link=s(), seed=2)),
    "three layers": (3, lambda s, k: dd.heads.Deep([3, 4], s(), k, bias=True, seed=3)),
    "four layers": (2, lambda s, k: dd.heads.Deep([2, 3, 4], s(), k, link="tanh", seed=4)),
    "linear first": (3, lambda s, k: seeded(nn.Linear(3, 4), s(), nn.Linear(4, k))),
    "two linear first": (
        3,
        lambda s, k: seeded(nn.Linear(3, 5), nn.Linear(5, 2), s(), nn.Linear(2, k, bias=False)),
    ),
    "consecutive": (
        3,
        lambda s, k: seeded(s(), nn.Tanh(), nn.Linear(3, 4), nn.Linear(4, 2), s(), nn.Linear(2, k)),
    ),
    "nested": (
        2,
        lambda s, k: seeded(
            nn.Sequential(s(), nn.Linear(2, 3)), nn.Identity(), s(), nn.Linear(3, k)
        ),
    ),
    "only an activation": (3, lambda s, k: nn.Sequential(s(), nn.Linear(3, k)) if k != 3 else s()),
}


def seeded(*layers):
    head, generator = nn.Sequential(*layers), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.normal_(0, 0.6, generator=generator)
    return head


def pair(head, loss):
    return [dd.Objective(head, loss, curvature=c) for c in ("structured", "autodiff")]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("shape", HEADS)
def test_agrees_with_autodiff(shape, activation):
    width, make = HEADS[shape]
    h = normal(N, width, seed=5)
    for loss in LOSSES:
        for outputs in (3,) if loss == "cross_entropy" else (1, 3):
            head = make(ACTIVATIONS[activation], outputs).double()
            y = labels(loss, N, outputs)
            closed, plain = pair(head, loss)
            assert_agree(closed.derivatives(h, y), plain.derivatives(h, y))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("loss", LOSSES)
def test_agrees_with_central_differences(loss, activation):
    """Rows at least 0.1 from zero, where ReLU and LeakyReLU have no kink within reach."""
    outputs = 3 if loss == "cross_entropy" else 1
    h = torch.linspace(-1.5, 1.3, N * 3, dtype=torch.float64).reshape(3, N).T
    h = torch.where(h.abs() < 0.1, 0.2, h)
    y = labels(loss, N, outputs)
    shapes = ("two-layer", "three layers", "linear first") if activation in SMOOTH else ()
    heads = [HEADS[shape] for shape in shapes]
    heads.append((3, lambda s, k: dd.heads.TwoLayer(3, s(), k, seed=6)))
    for width, make in heads:
        head = make(ACTIVATIONS[activation], outputs).double()
        rows = torch.cat([h, -h[:, :1]], 1)[:, :width]
        slope, bend = differences(lambda h, head=head: row_losses(head, loss, h, y), rows)
        for objective in pair(head, loss):
            result = objective.derivatives(rows, y)
            assert_agree(result.loss, row_losses(head, loss, rows, y).detach())
            assert_agree(result.direction, slope, 1e-8)
            assert_agree(result.jacobian, bend, 1e-7)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_generalised_linear(activation, loss):
    head, h, y = (
        dd.heads.GeneralisedLinear(ACTIVATIONS[activation]()),
        normal(N, 1),
        labels(loss, N, 1),
    )
    closed, plain = pair(head, loss)
    result = closed.derivatives(h, y)
    assert result.head == {}
    assert_agree(result, plain.derivatives(h, y))


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("frozen", [False, True])
def test_product(loss, frozen):
    head, h, y = dd.heads.Product(a=-0.7).double(), normal(N, 2), labels(loss, N, 1)
    head.a.requires_grad_(not frozen)
    slope, bend = differences(lambda h: row_losses(head, loss, h, y), h)
    closed, plain = pair(head, loss)
    result = closed.derivatives(h, y)
    assert_agree(result, plain.derivatives(h, y))
    assert list(result.head) == ([] if frozen else ["a"])
    assert_agree([result.direction, result.jacobian], [slope, bend], 1e-7)


@pytest.mark.parametrize("frozen", ["0.bias", "2.weight", "2.bias", "4.weight", "all"])
def test_frozen_parameters(frozen):
    head = seeded(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 4), nn.SiLU(), nn.Linear(4, 2))
    for name, parameter in head.named_parameters():
        parameter.requires_grad_(frozen not in (name, "all"))
    h, y = normal(N, 3), labels("cross_entropy", N, 2)  # the head is in float32, the rows are not
    closed, plain = pair(head, "cross_entropy")
    result = closed.derivatives(h, y)
    assert set(result.head) == {k for k, v in head.named_parameters() if v.requires_grad}
    assert_agree(result, plain.derivatives(h, y))
    assert_agree(result, by_rows(copy.deepcopy(head).double(), "cross_entropy", h, y))


@pytest.mark.parametrize("head", [nn.Identity(), nn.Sequential(), dd.heads.Linear()])
@pytest.mark.parametrize("loss", LOSSES)
def test_heads_without_parameters(head, loss):
    width = 1 if isinstance(head, dd.heads.Linear) else 3
    if width == 1 and loss == "cross_entropy":
        pytest.skip("a single output has no classes")
    h, y = normal(N, width), labels(loss, N, width)
    closed, plain = pair(head, loss)
    assert_agree(closed.derivatives(h, y), plain.derivatives(h, y))


def test_one_class_has_no_curvature():
    """Softmax over a single output: the loss is zero, whatever the fast path thinks."""
    head, h = dd.heads.TwoLayer(3, seed=0).double(), normal(N, 3)
    objective, y = dd.Objective(head, "cross_entropy"), torch.zeros(N, dtype=torch.int64)
    result = objective.engine(h, y, objective.parameters(h), Ask())
    zeros = [torch.zeros(shape, dtype=torch.float64) for shape in ((N,), (N, 3), (3, 3))]
    assert_agree(result[:3], zeros)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_whole_number_labels(loss):
    head, h, y = dd.heads.TwoLayer(3, seed=0).double(), normal(N, 3), torch.arange(N) % 2
    result, expected = (dd.Objective(head, loss).derivatives(h, t) for t in (y, y.double()))
    assert_agree(result, expected)


STEPS = st.one_of(
    st.sampled_from([name for name in ACTIVATIONS if "exp" not in name and "square" not in name]),
    st.tuples(st.integers(1, 4), st.booleans(), st.booleans()),  # width, bias, frozen
)


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(STEPS, max_size=7),
    width=st.integers(1, 5),
    outputs=st.integers(2, 3),
    scalar=st.booleans(),
    nest=st.integers(0, 7),
    loss=st.sampled_from(LOSSES),
    n=st.integers(1, 5),
    seed=st.integers(0, 10**6),
)
def test_random_chains(steps, width, outputs, scalar, nest, loss, n, seed):
    layers, size = [], width
    for step in steps:
        if isinstance(step, str):
            layers.append(ACTIVATIONS[step]())
            continue
        layers.append(nn.Linear(size, step[0], bias=step[1]).requires_grad_(not step[2]))
        size = step[0]
    outputs = 1 if scalar and loss != "cross_entropy" else outputs
    layers.append(nn.Linear(size, outputs))
    head = nn.Sequential(*layers[:nest], nn.Sequential(*layers[nest:])).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in head.parameters():
            bound = parameter.shape[-1] ** -0.5
            parameter.uniform_(-bound, bound, generator=generator)
    h, y = normal(n, width, seed=seed), labels(loss, n, outputs, seed)
    closed, plain = pair(head, loss)
    assert_agree(closed.derivatives(h, y), plain.derivatives(h, y))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_extreme_inputs(activation, loss):
    """|h| up to 50 and outputs of ±100, with rounding errors in proportion to the weights.

    Torch's softplus is 2e-9 off its formula beyond 20.
    """
    outputs = 3 if loss == "cross_entropy" else 1
    h = torch.linspace(-50, 50, 15, dtype=torch.float64)
    h = torch.stack([h, -h.flip(0).roll(3), torch.full_like(h, 0.1)], 1)
    head, y = (
        dd.heads.TwoLayer(3, ACTIVATIONS[activation](), outputs).double(),
        labels(loss, 15, outputs),
    )
    with torch.no_grad():
        size = head[0](h).abs().max()
        head[1].weight.copy_(normal(outputs, 3, seed=2) * 100 / size)
    closed, plain = pair(head, loss)
    tolerance = 1e-8 if "softplus" in activation.lower() else 1e-12
    tolerance *= max(1.0, float(head[1].weight.detach().abs().max()))
    assert_agree(closed.derivatives(h, y), plain.derivatives(h, y), tolerance)


@pytest.mark.parametrize("u", [-100.0, -37.0, -21.0, 19.0, 21.0, 30.0, 39.0, 41.0, 100.0])
@pytest.mark.parametrize("label", [0.0, 1.0])
def test_logistic_loss_far_out(u, label):
    """ℓ' = ±1/(1 + e^{±u}) and ℓ'' = ℓ'(1 − ℓ') to full precision where the label is right."""
    h, y = torch.tensor([[u]], dtype=torch.float64), torch.tensor([label], dtype=torch.float64)
    margin = (2 * y - 1) * h[0]
    wrong = torch.sigmoid(-margin)
    for objective in pair(dd.heads.Linear(), "logistic"):
        result = objective.derivatives(h, y)
        assert_agree(result.loss, torch.logaddexp(-margin, torch.zeros(1, dtype=torch.float64)))
        assert_agree(result.direction[0], (1 - 2 * y) * wrong)
        assert_agree(result.jacobian[0], wrong * torch.sigmoid(margin))


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("loss", LOSSES)
def test_several_heads_are_one_after_the_other(name, loss):
    width, make = HEADS[name]
    K = 3 if loss == "cross_entropy" else 1
    head = make(torch.nn.Tanh, K)
    first = next(head.parameters(), None)
    if first is None:
        pytest.skip("a head without parameters")
    first.requires_grad_(requires_grad=name != "three layers")  # a constant among them
    objective = dd.Objective(head, loss, width=width)
    assert objective.several is not None
    h, y = normal(N, width), labels(loss, N, K)
    bound = objective.bind(y, width, h)
    own = objective.parameters(h)
    heads = {k: v + normal(4, *v.shape, seed=3) for k, v in own.items()}
    weights = normal(4, N, seed=9).abs()
    losses, means = bound.several_heads(h, y, heads, weights)
    for k in range(4):
        parameters = {name: value[k] for name, value in heads.items()}
        alone = bound.derivatives(h, y, parameters, jacobian=False, weights=weights[k])
        torch.testing.assert_close(losses[k], alone.loss, rtol=1e-12, atol=1e-12)
        result = {name: value[k] for name, value in means.items()}
        torch.testing.assert_close(result, alone.head, rtol=1e-12, atol=1e-12)
