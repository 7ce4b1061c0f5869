"""The default classifier and regressor beside CatBoost, RealMLP and xRFM.

The 18 public sets of the folder ``frontier`` with their four folds, and the tables of
studies/tables.py with 400 training rows, or half of a small table. The contenders need an
environment of their own, which ``make versus-strong`` makes:

    python studies/strong.py run --out strong.jsonl --data FOLDER [--folds 0,1] [--models ours]
    python studies/strong.py table strong.jsonl --data FOLDER

- ours: ``DecoupledClassifier()`` and ``DecoupledRegressor()``, on the table as it is.
- catboost: its defaults, 1000 trees on all rows; columns with text are categories.
- realmlp: RealMLP with tuned defaults of pytabkit, the mean of five networks, each stopped by a
  fifth of the rows; for classes by their log loss and without label smoothing, as its authors
  advise for probabilities.
- xrfm: xRFM with the defaults of pytabkit, the mean of five models, one without each fold. A search
  over 20 random settings did not end within half an hour on one set.

``run`` leaves out what the file has already: the first fold of every set first, then the others.
Times are CPU seconds of training, on one thread. A contender that fails has a record that says why.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import time
import warnings
from collections import defaultdict
from pathlib import Path

import members
import numpy as np
import pandas as pd
import tables
import torch

import decoupled_descent as dd

MODELS = ("ours", "catboost", "realmlp", "xrfm")
#: Training rows of a table: this many, or half of its rows.
ROWS = 400
#: Tables whose many classes take the networks hours.
LEFT_OUT = ("soybean", "digits")


def settings(data, folds):
    """Yield name, size, fold and rows: the first fold of each set, then the second, and so on."""
    public = list(members.settings(data, ()))
    for fold in folds:
        yield from (one for one in public if one[2] == fold)
        if fold == folds[0]:
            for name, n in _sizes(data / "tables"):
                yield name, n, 0, tables.split(data / "tables", name, n, 0)


def _sizes(data):
    """Each table with the largest number of training rows up to ``ROWS``."""
    largest = {}
    for name, n in tables.settings(data):
        if n <= ROWS and name not in LEFT_OUT:
            largest[name] = n
    return largest.items()


def frames(X, new):
    """Tables in which text is a category; levels that training rows lack are missing."""
    if not isinstance(X, pd.DataFrame):
        return pd.DataFrame(X).add_prefix("c"), pd.DataFrame(new).add_prefix("c")
    X, new = X.copy(), new.copy()
    for name in X:
        if not pd.api.types.is_numeric_dtype(X[name]):
            X[name] = X[name].astype(str).astype("category")
            new[name] = pd.Categorical(new[name].astype(str), categories=X[name].cat.categories)
    return X, new


def catboost(task, X, seed):
    from catboost import CatBoostClassifier, CatBoostRegressor

    kind = CatBoostRegressor if task == "regression" else CatBoostClassifier
    text = [name for name in X if X[name].dtype == "category"]
    return kind(
        random_seed=seed, thread_count=1, verbose=False, allow_writing_files=False,
        cat_features=text,
    )  # fmt: skip


def realmlp(task, _, seed):
    import pytabkit

    common = {"device": "cpu", "random_state": seed, "n_cv": 5, "n_threads": 1}
    if task == "regression":
        return pytabkit.RealMLP_TD_Regressor(**common)
    return pytabkit.RealMLP_TD_Classifier(val_metric_name="cross_entropy", use_ls=False, **common)


def xrfm(task, _, seed):
    import pytabkit

    common = {"device": "cpu", "random_state": seed, "n_cv": 5, "n_threads": 1}
    if task == "regression":
        return pytabkit.XRFM_D_Regressor(**common)
    return pytabkit.XRFM_D_Classifier(val_metric_name="cross_entropy", **common)


def ours(task, _, seed):
    kind = dd.DecoupledRegressor if task == "regression" else dd.DecoupledClassifier
    return kind(random_state=seed)


MAKERS = {"ours": ours, "catboost": catboost, "realmlp": realmlp, "xrfm": xrfm}


def measure(name, rows):
    """Fit a model, and measure it on the test rows."""
    given, y, new, truth, task = rows
    X, fresh = frames(given, new[: members.MOST])
    truth = truth[: members.MOST]
    if name == "catboost":
        text = [c for c in X if X[c].dtype == "category"]
        X, fresh = (
            one.astype(dict.fromkeys(text, object)).fillna(dict.fromkeys(text, "nan"))
            for one in (X, fresh)
        )
        X, fresh = (one.astype(dict.fromkeys(text, "category")) for one in (X, fresh))
    model = MAKERS[name](task, X, 0)
    start = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        model.fit(X, y)
        seconds = time.process_time() - start
        ask = model.predict if task == "regression" else model.predict_proba
        predicted = np.asarray(ask(fresh), np.float64)
    if not np.isfinite(predicted).all():
        return {"task": task, "seconds": seconds, "failed": "predictions are not finite"}
    predicted = predicted.reshape(len(truth), -1)
    if task == "regression":
        predicted = predicted[:, 0]
    losses = tables.row_losses(task, truth, predicted)
    record = {"task": task, "test": losses.mean(), "seconds": seconds}
    record["test_se"] = losses.std() / len(losses) ** 0.5
    if task == "classification":
        record["precision"] = members.average_precision(truth, predicted)
    return record


def run(out, data, folds, models):
    """Add records to a file."""
    torch.set_num_threads(1)
    lines = out.read_text().splitlines() if out.exists() else []
    done = {tuple(json.loads(line)[k] for k in ("model", "table", "fold")) for line in lines}
    for name, n, fold, rows in settings(data, folds):
        for model in models:
            if (model, name, fold) in done:
                continue
            record = {"model": model, "table": name, "n": n, "fold": fold}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    record |= measure(model, rows)
                except Exception as error:  # a contender may not take a table
                    if model == "ours":
                        raise
                    record |= {"task": rows[-1], "failed": f"{type(error).__name__}: {error}"[:200]}
            members.append(out, record)


def table(path, data):
    """Print all results as tables of a page: only folds that all models have."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    by = defaultdict(dict)
    for one in records:
        by[one["table"], one["n"], one["fold"]][one["model"]] = one
    whole = {key: found for key, found in by.items() if set(found) == set(MODELS)}
    for (name, _, fold), found in whole.items():
        for model, one in found.items():
            if "failed" in one:
                print(f"failed: {model} on {name}, fold {fold}: {one['failed']}")
    kept = {
        key: found
        for key, found in whole.items()
        if not any("failed" in one for one in found.values())
    }
    scores = json.loads((data / "frontier" / "scores.json").read_text())
    public, own = defaultdict(list), {}
    for (name, n, fold), found in kept.items():
        if name.startswith("frontier/"):
            public[name.removeprefix("frontier/")].append((fold, found))
        else:
            own[name, n] = found
    _public(public, scores)
    _own(own)
    _times(kept.values())


def _public(sets, scores):
    head = " | ".join(MODELS)
    print(f"\n| set | folds | log loss: {head} | AP: {head} | CatBoost, 50 trials | TabPFN-3 |")
    print("|---" * (4 + 2 * len(MODELS)) + "|")
    losses, precisions = [], []
    for name, found in sorted(sets.items()):
        folds = [fold for fold, _ in found]
        loss, precision = (
            [np.mean([one[model][what] for _, one in found]) for model in MODELS]
            for what in ("test", "precision")
        )
        published = [
            np.mean([scores[name]["average_precision"][model][fold] for fold in folds])
            for model in ("catboost", "tabpfn3")
        ]
        losses.append(loss)
        precisions.append(precision + published)
        cells = [f"{one:.4f}" for one in loss + precision + published]
        print(f"| {name} | {len(folds)} | " + " | ".join(cells) + " |")
    cells = [f"**{one:.4f}**" for one in (*np.mean(losses, 0), *np.mean(precisions, 0))]
    print("| **mean** | | " + " | ".join(cells) + " |")
    ranks = [_ranks(np.array(losses)), _ranks(-np.array(precisions)[:, : len(MODELS)])]
    cells = [f"{one:.2f}" for one in np.concatenate(ranks)]
    print("| rank | | " + " | ".join(cells) + " | | |")


def _ranks(values):
    """Mean rank of each column, 1 for the lowest values; equal values share their ranks."""
    return pd.DataFrame(values).rank(axis=1).mean(axis=0).to_numpy()


def _own(found):
    print(f"\n| table, n | error: {' | '.join(MODELS)} | AP: {' | '.join(MODELS)} |")
    print("|---" * (1 + 2 * len(MODELS)) + "|")
    errors = []
    for (name, n), one in sorted(found.items()):
        errors.append([one[model]["test"] for model in MODELS])
        cells = [f"{value:.4g}" for value in errors[-1]]
        if "precision" in one["ours"]:
            cells += [f"{one[model]['precision']:.4f}" for model in MODELS]
        else:
            cells += ["" for _ in MODELS]
        print(f"| {name}, {n} | " + " | ".join(cells) + " |")
    ratios = np.exp(np.mean(np.log(np.array(errors) / np.array(errors)[:, :1]), 0))
    rest = " |" * len(MODELS)
    for label, values in (("ratio to ours", ratios), ("rank", _ranks(np.array(errors)))):
        print(f"| {label} | " + " | ".join(f"{one:.2f}" for one in values) + f" |{rest}")


def _times(found):
    print(f"\n| CPU seconds of a fit | {' | '.join(MODELS)} |")
    print("|---" * (1 + len(MODELS)) + "|")
    seconds = np.array([[one[model]["seconds"] for model in MODELS] for one in found])
    for label, of in (("median", np.median), ("largest", np.max)):
        print(f"| {label} | " + " | ".join(f"{one:.2g}" for one in of(seconds, 0)) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    runs, prints = commands.add_parser("run"), commands.add_parser("table")
    runs.add_argument("--out", type=Path, required=True)
    runs.add_argument("--folds", default="0,1,2,3")
    runs.add_argument("--models", default=",".join(MODELS))
    prints.add_argument("path", type=Path)
    for one in (runs, prints):
        one.add_argument("--data", type=Path, required=True)
    options = parser.parse_args()
    if options.command == "table":
        table(options.path, options.data)
        return
    folds = [int(one) for one in options.folds.split(",")]
    run(options.out, options.data, folds, options.models.split(","))


if __name__ == "__main__":
    main()
