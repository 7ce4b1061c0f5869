"""Does the advice of the command line help? Each is followed on drawn tables that provoke it.

``python docs/studies/advice.py [DRAWS]`` prints, before and after: how often the check spoke, the
root mean square of z, and the median error on other rows.
"""

import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from decoupled_descent.app.cli import findings
from decoupled_descent.app.cli.tables import Wishes, prepare
from decoupled_descent.app.cli.train import fit
from decoupled_descent.app.cli.training_options import check_options

FOLDER = Path(tempfile.mkdtemp())
NETWORK = {"method": "orthogonal", "hidden": "4", "lr": "1", "damping": "0.9"}
RARE = tuple(f"z{k}" for k in range(6))


def logistic(rows, columns, draw, signal=1.0, mixing=None):
    rng = np.random.default_rng(draw)
    X = rng.normal(size=(rows, columns))
    X = X if mixing is None else X @ mixing
    odds = np.exp(-signal * X[:, :3].sum(1))
    frame = pd.DataFrame(X.round(4)).rename(columns="x{}".format)
    return frame.assign(y=np.where(rng.random(rows) < 1 / (1 + odds), "a", "b"))


def correlated(rows, draw):
    rng = np.random.default_rng(5)
    low = 0.5 * rng.normal(size=(20, 3)) @ rng.normal(size=(3, 20))
    return logistic(rows, 20, draw, 0.3, low + 0.3 * np.eye(20))


def copies(rows, draw):
    once = logistic(rows, 10, draw, 0.5).assign(thing=[f"t{k}" for k in range(rows)])
    return pd.concat([once] * 3).sample(frac=1, random_state=0) if rows < 100 else once


def patients(count, draw, each=6):
    rng = np.random.default_rng(draw)
    effect, alike = 2 * rng.normal(size=count), rng.normal(size=(count, 3)).round(2)
    who = np.repeat(np.arange(count), each)
    X = rng.normal(size=(len(who), 2)).round(3)
    died = rng.random(len(who)) < 1 / (1 + np.exp(-effect[who] - X[:, 0]))
    frame = pd.DataFrame(np.hstack([X, alike[who]])).rename(columns="x{}".format)
    return frame.assign(patient_id=1000 + who, y=np.where(died, "died", "lived"))


def rare(rows, draw):
    """Columns that are zero in all rows but one; in other rows they are zero."""
    place = np.arange(rows) if rows < 1000 else np.full(rows, -1)
    return logistic(rows, 5, draw, 0.5).assign(
        **{name: (place == k) * 1.0 for k, name in enumerate(RARE)}
    )


def prices(rows, draw):
    rng = np.random.default_rng(draw)
    X = rng.normal(size=(rows, 4))
    y = np.exp(3 + X[:, 0] + X[:, 1] + 0.7 * rng.normal(size=rows)).round(2)
    return pd.DataFrame(X.round(3)).rename(columns="x{}".format).assign(y=y)


#: Rows to train on, other rows, the check, and the options before and after.
CASES = {
    "--method newton": (
        lambda s: logistic(100, 20, s), lambda s: logistic(2000, 20, s), "uncorrected error",
        {"method": "gradient", "hidden": "4", "lr": "1"}, {},
    ),
    "--method newton, 45 rows": (
        lambda s: logistic(45, 5, s), lambda s: logistic(2000, 5, s), "rows",
        NETWORK | {"ridge": "1"}, {},
    ),
    "--method newton, correlated columns": (
        lambda s: correlated(150, s), lambda s: correlated(2000, s), "spectrum",
        {"method": "decoupled", "hidden": "4", "lr": "1", "damping": "0.9"}, {},
    ),
    "a smaller --hidden": (
        lambda s: logistic(150, 10, s, 0.5), lambda s: logistic(2000, 10, s, 0.5), "head",
        NETWORK | {"ridge": "1", "hidden": "64"}, NETWORK | {"ridge": "1", "hidden": "3"},
    ),
    "a larger --ridge": (
        lambda s: logistic(60, 30, s), lambda s: logistic(2000, 30, s), "refitted rows",
        {"ridge": "1e-6"}, {"ridge": "1"},
    ),
    "a larger --ridge, orthogonal": (
        lambda s: rare(100, s), lambda s: rare(2000, s), "leverage",
        NETWORK | {"ridge": "0.001"}, NETWORK | {"ridge": "10"},
    ),
    "--group, copies": (
        lambda s: copies(60, s), lambda s: copies(2000, s), "duplicate rows",
        {"features": "rbf", "wishes": Wishes(drop=("thing",))},
        {"features": "rbf", "wishes": Wishes(group="thing")},
    ),
    "--group, patients": (
        lambda s: patients(30, s), lambda s: patients(400, s), "rows with the same identifier",
        {"features": "rbf"}, {"features": "rbf", "wishes": Wishes(group="patient_id")},
    ),
    "--log-target": (
        lambda s: prices(200, s), lambda s: prices(4000, s), "rows behind the error",
        {}, {"wishes": Wishes(log_target=True), "log_target": True},
    ),
    "--features linear": (
        lambda s: logistic(100, 15, s, 0.7), lambda s: logistic(2000, 15, s, 0.7), "",
        {"features": "rbf(0.3)"}, {},
    ),
}  # fmt: skip


def judge(frame, new, check, wishes=None, features="linear", method="newton", **given):
    """Train as the command does: whether the check speaks, z, and the error on other rows."""
    frame.to_csv(FOLDER / "a.csv", index=False)
    prepared = prepare(FOLDER / "a.csv", "y", None, wishes or Wishes())
    numbers = {name: given.pop(name, "auto") for name in ("lr", "damping", "ridge")}
    options = check_options(given.pop("hidden", "auto"), method, numbers)
    options |= {"features": features} if method == "newton" else {}
    model, _ = fit(prepared, options | {"max_iter": 60, "random_state": 0} | given)
    findings.add(model, prepared, interrupted=False)
    X = prepared.columns.apply(new.drop(columns="y"))
    if prepared.task == "classification":
        codes = np.searchsorted(model.classes_, new["y"].to_numpy())
        losses = -np.log(np.maximum(model.predict_proba(X)[np.arange(len(codes)), codes], 1e-300))
    else:
        losses = (model.predict(X) - new["y"].to_numpy()) ** 2
    width = np.hypot(model.estimated_test_error_stderr_, losses.std() / len(losses) ** 0.5)
    spoken = any(f.name == check and f.status != "ok" for f in model.diagnostics_.findings)
    return spoken, (model.estimated_test_error_ - losses.mean()) / width, losses.mean()


def main(draws):
    warnings.simplefilter("ignore")
    for name, (make, other, check, before, after) in CASES.items():
        for when, options in (("before", before), ("after", after)):
            found = [judge(make((0, s)), other((1, s)), check, **options) for s in range(draws)]
            spoken, z, errors = np.array(found).T
            print(
                f"{name:36s} {check:30s} {when:7s} flagged {int(spoken.sum())} of {draws}, "
                f"rms z {np.sqrt((z**2).mean()):.1f}, error {np.median(errors):.3g}",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 6)
