"""Raw tables as inputs of estimators: rules for their columns, which are learnt in ``fit``."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from decoupled_descent.checks import outside
from decoupled_descent.evaluation.checks.time_names import is_other_time, is_time
from decoupled_descent.tables.analyses.importance import importance
from decoupled_descent.tables.analyses.table import AnalysedTable
from decoupled_descent.tables.columns.counting import CountingEncoder
from decoupled_descent.tables.columns.frames import as_frame, named, raw_table
from decoupled_descent.tables.columns.rules import Columns
from decoupled_descent.tables.columns.values import listed
from decoupled_descent.tables.estimators.model import Floats
from decoupled_descent.tables.estimators.options import Options


class RawInputs(Options):
    """What an estimator knows about the columns of its inputs.

    Attributes:
        columns_: The rules that turn a raw table into numbers; None if X was a matrix of numbers.
    """

    columns_: Columns | None = None
    n_features_in_: int
    #: Whether the rows have an order in time, for which the estimate is made.
    _in_order: bool = False
    #: Medians of the columns of a matrix without gaps: they replace gaps of new rows.
    _medians: Floats | None = None
    _rows: Any = None  # of the fit, as they were given
    _importances: Floats | None = None

    @property
    def feature_importances_(self) -> Floats:
        """How much the error rises if a column is shuffled, at least 0: ``dd.analyses.importance``.

        Computed when it is first read, from the rows of ``fit`` that are still in memory.
        """
        check_is_fitted(self)
        if self._rows is None:
            raise AttributeError(
                "feature_importances_ needs the rows of fit, which files and copies do not have; "
                "use dd.analyses.importance(model, X)"
            )
        if self._importances is None:
            rises = {one.column: max(0.0, one.rise) for one in importance(self, self._rows)}
            names = self._raw_names or AnalysedTable.of(self, self._rows).names
            self._importances = np.array([rises.get(name, 0.0) for name in names])
        return self._importances

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns of the matrix that the model is fitted to."""
        del input_features
        check_is_fitted(self)
        names = self._matrix_names or [f"x{k}" for k in range(self._width)]
        return np.array(names, dtype=object)

    def __getstate__(self) -> Any:
        """The state without the rows of ``fit``."""
        return super().__getstate__() | {"_rows": None}

    def _learn_table(self, X: Any) -> Floats | None:
        """Learn rules for the columns of a raw table, and return its matrix; None for a matrix."""
        table = raw_table(X)
        self.columns_ = self._medians = None
        if table is None:
            return None
        validate_data(self, X, skip_check_array=True)  # sets the names and number of columns
        self.columns_ = Columns.learn(table, plain_columns=self._plain_columns(table))
        return self.columns_.apply(table)

    def _plain_columns(self, table: pd.DataFrame) -> list[str]:
        """The columns whose values are taken as they are, by their names as text."""
        names = [self.plain_columns] if isinstance(self.plain_columns, str) else self.plain_columns
        plain, known = [str(name) for name in names], {str(name) for name in table.columns}
        if unknown := [name for name in plain if name not in known]:
            raise ValueError(f"plain_columns has {listed(unknown)}; columns are {listed(known)}")
        return plain

    def _learn_medians(self, rows: Any) -> None:
        """Store the medians of a matrix of numbers."""
        if isinstance(rows, np.ndarray):
            self._medians = np.median(rows, axis=0).astype(np.float64)

    def _encoded_table(self, X: Any) -> Floats:
        """Turn new rows of a raw table into a matrix, by the rules that ``fit`` has learnt.

        Values that cannot be read count as missing, with a warning.
        """
        assert self.columns_ is not None
        try:
            validate_data(self, X, skip_check_array=True, reset=False)
        except ValueError as error:
            if not set(self._raw_names or ()) <= set(getattr(X, "columns", ())):
                raise
            remedy = "Pass X[model.feature_names_in_], which has its columns in their order."
            raise ValueError(f"{error}{remedy}") from error
        frame = as_frame(X)
        encoder = CountingEncoder(self.columns_)
        matrix = encoder.apply(named(X, self._raw_names) if frame is None else frame)
        for note in encoder.unreadable_notes():
            warnings.warn(note, UserWarning, stacklevel=outside())
        return matrix

    def _filled(self, rows: Any) -> Any:
        """Replace missing values of a matrix of numbers by the medians of the training rows."""
        if self._medians is None or not isinstance(rows, np.ndarray):
            return rows
        return np.where(np.isnan(rows), self._medians, rows) if np.isnan(rows.min()) else rows

    @property
    def _raw_names(self) -> list[str] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    @property
    def _width(self) -> int:
        """The number of columns of the matrix."""
        return self.n_features_in_ if self.columns_ is None else len(self.columns_.names)

    @property
    def _times(self) -> dict[str, int] | None:
        """Columns of the matrix that are times of the rows; None if nothing tells.

        There are none if the estimate is for later rows anyway.
        """
        if self._in_order:
            return {}
        return self.time_columns if self.columns_ is None else time_columns(self.columns_)

    @property
    def _matrix_names(self) -> list[str] | None:
        """The names of the columns of the matrix, if they have names."""
        return self._raw_names if self.columns_ is None else self.columns_.names


def time_columns(columns: Columns) -> dict[str, int]:
    """Columns of the matrix that are times of the rows: dates, or numbers with such a name.

    Example:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"a": [3, 1, 2], "year": [2001, 2003, 2002]})
        >>> time_columns(Columns.learn(table))
        {'year': 1}
    """
    times, start = {}, 0
    for column in columns.columns:
        if column.is_time(is_time(column.name), is_other_time(column.name)):
            times[column.name] = start
        start += len(column.outputs)
    return times
