"""What each part of a model file must be: types, shapes that agree, ranges and order.

A file whose checksum is right may still have been made by hand. All loaders check it here before
anything is made of it, with NumPy alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoupled_descent.checks import Target, is_finite_number

KERNELS = ("linear", "rbf", "matern", "laplace", "laplace1", "poly2", "arccos")
#: Classes of feature maps whose arrays are checked here; those of a kernel name no class.
MAPS = ("Kernel", "Levels")
#: By how much shares of a file may differ from a sum of 1.
ROUNDED = 1e-6


class Numbers(NamedTuple):
    """What an array must be. Letters stand for sizes, which agree in all arrays of a part."""

    shape: tuple[str | int, ...]
    dtype: str = "float64"
    low: float = -np.inf
    below: str = ""  # whole numbers are less than this size
    positive: bool = False
    distinct: bool = False  # no number occurs twice
    rising: bool = False


@dataclass
class Part:
    """The arrays of one part of a model, which are checked one after the other.

    Attributes:
        name: The start of their names in the file, such as ``map.0.``.
        arrays: All arrays of the file by name.
        used: The names that were checked.
        sizes: The sizes that are known so far, by letter.
    """

    name: str
    arrays: Mapping[str, NDArray[Any]]
    used: set[str]
    sizes: dict[str, int] = field(default_factory=dict)

    def check(self, **wanted: Numbers) -> None:
        """Raise ``ValueError`` if an array is absent, or is not as it must be."""
        for name, numbers in wanted.items():
            full = self.name + name
            require(full in self.arrays, f"{full} is missing")
            self.used.add(full)
            self._check(full, self.arrays[full], numbers)

    def has(self, name: str) -> bool:
        """Whether the file has an array of this name."""
        return self.name + name in self.arrays

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[self.name + name]

    def _check(self, name: str, array: NDArray[Any], wanted: Numbers) -> None:
        require(
            array.dtype == wanted.dtype and array.ndim == len(wanted.shape),
            f"{name} has type {array.dtype} and shape {array.shape}",
        )
        for size, letter in zip(array.shape, wanted.shape, strict=True):
            right = self.sizes.setdefault(letter, size) if isinstance(letter, str) else letter
            require(size == right, f"{name} has the shape {array.shape}, with {size} for {right}")
        good = array.dtype.kind != "f" or bool(np.isfinite(array).all())
        good = good and bool((array >= wanted.low).all())
        if wanted.below:
            good = good and bool((array < self.sizes[wanted.below]).all())
        if wanted.positive:
            good = good and bool((array > 0).all())
        if wanted.distinct:
            good = good and len(np.unique(array)) == array.size
        if wanted.rising:
            good = good and bool((np.diff(array) > 0).all())
        require(good, f"{name} has numbers out of range or order")


def require(right: Any, what: str) -> None:
    """Raise ``ValueError`` for a model file unless something about it is right."""
    if not right:
        raise ValueError(f"{what}; train the model again")


def is_count(value: Any, least: int = 1) -> bool:
    """Whether a value is a whole number, not a truth value, of at least ``least``."""
    return type(value) is int and value >= least


def check_model(content: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Check the numbers of a model file; raise ``ValueError`` or an error of look-up.

    Args:
        content: The description of the model.
        arrays: Its arrays by name.
    """
    classes, d = Target(content["task"]).has_classes, content["columns_in"]
    require(is_count(d), f"it has {d!r:.20} columns")
    if classes:
        width = len(content["classes"]["labels"])
        outputs = 1 if width == 2 else width
        threshold, positive, ordered = content["decision_rule"]
        right = is_finite_number(threshold) and 0 < threshold < 1 and positive in (0, 1)
        right = right and isinstance(ordered, bool)
        require(right and is_count(positive, 0), f"its rule is {content['decision_rule']!r:.40}")
    else:
        centre = content["scale"][0]
        width = outputs = len(centre) if isinstance(centre, list) else 1
    target = content["target"]
    require(target is None or isinstance(target, str), f"its target is {target!r:.20}")
    mixture, used = content["mixture"], {"error", "stderr"}
    known = {"d": d, "K": outputs, "C": width}
    ranks = [
        _check_map(Part(f"map.{k}.", arrays, used, dict(known)), settings)
        for k, settings in enumerate(_list(mixture, "maps"))
    ]
    for k, member in enumerate(_list(mixture, "members")):
        number, ridge = member["map"], member["ridge"]
        require(is_count(number, 0) and number < len(ranks), f"member {k} has the map {number!r}")
        require(is_finite_number(ridge) and ridge > 0, f"member {k} has the ridge {ridge!r:.20}")
        part = Part(f"member.{k}.", arrays, used, _with_rank(known, ranks[number]))
        part.check(theta=Numbers(("K", "r")), bias=Numbers(("K",)))
    others = [
        _check_other(Part(f"other.{k}.", arrays, used, dict(known)), other["model"])
        for k, other in enumerate(_list(mixture, "others"))
    ]
    _check_shares([*mixture["members"], *mixture["others"]])
    rows = mixture["rows"]
    require(is_finite_number(rows) and rows > 0, f"its number of rows is {rows!r:.20}")
    whole = Part("", arrays, used, dict(known))
    if whole.has("medians"):
        whole.check(medians=Numbers(("d",)))
    maps = list(dict.fromkeys(member["map"] for member in mixture["members"]))
    _check_jackknife(
        Part("jackknife.", arrays, used, dict(known)), content, others, [ranks[k] for k in maps]
    )
    require(used >= set(arrays), f"it has numbers of no use: {sorted(set(arrays) - used)!s:.60}")


def _with_rank(sizes: Mapping[str, int], rank: int | None) -> dict[str, int]:
    """Sizes with that of the features, if it is known."""
    return dict(sizes) if rank is None else {**sizes, "r": rank}


def _list(mixture: Any, name: str) -> Sequence[Any]:
    parts: Sequence[Any] = mixture[name]
    require(isinstance(parts, list) and (parts or name == "others"), f"it has no list of {name}")
    return parts


def _check_shares(members: Sequence[Any]) -> None:
    """Shares are from 0 to 1, and sum to 1."""
    shares = [member["share"] for member in members]
    right = all(is_finite_number(share) and 0 <= share <= 1 for share in shares)
    require(right and abs(sum(shares) - 1) <= ROUNDED, "the shares of its members are not valid")


def _check_map(part: Part, settings: Any) -> int | None:
    """Check a feature map; return the number of its features, None for a map of another class.

    Such a map, which is added to the library, checks its own arrays.
    """
    if "map" in settings and settings["map"] not in MAPS:
        part.used |= {name for name in part.arrays if name.startswith(part.name)}
        return None
    if part.has("level_columns"):
        part.check(
            level_columns=Numbers(("l",), "int64", low=0, below="d"), level_values=Numbers(("l",))
        )
        columns, settings = part["level_columns"], settings["kernel"]
        pairs = np.stack([columns, part["level_values"]], 1)
        require(len(np.unique(pairs, axis=0)) == len(pairs), f"{part.name} has a level twice")
        part.sizes["d"] += len(columns) - len(np.unique(columns))
    kind, scale, count = settings["kind"], settings["scale"], settings["columns"]["count"]
    flags = settings["ranks"], settings["columns"]["sparse"]
    right = kind in KERNELS and is_finite_number(scale) and scale > 0
    right = right and count == part.sizes["d"] and all(type(one) is bool for one in flags)
    require(right, f"{part.name} has settings that do not match")
    part.check(
        keep=Numbers(("k",), low=0, below="d", rising=True),
        mean=Numbers(("k",)), deviation=Numbers(("k",), positive=True),
    )  # fmt: skip
    require((part["keep"] % 1 == 0).all(), f"{part.name}keep has numbers that are not whole")
    require(settings["ranks"] == part.has("knots"), f"{part.name} has no knots, or too many")
    if settings["ranks"]:
        _check_knots(part)
    rows = "k"
    if kind != "linear":
        units = settings["units"]
        right = isinstance(units, list) and len(units) == 2
        right = right and all(is_finite_number(one) and one > 0 for one in units)
        require(right, f"{part.name} has the units {units!r:.40}")
        part.check(landmarks=Numbers(("m", "k")))
        rows = "m"
    part.check(
        projection=Numbers((rows, "r")), shift=Numbers(("r",)), values=Numbers(("r",), low=0)
    )
    return part.sizes["r"]


def _check_knots(part: Part) -> None:
    """The values of each column rise; how many there are is said for each column."""
    part.check(knot_counts=Numbers(("k",), low=1), knots=Numbers((2, "u")))
    counts = part["knot_counts"]
    right = (counts % 1 == 0).all() and counts.sum() == part.sizes["u"]
    require(right, f"{part.name}knot_counts do not match the knots")
    starts = np.cumsum(counts.astype(int))[:-1]
    rising = np.diff(part["knots"]) > 0
    rising[:, starts - 1] = True  # from one column to the next
    require(rising.all(), f"{part.name}knots are not in order")


def _check_forest(part: Part, settings: Any) -> Numbers:
    """Trees with a prediction at each leaf, and the ranges of the columns."""
    require(isinstance(settings["name"], str), f"{part.name} has no name")
    part.check(
        feature=Numbers(("n",), "int32", low=-1, below="d"), threshold=Numbers(("n",)),
        left=Numbers(("n",), "int32"), right=Numbers(("n",), "int32"), value=Numbers(("n", "C")),
        roots=Numbers(("t",), "int64", low=0, below="n", rising=True),
        low=Numbers(("d",)), high=Numbers(("d",)),
    )  # fmt: skip
    right = _are_trees(part) and (part["low"] <= part["high"]).all()
    require(right, f"{part.name} has nodes in a wrong order")
    return Numbers(("s", "t"), "bool")


def _are_trees(part: Part) -> bool:
    """Whether each node but the first ones of trees follows one earlier node."""
    inner = np.flatnonzero(part["feature"] >= 0)
    children = np.stack([part["left"][inner], part["right"][inner]])
    later = bool((children > inner).all() and (children < part.sizes["n"]).all())
    reached = np.concatenate([children.ravel(), part["roots"]])
    return later and len(np.unique(reached)) == len(reached) == part.sizes["n"] > 0


def _check_boosting(part: Part, settings: Any) -> Numbers:
    """Trees with a number at each leaf, and the output that each tree adds to."""
    require(isinstance(settings["loss"], str), f"{part.name} has no loss")
    part.check(
        feature=Numbers(("n",), "int32", low=-1, below="d"), threshold=Numbers(("n",)),
        left=Numbers(("n",), "int32"), right=Numbers(("n",), "int32"), value=Numbers(("n",)),
        roots=Numbers(("t",), "int64", low=0, below="n", rising=True),
        output=Numbers(("t",), "int64", low=0, below="K"), start=Numbers(("K",)),
    )  # fmt: skip
    require(_are_trees(part), f"{part.name} has nodes in a wrong order")
    return Numbers(("s",), "int64", low=0)


def _check_sparse_linear(part: Part, settings: Any) -> Numbers:
    """Coefficients of the columns, and those without each fold."""
    loss, penalty = settings["loss"], settings["penalty"]
    require(isinstance(loss, str) and is_finite_number(penalty), f"{part.name} has no penalty")
    part.check(
        columns=Numbers(("k",), "int64", low=0, below="d", distinct=True), mean=Numbers(("k",)),
        scale=Numbers(("k",), positive=True), theta=Numbers(("k", "K")), bias=Numbers(("K",)),
        fold_theta=Numbers(("f", "k", "K")), fold_bias=Numbers(("f", "K")),
    )  # fmt: skip
    require(part.sizes["f"] > 0, f"{part.name} has no folds")
    return Numbers(("s",), "int64", low=0, below="f")


def _check_gaussian_classes(part: Part, settings: Any) -> None:
    """Means and roots of precisions of the classes."""
    require(isinstance(settings["name"], str), f"{part.name} has no name")
    diagonal = part.has("roots") and part["roots"].ndim == 2
    part.check(
        mean=Numbers(("d",)), scale=Numbers(("d",), positive=True), centres=Numbers(("C", "d")),
        roots=Numbers(("C", "d") if diagonal else ("C", "d", "d")), offsets=Numbers(("C",)),
    )  # fmt: skip


def _check_constant(part: Part, settings: Any) -> None:  # noqa: ARG001
    """Probabilities."""
    part.check(shares=Numbers(("C",), low=0))
    require(abs(part["shares"].sum() - 1) <= ROUNDED, f"{part.name}shares do not sum to 1")


#: By kind of member, what checks it, and says what intervals need of it for each left-out row.
MEMBERS: dict[str, Callable[[Part, Any], Numbers | None]] = {
    "forest": _check_forest,
    "boosting": _check_boosting,
    "sparse linear": _check_sparse_linear,
    "gaussian classes": _check_gaussian_classes,
    "constant": _check_constant,
}


def _check_other(part: Part, settings: Any) -> tuple[Part, Numbers | None]:
    kind = settings["kind"]
    require(isinstance(kind, str) and kind in MEMBERS, f"its member {kind!r:.40} does not exist")
    return part, MEMBERS[kind](part, settings)


def _check_jackknife(
    part: Part,
    content: Any,
    others: Sequence[tuple[Part, Numbers | None]],
    ranks: Sequence[int | None],
) -> None:
    """Residuals of left-out rows, and what changes predictions if they are left out."""
    constant, classes = content["jackknife"]["constant"], Target(content["task"]).has_classes
    require(is_finite_number(constant) and constant >= 0, f"its constant is {constant!r:.20}")
    part.check(
        residuals=Numbers(("s", 1 if classes else "K"), low=0),
        weights=Numbers(("s",), low=0), groups=Numbers(("s",), "int64", low=0, below="s"),
    )  # fmt: skip
    require(part.sizes["s"] > 0, "it has no left-out rows")
    if not part.has("moves.0"):
        return
    for k, rank in enumerate(ranks):
        part.sizes.pop("r", None)
        part.sizes = _with_rank(part.sizes, rank)
        part.check(**{f"features.{k}": Numbers(("s", "r"))})
    for k in range(len(content["mixture"]["members"])):
        part.check(**{f"moves.{k}": Numbers(("s", "K"))})
    for k, (other, kept) in enumerate(others):
        if kept is None:
            raise ValueError(f"{other.name} has no intervals; train the model again")
        part.sizes |= {name: other.sizes.get(name, 0) for name in ("t", "f")}
        part.check(**{f"others.{k}": kept})
