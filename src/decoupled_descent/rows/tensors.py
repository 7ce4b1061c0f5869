"""Conversion of arrays to tensors, with errors that name what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

#: What to say where products of the entries of X are not finite.
TOO_LARGE = "X has entries that are too large to square; rescale its columns"


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
            position = ", ".join(str(i) for i in (first + row, *rest))
            raise ValueError(
                f"{name}[{position}] is {tensor[tuple(bad[0])].item()} ({len(bad)} such "
                "entries in all); remove or impute NaN and infinite values first"
            )


def as_tensor(name: str, values: Any) -> Tensor:
    """Turn an array of real numbers into a tensor, without a copy where possible."""
    check_plain(name, values)
    if isinstance(values, Tensor):
        return values.clone() if values.is_inference() else values.detach()
    if values is None:
        raise ValueError(f"{name} is None; pass an array with one row per sample")
    array = np.asarray(values)
    if array.dtype.kind == "O":
        array = _nullable(values, array)
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} has dtype {array.dtype}; it must be numeric: encode text and categories as "
            "numbers first"
        )
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:  # torch has few operations for them
        array = array.astype(np.int64)
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:  # and none for these
        array = array.astype(np.float64)
    array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    return torch.from_numpy(array if array.flags.writeable else np.asarray(_Unlocked(array)))


def as_weights(values: Any, like: Tensor, n: int) -> Tensor:
    """The positive weights of n rows, in the dtype and on the device of ``like``."""
    weights = as_tensor("weights", values).to(like)
    if weights.shape != (n,):
        raise ValueError(f"weights has shape {tuple(weights.shape)}; it must be ({n},)")
    check_finite("weights", weights)
    if not bool((weights > 0).all()):
        raise ValueError(
            f"weights has the entry {float(weights.min()):g}; all must be positive: leave out rows "
            "of weight 0"
        )
    return weights


def as_groups(values: Any, like: Tensor, n: int) -> Tensor:
    """The number of the group of each of n rows, from 0 on."""
    labels = as_tensor("groups", values).to(like.device)
    if labels.shape != (n,):
        raise ValueError(f"groups has shape {tuple(labels.shape)}; it must be ({n},)")
    codes: Tensor = torch.unique(labels, return_inverse=True)[1]
    if int(codes.max()) == 0:
        raise ValueError(
            "groups has one value only; leaving out its group would leave no rows to learn from"
        )
    return codes


def _nullable(values: Any, array: NDArray[Any]) -> NDArray[Any]:
    """Numbers of pandas whose dtypes allow missing values (Int64, double[pyarrow]), as NumPy's."""
    dtypes = np.asarray(getattr(values, "dtypes", None), dtype=object).reshape(-1)
    kinds = {getattr(one, "kind", "O") for one in dtypes}
    if not hasattr(values, "isna") or not kinds <= set("biuf"):
        return array
    if kinds <= set("iu") and not np.any(values.isna()):
        integers: NDArray[Any] = values.to_numpy(np.int64)
        return integers
    numbers: NDArray[Any] = values.to_numpy(np.float64, na_value=np.nan)
    return numbers


class _Unlocked:
    """A read-only array that torch accepts without a warning; nothing is written to it."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array  # kept alive as long as this view
        about = array.__array_interface__
        self.__array_interface__ = about | {"data": (about["data"][0], False)}


def checkable(name: str, values: Any) -> Any:
    """Return what scikit-learn can check: tensors in memory, of a type that NumPy has, alone.

    Raises ``ValueError`` as :func:`check_plain` does, and for labels that are None.
    """
    check_plain(name, values)
    if isinstance(values, Tensor):
        values = values.detach().cpu().resolve_conj().resolve_neg()
        return values.float() if values.dtype == torch.bfloat16 else values
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype == object:
        absent = [k for k, one in enumerate(values) if one is None]
        if absent:
            raise ValueError(
                f"{name}[{absent[0]}] is None ({len(absent)} such entries in all); remove or "
                "impute missing values first"
            )
    return values


def check_plain(name: str, values: Any) -> None:
    """Raise ``ValueError`` for arrays with a mask, and tensors that hold no plain real numbers."""
    if isinstance(values, np.ma.MaskedArray) and np.any(values.mask):
        raise ValueError(
            f"{name} is a masked array with {int(np.sum(values.mask))} masked entries; fill them "
            f"first ({name}.filled(value)), or leave those rows out"
        )
    if not isinstance(values, Tensor):
        return
    if values.is_complex():
        raise ValueError(f"{name} has dtype {values.dtype}; it must be real: pass {name}.real")
    if values.layout is not torch.strided:
        raise ValueError(f"{name} is sparse ({values.layout}); pass {name}.to_dense()")
    if values.is_meta:
        raise ValueError(f"{name} is on the device 'meta' and holds no numbers; load them first")
    if "float8" in str(values.dtype) or values.is_quantized:
        remedy = f"{name}.dequantize()" if values.is_quantized else f"{name}.float()"
        raise ValueError(f"{name} has dtype {values.dtype}; pass {remedy}")
