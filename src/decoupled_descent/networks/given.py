"""What people pass for training: data sets, loaders, labels of other types, wrapped modules."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from decoupled_descent.networks.several_inputs import SeveralInputs, input_columns
from decoupled_descent.rows.tensors import as_tensor
from decoupled_descent.training.loop import as_pair

#: Criteria that take numbers as labels, and names of losses that do.
OF_NUMBERS = (
    *(nn.BCEWithLogitsLoss, nn.BCELoss, nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss),
    nn.SoftMarginLoss,
)
#: Those of them whose labels are between 0 and 1.
OF_SHARES = (nn.BCEWithLogitsLoss, nn.BCELoss)
#: Criteria that take classes as labels.
OF_CLASSES = (nn.CrossEntropyLoss, nn.NLLLoss)


def unwrapped_module(model: Any) -> Any:
    """The module within those that other parts of PyTorch put around it, checked."""
    model = getattr(model, "_orig_mod", model)  # as it was before torch.compile
    model = model.module if isinstance(model, DataParallel | DistributedDataParallel) else model
    if not isinstance(model, nn.Module):
        raise ValueError(f"model={model!r} must be a torch.nn.Module")
    if any(map(nn.parameter.is_lazy, [*model.parameters(), *model.buffers()])):
        raise ValueError(
            f"model {type(model).__name__} has parameters whose shape is not determined yet; call "
            "it once with a few rows, model(X[:2]), before training"
        )
    try:
        copy.deepcopy(model)
    except RuntimeError as error:
        raise ValueError(
            f"model {type(model).__name__} cannot be copied, as with torch.nn.utils.weight_norm; "
            "use torch.nn.utils.parametrizations.weight_norm"
        ) from error
    return model


def given_rows(X: Any, y: Any, model: nn.Module) -> tuple[Any, Any, nn.Module]:
    """Rows, labels and the module that takes these rows: several inputs are columns of one tensor.

    Example:
        >>> data = torch.utils.data.TensorDataset(torch.zeros(3, 2), torch.arange(3))
        >>> given_rows(DataLoader(data, batch_size=2), None, nn.Linear(2, 1))[1]
        tensor([0, 1, 2])
    """
    if isinstance(X, DataLoader | Dataset):
        if y is not None:
            raise ValueError(
                f"y must be None where X is a {type(X).__name__}, which has the labels"
            )
        X, y = _of_data(X, model)
    if isinstance(X, Mapping | tuple) and not isinstance(model, SeveralInputs):
        model = SeveralInputs(model, X)
    return input_columns(model, X) if isinstance(X, Mapping | tuple) else X, y, model


def _of_data(data: Any, model: nn.Module) -> tuple[Any, Any]:
    """All inputs and labels of a data set or a loader."""
    name, collate = type(data).__name__, getattr(data, "collate_fn", None)
    data = data.dataset if isinstance(data, DataLoader) else data
    batches = list(DataLoader(data, 1024, collate_fn=collate))
    if any(not isinstance(batch, tuple | list) or len(batch) < 2 for batch in batches):
        raise ValueError(f"X is a {name} whose entries are not (row, label, …); pass two tensors")
    inputs = len(batches[0]) - 1
    needed = inspect.signature(model.forward).parameters.values()
    if inputs > 1 and sum(each.default is each.empty for each in needed) == inputs:
        batches = [(tuple(batch[:-1]), batch[-1]) for batch in batches]
    return _joined([batch[0] for batch in batches]), _joined([batch[1] for batch in batches])


def _joined(parts: list[Any]) -> Any:
    """Batches one after the other: tensors, or several of them."""
    first = parts[0]
    if isinstance(first, Mapping):
        return {name: _joined([part[name] for part in parts]) for name in first}
    if isinstance(first, tuple | list):
        return tuple(_joined(list(each)) for each in zip(*parts, strict=True))
    return torch.cat(parts)


def one_per_row(name: str, values: Any) -> Tensor:
    """A tensor of rows of any shape."""
    result = as_tensor(name, values)
    if result.ndim == 0:
        raise ValueError(f"{name} is one number; pass one entry per row")
    return result


def new_rows(test: Any, model: nn.Module) -> tuple[Tensor, Tensor]:
    """The rows and labels of a test set, checked."""
    given, labels = as_pair(test)
    pair = input_columns(model, given), labels
    X, y = (one_per_row(f"test[{k}]", each) for k, each in enumerate(pair))
    if len(X) != len(y):
        raise ValueError(f"test has {len(X)} rows but {len(y)} labels; give as many of both")
    return X, y


def labels_for(loss: Any, y: Any) -> Any:
    """Labels in the type that a criterion takes; text is refused.

    Example:
        >>> labels_for(nn.MSELoss(), torch.tensor([1, 0])).dtype
        torch.float32
    """
    if not isinstance(y, Tensor):
        y = np.asarray(y)
        if y.dtype.kind in "OUS":
            raise ValueError(
                "y has text; pass numbers: names, y = numpy.unique(y, return_inverse=True)"
            )
        y = torch.from_numpy(np.array(y))  # a copy: arrays may be read-only
    if isinstance(loss, OF_NUMBERS + OF_CLASSES) and y.ndim == 2 and y.shape[1] == 1:
        y = y.squeeze(1)
    if isinstance(loss, OF_NUMBERS):
        wrong = isinstance(loss, OF_SHARES) and bool(((y < 0) | (y > 1)).any())
        if wrong:
            raise ValueError(
                f"y has labels from {float(y.min()):g} to {float(y.max()):g}, but "
                f"{type(loss).__name__} takes 0 and 1; pass y == y.max() for two classes"
            )
        return y if y.is_floating_point() else y.to(torch.get_default_dtype())
    if isinstance(loss, OF_CLASSES) and y.ndim == 1 and y.is_floating_point():
        return y.long() if bool((y == y.round()).all()) else y
    return y


def check_classes(loss: Any, y: Tensor, outputs: Tensor) -> None:
    """Raise ``ValueError`` where classes are not numbered from 0 on."""
    if not isinstance(loss, OF_CLASSES) or y.is_floating_point() or outputs.ndim < 2:
        return
    count, ignored = outputs.shape[1], y == loss.ignore_index
    wrong = ((y < 0) | (y >= count)) & ~ignored
    if bool(wrong.any()):
        raise ValueError(
            f"y has the class {int(y[wrong][0])}, but the model has {count} outputs, for classes 0 "
            f"to {count - 1}; number them: names, y = torch.unique(y, return_inverse=True)"
        )
