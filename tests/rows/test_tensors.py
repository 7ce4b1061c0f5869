"""Anything that holds numbers as a tensor, and what is refused."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.rows.tensors import as_floats, as_tensor, check_finite
from tests.problems import binary, two_layer

VALUES = np.array([[1.0, 2.0], [3.0, 4.0]])
READ_ONLY = VALUES.copy()
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    "values",
    [
        VALUES, VALUES.tolist(), torch.from_numpy(VALUES), pd.DataFrame(VALUES), READ_ONLY,
        VALUES.astype(">f8"), np.asfortranarray(VALUES), VALUES[::-1][::-1],
    ],
    ids=["array", "lists", "tensor", "frame", "read only", "other bytes", "columns", "strides"],
)  # fmt: skip
def test_kinds_of_arrays(values):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = as_floats("X", values)
    assert result.dtype == torch.float64
    assert result.tolist() == VALUES.tolist()


@pytest.mark.parametrize("dtype", ["Float64", "Int64", "float64[pyarrow]", "boolean"])
def test_dtypes_of_pandas_that_allow_missing_values(dtype):
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    frame = pd.DataFrame([[1, 0], [1, 1]]).astype(dtype)
    assert as_floats("X", frame).tolist() == [[1, 0], [1, 1]]
    assert as_tensor("y", frame[1]).is_floating_point() is ("loat" in dtype)
    frame.iloc[1, 0] = None
    with pytest.raises(ValueError, match=r"X\[1, 0\] is nan"):
        as_floats("X", frame)
    frame = frame.astype({0: object})
    with pytest.raises(ValueError, match="X has dtype object; it must be numeric"):
        as_floats("X", frame)


def test_no_copy_where_possible():
    assert as_floats("X", VALUES).data_ptr() == VALUES.ctypes.data
    tensor = torch.zeros(2, 3, requires_grad=True)
    result = as_floats("X", tensor)
    assert result.data_ptr() == tensor.data_ptr()
    assert not result.requires_grad


@pytest.mark.parametrize("kind", ["int8", "uint16", "uint32", "int64", "bool"])
def test_whole_numbers_become_floats(kind):
    result = as_floats("X", np.array([[0, 1], [1, 0]], dtype=kind))
    assert result.dtype == torch.get_default_dtype()
    assert result.tolist() == [[0, 1], [1, 0]]
    assert not as_tensor("y", np.array([0, 1], dtype=kind)).is_floating_point()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (None, "X is None; pass an array"),
        ([["a", "b"]], "X has dtype <U1; it must be numeric: encode text"),
        (np.ones((2, 2), dtype=complex), "it must be numeric"),
        (torch.ones(2, 2, dtype=torch.complex64), r"it must be real: pass X\.real"),
        ([1.0, 2.0], r"X has shape \(2,\); it must be a non-empty matrix"),
        (np.ones((0, 3)), r"X has shape \(0, 3\)"),
        ([[1.0, np.nan], [np.inf, 1.0]], r"X\[0, 1\] is nan \(2 such entries in all\)"),
    ],
)
def test_what_is_refused(values, message):
    with pytest.raises(ValueError, match=message):
        as_floats("X", values)


def test_places_in_a_block_count_from_its_first_row():
    block = torch.tensor([[0.0, 0.0], [0.0, torch.inf]])
    with pytest.raises(ValueError, match=r"X\[101, 1\] is inf \(1 such"):
        check_finite("X", block, first=100)
    check_finite("X", torch.full((2, 2), 1e308, dtype=torch.float64))  # only the sum is not finite


MATRIX = np.arange(40.0).reshape(20, 2) % 7
TENSOR = torch.from_numpy(MATRIX)
BAD = {
    "masked": (np.ma.masked_array(MATRIX, MATRIX > 5), "masked array with 5 masked entries; fill"),
    "meta": (TENSOR.to("meta"), "on the device 'meta' and holds no numbers"),
    "sparse": (TENSOR.to_sparse(), r"X is sparse \(torch.sparse_coo\); pass X.to_dense\(\)"),
    "float8": (TENSOR.to(torch.float8_e4m3fn), r"torch.float8_e4m3fn; pass X.float\(\)"),
    "complex": (TENSOR.to(torch.complex64), "it must be real"),
}


@pytest.mark.parametrize("case", BAD)
def test_arrays_without_plain_numbers(case):
    values, words = BAD[case]
    y = np.arange(20) % 2
    calls = [
        lambda: dd.fit(values, y, two_layer(), dd.GradientDescent(0.1), 2),
        lambda: dd.DecoupledClassifier(features="linear", ridge=1.0).fit(values, y),
        lambda: dd.DecoupledRegressor(features="linear", ridge=1.0).fit(values, y),
        lambda: dd.DecoupledClassifier(ridge=1.0, features="linear").fit(MATRIX, y).predict(values),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=words) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_what_is_taken():
    unmasked = np.ma.masked_array(MATRIX, mask=False)
    for values in (unmasked, MATRIX.astype(np.longdouble), MATRIX.astype(">f8")):
        assert torch.equal(as_tensor("X", values), TENSOR)
    locked = MATRIX.copy()
    locked.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tensor = as_tensor("X", locked)
    assert tensor.data_ptr() == locked.__array_interface__["data"][0]  # not copied
    del locked
    assert torch.equal(tensor, TENSOR)  # and kept alive


def test_rows_that_are_read_only_train():
    X, y = (part.numpy() for part in binary())
    X.flags.writeable = False
    run = dd.fit(X, y, two_layer(), dd.GradientDescent(0.1), 3)
    assert len(run.train_error) == 3
