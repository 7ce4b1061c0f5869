"""Anything that holds numbers as a tensor, or an error that says what is wrong with it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor


def as_floats(name: str, values: Any) -> Tensor:
    """Turn an array into a finite floating-point matrix, without a copy where possible."""
    tensor = as_tensor(name, values)
    if not tensor.is_floating_point():
        tensor = tensor.to(torch.get_default_dtype())
    if tensor.ndim != 2 or 0 in tensor.shape:
        raise ValueError(
            f"{name} has shape {tuple(tensor.shape)}; it must be a non-empty matrix with one row "
            "per sample and one column per feature"
        )
    check_finite(name, tensor)
    return tensor


def check_finite(name: str, tensor: Tensor, first: int = 0) -> None:
    """Raise ``ValueError`` naming the first entry that is NaN or infinite.

    ``first`` is the number of the first row of a block.
    """
    if tensor.is_floating_point() and not bool(torch.isfinite(tensor.sum())):
        bad = torch.nonzero(~torch.isfinite(tensor))
        if len(bad):
            row, *rest = bad[0].tolist()
            place = ", ".join(str(i) for i in (first + row, *rest))
            raise ValueError(
                f"{name}[{place}] is {tensor[tuple(bad[0])].item()} ({len(bad)} such "
                "entries in all); remove or impute NaN and infinite values first"
            )


def as_tensor(name: str, values: Any) -> Tensor:
    """Turn an array of real numbers into a tensor, without a copy where possible."""
    if isinstance(values, Tensor):
        if values.is_complex():
            raise ValueError(f"{name} has dtype {values.dtype}; it must be real: pass {name}.real")
        return values.clone() if values.is_inference() else values.detach()
    if values is None:
        raise ValueError(f"{name} is None; pass an array with one row per sample")
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} has dtype {array.dtype}; it must be numeric: encode text and categories as "
            "numbers first"
        )
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:  # torch has few operations for them
        array = array.astype(np.int64)
    array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    with warnings.catch_warnings():  # read-only arrays are welcome: nothing is written to them
        warnings.filterwarnings("ignore", message="The given NumPy array is not writ")
        return torch.from_numpy(array)
