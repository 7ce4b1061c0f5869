"""Where descents start, and what is refused there."""

import pytest
import torch
from torch import nn

import decoupled_descent as dd
from decoupled_descent.descent.starts import starting_theta
from tests.descent.test_common import ALGORITHMS, either_kind, every_algorithm
from tests.problems import binary, in_turn, normal, two_layer


@every_algorithm
def test_init_does_not_hand_out_what_it_was_given(algorithm):
    (X, y), objective, theta = binary(), two_layer(), normal(3, 16)
    state = algorithm.init(dd.Rows(X, y), objective, theta=theta)
    own = [v.data_ptr() for v in (theta, *objective.head.parameters())]
    given_out = [v.data_ptr() for v in (state.theta, *state.head.values())]
    assert not set(own) & set(given_out)


def test_the_start_is_drawn_from_the_standard_normal_law_whatever_the_dtype():
    (X, y), objective = binary(10, 2000), two_layer(20)
    algorithm = dd.GradientDescent(0.1)
    double, single, other = (
        algorithm.init(dd.Rows(x, y), objective, seed=s).theta
        for x, s in ((X, 1), (X.float(), 1), (X, 2))
    )
    assert torch.equal(double.float(), single)
    assert not torch.equal(double, other)
    count = double.numel()
    assert abs(double.mean()) < 4 / count**0.5
    assert abs(double.square().mean() - 1) < 4 * (2 / count) ** 0.5


@pytest.mark.parametrize(
    ("theta", "message"),
    [
        (normal(16, 3), r"theta has shape \(16, 3\) but X has d = 16 columns.*\(L, 16\)"),
        (normal(16), r"theta has shape \(16,\)"),
        (normal(4, 16), "the head takes L = 3 pre-activations, but theta has 4 rows"),
        (normal(3, 16) * torch.inf, r"theta\[0, 0\] is -?inf"),
        (torch.full((3, 16), torch.nan), r"theta\[0, 0\] is nan \(48 such entries"),
    ],
)
@either_kind
def test_bad_theta(kind, theta, message):
    X, y = binary()
    with pytest.raises(ValueError, match=message):
        kind(0.1).init(dd.Rows(X, y), two_layer(), theta=theta)


@either_kind
def test_unknown_width(kind):
    (X, y), objective = binary(), dd.Objective(nn.Tanh(), "logistic")
    with pytest.raises(
        ValueError, match=r"L cannot be read off head Tanh; pass Objective\(…, width"
    ):
        kind(0.1).init(dd.Rows(X, y), objective)
    assert kind(0.1).init(dd.Rows(X, y), objective, theta=normal(1, 16)).theta.shape == (1, 16)


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_rows_drawn_with_the_same_seed_are_not_those_of_theta(seed):
    """Streams that overlap would make some |x·θ| about √d = 28 where it should be N(0, 1)."""
    n = d = 800
    objective = dd.Objective(dd.heads.TwoLayer(4), "squared")
    generator = torch.Generator().manual_seed(seed)
    own = torch.randn(n, d, generator=generator, dtype=torch.float64) / d**0.5
    for X in (dd.mixtures.signalless(d).sample(n, seed=seed)[0], own):
        theta = starting_theta(dd.Rows(X, torch.zeros(n)), objective, None, seed)
        assert float((X.to(theta) @ theta.T).abs().max()) < 6.5


def test_theta_as_a_list_goes_where_the_rows_are():
    rows = dd.Rows(*binary())
    with torch.device("meta"):
        theta = starting_theta(rows, two_layer(1), [[1.0] * 16], None)
    assert torch.equal(theta, torch.ones(1, 16, dtype=torch.float64))


class Model(nn.Module):
    """A network as one writes it in PyTorch, its first layer included."""

    def __init__(self, d):
        super().__init__()
        self.first, self.second = nn.Linear(d, 4), nn.Linear(4, 1)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


WHOLE = {
    "sequential": lambda d: nn.Sequential(nn.Linear(d, 4), nn.Tanh(), nn.Linear(4, 1)),
    "after a flattening": lambda d: nn.Sequential(nn.Flatten(), nn.Linear(d, 1)),
    "after a dropout": lambda d: nn.Sequential(nn.Dropout(), nn.Linear(d, 1)).eval(),
    "nested": lambda d: nn.Sequential(nn.Sequential(nn.Linear(d, 4), nn.Tanh()), nn.Linear(4, 1)),
    "module": Model,
}


REFUSAL = (
    r"takes the d = 16 columns of X: this looks like a whole model.*"
    r"Objective\.of_model\(model, loss\).*theta=model\[0\]\.weight.*width=16"
)


@in_turn(("name", "make"), ALGORITHMS, WHOLE)
def test_a_whole_model_is_no_head(name, make):
    algorithm, (X, y), model = ALGORITHMS[name], binary(), WHOLE[make](16).double()
    objective = dd.Objective(model, "logistic")
    with pytest.raises(ValueError, match=REFUSAL):
        dd.fit(X, y, objective, algorithm, 2)
    meant = dd.Objective(model, "logistic", width=16)
    by_width = dd.fit(X, y, meant, algorithm, 2, seed=0)
    theta = algorithm.init(dd.Rows(X, y), meant, seed=0).theta
    by_theta = dd.fit(X, y, objective, algorithm, 2, theta=theta)
    assert by_width.theta.shape == (16, 16)
    assert torch.equal(by_width.theta, by_theta.theta)


def test_heads_that_are_no_whole_model():
    """An activation first, a width of its own, or a single column."""
    X, y = binary(24, 3)
    for head in (nn.Sequential(nn.Tanh(), nn.Linear(3, 1)), dd.heads.TwoLayer(3)):
        dd.fit(X, y, dd.Objective(head.double(), "logistic"), dd.DecoupledDescent(0.1), 2)
    single = dd.Objective(nn.Linear(1, 1).double(), "logistic")
    dd.fit(X[:, :1] * 3**0.5, y, single, dd.GradientDescent(0.1), 2)


@pytest.mark.parametrize("width", [2, 15, 17])
def test_a_first_layer_of_another_width_than_the_rows_belongs_to_the_head(width):
    (X, y), head = binary(), WHOLE["sequential"](width).double()
    run = dd.fit(X, y, dd.Objective(head, "logistic"), dd.DecoupledDescent(0.1), 2)
    assert run.theta.shape == (width, 16)


def test_the_remedies_of_the_refusal_start_from_the_weights_of_the_model():
    (X, y), model = binary(), WHOLE["sequential"](16).double()
    complete = dd.Objective.of_model(model, "logistic")
    rest = dd.Objective(model[1:], "logistic", width=4)
    for objective, theta in ((complete, None), (rest, model[0].weight)):
        state = dd.DecoupledDescent(0.1).init(dd.Rows(X, y), objective, theta=theta)
        assert torch.equal(state.theta, model[0].weight.detach())
