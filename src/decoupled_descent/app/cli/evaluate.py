"""``decoupled evaluate``: predictions of any models, made without the rows that they are for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from decoupled_descent.app.cli.options import Json, Target, argument, must_exist, option

if TYPE_CHECKING:
    import pandas as pd

    from decoupled_descent.evaluation import Evaluation

Predictions = Annotated[
    Path,
    argument(
        metavar="PREDICTIONS",
        help="Table with the target and a column of predictions of each model: numbers, classes, "
        "or the probability of the second of two classes. The models must not have seen the rows "
        "that they predict. Columns NAME=CLASS are probabilities of the classes by a model.",
    ),
]
Group = Annotated[
    str | None,
    option(metavar="COLUMN", help="Column that says which rows belong together."),
]
Weight = Annotated[str | None, option(metavar="COLUMN", help="Column with the weights of rows.")]
OutOfFold = Annotated[
    bool,
    option(
        "--out-of-fold",
        help="Say that no model had seen the rows that it predicts. Nothing in the predictions "
        "shows that, so without your word they are not trusted.",
    ),
]


def evaluate(
    predictions: Predictions,
    target: Target,
    group: Group = None,
    weight: Weight = None,
    out_of_fold: OutOfFold = False,
    as_json: Json = False,
) -> None:
    """Estimate errors on new rows from predictions out of fold, of one or several models.

    Of several models the best is chosen. Its error is corrected for the choice, and all pairs are
    compared.
    """
    must_exist(predictions)
    import decoupled_descent as dd
    from decoupled_descent.app.cli.output import echo_json

    frame = dd.read_table(predictions)
    y, groups = (_column(frame, name) for name in (target, group))
    weights = _weights(frame, weight)
    models = _models(frame, [name for name in (target, group, weight) if name is not None])
    try:
        result = dd.evaluate(
            predictions=models,
            y=y,
            sample_weight=weights,
            groups=groups,
            out_of_fold=out_of_fold,
        )
    except ValueError as error:
        raise ValueError(
            f"{error}. Every column holds predictions but {target!r} and those that --group and "
            "--weight name; remove others, such as numbers of rows or folds"
        ) from None
    if as_json:
        echo_json(_content(result))
    else:
        _show(result, predictions.name, target)


def _column(frame: pd.DataFrame, name: str | None) -> Any:
    """A column without missing values; None without a name."""
    if name is None:
        return None
    if name not in frame.columns:
        names = ", ".join(map(str, frame.columns[:8]))
        raise ValueError(f"there is no column {name!r}; the table has {names}")
    missing = int(frame[name].isna().sum())
    if missing:
        raise ValueError(f"column {name!r} has {missing} missing values; remove these rows")
    return frame[name]


def _weights(frame: pd.DataFrame, name: str | None) -> Any:
    """A column of weights; None without a name."""
    import pandas as pd

    given = _column(frame, name)
    if given is None:
        return None
    numbers = pd.to_numeric(given, errors="coerce")
    if not (numbers >= 0).all():
        raise ValueError(f"column {name!r} holds weights, which must be numbers of at least 0")
    return numbers.to_numpy(float)


def _models(frame: pd.DataFrame, used: list[str]) -> dict[str, Any]:
    """The predictions of each model; columns NAME=CLASS belong to one."""
    models: dict[str, Any] = {}
    for column in frame.columns.drop(used):
        own = _column(frame, column)
        name, _, label = str(column).rpartition("=")
        if name:
            models.setdefault(name, []).append(own.rename(label))
        else:
            models[label] = own
    if not models:
        raise ValueError("the table has no columns of predictions beside those that were named")
    import pandas as pd

    return {
        name: pd.concat(own, axis=1) if isinstance(own, list) else own
        for name, own in models.items()
    }


def _content(result: Evaluation) -> dict[str, Any]:
    """The evaluation of the best model, of all models, and of all pairs."""
    candidates = {name: one.to_dict() for name, one in result.candidates.items()}
    pairs = [
        {
            "models": pair,
            "difference": one.difference,
            "stderr": one.stderr,
            "interval": one.interval,
        }
        for pair, one in result.comparisons.items()
    ]
    return {"best": result.chosen, **result.to_dict(), "models": candidates, "pairs": pairs}


def _show(result: Evaluation, name: str, target: str) -> None:
    """Print the errors of all models, the pairs, and the verdict on the best."""
    from decoupled_descent.app.cli.output import console, heading, intervals, verdict

    screen = console()
    kind = result.kind
    screen.print(f"{name}: {kind.error_name} of {target!r}, {len(result.losses):,} rows")
    heading(screen, "Errors on new rows")
    intervals(
        screen, {model: (one.error, *one.interval) for model, one in result.candidates.items()}
    )
    if len(result.candidates) > 1:
        screen.print(
            f"The best is {result.chosen}. Because it was chosen, its error is expected to be "
            f"{result.optimism:.2g} higher: {result.error:.4g} ({result.interval[0]:.4g} to "
            f"{result.interval[1]:.4g}).",
            soft_wrap=True,
        )
        heading(screen, "Differences")
        intervals(
            screen,
            {
                f"{first} − {second}": (one.difference, *one.interval)
                for (first, second), one in result.comparisons.items()
            },
        )
    if kind.score != kind.metric:
        score = result.estimate(kind.score)
        heading(screen, "The best model")
        intervals(screen, {score.metric.replace("_", " "): (score.value, *score.interval)})
    verdict(screen, result.diagnosis.for_command_line().to_dict())
