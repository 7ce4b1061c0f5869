"""Rows in blocks change nothing but the order of sums; and the memory a step needs."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import decoupled_descent as dd
from decoupled_descent.objective.autodiff import components
from decoupled_descent.rows import inputs as rows_module
from decoupled_descent.rows.inputs import automatic_block_size
from tests.objective.references import assert_agree
from tests.problems import binary, normal


def shear(h, y, a):
    return torch.where(h.flip(1) > 0, h, 0.5 * h) - y.unsqueeze(1)


CASES = {
    "structured": ("tanh", "structured", None),
    "structured, deep": (None, "structured", None),
    "autodiff": ("gelu", "autodiff", None),
    "smoothed": ("relu", "smoothed", None),
    "smoothed g": ("tanh", "smoothed", shear),
}


@pytest.mark.parametrize("block_size", [1, 7, 20, 39])
@pytest.mark.parametrize("case", CASES)
def test_blocks_change_nothing(case, block_size):
    activation, curvature, g = CASES[case]
    X, y = binary(40, 30)
    head = dd.heads.TwoLayer(3, activation, bias=True, seed=0) if activation else None
    head = head or dd.heads.Deep([3, 4], "silu", bias=True, seed=0)
    algorithm, ends = dd.DecoupledDescent(0.1, 0.95, g=g), []
    for size in (block_size, None):
        objective, rows = dd.Objective(head, "logistic", curvature=curvature), dd.Rows(X, y, size)
        state = algorithm.init(rows, objective, seed=0)
        for _ in range(10):
            state, info = algorithm.step(state, rows, objective)
        ends.append([state.theta, state.memory, state.head, *info])
    assert_agree(*ends)


@given(
    n=st.integers(2, 10**7),
    d=st.integers(1, 10**7),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_automatic_block_size(n, d, dtype):
    X = torch.zeros(1, 1, dtype=dtype).expand(n, d)
    size, row = automatic_block_size(X), d * X.element_size()
    if n * row <= rows_module.SINGLE_BLOCK_BYTES:
        assert size == n
    else:
        assert size == 16 or rows_module.BLOCK_BYTES - row < size * row <= rows_module.BLOCK_BYTES
        assert size >= 16


class Allocations(TorchDispatchMode):
    """Elements of every storage that an operation creates."""

    def __init__(self, *reference):
        super().__init__()
        self.seen = {t.untyped_storage().data_ptr(): t for t in reference}
        self.sizes = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                if storage.data_ptr() not in self.seen:
                    self.seen[storage.data_ptr()] = tensor  # alive, so no address is used twice
                    self.sizes.append(storage.nbytes() // tensor.element_size())
        return result


def allocations(curvature, n, d, width, activation="tanh", loss="logistic"):
    rows = dd.Rows(normal(n, d) / d**0.5, (normal(n, seed=1) > 0).double())
    head = dd.heads.TwoLayer(width, activation, bias=True, seed=0)
    objective, algorithm = dd.Objective(head, loss, curvature=curvature), dd.DecoupledDescent(0.1)
    state = algorithm.init(rows, objective, seed=0)
    with Allocations(rows.X, rows.y, state.theta, state.memory, *state.head.values()) as seen:
        algorithm.step(state, rows, objective)
    return seen.sizes


SIZES = [(3000, 20, 40), (500, 4000, 30), (200, 50, 300)]


@pytest.mark.parametrize(("n", "d", "width"), SIZES)
@pytest.mark.parametrize("activation", ["tanh", "gelu", "relu"])
def test_a_step_needs_no_matrix_per_row(activation, n, d, width):
    sizes = allocations("structured", n, d, width, activation)
    assert max(sizes) <= max(n * width, d * width, width * width)
    # even if nothing were freed before the end of the step
    assert sum(sizes) <= 20 * (n * width + d * width + width * width)


def test_the_measure_sees_matrices_per_row():
    n, d, width = SIZES[0]
    assert max(allocations("autodiff", n, d, width)) >= n * width * components(n, width)


@pytest.mark.parametrize(("first", "second"), [(500, 1000), (1000, 2000)])
def test_memory_grows_in_proportion_to_the_rows(first, second):
    small, large = (sum(allocations("structured", n, 10, 8)) for n in (first, second))
    assert large <= 2 * small
