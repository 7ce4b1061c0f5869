"""What people pass for training: data sets, loaders, labels of other types, wrapped modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from decoupled_descent.rows.tensors import as_tensor
from decoupled_descent.training.loop import as_pair

#: Criteria that take numbers as labels, and names of losses that do.
OF_NUMBERS = (
    *(nn.BCEWithLogitsLoss, nn.BCELoss, nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss),
    nn.SoftMarginLoss,
)
#: Criteria that take classes as labels.
OF_CLASSES = (nn.CrossEntropyLoss, nn.NLLLoss)


def unwrapped_module(model: Any) -> Any:
    """The module within those that other parts of PyTorch put around it."""
    model = getattr(model, "_orig_mod", model)  # as it was before torch.compile
    return model.module if isinstance(model, DataParallel | DistributedDataParallel) else model


def rows_and_labels(X: Any, y: Any) -> tuple[Any, Any]:
    """Rows and labels from a data set or a loader; others as they are.

    Example:
        >>> data = torch.utils.data.TensorDataset(torch.zeros(3, 2), torch.arange(3))
        >>> rows_and_labels(DataLoader(data, batch_size=2), None)[1]
        tensor([0, 1, 2])
    """
    if isinstance(X, Mapping | tuple):
        raise ValueError(
            f"X is a {type(X).__name__} of several inputs; pass one tensor, and a module that "
            "takes it apart, such as one of columns of all inputs beside each other"
        )
    if not isinstance(X, DataLoader | Dataset):
        return X, y
    if y is not None:
        raise ValueError(f"y must be None where X is a {type(X).__name__}, which has the labels")
    data = X.dataset if isinstance(X, DataLoader) else X
    collate = X.collate_fn if isinstance(X, DataLoader) else None
    batches = list(DataLoader(data, 1024, collate_fn=collate))
    if any(not isinstance(batch, tuple | list) or len(batch) < 2 for batch in batches):
        raise ValueError(
            f"X is a {type(X).__name__} whose entries are not (row, label, …); pass two tensors"
        )
    return torch.cat([batch[0] for batch in batches]), torch.cat([batch[1] for batch in batches])


def one_per_row(name: str, values: Any) -> Tensor:
    """A tensor of rows of any shape."""
    result = as_tensor(name, values)
    if result.ndim == 0:
        raise ValueError(f"{name} is one number; pass one entry per row")
    return result


def new_rows(test: Any) -> tuple[Tensor, Tensor]:
    """The rows and labels of a test set, checked."""
    X, y = (one_per_row(f"test[{k}]", each) for k, each in enumerate(as_pair(test)))
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
        y = torch.as_tensor(y)
    if isinstance(loss, OF_NUMBERS):
        y = y if y.is_floating_point() else y.to(torch.get_default_dtype())
        return y.squeeze(1) if y.ndim == 2 and y.shape[1] == 1 else y
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
