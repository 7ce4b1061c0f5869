"""Reverse passes against ``torch.func`` for modules and losses that have no closed form."""

import pytest
import torch
from torch import nn
from torch.func import jacrev, vmap

import decoupled_descent as dd
from decoupled_descent.objective import autodiff
from decoupled_descent.objective.heads import Elementwise
from tests.objective.references import assert_agree, by_rows, labels
from tests.problems import binary, normal

N, L = 6, 3


class Attention(nn.Module):
    """The pre-activations of a row attend to each other."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Parameter(normal(L, seed=s)) for s in (1, 2, 3))

    def forward(self, h):
        scores = (h * self.query).unsqueeze(2) * (h * self.key).unsqueeze(1)
        return (torch.softmax(scores, 2) @ (h * self.value).unsqueeze(2)).sum((1, 2))


class Gate(nn.Module):
    """σ(Ah) ⊙ tanh(Bh) with a layer that is never used and a frozen one."""

    def __init__(self):
        super().__init__()
        self.open, self.content = nn.Linear(L, 2), nn.Linear(L, 2).requires_grad_(False)
        self.unused = nn.Linear(L, 4)

    def forward(self, h):
        return torch.sigmoid(self.open(h)) * torch.tanh(self.content(h))


class Quadratic(nn.Module):
    def __init__(self):
        super().__init__()
        self.matrix = nn.Parameter(normal(L, L))
        self.register_buffer("offset", normal(L, seed=4))

    def forward(self, h):
        return ((h - self.offset) @ self.matrix * h).sum(1)


HEADS = {
    "attention": Attention,
    "gate": Gate,
    "quadratic": Quadratic,
    "layer norm": lambda: nn.Sequential(nn.LayerNorm(L), nn.Tanh(), nn.Linear(L, 1)),
    "log-sum-exp": lambda: dd.heads.TwoLayer(L, lambda h: torch.logcumsumexp(h, 1), 2, seed=0),
    "product of all": lambda: nn.Sequential(Elementwise(lambda h: h.prod(1))),
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, L)), nn.Conv1d(1, 2, 2), nn.Mish(), nn.Flatten(), nn.Linear(4, 1)
    ),
}
OWN_LOSSES = {
    "squared": "squared",
    "log cosh": lambda u, y: (
        torch.log(torch.cosh(u.reshape(y.shape) - y)).reshape(len(y), -1).sum(1)
    ),
    "poisson": lambda u, y: (
        (u.reshape(y.shape).exp() - y * u.reshape(y.shape)).reshape(len(y), -1).sum(1)
    ),
}


@pytest.mark.parametrize("loss", OWN_LOSSES)
@pytest.mark.parametrize("head", HEADS)
def test_against_vmapped_hessians(head, loss):
    torch.manual_seed(0)
    module, h = HEADS[head]().double(), normal(N, L, seed=5) / 2
    y = labels("squared", N, module(h).reshape(N, -1).shape[1])
    objective = dd.Objective(module, OWN_LOSSES[loss], curvature="autodiff")
    result = objective.derivatives(h, y)
    assert_agree(result, by_rows(module, OWN_LOSSES[loss], h, y))
    assert not any(t.requires_grad for t in (*result[:3], *result.head.values()))


def test_unused_parameters_do_not_move():
    result = dd.Objective(Gate().double(), "squared").derivatives(normal(N, L), normal(N, 2))
    assert set(result.head) == {"open.weight", "open.bias", "unused.weight", "unused.bias"}
    assert not result.head["unused.weight"].any()
    assert result.head["open.weight"].abs().min() > 0


@pytest.mark.parametrize("trained", [True, False])
def test_a_loss_linear_in_h_has_no_curvature(trained):
    head = nn.Linear(L, 1).double().requires_grad_(trained)
    objective = dd.Objective(head, lambda u, y: u.squeeze(1) * y, curvature="autodiff")
    h, y = normal(N, L), normal(N)
    result = objective.derivatives(h, y)
    assert_agree(result.direction, y.unsqueeze(1) * head.weight.detach())
    assert_agree(result.jacobian, torch.zeros(L, L, dtype=torch.float64))


def test_a_loss_linear_in_some_coordinates():
    class Partly(nn.Module):
        def forward(self, h):
            return h[:, 0] ** 3 + 2 * h[:, 2]

    h = normal(N, L)
    result = dd.Objective(Partly(), lambda u, y: u, curvature="autodiff").derivatives(h, normal(N))
    assert_agree(result.jacobian, torch.diag(torch.stack([6 * h[:, 0].mean(), *torch.zeros(2)])))


@pytest.mark.parametrize("curvature", ["auto", "structured", "autodiff"])
def test_non_symmetric_g(curvature):
    turn, h, y = normal(L, L, seed=1), normal(N, L), normal(N)
    objective = dd.Objective(dd.heads.TwoLayer(L, seed=0).double(), "squared", curvature=curvature)

    def g(h, y, a):
        return torch.tanh(h @ turn.T) * (h - y.unsqueeze(1)) + a["1.weight"]

    result = objective.derivatives(h, y, g=g)
    a = objective.parameters()

    def row(x, label):
        return g(x.unsqueeze(0), label.unsqueeze(0), a)[0]

    bend = vmap(jacrev(row))(h, y).mean(0)
    assert (bend - bend.T).abs().max() > 0.1
    assert_agree([result.direction, result.jacobian], [vmap(row)(h, y), bend])
    plain = objective.derivatives(h, y)
    assert_agree([result.loss, result.head["1.weight"]], [plain.loss, plain.head["1.weight"]])


def test_mean_jacobian_of_what_does_not_depend_on_h():
    h, weight = (normal(N, L).requires_grad_() for _ in range(2))
    zero = torch.zeros(L, L, dtype=torch.float64)
    assert_agree(autodiff.mean_jacobian(normal(N, L), h), zero)
    assert_agree(autodiff.mean_jacobian(weight * 2, h), zero)


def test_only_what_is_asked_for():
    objective, h, y = dd.Objective(Attention(), "squared"), normal(N, L), normal(N)
    full = objective.derivatives(h, y)
    short = objective.derivatives(h, y, jacobian=False, head=False)
    assert short.jacobian is None
    assert short.head == {}
    assert_agree(short[:2], full[:2])


def test_works_without_gradients_and_leaves_none_behind():
    head, (X, y) = Attention(), binary()
    with torch.no_grad():
        run = dd.fit(X, y, dd.Objective(head, "logistic", width=L), dd.DecoupledDescent(0.05), 5)
    assert all(p.grad is None for p in head.parameters())
    assert not run.theta.requires_grad


class Square(torch.autograd.Function):
    """Written before functorch: its backward pass applies another function of the old kind."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * Same.apply(x) * grad


class Same(torch.autograd.Function):
    """The identity."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad


def test_functions_that_refuse_to_be_batched():
    class Head(nn.Module):
        def forward(self, h):
            return Square.apply(h).sum(1)

    h, y = normal(N, L), normal(N)
    result = dd.Objective(Head(), "squared", width=L).derivatives(h, y)
    residual = h.square().sum(1) - y
    bend = 4 * h.T @ h / N + 2 * residual.mean() * torch.eye(L, dtype=h.dtype)
    assert_agree([result.direction, result.jacobian], [2 * residual.unsqueeze(1) * h, bend])


def test_large_problems_keep_nothing(monkeypatch):
    objective = dd.Objective(Gate().double(), "squared")
    h, y = normal(N, L), normal(N, 2)
    kept = objective.derivatives(h, y).jacobian
    monkeypatch.setattr(autodiff, "KEPT", 0)
    before = autodiff._picks.cache_info()
    assert torch.equal(objective.derivatives(h, y).jacobian, kept)
    assert autodiff._picks.cache_info() == before


class Transformer(nn.Module):
    """Torch's own attention, whose fast implementation has no second derivatives."""

    def __init__(self):
        super().__init__()
        self.enter, self.leave = nn.Linear(1, 4), nn.Linear(4, 1)
        self.attention = nn.MultiheadAttention(4, 1, batch_first=True)

    def forward(self, h):
        rows = self.enter(h.unsqueeze(2))
        return self.leave(self.attention(rows, rows, rows, need_weights=False)[0].mean(1))


def test_what_cannot_be_differentiated_twice():
    (X, y), head = binary(), Transformer().double()
    with pytest.raises(ValueError, match=r"twice.*not implemented.*curvature='smoothed'.*compile"):
        dd.fit(X, y, dd.Objective(head, "logistic", width=L), dd.DecoupledDescent(0.05), 2)
    smoothed = dd.Objective(head, "logistic", width=L, curvature="smoothed")
    assert dd.fit(X, y, smoothed, dd.DecoupledDescent(0.05), 2).theta.isfinite().all()


class Wide(nn.Module):
    """A head without a closed form, of any width."""

    def __init__(self, width):
        super().__init__()
        self.value, self.gate = (nn.Parameter(normal(width, seed=s) / 3) for s in (1, 2))

    def forward(self, h):
        return torch.tanh(torch.tanh(h) @ self.value) * torch.sigmoid(h @ self.gate)


def slope_of(head, h):
    (g,) = torch.autograd.grad(head(h).square().sum(), h, create_graph=True)
    return g


@pytest.mark.parametrize("turn", [0, 7])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "width"), [(600, 40), (800, 27)])
def test_wide_heads_take_part_of_the_rows_for_each_component(weighted, turn, n, width):
    h, count = normal(n, width).requires_grad_(), autodiff.components(n, width)
    assert 1 < count < width
    g = slope_of(Wide(width), h)
    weights = normal(n, seed=5).square() if weighted else None
    w = torch.ones(n, dtype=h.dtype) if weights is None else weights
    result, rows = autodiff.mean_jacobian(g, h, weights, turn), autodiff.row_jacobians(g, h)
    which = autodiff.dealt(n, width, turn, h.device)
    assert which.shape == (count, n)
    assert all(len(set(each.tolist())) == count for each in which.T)
    for k in range(width):  # each row of J̄ is a mean over the rows that were dealt to it
        own = (which == k).any(0)
        assert abs(int(own.sum()) - n * count / width) < 1
        mean = (w[own].unsqueeze(1) * rows[k, own]).mean(0)
        torch.testing.assert_close(result[k], mean, rtol=1e-10, atol=1e-12)


def test_the_noise_of_a_part_is_that_of_sampling():
    n, width, squares = 500, 24, []
    count, head = autodiff.components(n, width), Wide(width)
    for seed in range(10):  # entries of one matrix share their rows, those of two do not
        h = normal(n, width, seed=seed).requires_grad_()
        g = slope_of(head, h)
        rows = autodiff.row_jacobians(g, h)
        error = autodiff.mean_jacobian(g, h) - rows.mean(1)
        squares.append((error.square() / (rows.var(1) * (width / count - 1) / n)).mean())
    squares = torch.stack(squares)
    assert abs(float(squares.mean()) - 1) < 3 * float(squares.std()) / len(squares) ** 0.5


def test_all_turns_together_take_every_component_of_every_row():
    n, width = 540, 27
    h = normal(n, width).requires_grad_()
    g = slope_of(Wide(width), h)
    assert autodiff.components(n, width) < width
    turns = torch.stack([autodiff.mean_jacobian(g, h, turn=t) for t in range(width)])
    exact = autodiff.row_jacobians(g, h).mean(1)
    torch.testing.assert_close(turns.mean(0), exact, rtol=1e-10, atol=1e-12)
    assert not torch.allclose(turns[0], exact, rtol=1e-3)


def test_every_step_has_its_own_turn():
    n, width = 540, 27
    objective = dd.Objective(Wide(width), "squared", width=width, curvature="autodiff")
    X, y = normal(n, 40, seed=3) / 40**0.5, normal(n, seed=4)
    rows, algorithm = dd.Rows(X, y), dd.DecoupledDescent(0.0)
    bound = algorithm.bind(rows, objective, normal(width, 40))
    state, turns = algorithm.init(rows, bound, normal(width, 40)), []
    for _ in range(width):  # at rate zero nothing moves but the turn
        state, info = algorithm.step(state, rows, bound)
        turns.append(info.jacobian)
    exact = bound.row_jacobians(info.preactivations, y).mean(0)
    torch.testing.assert_close(torch.stack(turns).mean(0), exact, rtol=1e-10, atol=1e-12)
    assert not torch.equal(turns[0], turns[1])


def test_equal_jacobians_need_no_more_than_a_part():
    width, n = 40, 500
    h, A = normal(n, width).requires_grad_(), normal(width, width, seed=1)
    torch.testing.assert_close(autodiff.mean_jacobian(h @ A.T, h), A)


@pytest.mark.parametrize(
    ("n", "width", "count"), [(10, 40, 40), (2000, 6, 6), (800, 9, 4), (800, 27, 2)]
)
def test_few_rows_and_narrow_heads_are_exact(n, width, count):
    assert autodiff.components(n, width) == count
