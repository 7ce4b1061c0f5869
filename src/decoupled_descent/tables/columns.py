"""From the columns of a table to a matrix of numbers, by rules that are learnt once and kept.

- Numbers, also written as text, and true/false as 1/0: missing values become the median, and where
  many are missing a further column ``name_missing`` marks them.
- Dates (``datetime64``, or text like 2024-05-31 or 2024-05-31 17:45, but not 31/05/2024): days
  since the earliest one.
- Any other text: a column of zeros and ones for each frequent value, one for all others together,
  and one for missing values if there were any.
- Columns that cannot help (constant, empty, numbering or naming the rows) are dropped.

Nothing is standardised. Rows are named in messages by the table's index.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

import numpy as np
import pandas as pd
from pandas.api import types

from decoupled_descent.tables.values import (
    LARGEST,
    Floats,
    dates_of,
    kind_of,
    levels_of,
    listed,
    meant_as,
    numbers_of,
    parse_dates,
    plain,
    texts_of,
)

KINDS = ("number", "date", "category", "presence")
LEVELS = 20  # columns for one text column, besides those for other and missing values
NEARLY = 0.9  # from this share of different values on, text names the rows
FEWEST, SHARE = 5, 0.01  # missing rows from which on they are marked
SHORTEST = 10  # rows from which on 1, 2, 3, … is a numbering rather than a feature
LONG = 100  # and from which on 1001, 1002, 1003, … is one, whatever its name
IDENTIFIER = re.compile(
    r"(^|[\W_])(id|nr|no|number|index)([\W_]|$)|(id|nr|number|index)$", re.IGNORECASE
)
DAY = np.timedelta64(86_400_000_000, "us")


@dataclass(frozen=True)
class Column:
    """What becomes of one column of the table.

    Attributes:
        name: Of the column.
        kind: ``"number"``, ``"date"``, ``"category"``, or ``"presence"`` for a column whose only
            information is whether it has a value.
        fill: What replaces missing numbers and (in days) dates: their median.
        missing: Whether a further column marks missing values.
        origin: The earliest date, for dates.
        levels: The values that have a column of their own, for categories.
        other: Whether a column stands for all other values.
    """

    name: str
    kind: str
    fill: float = 0.0
    missing: bool = False
    origin: str = ""
    levels: tuple[str, ...] = ()
    other: bool = False

    def __post_init__(self) -> None:
        texts = (self.name, self.kind, self.origin, *self.levels)
        right = all(isinstance(text, str) for text in texts)
        right &= all(isinstance(flag, bool) for flag in (self.missing, self.other))
        right &= isinstance(self.fill, int | float) and not isinstance(self.fill, bool)
        right = right and (
            self.kind in KINDS
            and -LARGEST <= self.fill <= LARGEST
            and len(set(self.levels)) == len(self.levels) <= LEVELS
            and bool(self.levels) == (self.kind == "category")
            and bool(self.origin) == (self.kind == "date")
            and (not self.origin or str(parse_dates([self.origin])[0]) == self.origin)
            and (self.kind == "category" or not self.other)
            and (self.kind != "presence" or self.missing)
        )
        if not right:
            raise ValueError(f"the column {self!r:.200} makes no sense; train the model again")

    @property
    def outputs(self) -> list[str]:
        """Names of the columns made from this one."""
        marks = [f"{self.name}_missing"] if self.missing else []
        if self.kind == "presence":
            return marks
        if self.kind != "category":
            return [self.name, *marks]
        others = [f"{self.name}=other"] if self.other else []
        return [*(f"{self.name}={level}" for level in self.levels), *others, *marks]

    def apply(self, column: pd.Series) -> Floats:
        """Return the columns made from this one, shape (n, len(outputs))."""
        result = np.zeros((len(column), len(self.outputs)))
        if self.kind == "category":
            codes, texts = levels_of(column)
            numbers = {level: k for k, level in enumerate(self.levels)}
            unknown = len(self.levels) if self.other else -1
            missing = result.shape[1] - 1 if self.missing else -1
            places = np.array([*(numbers.get(text, unknown) for text in texts), missing])[codes]
            rows = np.flatnonzero(places >= 0)
            result[rows, places[rows]] = 1.0
            return result
        if self.kind == "presence":
            codes, _ = texts_of(column)
            result[:, 0] = codes < 0
            return result
        values = self._values(column)
        absent = np.isnan(values)
        result[:, 0] = np.where(absent, self.fill, values)
        if self.missing:
            result[:, 1] = absent
        return result

    def _values(self, column: pd.Series) -> Floats:
        """Numbers, or dates in days, nan where they are missing."""
        if self.kind == "number":
            return numbers_of(column)
        return (dates_of(column) - np.datetime64(self.origin, "us")) / DAY

    def remark(self, column: pd.Series) -> str:
        """Say what :meth:`apply` makes up for: missing values, and those that training lacked."""
        if self.kind == "presence":
            return ""
        if self.kind != "category":
            return self._filled(int(np.isnan(self._values(column)).sum()))
        codes, texts = levels_of(column)
        new = [k for k, text in enumerate(texts) if text not in self.levels]
        rows, absent = int(np.isin(codes, new).sum()), int((codes < 0).sum())
        count = f"{rows} values" if rows > 1 else "1 value"
        lacked = "did not have" + ", or only rarely" * self.other
        names = listed((texts[k] for k in new), 3)
        notes = [f"{count} that training {lacked}: {names}"] if new else []
        if absent and not self.missing:
            notes.append(f"{_count(absent)}, of which training had none")
        return "; ".join(notes)

    def _filled(self, absent: int) -> str:
        if not absent:
            return ""
        marks = f", and marked by {self.name + '_missing'!r}" if self.missing else ""
        unit = " days" if self.origin else ""
        return f"{_count(absent)} replaced by the median, {self.fill:g}{unit}{marks}"


@dataclass(frozen=True)
class Columns:
    """What becomes of the columns of a table, learnt from the train rows.

    Attributes:
        columns: Those that are used.
        dropped: Names of those that are not.
        notes: What was done, in sentences.

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

    columns: tuple[Column, ...]
    dropped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def learn(cls, frame: pd.DataFrame) -> Self:
        """Decide what becomes of every column.

        Args:
            frame: The train rows, without the target.

        Returns:
            The decisions.

        Raises:
            ValueError: If a column has infinite or huge numbers, text among numbers, or values of
                a type that is neither number nor date nor text; or if no column is left.
        """
        if not len(frame):
            raise ValueError("the table has no rows; there is nothing to learn from")
        columns, notes = [], []
        dropped: dict[str, list[str]] = {}
        for name, column in _by_name(frame).items():
            learnt, note = _learn(column)
            if learnt is None:
                dropped.setdefault(note, []).append(name)
                continue
            columns.append(learnt)
            notes += [f"{name!r}: {note}"] if note else []
        notes += [f"dropped, {why}: {listed(names)}" for why, names in dropped.items()]
        if not columns:
            raise ValueError(
                f"no column is left to learn from ({'; '.join(notes) or 'none given'})"
            )
        return cls(tuple(columns), tuple(itertools.chain(*dropped.values())), tuple(notes))

    @property
    def names(self) -> list[str]:
        """Names of the columns of the matrix, all different."""
        names: dict[str, None] = {}
        for name in (name for column in self.columns for name in column.outputs):
            numbered = itertools.chain([name], (f"{name}_{k}" for k in itertools.count(2)))
            names[next(free for free in numbered if free not in names)] = None
        return list(names)

    def missing(self, frame: pd.DataFrame) -> list[str]:
        """Names of the columns that :meth:`apply` needs and the table does not have."""
        known = _by_name(frame)
        return [column.name for column in self.columns if column.name not in known]

    def extra(self, frame: pd.DataFrame) -> list[str]:
        """Names of the table's columns that were not there in training, and are ignored."""
        known = {column.name for column in self.columns} | set(self.dropped)
        return [name for name in _by_name(frame) if name not in known]

    def apply(self, frame: pd.DataFrame) -> Floats:
        """Turn a table into a matrix.

        Args:
            frame: Rows with the columns of the train rows, in any order; others are ignored.

        Returns:
            Finite numbers, shape (n, len(names)).

        Raises:
            ValueError: If columns are missing, or values are not of the kind they were.
        """
        absent = self.missing(frame)
        if absent:
            raise ValueError(
                f"the table lacks {listed(absent)}, which the model was trained with; it has "
                f"{listed(_by_name(frame)) or 'no columns'}"
            )
        table = _by_name(frame)
        result = np.empty((len(frame), sum(len(column.outputs) for column in self.columns)))
        start = 0
        for column in self.columns:
            block = column.apply(table[column.name])
            result[:, start : start + block.shape[1]] = block
            start += block.shape[1]
        return result

    def remarks(self, frame: pd.DataFrame) -> list[str]:
        """Say of each column what :meth:`apply` makes up for: missing values, and unknown ones."""
        table = _by_name(frame)
        found = {column.name: column.remark(table[column.name]) for column in self.columns}
        return [f"{name!r}: {remark}" for name, remark in found.items() if remark]

    def to_dict(self) -> dict[str, Any]:
        """Return the decisions as lists, texts, numbers and truth values, as JSON has them."""
        columns = [{**asdict(column), "levels": [*column.levels]} for column in self.columns]
        return {"columns": columns, "dropped": [*self.dropped], "notes": [*self.notes]}

    @classmethod
    def from_dict(cls, content: object) -> Self:
        """Read what :meth:`to_dict` returned, trusting nothing.

        Args:
            content: Perhaps such a dictionary.

        Returns:
            The decisions.

        Raises:
            ValueError: If it is not one.
        """
        parts = _entries(content, {"columns": list, "dropped": list, "notes": list}, "the columns")
        kinds: dict[str, type] = {field.name: object for field in fields(Column)}
        entries = [
            _entries(entry, kinds | {"levels": list}, "a column") for entry in parts["columns"]
        ]
        columns = tuple(Column(**{**e, "levels": tuple(e["levels"])}) for e in entries)
        if not all(isinstance(text, str) for text in parts["dropped"] + parts["notes"]):
            raise ValueError("the columns cannot be used: dropped and notes must hold texts")
        names = [*(column.name for column in columns), *parts["dropped"]]
        if not columns or len(set(names)) < len(names):
            raise ValueError("the columns cannot be used: there are none, or one is named twice")
        return cls(columns, tuple(parts["dropped"]), tuple(parts["notes"]))


def _entries(content: object, kinds: dict[str, type], what: str) -> dict[str, Any]:
    """Check that a dictionary has these keys, and values of these types."""
    if not isinstance(content, dict) or set(content) != set(kinds):
        raise ValueError(f"{what} cannot be used: the keys must be {', '.join(kinds)}")
    for key, kind in kinds.items():
        if not isinstance(content[key], kind):
            raise ValueError(f"{what} cannot be used: {key} must be a {kind.__name__}")
    return content


def _by_name(frame: pd.DataFrame) -> dict[str, pd.Series]:
    """Columns by their names as text, each only once."""
    if not isinstance(frame, pd.DataFrame):
        kind = f"{type(frame).__module__.split('.')[0]}.{type(frame).__name__}"
        raise ValueError(f"a pandas.DataFrame is needed, not {kind}")
    table = {
        str(name): plain(frame.iloc[:, k]).rename(str(name)) for k, name in enumerate(frame.columns)
    }
    if len(table) < frame.shape[1]:
        twice = [name for name, count in Counter(map(str, frame.columns)).items() if count > 1]
        raise ValueError(f"the table has more than one column {listed(twice)}; rename all but one")
    return table


def _learn(column: pd.Series) -> tuple[Column | None, str]:
    """Decide what becomes of a column, or None with the reason for dropping it."""
    kind = kind_of(column)
    if kind == "category":
        return _learn_category(column)
    origin = ""
    if kind == "number":
        values = numbers_of(column)
    else:
        dates = dates_of(column)
        earliest = np.datetime64(pd.Series(dates).min(), "us")
        origin = "" if np.isnat(earliest) else str(earliest)
        values = (dates - earliest) / DAY
    known = values[~np.isnan(values)]
    absent = len(values) - len(known)
    marked = absent >= max(FEWEST, SHARE * len(values))
    if not known.size:
        return None, "without values"
    start = _numbering(values, column.index) if kind == "number" else None
    if start is not None and (
        -1 <= start <= 1 or len(values) >= LONG or IDENTIFIER.search(column.name)
    ):
        return None, "numbering the rows"
    if (known == known[0]).all():
        if not marked:
            return None, "the same value in every row"
        return Column(column.name, "presence", missing=True), "only whether it has a value is used"
    learnt = Column(column.name, kind, float(np.median(known)), marked, origin)
    notes = [f"dates, turned into days since {origin:.10}"] if origin else []
    if start is not None:
        notes.append("rises by 1 in every row: delete it if it numbers the rows")
    notes += [learnt._filled(absent)] if absent else []
    return learnt, "; ".join(notes)


def _numbering(values: Floats, index: pd.Index) -> float | None:
    """The k of k, k + 1, k + 2, …, perhaps with rows left out since; None for other numbers."""
    if np.ptp(values) == 0:  # which numbers beyond 2⁵³ may look like, less their place
        return None
    places = [np.arange(len(values))]
    if types.is_integer_dtype(index.dtype):
        places.append(index.to_numpy())
    starts = [values - place for place in places if len(values) >= SHORTEST]
    constant = [float(start[0]) for start in starts if (start == start[0]).all()]
    return min(constant, key=abs, default=None)


def _learn_category(column: pd.Series) -> tuple[Column | None, str]:
    codes, texts = levels_of(column)
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    absent = int((codes < 0).sum())
    if not texts:
        return None, "without values"
    if len(texts) == 1 and not absent:
        return None, "the same value in every row"
    hint = "" if isinstance(column.dtype, pd.CategoricalDtype) else meant_as(texts, counts)
    hint = f"; {hint}" if hint else ""
    if len(texts) >= NEARLY * counts.sum():
        return None, "nearly every row has text of its own" + hint
    order = sorted(range(len(texts)), key=lambda k: (-counts[k], texts[k]))
    levels = tuple(texts[k] for k in order[:LEVELS] if counts[k] > 1)
    learnt = Column(column.name, "category", 0.0, absent > 0, "", levels, len(levels) < len(texts))
    note = (
        f"text with {len(texts)} different values, encoded as {len(learnt.outputs)} columns of "
        "zeros and ones"
    )
    note += f", the {len(texts) - len(levels)} rarest values together" if learnt.other else ""
    return learnt, note + (f", {_count(absent)} apart" if absent else "") + hint


def _count(absent: int) -> str:
    return f"{absent} missing value" + "s" * (absent > 1)
