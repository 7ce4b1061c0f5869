"""The objective against brute force: values, row derivatives, copies, and what it refuses."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, hessian

import decoupled_descent as dd
from decoupled_descent.objective import KinkWarning
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
    result = objective.derivatives(h, y)

    def psi(h, a, y):
        return reference(head, loss, a, h, y)

    rows = list(zip(h, y, strict=True))
    torch.testing.assert_close(result.loss, torch.stack([psi(x, a, t) for x, t in rows]))
    torch.testing.assert_close(result.direction, torch.stack([grad(psi)(x, a, t) for x, t in rows]))
    bend = torch.stack([hessian(psi)(x, a, t) for x, t in rows]).mean(0)
    torch.testing.assert_close(result.jacobian, bend)
    slopes = [grad(psi, argnums=1)(x, a, t) for x, t in rows]
    means = {name: torch.stack([s[name] for s in slopes]).mean(0) for name in a}
    torch.testing.assert_close(result.head, means)
    torch.testing.assert_close(objective.losses(h, y), result.loss)
    assert not any(t.requires_grad for t in (result.loss, result.direction, *result.head.values()))


def test_repeated_layers_are_not_mistaken_for_one():
    activation, linear = nn.Tanh(), nn.Linear(3, 3).double()
    head = nn.Sequential(activation, linear, activation, linear, nn.Linear(3, 1).double())
    objective, h = dd.Objective(head, "logistic"), normal(N, 3)
    plain = dd.Objective(head, "logistic", curvature="autodiff")
    torch.testing.assert_close(objective.derivatives(h, SHARE), plain.derivatives(h, SHARE))


def test_own_loss():
    def pinball(u, y):
        return torch.logaddexp(u - y, y - u)

    objective, h = dd.Objective(Attention(), pinball), normal(N, 3)
    result = objective.derivatives(h, SHARE)
    leaf = h.clone().requires_grad_()
    value = pinball(objective.head(leaf), SHARE)
    torch.testing.assert_close(result.loss, value.detach())
    torch.testing.assert_close(result.direction, torch.autograd.grad(value.sum(), leaf)[0])


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


@pytest.mark.parametrize(
    ("directions", "message"),
    [({}, "f returned nothing"), ({"1.weight": torch.ones(1, 2)}, r"f returned shape \(1, 2\)")],
)
def test_f_must_answer_for_every_parameter(directions, message):
    objective = dd.Objective(dd.heads.TwoLayer(2), "squared")
    with pytest.raises(ValueError, match=message):
        objective.derivatives(torch.ones(4, 2), torch.ones(4), f=lambda h, y, a: directions)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("clone", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_copies_have_engines_of_their_own(case, clone):
    head, loss, y, width = CASES[case]
    objective, h = dd.Objective(head, loss), normal(N, width, seed=3)
    other = clone(objective)
    result = other.derivatives(h, y)
    torch.testing.assert_close(result.jacobian, objective.derivatives(h, y).jacobian)
    with torch.no_grad():
        for value in objective.head.parameters():
            value.mul_(2)
    torch.testing.assert_close(other.derivatives(h, y).loss, result.loss)


@pytest.mark.parametrize("make", [lambda: dd.heads.TwoLayer(3, seed=0), lambda: Attention()])
@pytest.mark.parametrize("labels", [torch.int64, torch.int32, torch.uint8, torch.bool])
def test_whole_number_labels(make, labels):
    X, y = binary()
    wanted = dd.fit(
        X, y, dd.Objective(make().double(), "logistic", width=3), dd.DecoupledDescent(0.1), 4
    )
    objective = dd.Objective(make().double(), "logistic", width=3)
    result = dd.fit(X, y.to(labels), objective, dd.DecoupledDescent(0.1), 4, test=(X, y.to(labels)))
    torch.testing.assert_close(result.theta, wanted.theta, rtol=0, atol=0)


def test_a_parameter_that_is_not_used_stays_as_it_is():
    head = dd.heads.TwoLayer(3, seed=0).double()
    head.temperature = nn.Parameter(torch.ones((), dtype=torch.float64))
    X, y = binary()
    run = dd.fit(X, y, dd.Objective(head, "logistic"), dd.DecoupledDescent(0.1), 4)
    plain = dd.fit(X, y, two_layer(), dd.DecoupledDescent(0.1), 4)
    assert run.state.head["temperature"] == 1
    torch.testing.assert_close(run.theta, plain.theta, rtol=0, atol=1e-12)


def test_constants_in_single_precision():
    """Class weights of a loss, say; the search for kinks starts in double precision."""
    weight = torch.tensor([1.0, 2.0, 0.5])
    X, _ = binary(dtype=torch.float32)
    y = torch.arange(len(X)) % 3

    def loss(outputs, y):
        return nn.functional.cross_entropy(outputs, y, weight=weight, reduction="none")

    smooth = dd.Objective(dd.heads.TwoLayer(3, outputs=3, seed=0), loss)
    assert dd.fit(X, y, smooth, dd.DecoupledDescent(0.1), 3).bound.curvature == "autodiff"
    kinked = dd.Objective(
        dd.heads.TwoLayer(3, outputs=3, seed=0), lambda u, y: loss(torch.relu(u), y)
    )
    with pytest.warns(KinkWarning):
        dd.fit(X, y, kinked, dd.DecoupledDescent(0.1), 3)


def test_rows_made_in_inference_mode():
    X, y = binary()
    with torch.inference_mode():
        rows, labels = X.clone(), y.clone()
    objective = dd.Objective(Attention(), "logistic", width=3)
    result = dd.fit(rows, labels, objective, dd.DecoupledDescent(0.1), 3)
    wanted = dd.fit(X, y, objective, dd.DecoupledDescent(0.1), 3)
    torch.testing.assert_close(result.theta, wanted.theta, rtol=0, atol=0)


def test_training_in_inference_mode():
    X, y = binary()
    objective, algorithm = dd.Objective(Attention(), "logistic", width=3), dd.DecoupledDescent(0.1)
    with torch.no_grad():
        dd.fit(X, y, objective, algorithm, 3)
    with torch.inference_mode(), pytest.raises(ValueError, match=r"inference_mode.*no_grad"):
        dd.fit(X, y, objective, algorithm, 3)
    with torch.inference_mode():
        assert dd.fit(X, y, two_layer(), algorithm, 3).theta.isfinite().all()  # closed form


def hidden_gradient(h, y, a):
    """∇Ψ by autograd, without the graph that J̄ would need."""
    with torch.enable_grad():
        h = h.detach().requires_grad_()
        loss = nn.functional.softplus(h).sum()
        return torch.autograd.grad(loss, h)[0]


def test_a_g_that_hides_its_graph():
    X, y = binary()
    algorithm = dd.DecoupledDescent(0.1, g=hidden_gradient)
    with pytest.raises(ValueError, match=r"derivative would be 0.*create_graph=True.*smoothed"):
        dd.fit(X, y, two_layer(), algorithm, 3)
    smoothed = dd.Objective(dd.heads.TwoLayer(3).double(), "logistic", curvature="smoothed")
    assert dd.fit(X, y, smoothed, algorithm, 3).theta.isfinite().all()
    constant = dd.DecoupledDescent(0.1, g=lambda h, y, a: torch.ones_like(h))
    assert dd.fit(X, y, two_layer(), constant, 3).theta.isfinite().all()


def test_parameters_of_g_and_f_leave_no_graph_behind():
    X, y = binary()
    own = nn.Parameter(torch.ones((), dtype=torch.float64))
    algorithm = dd.DecoupledDescent(
        0.05,
        g=lambda h, y, a: own * (h > 0) - y.unsqueeze(1),
        f=lambda h, y, a: {"1.weight": own * torch.tanh(h).unsqueeze(1)},
    )
    with pytest.warns(KinkWarning):
        run = dd.fit(X, y, two_layer(), algorithm, 3)
    assert not run.theta.requires_grad
    assert not run.state.head["1.weight"].requires_grad


def test_what_a_head_or_a_loss_must_return():
    X, y = binary()

    class Pair(dd.heads.Linear):
        def forward(self, h):
            return h, h

    with pytest.raises(ValueError, match=r"Pair returned a tuple.*one tensor"):
        dd.fit(X, y, dd.Objective(Pair(), "logistic"), dd.DecoupledDescent(0.1), 2)
    for dtype in (torch.float64, torch.bool):
        counted = dd.Objective(dd.heads.Linear(), lambda u, y, d=dtype: ((u[:, 0] > 0) != y).to(d))
        with pytest.raises(ValueError, match=r"no gradient.*differentiable loss"):
            dd.fit(X, y, counted, dd.DecoupledDescent(0.1), 2)


def test_threads_may_share_an_objective():
    X, y = binary()
    objective = dd.Objective(Attention(), "logistic", width=3)
    algorithms = [dd.DecoupledDescent(0.02 * (k + 1)) for k in range(6)]

    def run(algorithm):
        return dd.fit(X, y, objective, algorithm, 40, test=(X, y), progress=False).theta

    wanted = [run(algorithm) for algorithm in algorithms]
    before = objective.parameters()
    with ThreadPoolExecutor(4) as pool:
        result = list(pool.map(run, algorithms))
    for one, other in zip(result, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    for name, value in objective.parameters().items():
        assert isinstance(objective.head.get_parameter(name), nn.Parameter)
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)
