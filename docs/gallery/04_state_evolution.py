"""
State evolution against runs
============================

As rows and columns grow together, every run follows one deterministic curve. State evolution
computes it without any data, from the same objective and algorithm that train.
"""

import matplotlib.pyplot as plt
import torch

import decoupled_descent as dd

dimension, steps = 800, 40
mixture = dd.mixtures.flipped_classes(dimension, snr=1.5, flip=0.1, labels=(0.0, 1.0))
objective = dd.Objective(dd.heads.Linear(), "logistic")
start = torch.zeros(1, dimension)

# %%
# Eight data sets of 800 rows for each method, thin lines, and the prediction in black. Both errors
# of gradient descent are predicted, and so is the one error that decoupled descent has.

figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.4), sharey=True, layout="constrained")
algorithms = {
    "gradient descent": dd.GradientDescent(lr=0.3),
    "decoupled descent": dd.DecoupledDescent(lr=0.3, damping=0.9),
}
for axis, (name, algorithm) in zip(axes, algorithms.items(), strict=True):
    for seed in range(8):
        X, y = mixture.sample(dimension, seed=seed)
        fresh = mixture.sample(4000, seed=100 + seed)
        run = dd.fit(X, y, objective, algorithm, steps, start, fresh, progress=False)
        label = seed == 0
        axis.plot(run.train_error, color="#0072B2", lw=0.6, label="training" if label else None)
        axis.plot(run.test_error, color="#D55E00", lw=0.6, label="fresh rows" if label else None)
    theory = dd.StateEvolution(mixture, objective, algorithm, ratio=1.0)
    evolution = theory.run(steps, theta=start, progress=False)
    axis.plot(evolution.test_error, color="black", ls="--", label="state evolution")
    axis.plot(evolution.train_error, color="black", ls="--")
    axis.set(title=name, xlabel="step")
axes[0].set_ylabel("log loss")
_ = axes[0].legend(frameon=False)
