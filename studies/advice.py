"""Does the advice of the command line help? Each is followed on drawn tables that provoke it.

``python studies/advice.py [DRAWS]`` prints, before and after: how often the check spoke, the
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

FOLDER = Path(tempfile.mkdtemp())


def logistic(rows, columns, draw, signal=1.0):
    rng = np.random.default_rng(draw)
    X = rng.normal(size=(rows, columns))
    odds = np.exp(-signal * X[:, :3].sum(1))
    frame = pd.DataFrame(X.round(4)).rename(columns="x{}".format)
    return frame.assign(y=np.where(rng.random(rows) < 1 / (1 + odds), "a", "b"))


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


def prices(rows, draw):
    rng = np.random.default_rng(draw)
    X = rng.normal(size=(rows, 4))
    y = np.exp(3 + X[:, 0] + X[:, 1] + 0.7 * rng.normal(size=rows)).round(2)
    return pd.DataFrame(X.round(3)).rename(columns="x{}".format).assign(y=y)


#: Rows to train on, other rows, the check, and the options before and after.
CASES = {
    "a larger --ridge": (
        lambda s: logistic(60, 30, s), lambda s: logistic(2000, 30, s), "refitted rows",
        {"ridge": 1e-6}, {"ridge": 1.0},
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


def judge(frame, new, check, wishes=None, features="linear", **given):
    """Train as the command does: whether the check speaks, z, and the error on other rows."""
    frame.to_csv(FOLDER / "a.csv", index=False)
    prepared = prepare(FOLDER / "a.csv", "y", None, wishes or Wishes())
    model, _ = fit(prepared, {"features": features, "random_state": 0} | given)
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
