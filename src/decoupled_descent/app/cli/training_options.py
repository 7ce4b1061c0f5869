"""The options of ``decoupled train``, and how they become arguments of an estimator."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from decoupled_descent.app.cli import options as common
from decoupled_descent.app.cli.options import option
from decoupled_descent.app.cli.privacy import linear_only
from decoupled_descent.method_names import AT_MINIMUM, BY_DESCENT, METHOD_NAMES

if TYPE_CHECKING:
    from decoupled_descent.app.cli.tables import Wishes

#: The widest hidden layer: time and memory grow with the square of the width.
WIDEST = 1000

Results = Annotated[Path, typer.Option(metavar="DIR", help="Folder for the model and the report.")]
Hidden = Annotated[
    str,
    typer.Option(metavar="N[,N…]", help="Width of the hidden layer, or several widths: 32,16."),
]
Activation = Annotated[
    Literal["tanh", "sigmoid", "softplus", "gelu", "silu", "relu"],
    typer.Option(metavar="NAME", help="tanh, sigmoid, softplus, gelu, silu or relu."),
]
Method = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="auto: newton, or orthogonal if --hidden, --activation, --lr, --damping or --max-iter "
        "is given. "
        + " ".join(f"{name}: {about.summary}." for name, about in METHOD_NAMES.items()),
    ),
]
Features = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Features for newton: auto, linear, rbf, matern, laplace1, … or, with a width, "
        "rbf(0.5).",
    ),
]
Group = Annotated[
    str | None,
    option(
        metavar="COLUMN",
        help="Rows with the same value in this column (a patient, say) are left out together. The "
        "column is not used for predictions.",
    ),
]
Time = Annotated[
    str | None,
    option(
        metavar="COLUMN",
        help="The time of the rows, numbers or dates. The estimate is then for rows after the last "
        "one: models of the past predict the next tenth of the rows.",
    ),
]
Positive = Annotated[
    str | None,
    option(
        metavar="CLASS",
        help="Of two classes, the one to find: curves, thresholds and measures are about it. By "
        "default it is recognised by names such as case, yes and 1.",
    ),
]
CostRatio = Annotated[
    float | None,
    option(
        metavar="NUMBER",
        help="Cost of a missed case in units of a false alarm. The threshold with the lowest cost "
        "is chosen and stored; its estimates allow for the choice.",
    ),
]
SkipBadRows = Annotated[
    bool,
    typer.Option(
        "--skip-bad-rows",
        help="Leave out rows with cells that cannot be read, and list them in DIR/skipped.csv.",
    ),
]
MergeClasses = Annotated[
    list[str] | None,
    option(metavar="OLD=NEW", help="Rename a class of the target; may be repeated."),
]
LogTarget = Annotated[
    bool,
    typer.Option(
        "--log-target",
        help="Fit the logarithm of the target (prices, incomes, counts above 0). Predictions and "
        "errors are in the units of the target.",
    ),
]
Rate = Annotated[str, typer.Option(metavar="NUMBER", help="Learning rate.")]
Damping = Annotated[
    str,
    typer.Option(
        metavar="NUMBER",
        help="Weight decay: the factor on the weights at every step, above 0 and up to 1.",
    ),
]
Ridge = Annotated[
    str,
    typer.Option(
        metavar="NUMBER",
        help="Ridge penalty of newton. In orthogonal, a larger value slows down the directions of "
        "small variance.",
    ),
]
MaxIter = Annotated[
    int, typer.Option(metavar="N", help="Largest number of steps per candidate.", min=1)
]
TimeLimit = Annotated[
    float | None,
    option(
        metavar="SECONDS",
        help="Stop to add candidates after this time; the linear model is always fitted. The "
        "clock is read between candidates, and the report takes further time.",
    ),
]
Seed = Annotated[
    int, typer.Option(metavar="N", help="Seed of all random numbers.", min=0, max=2**32 - 1)
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Save the progress in DIR/checkpoints. If an earlier call with --resume was "
        "interrupted, continue from there.",
    ),
]
Fast = Annotated[
    bool,
    typer.Option(
        "--fast",
        help="Leave out of the report which columns matter and whether more rows would help.",
    ),
]
NoRows = Annotated[
    bool,
    typer.Option(
        "--no-rows",
        help="Store no rows of the table: no left_out.csv, a linear model, and no rows in the "
        "report.",
    ),
]
Distributed = Annotated[
    bool,
    typer.Option(
        "--distributed",
        help="Train in all processes that torchrun starts, each on its share of the rows: torchrun "
        "--nproc-per-node 2 --no-python decoupled train …",
    ),
]


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """What ``decoupled train`` was asked for."""

    data: common.Data
    target: common.Target
    out: Results = Path("decoupled-model")
    task: common.Task = None
    hidden: Hidden = "auto"
    activation: Activation = "tanh"
    method: Method = "auto"
    features: Features = "auto"
    group: Group = None
    time: Time = None
    positive: Positive = None
    cost_ratio: CostRatio = None
    skip_bad_rows: SkipBadRows = False
    merge_classes: MergeClasses = None
    identifier: common.Identifier = None
    drop: common.Drop = None
    missing: common.Missing = None
    plain: common.Plain = None
    sheet: common.Sheet = None
    log_target: LogTarget = False
    lr: Rate = "auto"
    damping: Damping = "auto"
    ridge: Ridge = "auto"
    max_iter: MaxIter = 500
    time_limit: TimeLimit = None
    seed: Seed = 0
    fast: Fast = False
    no_rows: NoRows = False
    resume: Resume = False
    distributed: Distributed = False
    as_json: common.Json = False

    @property
    def asks_for_network(self) -> bool:
        """Whether an option of networks or of steps has another value than by default."""
        names = ("hidden", "activation", "lr", "damping", "max_iter")
        return any(getattr(self, name) != getattr(TrainOptions, name) for name in names)

    @property
    def wishes(self) -> Wishes:
        """What was asked for about the columns of the table."""
        from decoupled_descent.app.cli.tables import Wishes

        drop, words = tuple(self.drop or ()), tuple(self.missing or ())
        return Wishes(
            self.group, self.identifier, drop, words, self.log_target, self.sheet, self.time,
            self.positive, self.skip_bad_rows, tuple(self.merge_classes or ()),
            tuple(self.plain or ()),
        )  # fmt: skip

    def for_estimator(self) -> dict[str, Any]:
        """Keyword arguments of an estimator, or ``ValueError`` for options that do not agree."""
        numbers = {"lr": self.lr, "damping": self.damping, "ridge": self.ridge}
        at_minimum = {"--group": self.group is not None, "--log-target": self.log_target}
        at_minimum |= {"--distributed": self.distributed}
        at_minimum |= {"--time-limit": self.time_limit is not None}
        if self.distributed and self.time is not None:
            raise ValueError("--time needs all rows in one process; leave out --distributed")
        check_ratio(self.cost_ratio)
        check_seconds(self.time_limit)
        method = resolve_method(self.method, self.asks_for_network)
        arguments = check_options(self.hidden, method, numbers, at_minimum)
        arguments |= {"activation": self.activation, "max_iter": self.max_iter}
        arguments |= {"random_state": self.seed, "features": self.features}
        arguments |= {"log_target": True} if self.log_target else {}
        arguments |= {} if self.time_limit is None else {"time_limit": self.time_limit}
        minimises = METHOD_NAMES[method].minimises
        return linear_only(arguments, minimises) if self.no_rows else arguments


def check_ratio(ratio: float | None) -> None:
    """Raise ``ValueError`` for a ratio of costs that is not positive."""
    if ratio is not None and not 0 < ratio < math.inf:
        raise ValueError(f"--cost-ratio {ratio:g} must be a positive number, such as 5")


def check_seconds(limit: float | None) -> None:
    """Raise ``ValueError`` for a time limit that is not positive."""
    if limit is not None and not 0 < limit < math.inf:
        raise ValueError(f"--time-limit {limit:g} must be a positive number of seconds, such as 60")


def resolve_method(method: str, network: bool) -> str:
    """Replace "auto" by a method: ``network`` says whether an option of networks was given."""
    if method != "auto":
        return method
    return BY_DESCENT if network else AT_MINIMUM


def check_options(
    hidden: str, method: str, numbers: Mapping[str, str], at_minimum: Mapping[str, bool] = {}
) -> dict[str, Any]:
    """Turn texts of options into keyword arguments of an estimator.

    ``numbers`` has ``"lr"``, ``"damping"`` and ``"ridge"``, each a number as text or ``"auto"``.
    ``at_minimum`` says which options were given that need a method that reaches the minimum. Raises
    ``ValueError`` if a text is not allowed, or an option has no effect with the method.
    """
    if method not in METHOD_NAMES:
        names = ", ".join(METHOD_NAMES)
        raise ValueError(f"--method {method!r:.40} is unknown; use one of {names}")
    about = METHOD_NAMES[method]
    options: dict[str, Any] = {"method": method}
    for name, text in numbers.items():
        if text != "auto" and name not in about.settings:
            raise ValueError(f"--{name} has no effect with --method {method}; leave it out")
        options[name] = _number(name, text)
    if hidden != "auto" and about.minimises:
        raise ValueError(
            f"--hidden has no effect with --method {method}; use --method {BY_DESCENT}"
        )
    for name, is_given in at_minimum.items():
        if is_given and not about.minimises:
            raise ValueError(
                f"{name} needs --method {AT_MINIMUM}, not {method}; leave out one of the two"
            )
    options["hidden"] = "auto" if hidden == "auto" else _widths(hidden)
    return options


def _number(name: str, text: str) -> float | str:
    if text == "auto":
        return "auto"
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    highest = {"damping": 1.0}.get(name, math.inf)
    if name == "lr" and value > 0:
        from decoupled_descent.descent.common import LARGEST_RATE

        highest = LARGEST_RATE
    if not 0 < value <= highest:
        what = "a number above 0 and up to 1" if name == "damping" else "a positive number"
        what += f" up to {highest:.3g}" * (name == "lr" and value > highest)
        raise ValueError(f"--{name} {text!r:.40} must be {what}, or auto")
    return value


def _widths(text: str) -> tuple[int, ...]:
    parts = text.replace(",", " ").split()
    widths = tuple(int(part) if re.fullmatch("[0-9]{1,9}", part) else 0 for part in parts)
    if not widths or not all(1 <= width <= WIDEST for width in widths):
        raise ValueError(
            f"--hidden {text!r:.40} must be a width from 1 to {WIDEST}, several such as 32,16, or "
            "auto"
        )
    return widths
