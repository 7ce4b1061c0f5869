"""How near is ``evaluate`` to the truth, and to leaving every row out literally?

    python studies/evaluate.py truth [--tables first] [--draws 4] [--data FOLDER]
    python studies/evaluate.py literal [--draws 1] [--data FOLDER]

``truth`` fits models to 100 and to 400 rows of real tables; all other rows are the truth. The
errors of ``evaluate`` and of ten folds are in units of the sampling error, the standard deviation
of the losses of new rows over the root of the number of training rows: no estimate from these rows
can be much nearer than 1. The truth has a sampling error, too: it makes these errors larger where
few rows are left, and z takes it into account. ``--tables first`` are the ten tables on which
constants were chosen, ``others`` are tables that had no part in any choice.
``literal`` compares formulas, and formulas with refits, with literal leave-one-out, in the same
units.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_selection import SelectKBest, f_classif, f_regression
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC

import decoupled_descent as dd
from decoupled_descent.evaluation.evaluate import by_folds
from decoupled_descent.evaluation.inputs import foreign_model
from decoupled_descent.tables.columns.rules import Columns

sys.path.insert(0, str(Path(__file__).parent))
import tables

#: Tables of numbers with enough rows, on which constants were chosen.
FIRST = "spam phoneme vehicle ionosphere dna breast_cancer concrete biomass diabetes tecator"
#: Further tables, and sets of the folder ``frontier`` (without copies of tables) …
OTHERS = "crabs credit dhfr glass italypowerdemand saheart soybean tissue titanic tweets wine ames"
FRONTIER = (
    "appendicitis autoUniv-au7-700 balance-scale blogger blood-transfusion-service "
    "breast-cancer-wisconsin flare habermans-survival hayes-roth hepatitis mammographic-mass "
    "teaching-assistant-evaluation user-knowledge wholesale-channel yeast-4class"
)
#: … and the column of these that has this many different numbers is predicted from the rest.
DIFFERENT = 50
#: Classes with fewer training rows are left out.
FEWEST = 5
SIZES = 100, 400
#: A single row far from all others can make up the error of a table: gaps count up to this size.
FAR = 3.0
#: A test set has at least this many rows.
REST = 60


def models(task, columns):
    """The models of a task by name."""
    k = max(1, columns // 3)
    if task == "classification":
        return {
            "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
            "logistic, L1": make_pipeline(
                StandardScaler(),
                LogisticRegression(C=0.3, l1_ratio=1, solver="saga", max_iter=2000, random_state=0),
            ),
            "SVC": make_pipeline(StandardScaler(), SVC()),
            "selection, logistic": make_pipeline(
                StandardScaler(), SelectKBest(f_classif, k=k), LogisticRegression(max_iter=1000)
            ),
            "forest": RandomForestClassifier(random_state=0),
            "boosting": GradientBoostingClassifier(n_estimators=30, random_state=0),
        }
    return {
        "lasso": make_pipeline(StandardScaler(), Lasso(alpha=0.03, max_iter=100000)),
        "SVR": make_pipeline(StandardScaler(), SVR()),
        "selection, ridge": make_pipeline(
            StandardScaler(), SelectKBest(f_regression, k=k), Ridge()
        ),
        "forest": RandomForestRegressor(random_state=0),
        "boosting": GradientBoostingRegressor(n_estimators=30, random_state=0),
    }


def more_models(task):
    """Further ones for the comparison with literal leave-one-out."""
    if task == "classification":
        return {"LinearSVC": make_pipeline(StandardScaler(), LinearSVC(C=0.1))}
    return {
        "ridge": make_pipeline(StandardScaler(), Ridge()),
        "elastic net": make_pipeline(StandardScaler(), ElasticNet(alpha=0.1)),
    }


def first(data):
    """The tables on which constants were chosen: name, columns, labels, task."""
    for name in FIRST.split():
        X, y, task = tables.load(str(Path(data, "tables")), name)
        yield name, np.asarray(X, float), y, task


def others(data):
    """Tables that had no part in any choice; also with a column of theirs as the label."""
    for name in [*OTHERS.split(), *FRONTIER.split()]:
        if name in FRONTIER.split():
            X = pd.read_csv(Path(data, "frontier", f"{name}.csv.gz"))
            y, task = X.pop("target").to_numpy(), "classification"
        else:
            X, y, task = tables.load(str(Path(data, "tables")), name)
        frame = pd.DataFrame(X)
        frame.columns = frame.columns.astype(str)
        X = Columns.learn(frame).apply(frame)
        yield name, X, y, task
        varied = [len(np.unique(column)) for column in X.T]
        if task == "classification" and max(varied) >= DIFFERENT and X.shape[1] > 1:
            best = int(np.argmax(varied))
            yield f"{name}, a column", np.delete(X, best, 1), X[:, best], "regression"


def draws(found, sizes, count):
    """Task, size and table, training rows and the others."""
    for _, X, y, task in found:
        if task == "regression":
            y = (y - y.mean()) / y.std()
        for n in sizes:
            for seed in range(count):
                order = np.random.default_rng(seed).permutation(len(y))
                own = min(n, len(y) // 2) if n == sizes[0] else n
                train, rest = order[:own], order[own : own + 3000]
                if task == "classification":
                    names, counts = np.unique(y[train], return_counts=True)
                    frequent = names[counts >= FEWEST]
                    train, rest = (rows[np.isin(y[rows], frequent)] for rows in (train, rest))
                if len(y) >= own + REST or n == sizes[0]:
                    yield task, n, (X, y, train, rest)


def truth_of(model, X, y):
    """The mean loss of other rows, and the standard deviation of their losses."""
    new = foreign_model(model, X, y)
    losses = new.task.kind.losses(new.task.labels, new.predict(model, np.arange(len(y))))
    return losses.mean(), losses.std()


def one(model, X, y, train, rest):
    """The errors of both estimates in sampling errors, whether intervals cover, and times."""
    start = time.process_time()
    model.fit(X[train], y[train])
    fit = time.process_time() - start
    start = time.process_time()
    evaluation = dd.evaluate(model, X[train], y[train])
    own = time.process_time() - start
    foreign = foreign_model(model, X[train], y[train])
    start = time.process_time()
    folds = by_folds(foreign, seed=1).predictions
    ten = time.process_time() - start
    labels = foreign.task.labels
    by_ten = foreign.task.kind.losses(labels, folds).mean()
    truth, spread = truth_of(model, X[rest], y[rest])
    unit = spread / len(train) ** 0.5
    low, high = evaluation.interval
    slack = 1.96 * spread / len(rest) ** 0.5  # of the truth
    middle = (low + high) / 2
    half = np.hypot((high - low) / 2, slack)
    return {
        "own": (evaluation.error - truth) / unit, "ten": (by_ten - truth) / unit,
        "covers": abs(truth - middle) <= half, "time": own / ten, "fits": own / fit,
        "folds": evaluation.how == "folds", "verdict": evaluation.verdict,
        "z": (evaluation.error - truth) / np.hypot(evaluation.stderr, slack / 1.96),
    }  # fmt: skip


def truth(found, count):
    """Print a table against the truth."""
    rows = defaultdict(list)
    for task, n, (X, y, train, rest) in draws(found, SIZES, count):
        for name, model in models(task, X.shape[1]).items():
            rows[name, n].append(one(model, X, y, train, rest))
    print(
        "| model | rows | cases | rms | clipped | ten folds | clipped | mean z | rms z | coverage "
        "| trust | misses with trust | time / ten folds | by folds |"
    )
    print("|---" * 14 + "|")
    everything = [case for cases in rows.values() for case in cases]
    for (name, n), cases in [*sorted(rows.items()), (("all", ""), everything)]:
        print(f"| {name} | {n} | {len(cases)} | {line(cases)} |", flush=True)


def line(cases):
    """The numbers of a row of the table."""
    gaps = np.array([[case["own"], case["ten"]] for case in cases])
    raw = np.sqrt(np.square(gaps).mean(0))
    rms = np.sqrt(np.square(gaps.clip(-FAR, FAR)).mean(0))
    z = np.array([case["z"] for case in cases])
    covers, by_folds = ([case[key] for case in cases] for key in ("covers", "folds"))
    trusted = np.array([case["verdict"] == "trust" for case in cases])
    missed = ~np.array(covers)
    ratio = np.median([case["time"] for case in cases])
    return (
        f"{raw[0]:.2f} | {rms[0]:.2f} | {raw[1]:.2f} | {rms[1]:.2f} | {z.mean():+.2f} | "
        f"{np.sqrt(np.square(z).mean()):.2f} | {np.mean(covers):.0%} | {trusted.mean():.0%} | "
        f"{(missed & trusted).sum()} of {missed.sum()} | {ratio:.2f} | {np.mean(by_folds):.0%}"
    )


def literal(found, count):
    """Print a table against literal leave-one-out of 100 rows."""
    rows = defaultdict(list)
    for task, _, (X, y, train, _) in draws(found, SIZES[:1], count):
        for name, model in (models(task, X.shape[1]) | more_models(task)).items():
            if name in ("forest", "boosting"):
                continue
            model.fit(X[train], y[train])
            exact = dd.evaluate(model, X[train], y[train], refits=len(train))
            unit = exact.losses.std() / len(train) ** 0.5
            formula = dd.evaluate(model, X[train], y[train], refits=0)
            auto = dd.evaluate(model, X[train], y[train])
            if formula.how != "folds" and unit > 0:
                gaps = [(each.error - exact.error) / unit for each in (formula, auto)]
                rows[name].append((*gaps, auto.how == "folds"))
    print(
        "| model | cases | formula: mean, rms | with refits: mean, rms | within 0.25 | by folds |"
    )
    print("|---|---|---|---|---|---|")
    everything = [case for cases in rows.values() for case in cases]
    for name, cases in [*sorted(rows.items()), ("all", everything)]:
        gaps = np.array(cases, float)
        mean, rms = gaps.mean(0), np.sqrt(np.square(gaps).mean(0))
        near = (np.abs(gaps[:, 1]) <= 0.25)[gaps[:, 2] == 0]
        share = near.mean() if len(near) else np.nan
        print(
            f"| {name} | {len(gaps)} | {mean[0]:+.2f}, {rms[0]:.2f} | {mean[1]:+.2f}, "
            f"{rms[1]:.2f} | {share:.0%} | {mean[2]:.0%} |",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("study", choices=["truth", "literal"])
    parser.add_argument("--tables", choices=["first", "others"], default="first")
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--data", default=os.environ.get("DECOUPLED_DATA", "data"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = {"first": first, "others": others}[options.tables](options.data)
    {"truth": truth, "literal": literal}[options.study](found, options.draws)
