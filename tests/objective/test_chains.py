"""Heads read as chains: layers that do nothing are skipped; impostors are left to autodiff."""

import functools
import warnings
from collections import OrderedDict

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrize, prune

import decoupled_descent as dd
from decoupled_descent.objective import chains
from decoupled_descent.objective.heads import Elementwise
from tests.objective.references import assert_agree, by_rows, differences, labels, row_losses
from tests.objective.test_structured import N, pair, seeded
from tests.problems import normal

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
    result, wanted = bound.derivatives(h, y), dd.Objective(plain, loss).derivatives(h, y)
    assert_agree(result[:3], wanted[:3])
    assert_agree(list(result.head.values()), list(wanted.head.values()))
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
    result = bound.derivatives(h, y)
    assert bound.curvature == "autodiff"
    assert_agree(result.loss, row_losses(head, "squared", h, y).detach())
    slope, bend = differences(lambda h: row_losses(head, "squared", h, y), h)
    assert_agree([result.direction, result.jacobian], [slope, bend], 1e-7)


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
    result = dd.Objective(head, "squared", curvature="structured").derivatives(h, y)
    assert_agree(result, by_rows(head, "squared", h, y))


@pytest.mark.parametrize("activation", [nn.SiLU, nn.ReLU])
def test_layers_that_work_in_place_leave_the_rows_alone(activation):
    head, h, y = chain(activation(inplace=True)).double(), normal(N, 3), normal(N)
    kept, closed_plain = h.clone(), pair(head, "squared")
    for objective in closed_plain:
        objective.check(y, 3, y)
        objective.losses(h, y)
        result = objective.derivatives(h, y)
        assert torch.equal(h, kept)
        assert_agree(result, by_rows(chain(activation()).double(), "squared", h, y))
