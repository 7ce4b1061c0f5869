"""
Correlated columns: orthogonal descent and its limit
====================================================

The variances of the columns fall like a power law. Plain decoupled descent assumes that they are
equal, and its training error is wrong. Orthogonal descent needs no such assumption, and state
evolution predicts its error.
"""

import matplotlib.pyplot as plt
import torch

import decoupled_descent as dd

d, n, steps = 300, 600, 40
mixture = dd.mixtures.flipped_classes(d, snr=1.5, flip=0.1, labels=(0.0, 1.0))
variances = 1 / (torch.arange(1, d + 1) / d + 0.03)
variances = variances / variances.mean()
start = torch.zeros(1, d)
objective = dd.Objective(dd.heads.Linear(), "logistic")
algorithms = {
    "decoupled descent": dd.DecoupledDescent(0.1, 0.95),
    "orthogonal descent": dd.OrthogonalDecoupledDescent(0.1, 0.95, ridge=0.3),
}


def rows(count, seed):
    """Rows of the mixture whose noise has these variances."""
    X, y, modes = mixture.sample_with_modes(count, seed=seed)
    means = mixture.means[modes] / d
    return means + (X - means) * variances.sqrt(), y


# %%
# Sixteen data sets of 600 rows for each method, thin lines, and the prediction in black.

figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.4), sharey=True, layout="constrained")
gaps = {}
for axis, (name, algorithm) in zip(axes, algorithms.items(), strict=True):
    runs = []
    for seed in range(16):
        fresh = rows(4000, 99 - seed)
        run = dd.fit(*rows(n, seed), objective, algorithm, steps, start, fresh, progress=False)
        runs.append(run)
    for seed, run in enumerate(runs):
        labels = ("training", "fresh rows") if seed == 0 else (None, None)
        axis.plot(run.train_error, color="#0072B2", lw=0.6, label=labels[0])
        axis.plot(run.test_error, color="#D55E00", lw=0.6, label=labels[1])
    gaps[name] = torch.stack([run.train_error[-1] - run.test_error[-1] for run in runs])
    axis.set(title=name, xlabel="step")
theory = dd.StateEvolution(
    mixture, objective, algorithms["orthogonal descent"], ratio=n / d, covariance=variances
)
limit = theory.run(steps, theta=start, progress=False).test_error
axes[1].plot(limit, color="black", ls="--", label="state evolution")
axes[0].set_ylabel("log loss")
_ = axes[1].legend(frameon=False)

# %%
# Training error minus test error at the last step, with the standard error over data sets:

for name, gap in gaps.items():
    print(f"{name}: {gap.mean():+.3f} ± {gap.std() / len(gap) ** 0.5:.3f}")
