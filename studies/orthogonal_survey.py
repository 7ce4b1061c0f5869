"""``dd.tune`` on tables, images, embeddings and Gaussian rows: is its estimate right, is it low?

For every problem: rows are split at random, ``dd.tune`` trains on one part, choosing rate, damping,
ridge and step by the train error, and the rest measures the test error of the same iterate. It is
compared with gradient descent stopped by an oracle that sees the test rows (the lower of two
starts), and with scikit-learn's cross-validated linear model. Splits 250 to 259 were used for
nothing else.

Real columns are cut off at five standard deviations, as the estimators do it; rows with the tails
of Student's t are shown both ways.

Run with ``python studies/orthogonal_survey.py OUT.json [PROBLEM …]``; 20 minutes on one core
for all problems. The folder of the data is named by DECOUPLED_DATA.
"""

import json
import math
import os
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from orthogonal import reported_half
from problems import PROBLEMS, Problem, power_law, shuffled, spikes, synthetic
from problems import split as deal
from sklearn.linear_model import LogisticRegressionCV, RidgeCV

import decoupled_descent as dd
from decoupled_descent.tables.features.scaling import CLIP

SPLITS, STEPS = range(250, 260), 300
SHAPES = {"0.5": (200, 400), "20": (1000, 50)}  # n/d = 2 is 400 by 200


def embeddings(seed):
    return shuffled(reported_half, seed, None)


def departures():
    """Power laws, spikes and tails at other n/d than those of ``problems.py``."""
    for ratio, (n, d) in SHAPES.items():
        sources = {
            "power law 1": synthetic(n, d, spectrum=power_law(d, 1)),
            "spikes of 100": synthetic(n, d, spectrum=spikes(d, 100)),
            "t₅ rows": synthetic(n, d, tails=5),
        }
        for name, source in sources.items():
            yield f"{name}, n/d = {ratio}", Problem(source, n, 3, "report")


PROBLEMS |= {f"embeddings, n = {n}": Problem(embeddings, n, 5, "report") for n in (100, 200, 800)}
PROBLEMS |= dict(departures())

REAL = (
    "digits, 10 classes", "breast cancer", "wine, 3 classes", "diabetes, regression",
    "MNIST 0 and 8", "MNIST 4 and 9", "MNIST, 10 classes",
    "embeddings, n = 100", "embeddings, n = 200", "embeddings, n = 800",
)  # fmt: skip
DRAWN = (
    "Gaussian, n/d = 0.5", "Gaussian, n/d = 1", "Gaussian, n/d = 2", "Gaussian, n/d = 5",
    "Gaussian, n/d = 20", "power law 1, n/d = 0.5", "power law 1", "power law 1, n/d = 20",
    "power law 2", "spikes of 10", "spikes of 100, n/d = 0.5", "spikes of 100",
    "spikes of 100, n/d = 20",
)  # fmt: skip
TAILS = ("t₅ rows, n/d = 0.5", "t₅ rows", "t₅ rows, n/d = 20")
CLIPPED = ", clipped"
NAMES = [*REAL, *DRAWN, *TAILS, *(name + CLIPPED for name in TAILS)]


def split(name, seed):
    dealt = deal(name.removesuffix(CLIPPED), seed)
    if name in REAL or name.endswith(CLIPPED):
        most = CLIP / math.sqrt(dealt.X_train.shape[1])
        clipped = {part: getattr(dealt, part).clamp(-most, most) for part in ("X_train", "X_test")}
        dealt = dealt._replace(**clipped)
    return dealt


def linear_model(X, y, X_test, y_test, objective, _task):
    X, y, X_test, y_test = (part.numpy() for part in (X, y, X_test, y_test))
    if objective.loss.name == "squared":
        model = RidgeCV(np.logspace(-3, 4, 15)).fit(X, y)
        return float(np.mean((model.predict(X_test) - y_test) ** 2) / 2)
    model = LogisticRegressionCV(
        Cs=np.logspace(-2, 4, 19), l1_ratios=(0,), scoring="neg_log_loss", max_iter=1000,
        use_legacy_attributes=False,
    )  # fmt: skip
    chances = model.fit(X, y).predict_proba(X_test)
    return float(-np.log(chances[np.arange(len(y_test)), y_test.astype(int)] + 1e-12).mean())


def oracle(X, y, X_test, y_test, objective, _task, seed):
    """The lowest point of gradient descent's test curves, from N(0, 1) and from PyTorch's start."""
    shape = objective.width, X.shape[1]
    generator = torch.Generator().manual_seed(seed)
    small = (2 * torch.rand(shape, generator=generator) - 1) / math.sqrt(shape[1])
    rate = 0.5 if objective.loss.name == "squared" else 2.0  # of four times the curvature
    descent, steps, lowest = dd.GradientDescent(rate, reduction="mean"), round(600 / rate), []
    for theta in (torch.randn(shape, generator=generator), small):
        run = dd.fit(X, y, objective, descent, steps, theta, (X_test, y_test), progress=False)
        lowest.append(float(run.test_error.nan_to_num(math.inf).min()))
    return min(lowest)


def one(name, seed):
    dealt = split(name, seed)
    X, y, X_test, y_test, objective, task = dealt
    swept = dd.tune(X, y, objective, steps=STEPS, seed=seed, progress=False)
    run, estimate = swept.best, swept.corrected_error
    losses = objective.losses(X_test @ run.best_theta.T, y_test, run.best_state.head).double()
    test = float(losses.mean())
    noise = math.hypot(estimate.stderr, float(losses.std()) / math.sqrt(len(losses)))
    return {
        "seed": seed, "n": len(y), "d": X.shape[1], "estimate": estimate.error, "test": test,
        "bias": estimate.error - test, "z": (estimate.error - test) / noise,
        "over_gd": test - oracle(*dealt, seed), "over_linear": test - linear_model(*dealt),
        "verdict": dd.diagnose(X, y, swept, task=task).verdict,
        "chosen": swept.names[swept.best_index], "step": run.best_step,
    }  # fmt: skip


def mean_and_error(values):
    return [np.mean(values), np.std(values, ddof=1) / math.sqrt(len(values))]


def summarise(name, records):
    values = {key: np.array([r[key] for r in records]) for key in records[0]}
    test = values["test"]
    return {
        "problem": name,
        "n": records[0]["n"],
        "d": records[0]["d"],
        "splits": len(records),
        "estimate": values["estimate"].mean(),
        "test": test.mean(),
        "bias": mean_and_error(values["bias"]),
        "z_mean": values["z"].mean(),
        "z_spread": values["z"].std(ddof=1),
        "verdicts": dict(Counter(r["verdict"] for r in records).most_common()),
        "gd_oracle": (test - values["over_gd"]).mean(),
        "linear_cv": (test - values["over_linear"]).mean(),
        "over_gd": mean_and_error(values["over_gd"]),
        "over_linear": mean_and_error(values["over_linear"]),
        "records": records,
    }


def rounded(value):
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def line(row):
    """The row of a table in Markdown."""

    def pair(key):
        return "{:+.3f} ± {:.3f}".format(*row[key])

    verdicts = row["verdicts"]
    verdict = max(verdicts, key=verdicts.get)
    cells = [
        row["problem"], row["n"], row["d"], f"{row['estimate']:.3f}", f"{row['test']:.3f}",
        pair("bias"), f"{row['z_spread']:.2f}", f"{verdict} ({verdicts[verdict]})",
        f"{row['gd_oracle']:.3f}", f"{row['linear_cv']:.3f}", pair("over_gd"), pair("over_linear"),
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)).replace("-", "−") + " |"


def main(out, names):
    rows = []
    for name in names or NAMES:
        rows.append(rounded(summarise(name, [one(name, seed) for seed in SPLITS])))
        print(line(rows[-1]), flush=True)
        text = json.dumps(rows).replace('{"problem"', '\n{"problem"').replace("}, {", "},\n {")
        Path(f"{out}.part").write_text(text + "\n")
        os.replace(f"{out}.part", out)


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # runs that diverge are part of the picture
    main(sys.argv[1], sys.argv[2:])
