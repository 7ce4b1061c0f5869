"""
Wide networks: what the head adds
=================================

Only the first layer is corrected. The more units it has, the more parameters follow it in the head,
and these overfit as well. With ``head_folds=5`` every row is evaluated with a head that was trained
without it.
"""

import matplotlib.pyplot as plt
import torch

import decoupled_descent as dd

d, widths, steps = 200, (2, 20, 200), 30
mixture = dd.mixtures.flipped_classes(d, snr=1.5, labels=(0.0, 1.0))
settings = {
    "frozen head": {"head_lr": 0.0},
    "trained head": {"head_lr": 0.1},
    "trained, head_folds=5": {"head_lr": 0.1, "head_folds": 5},
}

# %%
# Training error minus test error at the last step: the mean of ten data sets and its standard
# error. All methods have the same rows.

gaps = {name: [] for name in settings}
for width in widths:
    for name, options in settings.items():
        found = []
        for seed in range(10):
            objective = dd.Objective(dd.heads.TwoLayer(width, seed=seed), "logistic")
            algorithm = dd.DecoupledDescent(0.5, 0.95, **options)
            X, y = mixture.sample(d, seed=seed)
            fresh = mixture.sample(4000, seed=100 + seed)
            run = dd.fit(X, y, objective, algorithm, steps, test=fresh, seed=seed, progress=False)
            found.append(float(run.train_error[-1] - run.test_error[-1]))
        gaps[name].append(torch.tensor(found))

figure, axis = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
colours = ("#009E73", "#D55E00", "#0072B2")
for shift, (name, found), colour in zip((0.93, 1.0, 1.07), gaps.items(), colours, strict=True):
    places = [width / d * shift for width in widths]
    means, errors = [gap.mean() for gap in found], [gap.std() / len(gap) ** 0.5 for gap in found]
    axis.errorbar(places, means, errors, fmt="o-", color=colour, ms=4, lw=1, label=name)
axis.axhline(0, color="0.6", lw=0.8)
axis.set(xscale="log", xlabel="units of the first layer / columns", ylabel="train − test error")
_ = axis.legend(frameon=False)
