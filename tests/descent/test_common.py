"""The battery that every algorithm passes, and the symmetries that every algorithm has."""

import copy
import math
from functools import partial

import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import decoupled_descent as dd
from decoupled_descent.descent import GreedyDescent
from tests.problems import binary, in_turn, normal, two_layer, xor_objective

COSINE = partial(torch.optim.lr_scheduler.CosineAnnealingLR, T_max=10)
HEAVY = dd.rules.SGD(0.04, momentum=0.8)
NESTEROV = dd.rules.SGD(0.5, 0.7, nesterov=True, weight_decay=0.01, schedule=COSINE)
ADAM = partial(torch.optim.Adam, lr=0.02)
RATES = {"damping": 0.95, "head_lr": 0.2, "head_damping": 0.99}
ALGORITHMS = {
    "gd": dd.GradientDescent(0.05),
    "gd, all options": dd.GradientDescent(0.5, **RATES, reduction="mean"),
    "gd, estimate": dd.GradientDescent(0.05, estimate=True),
    "gd, estimate, batches": dd.GradientDescent(0.05, estimate=True, batch_size=9),
    "dd": dd.DecoupledDescent(0.05),
    "dd, all options": dd.DecoupledDescent(0.5, **RATES, reduction="mean"),
    "odd": dd.OrthogonalDecoupledDescent(0.05),
    "odd, all options": dd.OrthogonalDecoupledDescent(0.5, **RATES, ridge=0.3, reduction="mean"),
    "odd, infinite ridge": dd.OrthogonalDecoupledDescent(0.05, **RATES, ridge=math.inf),
    "gd, Nesterov": dd.GradientDescent(0.5, reduction="mean", rule=NESTEROV),
    "dd, momentum": dd.DecoupledDescent(0.05, rule=HEAVY),
    "dd, Nesterov, Adam": dd.DecoupledDescent(
        0.5, reduction="mean", rule=NESTEROV, head_optimizer=ADAM
    ),
    "dd, Hessian": dd.DecoupledDescent(0.01, hessian_damping=0.1),
    "gd, batches": dd.GradientDescent(0.5, **RATES, reduction="mean", batch_size=7),
    "dd, batches": dd.DecoupledDescent(0.05, batch_size=8),
    "dd, batches, Nesterov, Adam": dd.DecoupledDescent(
        0.5,
        reduction="mean",
        rule=dd.rules.SGD(0.5, 0.7, nesterov=True, weight_decay=0.01),
        head_optimizer=ADAM,
        batch_size=5,
    ),
    "odd, momentum, Adam": dd.OrthogonalDecoupledDescent(0.05, rule=HEAVY, head_optimizer=ADAM),
    "dd, folds": dd.DecoupledDescent(0.05, head_folds=3),
    "dd, batches, folds": dd.DecoupledDescent(0.05, batch_size=8, head_folds=4),
    "odd, folds, Adam": dd.OrthogonalDecoupledDescent(0.05, head_optimizer=ADAM, head_folds=2),
    "greedy": GreedyDescent.grid(0.05),
    "greedy, all options": GreedyDescent(
        tuple(dd.DecoupledDescent(lr, **RATES, reduction="mean") for lr in (0.2, 0.5))
    ),
    "greedy, momentum": GreedyDescent(
        tuple(dd.DecoupledDescent(0.1, rule=dd.rules.SGD(lr, 0.5)) for lr in (0.03, 0.1))
    ),
}
KINDS = [dd.GradientDescent, dd.DecoupledDescent, dd.OrthogonalDecoupledDescent]
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
STEPS = 8

every_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
either_kind = pytest.mark.parametrize("kind", KINDS)
properties = settings(max_examples=15, deadline=None)
algorithms = st.sampled_from(list(ALGORITHMS.values()))
in_order = st.sampled_from(  # rows are dealt out to batches and folds by their numbers
    [a for name, a in ALGORITHMS.items() if "batches" not in name and "folds" not in name]
)
seeds = st.integers(0, 2**31)


def steps_of(algorithm, rows, objective, count=STEPS, **start):
    """A user's own loop: states before every update, and what was seen there."""
    state, states, infos = algorithm.init(rows, objective, **start), [], []
    for _ in range(count):
        following, info = algorithm.step(state, rows, objective)
        states.append(state)
        infos.append(info)
        state = following
    return states, infos


def assert_same_run(run, other, **tolerance):
    torch.testing.assert_close(run.train_error, other.train_error, **tolerance)
    torch.testing.assert_close(run.theta, other.theta, **tolerance)


@every_algorithm
def test_step_is_pure(algorithm):
    (X, y), objective = binary(), two_layer()
    rows = dd.Rows(X, y)
    state = algorithm.init(rows, objective, seed=0)
    state, _ = algorithm.step(state, rows, objective)
    watched = (state, rows.X, rows.y, objective.head.state_dict())
    before, generator = copy.deepcopy(watched), torch.get_rng_state()
    once, seen = algorithm.step(state, rows, objective)
    torch.testing.assert_close(watched, before, rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), generator)
    again, seen_again = algorithm.step(state, rows, objective)
    torch.testing.assert_close((once, seen), (again, seen_again), rtol=0, atol=0)
    assert not torch.equal(once.theta, state.theta)


@every_algorithm
def test_own_loop_is_fit(algorithm):
    (X, y), objective = binary(), two_layer()
    states, infos = steps_of(algorithm, dd.Rows(X, y), objective, seed=4)
    run = dd.fit(X, y, objective, algorithm, STEPS, seed=4)
    assert run.history.train_error == [info.train_error for info in infos]
    assert run.history.train_error_stderr == [info.train_error_stderr for info in infos]
    torch.testing.assert_close(run.state, states[-1], rtol=0, atol=0)
    assert [state.step for state in states] == list(range(STEPS))


@every_algorithm
def test_entry_0_is_the_start(algorithm):
    (X, y), theta, head = binary(), normal(3, 16), dd.heads.TwoLayer(3, seed=0).double()
    objective = dd.Objective(head, "logistic")
    run = dd.fit(X, y, objective, algorithm, steps=1, theta=theta)
    losses = nn.functional.binary_cross_entropy_with_logits(
        head(X @ theta.T).squeeze(1), y, reduction="none"
    )
    assert run.train_error.tolist() == pytest.approx([losses.mean().item()], rel=1e-13)
    stderr = losses.detach().numpy().std(ddof=1) / len(X) ** 0.5
    assert run.train_error_stderr.tolist() == pytest.approx([stderr], rel=1e-13)
    assert torch.equal(run.theta, theta)
    assert torch.equal(run.head[1].weight, head[1].weight)


@every_algorithm
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtype_and_device_are_those_of_X(algorithm, dtype, device):
    X, y = binary(dtype=dtype)
    run = dd.fit(X.to(device), y.double(), two_layer(), algorithm, 3, theta=normal(3, 16))
    tensors = [run.theta, run.best_theta, *run.state.head.values(), *run.head.parameters()]
    memory = getattr(run.state, "memory", None)
    tensors += [] if memory is None else [run.predict(X), memory]
    assert {(t.dtype, t.device.type) for t in tensors} == {(dtype, device)}


@every_algorithm
def test_single_precision_follows_double(algorithm):
    (X, y), objective = binary(60, 40), two_layer()
    double, single = (dd.fit(x, y, objective, algorithm, 20) for x in (X, X.float()))
    assert_same_run(single, double, rtol=1e-4, atol=1e-5, check_dtype=False)


@every_algorithm
def test_head_without_parameters(algorithm):
    (X, y), objective = binary(), dd.Objective(dd.heads.Linear(), "logistic")
    run = dd.fit(X, y, objective, algorithm, STEPS)
    assert run.state.head == {}
    assert run.train_error[-1] < run.train_error[0]


REGIMES = {"n < d": (12, 16), "d <= n < 2d": (24, 16), "n >= 2d": (40, 16)}


@pytest.mark.parametrize("block_size", [None, 7])
@pytest.mark.parametrize(("n", "d"), REGIMES.values(), ids=REGIMES)
def test_stacked_is_alone(n, d, block_size):
    """All algorithms in one stack, with several ridges; every run is what it is by itself."""
    X, y = binary(n, d)
    ridges = [dd.OrthogonalDecoupledDescent(0.05, ridge=ridge) for ridge in (0.3, 3.0)]
    stack, objective = [*ALGORITHMS.values(), *ridges], two_layer()
    rows = dd.Rows(X, y, block_size)
    runs = dd.sweep(rows, None, objective, stack, STEPS, seed=2, test=(X, y)).runs
    for algorithm, stacked in zip(stack, runs, strict=True):
        alone = dd.fit(rows, None, objective, algorithm, STEPS, seed=2, test=(X, y))
        assert_same_run(stacked, alone, rtol=1e-12, atol=1e-13)
        torch.testing.assert_close(stacked.state, alone.state, rtol=1e-11, atol=1e-12)
        torch.testing.assert_close(stacked.test_error, alone.test_error, rtol=1e-12, atol=1e-13)
        assert stacked.best_step == alone.best_step


@pytest.mark.parametrize(("n", "d"), REGIMES.values(), ids=REGIMES)
def test_rows_that_are_read_are_those_in_memory(n, d):
    (X, y), objective, stack = binary(n, d), two_layer(), list(ALGORITHMS.values())
    read = dd.Rows(scipy.sparse.csr_array(X.numpy()), y, block_size=3)
    assert not read.in_memory
    runs = dd.sweep(read, None, objective, stack, STEPS, seed=2).runs
    for run, reference in zip(
        runs, dd.sweep(X, y, objective, stack, STEPS, seed=2).runs, strict=True
    ):
        assert_same_run(run, reference, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(run.state, reference.state, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("read", [False, True], ids=["in memory", "read"])
def test_the_same_call_gives_the_same_bits(read):
    (X, y), objective, stack = binary(40, 16), two_layer(), list(ALGORITHMS.values())
    given = scipy.sparse.csr_array(X.numpy()) if read else X
    first, second = (
        dd.sweep(dd.Rows(given, y, 7), None, objective, stack, 4, seed=2).runs for _ in range(2)
    )
    for run, again in zip(first, second, strict=True):
        assert run.history == again.history
        torch.testing.assert_close(run.state, again.state, rtol=0, atol=0)


def test_stacked_is_alone_for_heads_of_unlike_widths_in_single_precision():
    """X is large enough for the faster routine of products."""
    X, y = binary(1200, 300, dtype=torch.float32)
    stack = [a for name, a in ALGORITHMS.items() if "all options" in name]
    heads = [dd.heads.TwoLayer(2, seed=0), dd.heads.Deep([5, 3], seed=0)]
    objectives = [dd.Objective(head, "logistic") for head in heads]
    runs = iter(dd.sweep(X, y, objectives, stack, STEPS).runs)
    for objective in objectives:
        for algorithm in stack:
            alone = dd.fit(X, y, objective, algorithm, STEPS)
            assert_same_run(next(runs), alone, rtol=1e-4, atol=1e-5)


@either_kind
def test_frozen_head(kind):
    (X, y), objective = binary(), two_layer()
    run = dd.fit(X, y, objective, kind(0.05, head_lr=0), STEPS)
    assert torch.equal(run.head[1].weight, objective.head[1].weight)
    fixed = copy.deepcopy(objective.head).requires_grad_(False)
    other = dd.fit(X, y, dd.Objective(fixed, "logistic"), kind(0.05), STEPS)
    assert_same_run(run, other, rtol=1e-14, atol=1e-14)
    moving = dd.fit(X, y, objective, kind(0.05), STEPS)
    assert not torch.equal(moving.theta, run.theta)


@every_algorithm
@pytest.mark.parametrize("curvature", ["structured", "autodiff"])
def test_parameters_that_require_no_grad_stay(algorithm, curvature):
    (X, y), head = binary(), dd.heads.Deep([3, 2], bias=True, seed=0).double()
    head[1].requires_grad_(False)
    run = dd.fit(X, y, dd.Objective(head, "logistic", curvature=curvature), algorithm, STEPS)
    assert set(run.state.head) == {"3.weight", "3.bias"}
    for name, before in head.state_dict().items():
        assert torch.equal(before, run.head.state_dict()[name]) == name.startswith("1.")


@either_kind
def test_zero_rates_change_nothing(kind):
    (X, y), theta = binary(), normal(3, 16)
    options = {} if kind is dd.GradientDescent else {"damping": 1.0}
    run = dd.fit(X, y, two_layer(), kind(0.0, **options), STEPS, theta=theta)
    assert torch.equal(run.theta, theta)
    assert len(set(run.history.train_error)) == 1


@pytest.mark.parametrize("algorithm", [kind(0.05) for kind in KINDS], ids=["gd", "dd", "odd"])
def test_mean_reduction_divides_the_first_layers_rate_only(algorithm):
    X, y = binary()
    kind, n = type(algorithm), len(X)
    divided = dd.fit(X, y, two_layer(), kind(0.5, head_lr=0.1, reduction="mean"), STEPS)
    small = dd.fit(X, y, two_layer(), kind(0.5 / n, head_lr=0.1), STEPS)
    assert_same_run(divided, small, rtol=1e-12, atol=1e-13)


@properties
@given(algorithm=in_order, seed=seeds)
def test_order_of_rows_is_irrelevant(algorithm, seed):
    (X, y), objective, theta = binary(), two_layer(), normal(3, 16)
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(seed))
    runs = [
        dd.fit(*rows, objective, algorithm, STEPS, theta=theta)
        for rows in ((X, y), (X[order], y[order]))
    ]
    assert_same_run(*runs, rtol=1e-11, atol=1e-12)


@properties
@given(algorithm=algorithms, seed=seeds)
def test_rotating_the_features_rotates_theta(algorithm, seed):
    (X, y), objective, theta = binary(), two_layer(), normal(3, 16)
    Q = torch.linalg.qr(normal(16, 16, seed=seed)).Q
    plain = dd.fit(X, y, objective, algorithm, STEPS, theta=theta)
    turned = dd.fit(X @ Q, y, objective, algorithm, STEPS, theta=theta @ Q)
    torch.testing.assert_close(plain.train_error, turned.train_error, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(plain.theta @ Q, turned.theta, rtol=1e-11, atol=1e-12)


@pytest.mark.filterwarnings("ignore::decoupled_descent.descent.info.DivergenceWarning")
@properties  # the product is not bounded: some runs grow, and grow alike
@given(algorithm=algorithms, a=st.floats(-2, 2), seed=seeds)
def test_swapping_labels_flips_the_product_head(algorithm, a, seed):
    (X, y), theta = binary(seed=seed), normal(2, 16)
    plain = dd.fit(X, y, xor_objective(a), algorithm, STEPS, theta=theta)
    swapped = dd.fit(X, 1 - y, xor_objective(-a), algorithm, STEPS, theta=theta)
    assert_same_run(plain, swapped, rtol=1e-10, atol=1e-11)
    torch.testing.assert_close(plain.state.head["a"], -swapped.state.head["a"])


@properties
@given(algorithm=algorithms, seed=seeds)
def test_swapping_labels_flips_the_output_weights(algorithm, seed):
    (X, y), objective, theta = binary(seed=seed), two_layer(), normal(3, 16)
    flipped = copy.deepcopy(objective.head)
    with torch.no_grad():
        flipped[1].weight.neg_()
    plain = dd.fit(X, y, objective, algorithm, STEPS, theta=theta)
    other = dd.fit(X, 1 - y, dd.Objective(flipped, "logistic"), algorithm, STEPS, theta=theta)
    assert_same_run(plain, other, rtol=1e-10, atol=1e-11)
    torch.testing.assert_close(plain.head[1].weight, -other.head[1].weight)


@properties
@given(algorithm=algorithms, first=st.integers(1, 10), second=st.integers(1, 10))
def test_resuming_is_not_interrupting(algorithm, first, second):
    (X, y), objective = binary(), two_layer()
    begun = dd.fit(X, y, objective, algorithm, first)
    resumed = dd.fit(X, y, objective, algorithm, second, state=begun.state)
    full = dd.fit(X, y, objective, algorithm, first + second - 1)
    assert begun.history.train_error + resumed.history.train_error[1:] == full.history.train_error
    torch.testing.assert_close(resumed.state, full.state, rtol=0, atol=0)


@either_kind
@pytest.mark.parametrize("name", ["lr", "damping", "head_lr", "head_damping"])
@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), "0.1"])
def test_bad_rates(kind, name, value):
    with pytest.raises(ValueError, match=f"{name}={value!r} must be a number of at least 0"):
        kind(**{"lr": 0.1, name: value})


@either_kind
def test_bad_reduction(kind):
    with pytest.raises(ValueError, match="reduction='max' must be 'sum' or 'mean'"):
        kind(0.1, reduction="max")


class Attention(nn.Module):
    def forward(self, h):
        return (torch.softmax(h, 1) * h).sum(1)


WAYS = {  # to derivatives: a head, and a loss
    "structured": (lambda: dd.heads.TwoLayer(2, bias=True, seed=0), "logistic"),
    "product": (lambda: dd.heads.Product(seed=0), "logistic"),
    "own loss": (
        lambda: dd.heads.TwoLayer(2, torch.sin, seed=0),
        lambda u, y: (u[:, 0] - y - 9).square().log1p(),
    ),
    "autodiff": (Attention, "logistic"),
}


@in_turn(("name", "way"), ALGORITHMS, WAYS)
def test_rows_on_the_cpu_do_not_mind_another_default_device(name, way):
    algorithm, (head, loss), (X, y) = ALGORITHMS[name], WAYS[way], binary()

    def fit():
        objective = dd.Objective(head(), loss, width=2)
        return dd.fit(X, y, objective, algorithm, 3, seed=0, test=(X, y))

    wanted = fit()
    with torch.device("meta"):
        result = fit()
    assert torch.equal(result.theta, wanted.theta)
    assert all(map(torch.equal, result.state.head.values(), wanted.state.head.values()))
    assert result.history.train_error == wanted.history.train_error
