"""Heads are called with parameters from outside, never changed, and refused where they mix rows."""

import copy
import itertools
import pickle

import pytest
import torch
from torch import nn

import decoupled_descent as dd
from tests.problems import binary, normal, two_layer

N, SHARE = 6, torch.rand(6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


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


def test_evaluation_mode_makes_batch_normalisation_welcome():
    (X, y), norm = binary(), nn.BatchNorm1d(3)
    head = nn.Sequential(nn.Tanh(), norm, nn.Linear(3, 1)).double().eval()
    before = copy.deepcopy(dict(norm.named_buffers()))
    run = dd.fit(X, y, dd.Objective(head, "logistic"), dd.DecoupledDescent(0.1), 4)
    assert run.train_error[-1] < run.train_error[0]
    torch.testing.assert_close(dict(norm.named_buffers()), before, rtol=0, atol=0)


def test_training_mode_batch_normalisation():
    head = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1))
    before = copy.deepcopy(head.state_dict())
    with pytest.raises(ValueError, match=r"Sequential.*head\.eval\(\)"):
        dd.Objective(head, "squared").check(torch.zeros(8), 2, torch.zeros(()).double())
    torch.testing.assert_close(dict(head.state_dict()), dict(before), rtol=0, atol=0)


@pytest.mark.parametrize("p", [0.01, 0.5])
def test_active_dropout_is_found_whatever_chance_says(p):
    head = torch.nn.Sequential(torch.nn.Dropout(p), torch.nn.Linear(3, 1))
    with pytest.raises(ValueError, match=r"random .*head.eval\(\)"):
        dd.Objective(head, "squared").check(torch.zeros(8), 3, torch.zeros(()))
    dd.Objective(head.eval(), "squared").check(torch.zeros(8), 3, torch.zeros(()))


class FunctionalDropout(nn.Linear):
    """Drops something now and then, without a module that says so."""

    def forward(self, h):
        return nn.functional.dropout(super().forward(h), 0.02)


def test_drawing_random_numbers_is_found_whatever_chance_says():
    torch.manual_seed(0)
    head = FunctionalDropout(3, 1)
    before = torch.get_rng_state()
    for _ in range(20):
        with pytest.raises(ValueError, match=r"random .*head.eval\(\)"):
            dd.Objective(head, "squared").check(torch.zeros(8), 3, torch.zeros(()))
    assert torch.equal(torch.get_rng_state(), before)


def test_random_numbers_drawn_beside_the_head_are_not_its_own(monkeypatch):
    states = itertools.chain([torch.zeros(1), torch.ones(1)], itertools.repeat(torch.ones(1)))
    monkeypatch.setattr(torch, "get_rng_state", lambda: next(states))
    dd.Objective(nn.Linear(3, 1), "squared").check(torch.zeros(8), 3, torch.zeros(()))


def test_a_head_with_nan_says_so():
    head = dd.heads.TwoLayer(2)
    torch.nn.init.constant_(head[1].weight, float("nan"))
    with pytest.raises(ValueError, match="returned nan for finite"):
        dd.Objective(head, "squared").check(torch.zeros(8), 2, torch.zeros(()))


class Rearranged(nn.Module):
    """A head that needs its rows in one piece."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(2, 1)

    def forward(self, h):
        return self.last(torch.tanh(h).view(len(h), 2, -1).mean(2))


class InPlace(nn.Module):
    """A head that changes what it is given."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(3, 1)

    def forward(self, h):
        h += 0.1
        return self.last(torch.tanh(h))


def test_later_changes_to_the_head_do_not_reach_the_objective():
    head = dd.heads.TwoLayer(3, bias=True, seed=0).double()
    objective, (X, y) = dd.Objective(head, "logistic"), binary()
    before = dd.fit(X, y, objective, dd.DecoupledDescent(0.1), 4)
    head[1].weight.requires_grad_(False)
    with torch.no_grad():
        head[1].bias.add_(1)
    after = dd.fit(X, y, objective, dd.DecoupledDescent(0.1), 4)
    torch.testing.assert_close(after.theta, before.theta, rtol=0, atol=0)


@pytest.mark.parametrize("make", [Rearranged, InPlace])
def test_heads_that_are_particular_about_their_input(make):
    X, y = binary()
    width = 4 if make is Rearranged else 3
    objective = dd.Objective(make().double(), "logistic", width=width)
    run = dd.fit(X, y, objective, dd.DecoupledDescent(0.1), 4, test=(X, y))
    plain = X @ run.theta.T
    torch.testing.assert_close(
        run.head(plain.clone()).squeeze(1), objective.outputs(plain, run.state.head)
    )


def test_parameters_that_have_no_shape_yet():
    head = nn.Sequential(nn.Tanh(), nn.LazyLinear(1))
    with pytest.raises(ValueError, match=r"Sequential.*LazyLinear.*call it once"):
        dd.Objective(head, "squared")
    head(torch.zeros(1, 3))
    assert dd.Objective(head, "squared").width == 3


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated")
def test_old_style_weight_normalisation_is_copied_too():
    (X, y), algorithm = binary(), dd.DecoupledDescent(0.1)
    torch.manual_seed(0)
    head = nn.Sequential(nn.Tanh(), nn.utils.weight_norm(nn.Linear(3, 1))).double()
    objective = dd.Objective(head, "logistic")
    assert objective.head is not head
    run = dd.fit(X, y, objective, algorithm, 4)
    with torch.no_grad():
        head[1].weight_g.mul_(3)
    copies = (objective, copy.deepcopy(objective), pickle.loads(pickle.dumps(objective)))
    for one in copies:
        torch.testing.assert_close(dd.fit(X, y, one, algorithm, 4).theta, run.theta)
    plain = X @ run.theta.T
    torch.testing.assert_close(run.head(plain).squeeze(1), objective.outputs(plain, run.state.head))


def test_a_compiled_head_is_taken_as_it_was():
    (X, y), head = binary(), dd.heads.TwoLayer(3, seed=0).double()
    compiled = dd.Objective(torch.compile(head, backend="aot_eager"), "logistic")
    assert type(compiled.head) is dd.heads.TwoLayer
    wanted = dd.fit(X, y, dd.Objective(head, "logistic"), dd.DecoupledDescent(0.1), 3)
    result = dd.fit(X, y, compiled, dd.DecoupledDescent(0.1), 3)
    torch.testing.assert_close(result.theta, wanted.theta, rtol=0, atol=0)
