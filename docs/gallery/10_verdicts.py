"""
Verdicts and wrong estimates
============================

``dd.diagnose`` judges an estimate by the training rows alone. Here are four kinds of data: many
rows per column, two rows per column, the same with duplicates, and 30 rows. Fresh rows show which
estimates were wrong.
"""

import matplotlib.pyplot as plt
import torch

import decoupled_descent as dd

objective = dd.Objective(dd.heads.TwoLayer(3, bias=True, seed=0), "logistic")
algorithm = dd.OrthogonalDecoupledDescent(2.0, 0.98, 1.0, reduction="mean")
kinds = {  # rows, columns, and how many of the rows are there twice
    "400 rows, 20 columns": (400, 20, 0),
    "400 rows, 200 columns": (400, 200, 0),
    "and 100 of them twice": (300, 200, 100),
    "30 rows, 20 columns": (30, 20, 0),
}


def estimate(rows, columns, twice, seed):
    """The z of an estimate, and its verdict."""
    mixture = dd.mixtures.flipped_classes(columns, snr=2.0, flip=0.1, labels=(0, 1))
    X, y = mixture.sample(rows, seed=seed)
    X, y = torch.cat([X, X[:twice]]), torch.cat([y, y[:twice]])
    fresh = mixture.sample(5000, seed=100 + seed)
    run = dd.fit(X, y, objective, algorithm, 100, test=fresh, seed=seed, progress=False)
    error, stderr = run.best.train_error, run.best.train_error_stderr
    z = (error - float(run.test_error[run.best_step])) / stderr
    return z, dd.diagnose(X, y, run).verdict


# %%
# z is the estimate minus the error on fresh rows, in standard errors. Beyond ±2 (outside the grey
# band) the estimate is wrong. The scale is linear up to 2 and logarithmic beyond.

verdicts = {"trust": "#009E73", "caution": "#E69F00", "do not trust": "#D55E00"}
figure, axis = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
for place, sizes in enumerate(kinds.values()):
    for seed in range(10):
        z, verdict = estimate(*sizes, seed)
        colour = verdicts[verdict]
        axis.plot(z, place + 0.04 * (seed - 4.5), "o", color=colour, ms=5, label=verdict)
axis.axvspan(-2, 2, color="0.92", zorder=0)
axis.set_xscale("symlog", linthresh=2)
axis.set_xticks([-20, -10, -5, -2, 0, 2, 5], [-20, -10, -5, -2, 0, 2, 5])
axis.set_yticks(range(len(kinds)), kinds)
axis.set_xlabel("z")
axis.invert_yaxis()
handles, labels = axis.get_legend_handles_labels()
once = dict(zip(labels, handles, strict=True))  # one of each verdict
_ = figure.legend(once.values(), once, loc="outside upper center", ncols=3, frameon=False)
