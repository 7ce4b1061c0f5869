"""
The gap: gradient descent and decoupled descent
===============================================

XOR data as in the paper: four clusters in 400 dimensions, and a label that no linear model finds.
Both methods train on the same rows, from the same start. The test error is that of fresh rows.
"""

import matplotlib.pyplot as plt

import decoupled_descent as dd

mixture = dd.mixtures.xor(dimension=400, snr=4.0)
X, y = mixture.sample(400, seed=0)
fresh = mixture.sample(4000, seed=1)
objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")

algorithms = {
    "gradient descent": dd.GradientDescent(lr=0.05),
    "decoupled descent": dd.DecoupledDescent(lr=0.05, damping=0.9, noise="row norms"),
}
runs = {
    name: dd.fit(X, y, objective, algorithm, steps=150, test=fresh, progress=False)
    for name, algorithm in algorithms.items()
}

# %%
# The orange curve needs fresh rows, which you do not have in practice. The blue one needs only the
# training rows. With decoupled descent the two agree, up to the standard error (the band: 95 %).

figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True)
for axis, (name, run) in zip(axes, runs.items(), strict=True):
    steps = range(len(run.train_error))
    low, high = (run.train_error + side * 1.96 * run.train_error_stderr for side in (-1, 1))
    axis.fill_between(steps, low, high, color="#0072B2", alpha=0.2, lw=0)
    axis.plot(steps, run.train_error, color="#0072B2", label="training error")
    axis.plot(steps, run.test_error, color="#D55E00", label="error on fresh rows")
    axis.set(title=name, xlabel="step")
axes[0].set_ylabel("log loss")
axes[0].legend(frameon=False)
figure.tight_layout()

# %%
# The mean distance of the two curves:

{name: round(float(run.gap.abs().mean()), 3) for name, run in runs.items()}
