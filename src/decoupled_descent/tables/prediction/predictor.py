"""Predictions of a model of decoupled-descent with NumPy alone.

Estimators and ``decoupled predict`` use this code. ``decoupled export`` writes this file and
``model.npz`` beside it:

    from predictor import Predictor
    model = Predictor("model.npz")
    model.predict([{"age": 31, "town": "Ulm"}])
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

#: Scaled columns are cut at this many standard deviations. Otherwise a single outlier could
#: determine the scale of its column, and the row could not be predicted when it is left out.
CLIP = 5.0
#: Scaled values of trees are cut at this number, far beyond any threshold, and far below float32's
#: largest.
FAR = 1e30
#: Smaller squared distances, relative to the squared norms, are rounding errors.
SAME = 1e-14
#: The folder with code that reads dates, sentences and numbers such as $1,234.50, if there are any.
READERS = "readers"
#: Large matrices are made in blocks of about this many numbers.
NUMBERS = 2**20
#: The largest number that a logarithm of a target may stand for.
LARGEST = 1e70


class Link(NamedTuple):
    """How outputs become predictions, and what these can be."""

    mean: Callable[[Any], Any]  # predictions for outputs
    prior: Callable[[int], float] | None = None  # that of the row that is added, for C columns
    variance: Callable[[Any], Any] = np.ones_like  # around a number, up to a factor
    low: float = -math.inf
    high: float = math.inf


class LinearMember(NamedTuple):
    """A linear model of features."""

    share: float  # its weight in the mixture
    number: int  # of its feature map
    theta: Any  # shape (K, r)
    bias: Any  # shape (K,)
    ridge: float


class Other(NamedTuple):
    """A member of another kind."""

    share: float
    predict: Callable[[Any], Any]  # probabilities or numbers, (m, C)
    #: How predictions of rows (m, d) change without each of s kept training rows, (m, s, K); what
    #: is known of these is the second argument.
    changes: Callable[[Any, Any], Any]


class Mixture(NamedTuple):
    """Members whose predictions are mixed."""

    maps: tuple[Callable[[Any], Any], ...]  # features of rows, (m, r)
    values: tuple[Any, ...]  # variances of the features of each map, (r,)
    members: tuple[LinearMember, ...]
    others: tuple[Other, ...]
    rows: float  # the effective number of training rows
    loss: str

    @property
    def link(self) -> Link:
        """How outputs become predictions: those of other losses are the predictions."""
        return LINKS.get(self.loss, LINKS["squared"])

    @property
    def has_classes(self) -> bool:
        """Whether classes are predicted."""
        return self.link.mean is probabilities

    def predict(self, X: Any) -> Any:
        """Probabilities of the classes, or numbers on the scale of the fit, shape (m, K)."""
        features = [one(X) for one in self.maps]
        total: Any = 0.0
        for share, number, theta, bias, _ in self.members:
            outputs = features[number] @ theta.T + bias
            total = total + share * self._smoothed(self.link.mean(outputs))
        for other in self.others:
            total = total + other.share * self._smoothed(other.predict(X))
        return total

    def _smoothed(self, predictions: Any) -> Any:
        """Predictions with one more row, away from the ends of their range."""
        _, prior, _, low, high = self.link
        if prior is None:
            return predictions
        bounded = np.clip(predictions, low, high)
        return (self.rows * bounded + prior(predictions.shape[1])) / (self.rows + 1)

    def around(self, predictions: Any, residuals: Any) -> Any:
        """Intervals (…, K, 2) of predictions ∓ residuals that are divided by their deviations."""
        half = residuals * np.sqrt(self.link.variance(predictions))
        ends = np.stack([predictions - half, predictions + half], -1)
        return np.clip(ends, self.link.low, self.link.high)


def probabilities(outputs: Any) -> Any:
    """Probabilities of classes from logits; a single one is that of the second class."""
    if outputs.shape[1] == 1:
        outputs = np.hstack([np.zeros_like(outputs), outputs])
    powers = np.exp(outputs - outputs.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


#: Outputs beyond this are cut off before they become means.
MOST = 300.0
#: By the loss that was fitted.
LINKS = {
    "logistic": Link(probabilities, lambda count: 1 / count, low=0.0, high=1.0),
    "cross_entropy": Link(probabilities, lambda count: 1 / count, low=0.0, high=1.0),
    "squared": Link(lambda outputs: outputs),
    "poisson": Link(
        lambda outputs: np.exp(np.minimum(outputs, MOST)), lambda _: 1.0,
        lambda mean: mean, low=0.0,
    ),
    "proportion": Link(
        lambda outputs: 1 / (1 + np.exp(-np.clip(outputs, -MOST, MOST))), lambda _: 0.5,
        lambda mean: mean * (1 - mean), 0.0, 1.0,
    ),
}  # fmt: skip


def read_mixture(about: Any, arrays: Mapping[str, Any]) -> Mixture:
    """The mixture of a description and its arrays."""
    parts = [starting_with(f"map.{k}.", arrays) for k in range(len(about["maps"]))]
    return Mixture(
        tuple(partial(features, *each) for each in zip(about["maps"], parts, strict=True)),
        tuple(part["values"] for part in parts),
        tuple(
            LinearMember(one["share"], one["map"], arrays[f"member.{k}.theta"],
                   arrays[f"member.{k}.bias"], one["ridge"])
            for k, one in enumerate(about["members"])
        ),
        tuple(
            read_other(one, starting_with(f"other.{k}.", arrays), LINKS[about["loss"]])
            for k, one in enumerate(about["others"])
        ),
        about["rows"],
        about["loss"],
    )  # fmt: skip


def read_other(about: Any, arrays: dict[str, Any], link: Link) -> Other:
    """A member of another kind."""
    function, changes, has_link = KINDS[about["model"]["kind"]]

    def predict(X: Any) -> Any:
        outputs = function(arrays, X)
        return link.mean(outputs) if has_link else outputs

    return Other(about["share"], predict, partial(changes, arrays))


class Predictor:
    """A model from a file; rows are dictionaries with the columns of the training."""

    def __init__(self, path: Any = "model.npz") -> None:
        with np.load(path, allow_pickle=False) as file:
            arrays: dict[str, Any] = {name: file[name] for name in file.files}
        self.about = json.loads(str(arrays.pop("description")))
        self.classes = self.about["classes"]
        self.mixture = read_mixture(self.about, arrays)

    def predict(self, rows: list[dict[str, Any]]) -> list[Any]:
        """One class or number per row."""
        outputs = self.mixture.predict(self.matrix(rows))
        if self.classes is not None:
            return [self.classes[k] for k in decided(outputs, *self.about["rule"])]
        centre, width = self.about["scale"]
        numbers = in_units(outputs, np.array(centre), np.array(width), self.about["log"])
        return [row[0] for row in numbers.tolist()]

    def predict_proba(self, rows: list[dict[str, Any]]) -> list[dict[str, float]]:
        """For each row, the probability of each class by its name."""
        if self.classes is None:
            raise ValueError("this model predicts numbers, which have no probabilities")
        shares = self.mixture.predict(self.matrix(rows)).tolist()
        return [dict(zip(map(str, self.classes), row, strict=True)) for row in shares]

    def matrix(self, rows: list[dict[str, Any]]) -> Any:
        """Turn rows into numbers, shape (m, d); None and "" are missing."""
        parts = []
        for column in self.about["columns"]:
            name = column["name"]
            absent = [k for k, row in enumerate(rows) if name not in row]
            if absent:
                raise ValueError(f"row {absent[0]} has no {name!r}")
            parts.append(_encoded(column, [row[name] for row in rows]))
        return np.hstack(parts)


def decided(outputs: Any, threshold: float, positive: int, ordered: bool) -> Any:
    """The number of the class of each row: the most probable or middle one, or by the threshold."""
    if ordered:
        return (outputs.cumsum(1)[:, :-1] < 0.5).sum(1)
    if outputs.shape[1] != 2:
        return outputs.argmax(1)
    return np.where(outputs[:, positive] > threshold, positive, 1 - positive)


def in_units(outputs: Any, centre: Any, width: Any, is_logarithm: bool) -> Any:
    """Outputs in the units of the target, which cannot be larger than ``LARGEST``."""
    scaled = outputs * width + centre
    if not is_logarithm:
        return scaled
    largest = np.where(np.isposinf(scaled), np.inf, math.log(LARGEST))  # ends can be infinite
    return np.exp(np.minimum(scaled, largest))


def features(settings: Any, arrays: Mapping[str, Any], X: Any) -> Any:
    """The features of rows by one map, shape (m, r)."""
    if "level_columns" in arrays:  # a column of zeros and ones for each level
        settings, levels = settings["kernel"], arrays["level_columns"]
        plain = np.setdiff1d(np.arange(X.shape[1]), levels)
        ones = X[:, levels] == arrays["level_values"]
        X = np.hstack([X[:, plain], ones.astype(float)])
    projection = arrays["projection"]
    result = np.empty((len(X), projection.shape[1]))
    for rows in _blocks(len(X), max(projection.shape)):
        A = X[rows, arrays["keep"].astype(int)]
        if settings["ranks"]:
            A = _scores(arrays, A)
        A = standardised(A, arrays["mean"], arrays["deviation"])
        if settings["kind"] != "linear":
            A = _kernel(settings, A, arrays["landmarks"])
        result[rows] = A @ projection - arrays["shift"]
    return result


def standardised(X: Any, mean: Any, scale: Any) -> Any:
    """Columns of mean 0 and deviation 1, cut off."""
    return np.clip((X - mean) / scale, -CLIP, CLIP)


def _blocks(m: int, each: int) -> Iterator[slice]:
    """Blocks of m rows with about ``NUMBERS`` numbers, if each row has so many."""
    size = max(1, NUMBERS // max(1, each))
    return (slice(start, start + size) for start in range(0, m, size))


def _scores(arrays: Mapping[str, Any], A: Any) -> Any:
    """Normal scores of ranks, interpolated between values of the training."""
    ends = np.cumsum(arrays["knot_counts"].astype(int))
    values, scores = (np.split(one, ends[:-1]) for one in arrays["knots"])
    return np.stack([np.interp(*each) for each in zip(A.T, values, scores, strict=True)], 1)


def _l1_distances(A: Any, B: Any) -> Any:
    """Sums of absolute differences; column by column for few rows, so that caches are enough."""
    result, columns = np.zeros((len(A), len(B))), np.ascontiguousarray(B.T)
    for rows in _blocks(len(A), 32 * len(B)):
        part, total = A[rows], result[rows]
        gap = np.empty_like(total)
        for own, other in zip(part.T, columns, strict=True):
            np.subtract(own[:, None], other, out=gap)
            total += np.abs(gap, out=gap)
    return result


def _encoded(column: dict[str, Any], values: list[Any]) -> Any:
    """The numbers made from one column, shape (m, outputs)."""
    missing = np.array([value is None or value == "" or value != value for value in values])
    if column["kind"] == "presence":
        return missing[:, None].astype(float)
    if column["kind"] != "category":
        numbers, missing = READ[column["kind"]](column, values, missing)
        marks = [missing[:, None].astype(float)] if column["missing"] else []
        return np.hstack([numbers, *marks])
    levels = column["levels"]
    result = np.zeros((len(values), len(levels) + column["other"] + column["missing"]))
    alike = {_spelling(level): k for k, level in enumerate(levels)}
    for k, value in enumerate(values):
        if missing[k]:
            place = result.shape[1] - 1 if column["missing"] else -1
        else:
            unknown = len(levels) if column["other"] else -1
            place = alike.get(_spelling(str(value)), unknown)
            place = levels.index(str(value)) if str(value) in levels else place
        if place >= 0:
            result[k, place] = 1.0
    return result


def _number(column: dict[str, Any], values: list[Any], missing: Any) -> tuple[Any, Any]:
    style = column["style"]
    if style:
        read = _reader("styles").read_numbers
        numbers = _parsed(column, values, missing, lambda text: read([text], style)[0], style)
    else:
        given = [np.nan if gone else float(v) for v, gone in zip(values, missing, strict=True)]
        numbers = np.array(given)
    missing = missing | np.isin(numbers, column["codes"])  # -999 and the like
    return np.where(missing, column["fill"], numbers)[:, None], missing


def _date(column: dict[str, Any], values: list[Any], missing: Any) -> tuple[Any, Any]:
    read, style = _reader("dates").moments, column["style"]
    origin, day = np.datetime64(column["origin"], "us"), np.timedelta64(1, "D")

    def microseconds(text: str) -> float:
        moment = read([text], style)[0]
        return np.nan if np.isnat(moment) else float((moment - origin) / np.timedelta64(1, "us"))

    given = _parsed(column, values, missing, microseconds, style or "2024-05-31")
    dates = np.full(len(given), "NaT", "datetime64[us]")
    dates[~missing] = origin + given[~missing].astype("timedelta64[us]")
    days = np.where(missing, column["fill"], (dates - origin) / day)[:, None]
    cycles = tuple(column["cycles"])
    return np.hstack([days, _reader("cycles").cycle_columns(dates, cycles)]), missing


def _text(column: dict[str, Any], values: list[Any], missing: Any) -> tuple[Any, Any]:
    texts = ["" if gone else str(v) for v, gone in zip(values, missing, strict=True)]
    return _reader("words").tf_idf(texts, column["terms"], column["weights"]), missing


def _pair(column: dict[str, Any], values: list[Any], missing: Any) -> tuple[Any, Any]:
    read = _reader("codes").pair_of
    first = _parsed(column, values, missing, lambda text: read(text)[0], "120/80")
    second = _parsed(column, values, missing, lambda text: read(text)[1], "120/80")
    fills = [column["fill"], column["second"]]
    return np.where(missing[:, None], fills, np.stack([first, second], 1)), missing


#: The numbers made from columns that are not categories, (m, …), and which rows have no value.
READ = {"number": _number, "date": _date, "text": _text, "pair": _pair}


def _parsed(
    column: dict[str, Any], values: list[Any], missing: Any, read: Callable[[str], float], like: str
) -> Any:
    """Numbers read from text, nan where they are missing."""
    numbers = np.full(len(values), np.nan)
    for k in np.flatnonzero(~missing):
        value = values[k]
        number = isinstance(value, (int, float)) and column["kind"] == "number"
        numbers[k] = value if number else read(str(value).strip())
        if np.isnan(numbers[k]):
            raise ValueError(f"row {k}, {column['name']!r}: {value!r} is not like {like}")
    return numbers


def _reader(name: str) -> Any:
    """Code that reads a kind of column: of the library, or in a folder beside this file."""
    here = __package__ or ""
    if here.startswith("decoupled_descent."):
        return importlib.import_module(f"decoupled_descent.tables.columns.{name}")
    return importlib.import_module(f"{here}.{READERS}.{name}".removeprefix("."))


def _spelling(text: str) -> str:
    text = " ".join(text.split())
    return text.casefold() if len(text) > 1 else text


def _kernel(settings: dict[str, Any], A: Any, B: Any) -> Any:
    """Kernel values between rows A and landmarks B."""
    (squared, l1), s = settings["units"], settings["scale"]
    kind = settings["kind"]
    if kind == "laplace1":
        return np.exp(_l1_distances(A, B) / -(l1 * s))
    products = A @ B.T * (2 / squared)
    a, b = (np.square(one).sum(1) * (2 / squared) for one in (A, B))
    if kind == "poly2":
        return np.square((products + s**2) / (s**2 + 1))
    if kind == "arccos":
        size = np.sqrt(a + s**2)[:, None] * np.sqrt(b + s**2)
        cosine = np.clip((products + s**2) / size, -1, 1)
        angle = (math.pi - np.arccos(cosine)) * cosine
        return (np.sqrt(1 - np.square(cosine)) + angle) * size / math.pi
    total = a[:, None] + b
    gaps = total - 2 * products
    gaps = np.where(gaps < SAME * total, 0, gaps) * 0.5
    if kind == "rbf":
        return np.exp(gaps / (-2 * s**2))
    if kind == "laplace":
        return np.exp(np.sqrt(gaps) / -s)
    t = np.sqrt(gaps) * (math.sqrt(3) / s)  # Matérn 3/2
    return np.exp(-t) * (t + 1)


def forest(arrays: Mapping[str, Any], X: Any) -> Any:
    """The mean over all trees, shape (m, C)."""
    value, count = arrays["value"], len(arrays["roots"])
    result = np.empty((len(X), value.shape[1]))
    for rows in _blocks(len(X), count * value.shape[1]):
        result[rows] = value[leaves_of_scaled(arrays, X[rows])].mean(1)
    return result


def forest_changes(arrays: Mapping[str, Any], X: Any, unseen: Any) -> Any:
    """The mean over the trees that did not see each row (s, trees), minus that over all."""
    value = arrays["value"]
    without = unseen_shares(unseen) - 1 / unseen.shape[1]
    result = np.empty((len(X), len(unseen), value.shape[1]))
    for rows in _blocks(len(X), value.shape[1] * max(unseen.shape)):
        trees = value[leaves_of_scaled(arrays, X[rows])]
        result[rows] = without @ trees
    return result


def unseen_shares(unseen: Any) -> Any:
    """The share of each tree in the ensemble without a row; all trees where each has seen it."""
    count = unseen.sum(1, keepdims=True)
    return np.where(count > 0, unseen / np.maximum(count, 1), 1 / unseen.shape[1])


def leaves_of_scaled(arrays: Mapping[str, Any], X: Any) -> Any:
    """The leaf of each row in each tree of a forest, which compares scaled columns."""
    return leaves(arrays, scaled_columns(X, arrays["low"], arrays["high"]))


def scaled_columns(X: Any, low: Any, high: Any) -> Any:
    """Columns divided by their ranges, in float32, which trees compare: 0 to 1 in training.

    Large numbers with small differences, such as times, would lose them in float32 as they are.
    """
    halves = high / 2 - low / 2  # halves, because the range itself may be infinite
    with np.errstate(over="ignore"):
        scaled = (X / 2 - low / 2) / np.where(halves > 0, halves, 1.0)
    return np.clip(scaled, -FAR, FAR).astype(np.float32)


def boosting(arrays: Mapping[str, Any], X: Any) -> Any:
    """Sums over the trees of each output, shape (m, K)."""
    start = arrays["start"]
    result = np.tile(start, (len(X), 1))
    for rows in _blocks(len(X), len(arrays["roots"])):
        values = arrays["value"][leaves(arrays, X[rows])]
        for k in range(len(start)):
            result[rows, k] += values[:, arrays["output"] == k].sum(1)
    return result


def boosting_changes(arrays: Mapping[str, Any], X: Any, kept: Any) -> Any:
    """None: one of a thousand rows or more hardly moves the sums of many trees."""
    return np.zeros((len(X), len(kept), len(arrays["start"])))


def leaves(arrays: Mapping[str, Any], X: Any) -> Any:
    """The leaf of each row in each tree, shape (m, trees).

    A node with ``feature`` −1 is a leaf. Otherwise rows whose value of that column is at most
    ``threshold`` go to the node ``left``, others to ``right``.
    """
    feature, threshold, count = arrays["feature"], arrays["threshold"], len(arrays["roots"])
    node = np.tile(arrays["roots"], len(X))
    active = np.flatnonzero(feature[node] >= 0)
    while active.size:
        at = node[active]
        go_left = X[active // count, feature[at]] <= threshold[at]
        at = np.where(go_left, arrays["left"][at], arrays["right"][at])
        node[active] = at
        active = active[feature[at] >= 0]
    return node.reshape(len(X), count)


def sparse_linear(arrays: Mapping[str, Any], X: Any) -> Any:
    """Outputs of a linear model of some columns, shape (m, K)."""
    return _few_columns(arrays, X) @ arrays["theta"] + arrays["bias"]


def sparse_linear_changes(arrays: Mapping[str, Any], X: Any, folds: Any) -> Any:
    """Outputs of the model without the fold of each kept row, minus those of the model."""
    moved = np.einsum(
        "mu,fuk->mfk", _few_columns(arrays, X), arrays["fold_theta"] - arrays["theta"]
    )
    moved += arrays["fold_bias"] - arrays["bias"]
    return moved[:, folds]


def _few_columns(arrays: Mapping[str, Any], X: Any) -> Any:
    return standardised(X[:, arrays["columns"]], arrays["mean"], arrays["scale"])


def gaussian_classes(arrays: Mapping[str, Any], X: Any) -> Any:
    """Logits: shares times normal densities of the classes, shape (m, C)."""
    return densities(arrays, standardised(X, arrays["mean"], arrays["scale"]))


def densities(arrays: Mapping[str, Any], Z: Any) -> Any:
    """The same for scaled columns."""
    roots = arrays["roots"]
    result = np.empty((len(Z), len(roots)))
    for rows in _blocks(len(Z), roots.size):
        away = Z[rows, None] - arrays["centres"]
        away = away * roots if roots.ndim == 2 else np.einsum("mcd,cde->mce", away, roots)
        result[rows] = arrays["offsets"] - np.square(away).sum(2) / 2
    return result


def constant(arrays: Mapping[str, Any], X: Any) -> Any:
    """The same probabilities for all rows, shape (m, C)."""
    return np.tile(arrays["shares"], (len(X), 1))


def of_classes(arrays: Mapping[str, Any], X: Any, kept: Any) -> Any:
    """Intervals are for numbers."""
    del arrays, X, kept
    raise ValueError("the member predicts classes, which have no intervals")


#: By the kind of a member: its predictions, how they change without rows, and whether they are
#: outputs that the link makes predictions of.
KINDS: dict[str, tuple[Callable[..., Any], Callable[..., Any], bool]] = {
    "forest": (forest, forest_changes, False),
    "boosting": (boosting, boosting_changes, True),
    "sparse linear": (sparse_linear, sparse_linear_changes, True),
    "gaussian classes": (gaussian_classes, of_classes, True),
    "constant": (constant, of_classes, False),
}


def starting_with(start: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays whose names start with a text, by the rest of their names."""
    return {name[len(start) :]: one for name, one in arrays.items() if name.startswith(start)}
