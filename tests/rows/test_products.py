"""The thin products with X, by oneDNN and by ``torch.mm``."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import decoupled_descent as dd
from decoupled_descent.rows import products
from decoupled_descent.rows.inputs import automatic_block_size

available = pytest.mark.skipif(
    products._onednn() is None, reason="this build of PyTorch has no oneDNN for x86-64"
)


@pytest.fixture
def everywhere(monkeypatch):
    """Use oneDNN for X of any size."""
    monkeypatch.setattr(products, "LARGE", 1)


def close(result, left, right, add=None):
    """Within the rounding error of float32 sums, K ε Σ|a||b| for K terms."""
    left, right = left.double(), right.double()
    exact, size = left @ right, left.abs() @ right.abs()
    if add is not None:
        exact, size = exact + add.double(), size + add.abs().double()
    bound = (left.shape[1] + 1) * torch.finfo(torch.float32).eps * size
    return bool(((result.double() - exact).abs() <= bound).all())


sizes = st.integers(1, 40)


@available
@given(sizes, sizes, sizes, st.booleans(), st.integers(0, 100))
def test_products_are_products(n, d, width, strided, seed):
    generator = torch.Generator().manual_seed(seed)
    draw = lambda a, b: torch.randn(a, b, generator=generator)  # noqa: E731
    theta, X = draw(width, d), draw(n, d)
    q, memory = draw(width, n), draw(width, n)
    if strided:  # the layouts that autodiff and row blocks hand over
        q, memory = draw(n, width).T, draw(width, n + 3)[:, 2:-1]
    before, total = memory.clone(), draw(width, d)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "LARGE", 1)
        assert products.fast_routine(X) is not None
        assert close(products.forward(theta, X), theta, X.T)
        assert close(products.forward(theta, X, memory), theta, X.T, memory)
        assert close(products.backward(q, X), q, X)
        assert close(products.backward(q, X, total), q, X, total)
    assert torch.equal(memory, before)


@pytest.mark.parametrize("size", [(2, 3), (1100, 1000)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_either_routine_at_its_size(size, dtype):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(*size, generator=generator, dtype=dtype)
    theta = torch.randn(3, size[1], generator=generator, dtype=dtype)
    result = products.forward(theta, X)
    assert result.dtype == dtype
    assert close(result, theta, X.T)


@available
def test_who_gets_onednn(everywhere):
    X = torch.ones(4, 6)
    assert products.fast_routine(X) is not None
    assert products.fast_routine(X.double()) is None
    assert products.fast_routine(X[:, ::2]) is None
    assert products.fast_routine(X.to("meta")) is None
    with torch.backends.mkldnn.flags(enabled=False, allow_tf32=None):
        assert products.fast_routine(X) is None


@available
def test_small_data_stays_with_torch():
    columns = 1000
    enough = -(-products.LARGE // columns)
    assert products.fast_routine(torch.ones(enough - 1, columns)) is None
    assert products.fast_routine(torch.ones(enough, columns)) is not None


@available
def test_what_onednn_multiplies_goes_in_one_piece():
    X = torch.zeros(5000, 1000)
    assert automatic_block_size(X) == 5000
    with torch.backends.mkldnn.flags(enabled=False, allow_tf32=None):
        assert 16 <= automatic_block_size(X) < 5000


def nothing(*_):
    raise RuntimeError("unknown overload")


@pytest.mark.parametrize(
    "operator",
    [
        SimpleNamespace(),
        SimpleNamespace(default=nothing),
        SimpleNamespace(default=lambda a, B, *_: a @ B.T + 1),
    ],
    ids=["gone", "other signature", "other meaning"],
)
def test_another_operator_of_that_name_is_not_used(monkeypatch, operator):
    mkldnn = SimpleNamespace(_linear_pointwise=operator)
    monkeypatch.setattr(torch, "ops", SimpleNamespace(mkldnn=mkldnn))
    assert products._onednn.__wrapped__() is None


def test_other_machines(monkeypatch):
    monkeypatch.setattr(products.platform, "machine", lambda: "arm64")
    assert products._onednn.__wrapped__() is None


@available
@pytest.mark.parametrize(
    "algorithm",
    [
        dd.GradientDescent(0.5, reduction="mean"),
        dd.DecoupledDescent(0.5, 0.9, reduction="mean"),
        dd.OrthogonalDecoupledDescent(0.5, reduction="mean"),
    ],
    ids=lambda algorithm: type(algorithm).__name__,
)
@pytest.mark.parametrize("block_size", [None, 16])
def test_training_is_the_same_with_either(everywhere, algorithm, block_size):
    X, y = dd.mixtures.xor(dimension=30, snr=4.0).sample(50, seed=0)
    objective = dd.Objective(dd.heads.TwoLayer(4, seed=0), "logistic")
    paths = []
    for enabled in (True, False):
        with torch.backends.mkldnn.flags(enabled=enabled, allow_tf32=None):
            rows = dd.Rows(X.float(), y, block_size)
            run = dd.fit(rows, None, objective, algorithm, steps=20, seed=1)
        paths.append(run.train_error)
    torch.testing.assert_close(*paths, rtol=1e-5, atol=0)  # roundings of 6e-8, twenty steps
