"""Rows: what is accepted, what is refused and how, and blocks that cover every row once."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoupled_descent.rows.blocks import Rows
from tests.problems import binary, normal

X, Y = binary(6, 4)
NAN, INF = float("nan"), float("inf")


def spoilt(tensor, where, value):
    tensor = tensor.clone()
    tensor[where] = value
    return tensor


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (spoilt(X, (2, 1), NAN), Y, r"X\[2, 1\] is nan \(1 such entries.*impute"),
        (spoilt(X, (0, 3), -INF), Y, r"X\[0, 3\] is -inf"),
        (X, spoilt(Y, 4, INF), r"y\[4\] is inf"),
        (X, Y[:5], r"y has shape \(5,\) but X has 6 rows"),
        (X, torch.tensor(1.0), r"y has shape \(\) but X has 6 rows"),
        (X[0], Y, r"X has shape \(4,\); it must be a non-empty matrix"),
        (X.unsqueeze(0), Y, r"X has shape \(1, 6, 4\)"),
        (X[:0], Y[:0], r"X has shape \(0, 4\); it must be a non-empty"),
        (X[:, :0], Y, r"X has shape \(6, 0\)"),
        (X[:1], Y[:1], "X has 1 row; training needs at least 2"),
        (X + 0j, Y, r"X has dtype torch.complex128; it must be real: pass X.real"),
        (X.numpy() + 0j, Y, "X has dtype complex128"),
        (X, ["a"] * 6, "y has dtype <U1; it must be numeric: encode"),
        ([[None] * 4] * 6, Y, "X has dtype object"),
    ],
)
def test_bad_data(X, y, message):
    with pytest.raises(ValueError, match=message):
        Rows(X, y)


def test_finite_values_whose_sum_is_not_are_accepted():
    huge = torch.full((4, 2), 3e38)
    assert torch.equal(Rows(huge, torch.zeros(4)).X, huge)


def read_only(array):
    array.setflags(write=False)
    return array


@pytest.mark.parametrize(
    "given_X",
    [
        X.numpy(),
        X.numpy()[::-1][::-1],
        np.asfortranarray(X.numpy()),
        X.numpy().astype(">f8"),
        read_only(X.numpy().copy()),
        X.tolist(),
        X.clone().requires_grad_(),
        X.T.contiguous().T,
    ],
    ids=["array", "strided", "fortran", "big-endian", "read-only", "list", "grad", "transposed"],
)
def test_anything_numpy_understands(given_X):
    rows = Rows(given_X, Y)
    torch.testing.assert_close(rows.X, X, rtol=0, atol=0)
    assert rows.X.is_contiguous()
    assert not rows.X.requires_grad


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "uint16", "uint32", "int64", "float32"])
def test_labels_of_any_numeric_dtype(dtype):
    labels = Rows(X, Y.numpy().astype(dtype)).y
    assert torch.equal(labels.double(), Y)
    assert labels.min() == 0  # torch computes with it


def test_dtypes():
    assert Rows(X.float(), Y).y.dtype == torch.float32
    assert Rows(X, Y.float()).X.dtype == torch.float64
    assert Rows((X * 10).long(), Y).X.dtype == torch.get_default_dtype()
    assert Rows(X, Y.long()).y.dtype == torch.int64


def test_rows_without_labels_have_products_and_no_y():
    rows = Rows(X)
    torch.testing.assert_close(rows.forward(X[:2]), X[:2] @ X.T)
    assert torch.equal(rows.gather(torch.tensor([1])), X[1:2])
    with pytest.raises(ValueError, match="y is None; pass an array with one row per sample"):
        _ = rows.y


def test_ratio():
    assert Rows(X, Y).ratio == 1.5


@settings(max_examples=30, deadline=None)
@given(n=st.integers(2, 40), size=st.integers(1, 50))
def test_blocks_partition_the_rows(n, size):
    data = torch.arange(2.0 * n).reshape(n, 2)
    rows = Rows(data, data[:, 0], block_size=size)
    blocks = list(rows.blocks())
    assert torch.equal(torch.cat([block.X for block in blocks]), data)
    assert torch.equal(torch.cat([rows.y[block.span] for block in blocks]), data[:, 0])
    assert all(torch.equal(data[block.span], block.X) for block in blocks)
    assert {len(block.X) for block in blocks[:-1]} <= {size}


def test_weighted_losses_have_the_weighted_mean():
    losses, weights = torch.arange(6.0).double(), torch.tensor([1.0, 2, 3, 1, 1, 4]).double()
    assert torch.equal(Rows(X, Y).averaged(losses), losses)
    values = Rows(X, Y, weights=weights).averaged(losses)
    mean = np.average(losses, weights=weights)
    assert float(values.mean()) == pytest.approx(mean)
    textbook = (weights**2 * (losses - mean) ** 2).sum().sqrt() / weights.sum()
    assert float(values.std(correction=0)) / 6**0.5 == pytest.approx(float(textbook))
    equal = Rows(X, Y, weights=torch.full((6,), 3.0)).averaged(losses)
    torch.testing.assert_close(equal, losses)


def test_losses_of_groups_are_one_value_per_group():
    losses, groups = torch.arange(6.0).double(), torch.tensor([5, 5, 9, 9, 2, 2])
    rows = Rows(X, Y, groups=groups)
    assert rows.groups.tolist() == [1, 1, 2, 2, 0, 0]
    torch.testing.assert_close(
        rows.averaged(losses), torch.tensor([4.5, 0.5, 2.5], dtype=torch.float64)
    )
    weighted = Rows(X, Y, groups=groups, weights=losses + 1).averaged(losses)
    assert float(weighted.mean()) == pytest.approx(np.average(losses, weights=losses + 1))
    alone = Rows(X, Y, groups=torch.arange(6)).averaged(losses)
    torch.testing.assert_close(alone, losses)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_squared_norms_leave_the_rows_as_they_are(dtype):
    given = X.to(dtype)
    rows = Rows(given.clone(), Y)
    torch.testing.assert_close(rows.squares, given.double().square().sum(1))
    assert torch.equal(rows.X, given)


def test_the_same_rows_in_groups():
    rows = Rows(normal(6, 2), torch.zeros(6))
    grouped = rows.with_groups([0, 0, 1, 1, 2, 2])
    assert rows.groups is None
    assert grouped.groups.tolist() == [0, 0, 1, 1, 2, 2]
    assert grouped.X is rows.X


def test_what_was_made_last_is_recalled_for_the_same_key():
    rows, made = Rows(X, Y), []

    def recalled(*key):
        return rows.recall("numbers", key, lambda: made.append(key) or len(made))

    assert [recalled(1, torch.ones(2)), recalled(1, torch.ones(2))] == [1, 1]
    assert [recalled(1, torch.zeros(2)), recalled(2, torch.zeros(2))] == [2, 3]
    assert recalled(1, torch.ones(2)) == 4  # only the last one is kept
    assert list(rows.kept) == ["numbers"]
    rows.kept.clear()
    assert recalled(1, torch.ones(2)) == 5
