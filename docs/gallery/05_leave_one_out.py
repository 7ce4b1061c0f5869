"""
Leave-one-out against fresh rows, ridge by ridge
================================================

At the minimum of a penalised loss, every row can be left out by a formula. Here the ridge varies
over four decades. The error of the fitted rows always falls with the ridge. The leave-one-out error
has its minimum near that of fresh rows.
"""

import matplotlib.pyplot as plt
import numpy as np

import decoupled_descent as dd

mixture = dd.mixtures.flipped_classes(100, snr=2.0, flip=0.1, labels=(0.0, 1.0))
X, y = mixture.sample(200, seed=0)
others, answers = mixture.sample(4000, seed=1)
X, y, others, answers = X.double(), y.double(), others.double(), answers.double()
objective = dd.Objective(dd.heads.Linear(intercept=True), "logistic")


def log_loss(logits, labels):
    """The mean log loss of logits."""
    return float((logits.clamp(min=0) - logits * labels + (-logits.abs()).exp().log1p()).mean())


ridges = np.geomspace(0.01, 100, 13)
fitted, left_out, stderrs, fresh = [], [], [], []
for ridge in ridges:
    run = dd.fit(X, y, objective, dd.DecoupledNewton(ridge=ridge), progress=False)
    fitted.append(log_loss(run.predict(X).squeeze(), y))
    left_out.append(float(run.train_error[-1]))
    stderrs.append(float(run.train_error_stderr[-1]))
    fresh.append(log_loss(run.predict(others).squeeze(), answers))

# %%
# The band is the 95 % interval of the estimate.

figure, axis = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
left_out, stderrs = np.array(left_out), np.array(stderrs)
band = {"color": "#0072B2", "alpha": 0.2, "lw": 0}
axis.fill_between(ridges, left_out - 1.96 * stderrs, left_out + 1.96 * stderrs, **band)
axis.plot(ridges, left_out, color="#0072B2", label="left out, by formula")
axis.plot(ridges, fresh, color="#D55E00", label="fresh rows")
axis.plot(ridges, fitted, color="0.5", ls="--", label="fitted rows")
axis.set(xscale="log", xlabel="ridge", ylabel="log loss", ylim=(0, 1.5))
_ = axis.legend(frameon=False)

# %%
# The ridge with the lowest leave-one-out error, and the one with the lowest error on fresh rows:

float(ridges[left_out.argmin()]), float(ridges[np.argmin(fresh)])
