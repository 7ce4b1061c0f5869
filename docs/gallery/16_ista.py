"""
ISTA that knows its own test error
==================================

A soft threshold after every step of gradient descent keeps few columns. The run estimates its own
test error, and state evolution predicts both curves without a run.
"""

import matplotlib.pyplot as plt
import torch

import decoupled_descent as dd

d = 500
mean = torch.zeros(d)
mean[:50] = 3.0 * torch.randn(50, generator=torch.Generator().manual_seed(1))
mixture = dd.GaussianMixture(torch.stack([mean, -mean]), [0.5, 0.5], responses=[0.0, 1.0])
X, y = mixture.sample(d, seed=0)
fresh = mixture.sample(4000, seed=1)
objective, start = dd.Objective(dd.heads.Linear(), "logistic"), torch.zeros(1, d)

# %%
# The band is the 95 % interval of the estimate. Dashed curves are the limits for many rows.

figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained", sharey=True)
for axis, accelerated in zip(axes, (False, True), strict=True):
    ista = dd.GradientDescent(
        0.3, prox=dd.prox.SoftThreshold(0.15), accelerated=accelerated, estimate=True
    )
    run = dd.fit(X, y, objective, ista, 40, theta=start, test=fresh, progress=False)
    limit = dd.StateEvolution(mixture, objective, ista, paths=4096, randomisations=2)
    limit = limit.run(40, start, progress=False)
    estimate, error = run.estimated_test_error, 1.96 * run.train_error_stderr
    steps = range(len(estimate))
    axis.fill_between(steps, estimate - error, estimate + error, color="#0072B2", alpha=0.2, lw=0)
    axis.plot(estimate, color="#0072B2", label="estimated test error")
    axis.plot(run.test_error, color="#D55E00", label="4000 fresh rows")
    axis.plot(run.train_error, color="0.5", ls=":", label="train error")
    axis.plot(limit.test_error, color="#D55E00", ls="--", lw=1, label="limit of the test error")
    axis.plot(limit.train_error, color="0.5", ls="--", lw=1, label="limit of the train error")
    axis.set(title="FISTA" if accelerated else "ISTA", xlabel="step", ylim=(0, 0.8))
axes[0].set_ylabel("log loss")
_ = axes[0].legend(frameon=False, fontsize=8)

# %%
# Columns that the last model uses, of 500; 50 matter:

int((run.state.slots[0] != 0).sum())
