"""The options of ``decoupled train``, and how they become arguments of an estimator."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from decoupled_descent.app.cli import options as common
from decoupled_descent.app.cli.options import option
from decoupled_descent.app.cli.privacy import linear_only

if TYPE_CHECKING:
    from decoupled_descent.app.cli.tables import Wishes

Results = Annotated[Path, typer.Option(metavar="DIR", help="Folder for the model and the report.")]
Features = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Features: auto, linear, rbf, matern, laplace1, … or, with a width, rbf(0.5).",
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
Weight = Annotated[
    str | None,
    option(
        metavar="COLUMN",
        help="How much each row counts, in training and in all estimates (the weight of a survey, "
        "say). The column is not used for predictions.",
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
DropDuplicates = Annotated[
    bool,
    typer.Option(
        "--drop-duplicates",
        help="Leave out rows that repeat an earlier one in every column but --id and --drop, and "
        "list them in DIR/skipped.csv.",
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
Ridge = Annotated[
    str,
    typer.Option(
        metavar="NUMBER",
        help="Strength of the ridge penalty; auto chooses it by the leave-one-out error.",
    ),
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


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """What ``decoupled train`` was asked for."""

    data: common.Data
    target: common.Target
    out: Results = Path("decoupled-model")
    task: common.Task = None
    features: Features = "auto"
    group: Group = None
    weight: Weight = None
    time: Time = None
    positive: Positive = None
    cost_ratio: CostRatio = None
    skip_bad_rows: SkipBadRows = False
    drop_duplicates: DropDuplicates = False
    merge_classes: MergeClasses = None
    identifier: common.Identifier = None
    drop: common.Drop = None
    missing: common.Missing = None
    plain: common.Plain = None
    sheet: common.Sheet = None
    log_target: LogTarget = False
    ridge: Ridge = "auto"
    time_limit: TimeLimit = None
    seed: Seed = 0
    fast: Fast = False
    no_rows: NoRows = False
    resume: Resume = False
    as_json: common.Json = False

    @property
    def wishes(self) -> Wishes:
        """What was asked for about the columns of the table."""
        from decoupled_descent.app.cli.tables import Wishes

        drop, words = tuple(self.drop or ()), tuple(self.missing or ())
        return Wishes(
            self.group, self.identifier, drop, words, self.log_target, self.sheet, self.time,
            self.positive, self.skip_bad_rows, tuple(self.merge_classes or ()),
            tuple(self.plain or ()), self.weight, self.drop_duplicates,
        )  # fmt: skip

    def for_estimator(self) -> dict[str, Any]:
        """Keyword arguments of an estimator, or ``ValueError`` for options that do not agree."""
        check_ratio(self.cost_ratio)
        check_seconds(self.time_limit)
        arguments: dict[str, Any] = {"ridge": check_ridge(self.ridge), "random_state": self.seed}
        arguments |= {"features": self.features}
        arguments |= {"log_target": True} if self.log_target else {}
        arguments |= {} if self.cost_ratio is None else {"cost_ratio": self.cost_ratio}
        arguments |= {} if self.time_limit is None else {"time_limit": self.time_limit}
        return linear_only(arguments) if self.no_rows else arguments


def check_ratio(ratio: float | None) -> None:
    """Raise ``ValueError`` for a ratio of costs that is not positive."""
    if ratio is not None and not 0 < ratio < math.inf:
        raise ValueError(f"--cost-ratio {ratio:g} must be a positive number, such as 5")


def check_seconds(limit: float | None) -> None:
    """Raise ``ValueError`` for a time limit that is not positive."""
    if limit is not None and not 0 < limit < math.inf:
        raise ValueError(f"--time-limit {limit:g} must be a positive number of seconds, such as 60")


def check_ridge(text: str) -> float | str:
    """A ridge penalty as a number, or "auto"."""
    from decoupled_descent.tables.prediction.predictor import LARGEST

    if text == "auto":
        return text
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 1 / LARGEST <= value <= LARGEST:
        raise ValueError(
            f"--ridge {text!r:.40} must be a positive number of at most {LARGEST:g}, or auto"
        )
    return value
