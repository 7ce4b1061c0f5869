"""From the columns of a table to a matrix of numbers, by rules learnt from the training rows.

- Numbers, also as text, and true/false as 1/0: missing values are replaced by the median. If many
  are missing, a further column ``name_missing`` marks them. $1,234.50, 12 %, 1.234,50 €, 85 kg,
  <0.5 (as 0.5) and 12:30 (as 12.5) are numbers.
- Dates (``datetime64``, or text such as 2024-05-31, 2024-05-31 17:45, 5 Jan 2024, or 31/05/2024 if
  some value of the column shows the order of day and month): days since the earliest one.
- Sentences: TF-IDF weights of the words that occur in several rows.
- Any other text: a column of zeros and ones for each frequent value, one for all other values,
  and one for missing values if there were any. Blanks and capitals are ignored.
- Columns that cannot help are dropped: constant or empty ones, row numbers and identifiers.

Nothing is standardised.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import pandas as pd

from decoupled_descent.tables.columns.column import KINDS, Column
from decoupled_descent.tables.columns.learning import REPEATS, Undo, in_python, learn_column
from decoupled_descent.tables.columns.values import (
    BadCellError,
    Floats,
    UnreadableCellError,
    listed,
    mark_missing,
    with_numpy_type,
)

#: The most decimals of predicted numbers.
MOST_DECIMALS = 12
#: Why a column that is copied to the predictions is not used.
IDENTIFIES = "the identifier of the rows"
#: Attributes of :class:`Columns` that are lists of texts.
LISTS = ("dropped", "reasons", "remarks", "words", "spellings")


@dataclass(frozen=True)
class Columns:
    """The rules by which the columns of a table become a matrix, learnt from the training rows.

    Example:
        >>> table = pd.DataFrame({"age": [31, None, 40, 52], "pet": ["cat", "dog", "dog", "cat"]})
        >>> columns = Columns.learn(table)
        >>> columns.names
        ['age', 'pet=cat', 'pet=dog']
        >>> columns.apply(table)
        array([[31.,  1.,  0.],
               [40.,  0.,  1.],
               [40.,  0.,  1.],
               [52.,  1.,  0.]])
        >>> print(*columns.notes, sep=chr(10))
        'age': 1 missing value replaced by the median, 40
        'pet': text with 2 different values, encoded as 2 columns of zeros and ones
        >>> Columns.from_dict(columns.to_dict()) == columns
        True
    """

    columns: tuple[Column, ...]  # the columns that are used
    dropped: tuple[str, ...] = ()  # names of the columns that are not used
    reasons: tuple[str, ...] = ()  # why, for each of these
    remarks: tuple[str, ...] = ()  # what is to know of each column that is used; may be empty
    words: tuple[str, ...] = ()  # for missing values, in addition to the usual ones
    identifier: str = ""  # the column that is copied to the predictions
    spellings: tuple[str, ...] = ()  # how the classes are written, if not as their values
    decimals: int = 0  # of the target, if it is a number

    @classmethod
    def learn(
        cls,
        frame: pd.DataFrame,
        words: Sequence[str] = (),
        identifier: str = "",
        drop: Sequence[str] = (),
        others: Mapping[str, str] | None = None,
        plain_columns: Sequence[str] = (),
        undo: Undo = in_python,
    ) -> Self:
        """Learn from the training rows, without the target, how to treat each column.

        ``words`` stand for missing values. The columns of ``drop``, the identifier and ``others``,
        names with what they are, such as groups and weights, are not used. In ``plain_columns``
        -999 and 01067 are numbers, 120/80 is a text, and whole numbers are used even if each row
        has another one. ``undo`` says in notes how to name a plain column.

        Raises ``ValueError`` if a column has infinite or huge numbers, text among numbers, or
        values that are neither numbers nor dates nor text; or if no column is left.
        """
        if not len(frame):
            raise ValueError("the table has no rows; there is nothing to learn from")
        columns, remarks = [], []
        dropped: dict[str, list[str]] = {}
        problems: list[ValueError] = []
        known = {identifier: IDENTIFIES} | dict.fromkeys(drop, "as requested") | dict(others or {})
        for name, column in _by_name(mark_missing(frame, words)).items():
            if name in known:
                why = known[name]
                dropped.setdefault(why, []).append(name)
                continue
            try:
                learnt, note = learn_column(
                    column, frame.attrs.get("decimal", ""), name in plain_columns, undo
                )
            except ValueError as error:
                problems.append(error)
                continue
            if learnt is None:
                dropped.setdefault(note, []).append(name)
            else:
                columns.append(learnt)
                remarks.append(note)
        if problems:
            more = [f"and {len(problems) - 10} more columns"] if len(problems) > 10 else []
            kinds = (UnreadableCellError, BadCellError, ValueError)
            kind = next(k for k in kinds if all(isinstance(one, k) for one in problems))
            raise kind("; ".join([*map(str, problems[:10]), *more]))
        names = tuple(itertools.chain(*dropped.values()))
        reasons = tuple(why for why, several in dropped.items() for _ in several)
        learnt_all = cls(tuple(columns), names, reasons, tuple(remarks), tuple(words), identifier)
        if not columns:
            notes = "; ".join(learnt_all.notes) or "none given"
            raise ValueError(f"no column is left to learn from ({notes})")
        return learnt_all

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done, in sentences."""
        dropped: dict[str, list[str]] = {}
        for name, why in zip(self.dropped, self.reasons, strict=False):
            dropped.setdefault(why, []).append(name)
        return (
            *(f"{name!r}: {remark}" for name, remark in self._remarks if remark),
            *(f"dropped, {why}: {listed(names)}" for why, names in dropped.items()),
        )

    @property
    def _remarks(self) -> list[tuple[str, str]]:
        return [(c.name, remark) for c, remark in zip(self.columns, self.remarks, strict=False)]

    @property
    def repeated(self) -> list[str]:
        """Dropped identifiers that occur in several rows."""
        pairs = zip(self.dropped, self.reasons, strict=False)
        return [name for name, why in pairs if why == REPEATS]

    @property
    def names(self) -> list[str]:
        """Names of the columns of the matrix, all different."""
        names: dict[str, None] = {}
        for name in (name for column in self.columns for name in column.outputs):
            numbered = itertools.chain([name], (f"{name}_{k}" for k in itertools.count(2)))
            names[next(free for free in numbered if free not in names)] = None
        return list(names)

    @property
    def mark(self) -> str:
        """The decimal mark of the training table: a comma if some numbers need one."""
        return "," * any(column.is_european for column in self.columns)

    def summary(self) -> pd.DataFrame:
        """Return what is done with each column of the table, one row per column.

        Example:
            >>> table = pd.DataFrame({"age": [31, 35, 40], "same": 1})
            >>> Columns.learn(table).summary().loc["same", "note"]
            'the same value in every row'
        """
        rows = [(one.name, one.kind, len(one.outputs)) for one in self.columns]
        rows += [(name, "dropped", 0) for name in self.dropped]
        names, kinds, counts = zip(*rows, strict=True)
        notes = dict(zip(self.dropped, self.reasons, strict=False)) | dict(self._remarks)
        about = [notes.get(name, "") for name in names]
        content = {"used as": kinds, "columns": counts, "note": about}
        return pd.DataFrame(content, index=pd.Index(names, name="column"))

    def extra(self, frame: pd.DataFrame) -> list[str]:
        """Names of the columns that the training table did not have; they are ignored."""
        trained = {column.name for column in self.columns} | set(self.dropped)
        return [name for name in _names(frame) if name not in trained]

    def apply(self, frame: pd.DataFrame) -> Floats:
        """Turn a table into a matrix of finite numbers, shape (n, len(names)).

        The columns may come in any order; others are ignored. Raises ``ValueError`` if some
        are missing, or values are not of the kind they were in training.
        """
        table = self.table(frame)
        return np.hstack([column.apply(table[column.name]) for column in self.columns])

    def table(self, frame: pd.DataFrame) -> dict[str, pd.Series]:
        """Return the columns by name, with missing values marked; raise if some are missing."""
        table = _by_name(mark_missing(frame, self.words))
        absent = [column.name for column in self.columns if column.name not in table]
        if absent:
            raise ValueError(
                f"the table lacks {listed(absent)}, which the model was trained with; it has "
                f"{listed(table) or 'no columns'}"
            )
        return table

    def to_dict(self) -> dict[str, Any]:
        """Return everything as lists, texts, numbers and truth values, for JSON."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        own["columns"] = [column.to_dict() for column in self.columns]
        content: dict[str, Any] = json.loads(json.dumps(own))
        return content

    @classmethod
    def from_dict(cls, content: object) -> Self:
        """Read what :meth:`to_dict` returned; raise ``ValueError`` for anything else."""
        parts = _entries(content, cls, "the columns")
        texts = [text for name in LISTS for text in parts[name]]
        columns = tuple(_column(one) for one in parts["columns"])
        names = [*(column.name for column in columns), *parts["dropped"]]
        decimals = parts["decimals"]
        texts += [parts["identifier"]]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError(f"the columns cannot be used: {', '.join(LISTS)} must hold texts")
        if not columns or len(set(names)) < len(names):
            raise ValueError("the columns cannot be used: there are none, or one is named twice")
        if type(decimals) is not int or not 0 <= decimals <= MOST_DECIMALS:
            raise ValueError(f"the columns cannot be used: decimals is {decimals!r:.20}")
        return cls(**parts | {"columns": columns})


def _column(content: object) -> Column:
    """Make a column from its description."""
    kind = content.get("kind") if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"a column cannot be used: its kind is {kind!r:.20}")
    own = {name: value for name, value in content.items() if name != "kind"}
    return KINDS[kind](**_entries(own, KINDS[kind], "a column"))


def _entries(content: object, kind: type, what: str) -> dict[str, Any]:
    """Check that a dictionary has the fields of a dataclass; turn lists into tuples."""
    types = {field.name: str(field.type) for field in fields(kind)}
    if not isinstance(content, dict) or set(content) != set(types):
        raise ValueError(f"{what} cannot be used: the keys must be {', '.join(types)}")
    for name, value in content.items():
        if types[name].startswith("tuple") and not isinstance(value, list):
            raise ValueError(f"{what} cannot be used: {name} must be a list")
    return {name: tuple(v) if isinstance(v, list) else v for name, v in content.items()}


def _by_name(frame: pd.DataFrame) -> dict[str, pd.Series]:
    """Return the columns by their names as text."""
    names, columns = _names(frame), (with_numpy_type(column) for _, column in frame.items())
    return {
        name: column if column.name == name else column.rename(name)
        for name, column in zip(names, columns, strict=True)
    }


def _names(frame: pd.DataFrame) -> list[str]:
    """Return the names of the columns as text; refuse names that occur twice."""
    if not isinstance(frame, pd.DataFrame):
        kind = f"{type(frame).__module__.split('.')[0]}.{type(frame).__name__}"
        raise ValueError(f"a pandas.DataFrame is needed, not {kind}")
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        twice = [name for name, count in Counter(names).items() if count > 1]
        raise ValueError(f"the table has more than one column {listed(twice)}; rename all but one")
    return names
