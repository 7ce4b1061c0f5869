"""Models on disk together with the rules for the tables on which they were trained."""

from __future__ import annotations

import os
from typing import TypeAlias

from decoupled_descent.app.tables.columns import Columns
from decoupled_descent.estimators.saving import SavedModel, read_model

#: A model that was read from a file, with the rules for its tables.
TableModel: TypeAlias = SavedModel[Columns]


def load_model(path: str | os.PathLike[str]) -> TableModel:
    """Read a model from a file, and check it.

    Args:
        path: The file, or a folder with ``model.safetensors`` in it.

    Returns:
        The model. Its predictions are bit for bit those of the saved one.

    Raises:
        OSError: If there is no such file, or it cannot be read.
        ValueError: If it is not a model, has an unknown version, or was damaged or edited.
    """
    return read_model(path, Columns.from_dict)
