"""Advice of the command line, followed on real tables: does it help there, too?

``python studies/advice_tables.py [DATA] [DRAWS]`` trains on 150 rows of each real table,
follows every advice that can be followed with the table itself, and prints what it changed: the
value of the check, and the error on all other rows (median absolute error for numbers).
"""

import json
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from tables import load

from decoupled_descent.app.cli import findings
from decoupled_descent.app.cli.tables import Wishes, prepare
from decoupled_descent.app.cli.train import fit

FOLDER = Path(tempfile.mkdtemp())
FEATURES = ["linear", "rbf(1)", "laplace(1)"]
ROWS, MOST = 150, 2000


def frames(data, name, draw, rows=ROWS):
    """Rows to train on and other ones, as a table with the column ``target``."""
    X, y, task = load(data, name)
    frame = (
        X.copy() if isinstance(X, pd.DataFrame) else pd.DataFrame(X).rename(columns="x{}".format)
    )
    frame["target"] = [f"c{one}" for one in y] if task == "classification" else y
    order = np.random.default_rng(draw).permutation(len(y))
    return frame.iloc[order[:rows]], frame.iloc[order[2 * ROWS :][:MOST]], task


def judged(train, test, task, wishes=None, **options):
    """The model, what the checks say, and the error on other rows."""
    train.to_csv(FOLDER / "a.csv", index=False)
    prepared = prepare(FOLDER / "a.csv", "target", task, wishes or Wishes())
    log = prepared.task == "regression" and (wishes or Wishes()).log_target
    extra = {"log_target": True} if log else {}
    model, _ = fit(prepared, {"features": FEATURES, "random_state": 0} | extra | options)
    findings.add(model, prepared, interrupted=False)
    test.to_csv(FOLDER / "b.csv", index=False)
    X = prepared.columns.apply(pd.read_csv(FOLDER / "b.csv").drop(columns="target"))
    truth = test["target"].to_numpy()
    if task == "regression":
        error = float(np.median(np.abs(model.predict(X) - truth)))
    else:
        chances = model.predict_proba(X)
        places = np.searchsorted(model.classes_, truth).clip(max=len(model.classes_) - 1)
        known = model.classes_[places] == truth
        error = float(-np.log(np.maximum(chances[np.arange(len(X)), places], 1e-12))[known].mean())
    return model, {one.name: one for one in model.diagnostics_.findings}, error


def followed(advice, model, again):
    """Each advice in a sentence that can be followed here: its words, and what it gives."""
    if "--log-target" in advice:
        yield "--log-target", again(wishes=Wishes(log_target=True))
    if "larger --ridge" in advice:
        chosen = next(one["ridge"] for one in model.candidates_ if one["chosen"])
        yield f"--ridge {10 * chosen:.2g}", again(ridge=10 * chosen)
    if re.search("get more rows", advice):
        yield "twice the rows", again(rows=2 * ROWS)


def main(data, draws):
    warnings.simplefilter("ignore")
    print("| table | check | value | error | advice followed | value | error |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for name in json.loads((Path(data) / "about.json").read_text()):
        for draw in range(draws):
            train, test, task = frames(data, name, draw)
            if len(test) < ROWS:
                continue
            try:
                model, found, error = judged(train, test, task)
            except ValueError as problem:  # a class with a single row
                print(f"| {name} | {str(problem)[:60]} | | | | | |", flush=True)
                continue

            def again(rows=ROWS, name=name, draw=draw, task=task, **options):
                train, test, _ = frames(data, name, draw, rows)
                return judged(train, test, task, **options)

            for check, one in found.items():
                if one.status == "ok":
                    continue
                told = False
                for words, (_, later, then) in followed(one.advice, model, again):
                    value = f"{later[check].value:.3g}" if check in later else "–"
                    cells = [check, f"{one.value:.3g}", f"{error:.4g}", words, value, f"{then:.4g}"]
                    print(f"| {name} | {' | '.join(cells)} |", flush=True)
                    told = True
                if not told:
                    text = f"{one.value:.3g} | {error:.4g} | ({one.advice[:50]})"
                    print(f"| {name} | {check} | {text} | | |", flush=True)


if __name__ == "__main__":
    main(
        sys.argv[1] if len(sys.argv) > 1 else Path(os.environ["DECOUPLED_DATA"], "tables"),
        int(sys.argv[2]) if len(sys.argv) > 2 else 1,
    )
