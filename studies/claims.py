"""What automatic systems claim of themselves, and what is true: ours, AutoGluon, MLJAR.

The 18 public sets of the folder ``frontier`` with their four folds. Each system says what its log
loss will be, by whatever it uses to choose among its models, and is then measured on the test fold.
The contenders need environments of their own (``pip install autogluon.tabular[lightgbm,catboost,
xgboost]``, ``pip install mljar-supervised``, then this library):

    python studies/claims.py run --system autogluon --out claims.jsonl --data FOLDER [--folds 0]
    python studies/claims.py table claims.jsonl

- ours: ``DecoupledClassifier()``; it claims ``estimated_test_error_``.
- autogluon: ``presets="best_quality"`` without networks; it claims the validation score of the
  model that it chooses, which it computes on rows out of fold.
- mljar: ``mode="Compete"``; it claims the score of the best line of its leaderboard.

Both have ``--seconds`` of wall time for a fit, on one thread. ``run`` leaves out what the file has.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from pathlib import Path

import members
import numpy as np
import strong
import tables

import decoupled_descent as dd


def ours(X, y, _):
    """The default classifier, and its estimated log loss."""
    model = dd.DecoupledClassifier().fit(X, y)
    return model.predict_proba, model.estimated_test_error_


def autogluon(X, y, seconds):
    """AutoGluon's best quality without networks, and its validation score."""
    from autogluon.tabular import TabularPredictor

    folder = tempfile.mkdtemp()
    predictor = TabularPredictor("target", eval_metric="log_loss", path=folder, verbosity=0)
    predictor.fit(
        X.assign(target=y), presets="best_quality", time_limit=seconds, num_cpus=1,
        excluded_model_types=["NN_TORCH", "FASTAI"], dynamic_stacking=False,
        ag_args_ensemble={"fold_fitting_strategy": "sequential_local"},
    )  # fmt: skip
    board = predictor.leaderboard(silent=True).set_index("model")
    claim = -float(board.loc[predictor.model_best, "score_val"])
    return lambda new: predictor.predict_proba(new).sort_index(axis=1).to_numpy(), claim


def mljar(X, y, seconds):
    """MLJAR in the mode for contests, and the best line of its leaderboard."""
    from supervised import AutoML

    model = AutoML(
        results_path=tempfile.mkdtemp(), mode="Compete", total_time_limit=int(seconds), n_jobs=1,
        eval_metric="logloss", verbose=0, random_state=0, explain_level=0,
    )  # fmt: skip
    model.fit(X, y)
    return model.predict_proba, float(model.get_leaderboard()["metric_value"].min())


SYSTEMS = {"ours": ours, "autogluon": autogluon, "mljar": mljar}


def run(system, out, data, folds, seconds):
    """Add records to a file."""
    lines = out.read_text().splitlines() if out.exists() else []
    done = {tuple(json.loads(line)[k] for k in ("system", "set", "fold")) for line in lines}
    public = [one for one in members.settings(data, ()) if one[2] in folds]
    for name, n, fold, (given, y, new, truth, task) in sorted(public, key=lambda one: one[2]):
        if (system, name, fold) in done:
            continue
        X, fresh = (given, new) if system == "ours" else strong.frames(given, new)
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predict, claim = SYSTEMS[system](X, y, seconds)
            probabilities = np.asarray(predict(fresh), np.float64)
        losses = tables.row_losses(task, truth, probabilities)
        record = {
            "system": system, "set": name, "fold": fold, "n": n, "claim": claim,
            "test": losses.mean(), "test_se": losses.std() / len(losses) ** 0.5,
            "precision": members.average_precision(truth, probabilities),
            "seconds": time.process_time() - start,
        }  # fmt: skip
        members.append(out, record)


def table(path):
    """Print one line for each system: what it claims, and what is true."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    by = {name: {} for name in SYSTEMS}
    for one in records:
        by[one["system"]][one["set"], one["fold"]] = one
    by = {name: found for name, found in by.items() if found}
    common = sorted(set.intersection(*(set(found) for found in by.values())))
    print(f"{len(common)} fits of {len({name for name, _ in common})} sets\n")
    print("| system | claims | true | claim − truth | rms | average precision | CPU seconds |")
    print("|---|---|---|---|---|---|---|")
    for name, found in by.items():
        columns = ("claim", "test", "precision", "seconds")
        claim, test, precision, seconds = (
            np.array([found[key][column] for key in common]) for column in columns
        )
        gap = claim - test
        error = gap.std(ddof=1) / len(gap) ** 0.5
        rms = np.sqrt(np.mean(gap**2))
        print(
            f"| {name} | {claim.mean():.3f} | {test.mean():.3f} | {gap.mean():+.3f} ± {error:.3f} "
            f"| {rms:.3f} | {precision.mean():.3f} | {np.median(seconds):.1f} |"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    runs, prints = commands.add_parser("run"), commands.add_parser("table")
    runs.add_argument("--system", choices=SYSTEMS, required=True)
    runs.add_argument("--out", type=Path, required=True)
    runs.add_argument("--data", type=Path, required=True)
    runs.add_argument("--folds", default="0")
    runs.add_argument("--seconds", type=float, default=60.0)
    prints.add_argument("out", type=Path)
    given = parser.parse_args()
    if given.command == "table":
        table(given.out)
    else:
        folds = {int(one) for one in given.folds.split(",")}
        run(given.system, given.out, given.data, folds, given.seconds)


if __name__ == "__main__":
    main()
