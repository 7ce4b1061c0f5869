"""Closed forms against reverse passes and differences; and never where they do not apply."""

import copy
import functools
import warnings
from collections import OrderedDict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrize, prune

import decoupled_descent as dd
from decoupled_descent.objective import activations, chains
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
            found = objective.derivatives(rows, y)
            assert_agree(found.loss, row_losses(head, loss, rows, y).detach())
            assert_agree(found.direction, slope, 1e-8)
            assert_agree(found.jacobian, bend, 1e-7)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_generalised_linear(activation, loss):
    head, h, y = (
        dd.heads.GeneralisedLinear(ACTIVATIONS[activation]()),
        normal(N, 1),
        labels(loss, N, 1),
    )
    closed, plain = pair(head, loss)
    found = closed.derivatives(h, y)
    assert found.head == {}
    assert_agree(found, plain.derivatives(h, y))


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("frozen", [False, True])
def test_product(loss, frozen):
    head, h, y = dd.heads.Product(a=-0.7).double(), normal(N, 2), labels(loss, N, 1)
    head.a.requires_grad_(not frozen)
    slope, bend = differences(lambda h: row_losses(head, loss, h, y), h)
    closed, plain = pair(head, loss)
    found = closed.derivatives(h, y)
    assert_agree(found, plain.derivatives(h, y))
    assert list(found.head) == ([] if frozen else ["a"])
    assert_agree([found.direction, found.jacobian], [slope, bend], 1e-7)


@pytest.mark.parametrize("frozen", ["0.bias", "2.weight", "2.bias", "4.weight", "all"])
def test_frozen_parameters(frozen):
    head = seeded(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 4), nn.SiLU(), nn.Linear(4, 2))
    for name, parameter in head.named_parameters():
        parameter.requires_grad_(frozen not in (name, "all"))
    h, y = normal(N, 3), labels("cross_entropy", N, 2)  # the head is in float32, the rows are not
    closed, plain = pair(head, "cross_entropy")
    found = closed.derivatives(h, y)
    assert set(found.head) == {k for k, v in head.named_parameters() if v.requires_grad}
    assert_agree(found, plain.derivatives(h, y))
    assert_agree(found, by_rows(copy.deepcopy(head).double(), "cross_entropy", h, y))


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
    found = objective.engine(h, y, objective.parameters(h), Ask())
    zeros = [torch.zeros(shape, dtype=torch.float64) for shape in ((N,), (N, 3), (3, 3))]
    assert_agree(found[:3], zeros)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_whole_number_labels(loss):
    head, h, y = dd.heads.TwoLayer(3, seed=0).double(), normal(N, 3), torch.arange(N) % 2
    found, expected = (dd.Objective(head, loss).derivatives(h, t) for t in (y, y.double()))
    assert_agree(found, expected)


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
        found = objective.derivatives(h, y)
        assert_agree(found.loss, torch.logaddexp(-margin, torch.zeros(1, dtype=torch.float64)))
        assert_agree(found.direction[0], (1 - 2 * y) * wrong)
        assert_agree(found.jacobian[0], wrong * torch.sigmoid(margin))


# What does not matter


def plain_chain():
    return dd.heads.TwoLayer(3, bias=True, seed=0)


def followed_by(*layers):
    """The same head with layers in front of it, in it and behind it that do nothing."""
    return nn.Sequential(*plain_chain(), *layers)


IDLE = {
    "Flatten(0)": lambda: followed_by(nn.Flatten(0)),
    "Identity": lambda: followed_by(nn.Identity()),
    "Flatten()": lambda: followed_by(nn.Flatten()),
    "Unflatten": lambda: followed_by(nn.Unflatten(1, (1,))),
    "Dropout, evaluated": lambda: followed_by(nn.Dropout(0.5)).eval(),
    "Dropout(0)": lambda: followed_by(nn.Dropout(0.0)),
    "several": lambda: followed_by(nn.Identity(), nn.Dropout().eval(), nn.Flatten(0)),
    "Identity after Flatten(0)": lambda: followed_by(nn.Flatten(0), nn.Identity()),
    "Dropout first": lambda: nn.Sequential(nn.Dropout().eval(), *plain_chain()),
    "Identity between": lambda: nn.Sequential(
        plain_chain()[0], nn.Identity(), nn.Flatten(), plain_chain()[1]
    ),
    "nested": lambda: nn.Sequential(nn.Sequential(plain_chain()), nn.Flatten(0)),
    "Flatten(0) in a Sequential": lambda: followed_by(nn.Identity(), nn.Sequential(nn.Flatten(0))),
    "nested behind": lambda: nn.Sequential(
        plain_chain()[0], nn.Sequential(plain_chain()[1], nn.Identity(), nn.Flatten(0))
    ),
    "named": lambda: nn.Sequential(
        OrderedDict(bend=plain_chain()[0], out=plain_chain()[1], flat=nn.Flatten(0))
    ),
    "named and nested": lambda: nn.Sequential(
        OrderedDict(inner=nn.Sequential(OrderedDict(a=plain_chain()[0], b=plain_chain()[1])))
    ),
}


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("case", IDLE)
def test_layers_that_do_nothing_keep_the_closed_form(case, loss):
    h, y = normal(N, 3), labels(loss, N, 1)
    head, plain = IDLE[case]().double(), plain_chain().double()
    bound = dd.Objective(head, loss).bind(y, 3, h)
    assert bound.curvature == "structured"
    found, wanted = bound.derivatives(h, y), dd.Objective(plain, loss).derivatives(h, y)
    assert_agree(found[:3], wanted[:3])
    assert_agree(list(found.head.values()), list(wanted.head.values()))
    assert_agree(bound.outputs(h), plain(h).squeeze(1).detach())


def test_layers_that_only_seem_to_do_nothing():
    """Dropout in training, and a flattening of several columns."""
    assert chains.parse(followed_by(nn.Dropout(0.5)).train()) is None
    assert chains.parse(nn.Sequential(nn.Tanh(), nn.Linear(3, 2), nn.Flatten(0))) is None
    assert chains.parse(nn.Sequential(nn.Flatten(0), nn.Tanh(), nn.Linear(3, 1))) is None


# What must not be taken for a chain of known layers


class ShiftedLinear(nn.Linear):
    def forward(self, x):
        return super().forward(x) + 1


class Doubled(nn.Tanh):
    def forward(self, x):
        return 2 * torch.tanh(x)


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


class Backwards(nn.Sequential):
    def __iter__(self):
        return reversed(list(self._modules.values()))


class Called(nn.Sequential):
    def __call__(self, x):
        return super().__call__(x) ** 2


class SumHead(dd.heads.Product):
    def forward(self, h):
        return self.a * (h[:, 0] + h[:, 1] ** 2)


class Sine(Elementwise):
    def forward(self, h):
        return torch.sin(h)


class Unhashable:
    __hash__ = None

    def __call__(self, h):
        return torch.tanh(2 * h)


class Exponential(nn.Module):
    def forward(self, w):
        return w.exp()


def chain(first=None, last=None):
    return seeded(first or nn.Tanh(), last or nn.Linear(3, 1))


def changed(head, change):
    change(head)
    return head


def set_forward(index, function):
    return changed(chain(), lambda head: setattr(head[index], "forward", function))


def tied():
    head = seeded(nn.Tanh(), nn.Linear(3, 3), nn.Sigmoid(), nn.Linear(3, 3), nn.Linear(3, 1))
    head[3].weight = head[1].weight
    return head


def shared_layer():
    layer = nn.Linear(3, 3)
    return seeded(nn.Tanh(), layer, nn.Sigmoid(), layer, nn.Linear(3, 1))


def buffered():
    head = chain()
    bias = head[1].bias.detach()
    del head[1].bias
    head[1].register_buffer("bias", bias)
    return head


def old_weight_norm():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return changed(chain(), lambda head: nn.utils.weight_norm(head[1]))


def spectral(norm):
    return changed(chain(last=nn.Linear(3, 2)), lambda head: norm(head[1])).eval()


IMPOSTORS = {
    "linear subclass": lambda: chain(last=ShiftedLinear(3, 1)),
    "activation subclass": lambda: chain(Doubled()),
    "sequential subclass": lambda: Residual(*chain(last=nn.Linear(3, 3))),
    "inner sequential subclass": lambda: seeded(Residual(nn.Tanh()), nn.Linear(3, 1)),
    "reversed sequential": lambda: Backwards(*reversed(list(chain()))),
    "sequential that is called differently": lambda: Called(*chain()),
    "product subclass": lambda: SumHead(a=0.7),
    "elementwise subclass": lambda: chain(Sine(torch.tanh)),
    "forward of an activation replaced": lambda: set_forward(0, torch.sin),
    "forward of a layer replaced": lambda: set_forward(1, lambda x: x[:, :1].sin()),
    "forward of the head replaced": lambda: changed(
        chain(), lambda head: setattr(head, "forward", lambda x: x[:, 0].cos())
    ),
    "forward of the product replaced": lambda: changed(
        dd.heads.Product(a=0.7), lambda head: setattr(head, "forward", lambda x: x[:, 0].cos())
    ),
    "forward hook": lambda: changed(
        chain(), lambda head: head[0].register_forward_hook(lambda m, i, o: o**2)
    ),
    "forward hook of the head": lambda: changed(
        chain(), lambda head: head.register_forward_hook(lambda m, i, o: o**2)
    ),
    "forward hook of the product": lambda: changed(
        dd.heads.Product(a=0.7), lambda head: head.register_forward_hook(lambda m, i, o: o**2)
    ),
    "forward hook of an identity": lambda: changed(
        chain(nn.Identity()), lambda head: head[0].register_forward_hook(lambda m, i, o: o**2)
    ),
    "pre-hook": lambda: changed(
        chain(), lambda head: head[1].register_forward_pre_hook(lambda m, i: (i[0] ** 2,))
    ),
    "parametrised": lambda: changed(
        chain(), lambda head: parametrize.register_parametrization(head[1], "weight", Exponential())
    ),
    "weight norm": lambda: changed(
        chain(), lambda head: nn.utils.parametrizations.weight_norm(head[1])
    ),
    "old weight norm": old_weight_norm,
    "spectral norm": lambda: spectral(nn.utils.parametrizations.spectral_norm),
    "old spectral norm": lambda: spectral(nn.utils.spectral_norm),
    "pruned": lambda: changed(chain(), lambda head: prune.l1_unstructured(head[1], "weight", 1)),
    "tied weights": tied,
    "shared layer": shared_layer,
    "bias in a buffer": buffered,
    "sharp softplus": lambda: chain(nn.Softplus(beta=2)),
    "early softplus": lambda: chain(nn.Softplus(threshold=10)),
    "late softplus": lambda: chain(nn.Softplus(threshold=50)),
    "approximate GELU": lambda: chain(nn.GELU(approximate="tanh")),
    "partial GELU": lambda: chain(
        Elementwise(functools.partial(functional.gelu, approximate="tanh"))
    ),
    "unhashable function": lambda: chain(Elementwise(Unhashable())),
    "Mish": lambda: chain(nn.Mish()),
    "CELU": lambda: chain(nn.CELU(2.0)),
    "softmax": lambda: chain(nn.Softmax(1)),
    "layer norm": lambda: chain(nn.LayerNorm(3)),
    "evaluated batch norm": lambda: chain(nn.BatchNorm1d(3)).eval(),
}


@pytest.mark.parametrize("case", IMPOSTORS)
def test_impostors_are_left_to_autodiff(case):
    head = IMPOSTORS[case]().double()
    width = 2 if isinstance(head, dd.heads.Product) else 3
    outputs = head(normal(N, width)).reshape(N, -1).shape[1]
    h, y = normal(N, width, seed=5), labels("squared", N, outputs)
    with pytest.raises(ValueError, match="no closed form"):
        dd.Objective(head, "squared", curvature="structured")
    bound = dd.Objective(head, "squared").bind(y, width, h)
    found = bound.derivatives(h, y)
    assert bound.curvature == "autodiff"
    assert_agree(found.loss, row_losses(head, "squared", h, y).detach())
    slope, bend = differences(lambda h: row_losses(head, "squared", h, y), h)
    assert_agree([found.direction, found.jacobian], [slope, bend], 1e-7)


@pytest.mark.parametrize("register", ["full_backward_hook", "full_backward_pre_hook"])
def test_backward_hooks_are_left_to_autodiff(register):
    head = chain()
    getattr(head[1], f"register_{register}")(lambda *args: None)
    assert chains.parse(head) is None


@pytest.mark.parametrize("layer", [nn.Dropout(0.5), nn.BatchNorm1d(3), nn.RReLU()])
def test_layers_that_mix_rows_or_are_random_are_refused(layer):
    objective, y = dd.Objective(chain(layer).double(), "squared"), normal(N)
    with pytest.raises(ValueError, match="mixes rows or is random"):
        objective.check(y, 3, y)


def test_repeated_activation_is_repeated():
    activation = nn.Tanh()
    head = seeded(activation, nn.Linear(3, 3), activation, nn.Linear(3, 1)).double()
    h, y = normal(N, 3), labels("squared", N, 1)
    found = dd.Objective(head, "squared", curvature="structured").derivatives(h, y)
    assert_agree(found, by_rows(head, "squared", h, y))


@pytest.mark.parametrize("activation", [nn.SiLU, nn.ReLU])
def test_layers_that_work_in_place_leave_the_rows_alone(activation):
    head, h, y = chain(activation(inplace=True)).double(), normal(N, 3), normal(N)
    kept, closed_plain = h.clone(), pair(head, "squared")
    for objective in closed_plain:
        objective.check(y, 3, y)
        objective.losses(h, y)
        found = objective.derivatives(h, y)
        assert torch.equal(h, kept)
        assert_agree(found, by_rows(chain(activation()).double(), "squared", h, y))
