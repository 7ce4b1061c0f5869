"""Advice that is printed can be followed, and helps: each is followed on a table that provokes it.

docs/diagnostics.md has the same on several draws of each table.
"""

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.app.cli import findings
from decoupled_descent.app.cli.tables import Wishes, prepare
from decoupled_descent.app.cli.train import fit

STATUSES = ("absent", "ok", "note", "caution", "alarm")


def logistic(rows, columns, seed, signal=1.0):
    """Two classes that depend on three of the columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    odds = np.exp(-signal * X[:, :3].sum(1))
    frame = pd.DataFrame(X.round(4)).rename(columns="x{}".format)
    return frame.assign(y=np.where(rng.random(rows) < 1 / (1 + odds), "a", "b"))


def copies():
    """Every row three times, and a column that says so."""
    once = logistic(60, 10, 0, 0.5).assign(thing=[f"t{k}" for k in range(60)])
    return pd.concat([once] * 3).sample(frac=1, random_state=0)


def patients():
    """Six rows of each patient, with measurements that identify them and an effect of their own."""
    rng = np.random.default_rng(1)
    effect, alike, who = 2 * rng.normal(size=30), rng.normal(size=(30, 3)), np.repeat(range(30), 6)
    X = rng.normal(size=(180, 2))
    died = rng.random(180) < 1 / (1 + np.exp(-effect[who] - X[:, 0]))
    frame = pd.DataFrame(np.hstack([X, alike[who]]).round(3)).rename(columns="x{}".format)
    return frame.assign(patient_id=1000 + who, y=np.where(died, "died", "lived"))


def prices():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    y = np.exp(3 + X[:, 0] + X[:, 1] + 0.7 * rng.normal(size=200)).round(2)
    return pd.DataFrame(X.round(3)).rename(columns="x{}".format).assign(y=y)


def known_answer():
    frame = logistic(150, 5, 0)
    noise = 0.01 * np.random.default_rng(3).normal(size=150)
    return frame.assign(result=(frame["y"] == "a") + noise)


#: A table, what was asked for, the check and the start of its advice, and what follows from it.
FOLLOWED = {
    "a larger ridge": (
        logistic(60, 30, 0), {"ridge": 1e-6},
        "refitted rows", "train with a larger --ridge (now 1e-06)", {"ridge": 1.0},
    ),
    "duplicates": (
        copies(), {"features": "rbf", "wishes": Wishes(drop=("thing",))},
        "duplicate rows", "leave the duplicates out with --drop-duplicates; or, if a column says",
        {"features": "rbf", "wishes": Wishes(group="thing")},
    ),
    "duplicates, left out": (
        copies(), {"features": "rbf", "wishes": Wishes(drop=("thing",))},
        "duplicate rows", "leave the duplicates out with --drop-duplicates; or, if a column says",
        {"features": "rbf", "wishes": Wishes(drop=("thing",), drop_duplicates=True)},
    ),
    "an identifier": (
        patients(), {"features": "rbf"},
        "rows with the same identifier", "train with --group patient_id",
        {"features": "rbf", "wishes": Wishes(group="patient_id")},
    ),
    "patients in their order": (
        patients(), {"features": "rbf", "wishes": Wishes(drop=("patient_id",))},
        "rows that belong together", "train with --group and the column",
        {"features": "rbf", "wishes": Wishes(group="patient_id")},
    ),
    "a leak": (
        known_answer(), {},
        "column that leaks the target", "if so, train with --drop result",
        {"wishes": Wishes(drop=("result",))},
    ),
}  # fmt: skip


def trained(folder, frame, wishes=None, features="linear", **given):
    """Train as the command does; returns the model with all findings."""
    frame.to_csv(folder / "a.csv", index=False)
    prepared = prepare(folder / "a.csv", "y", None, wishes or Wishes())
    model, _ = fit(prepared, {"features": features, "random_state": 0} | given)
    findings.add(model, prepared, interrupted=False)
    return model


@pytest.mark.parametrize("case", FOLLOWED)
def test_following_the_advice_removes_what_it_is_about(tmp_path, case):
    frame, asked, name, advice, followed = FOLLOWED[case]
    before = trained(tmp_path, frame, **asked)
    found = {one.name: one for one in before.diagnostics_.findings}
    assert STATUSES.index(found[name].status) >= 2
    assert found[name].advice.startswith(advice)
    after = {one.name: one for one in trained(tmp_path, frame, **followed).diagnostics_.findings}
    status = after[name].status if name in after else "absent"
    assert STATUSES.index(status) < STATUSES.index(found[name].status)


def test_the_logarithm_of_a_skewed_target(tmp_path):
    """Following the advice lowers the error in the units of the target."""
    plain = trained(tmp_path, prices())
    log = trained(tmp_path, prices(), Wishes(log_target=True), log_target=True)
    few = next(one for one in plain.diagnostics_.findings if one.name == "rows behind the error")
    assert few.status == "note"
    assert few.advice.startswith("check row 13, with ")
    assert few.advice.endswith("or train with --log-target")
    assert log.estimated_test_error_ < plain.estimated_test_error_
