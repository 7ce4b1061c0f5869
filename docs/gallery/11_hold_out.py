"""
Hold-out, folds, or leave-one-out by formula?
=============================================

A logistic regression with a ridge on 100 rows. Four methods estimate its error on new rows. A
hold-out set is cheap and imprecise, ten folds are precise and expensive, and the formula is precise
and cheap. The page *Comparison with other methods* has more methods, models and data.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

import decoupled_descent as dd

mixture = dd.mixtures.flipped_classes(50, snr=2.0, flip=0.1, labels=(0, 1))
objective = dd.Objective(dd.heads.Linear(intercept=True).double(), "logistic")
model = LogisticRegression(C=1.0, tol=1e-6)


def log_loss(model, X, y):
    """The mean log loss of a fitted model."""
    return -model.predict_log_proba(X)[np.arange(len(y)), y].mean()


def held_out(X, y):
    """Trained on 80 rows, tested on 20."""
    return log_loss(model.fit(X[:80], y[:80]), X[80:], y[80:])


def folds(count):
    """Cross-validation."""
    return lambda X, y: -cross_val_score(model, X, y, cv=count, scoring="neg_log_loss").mean()


def formula(X, y):
    """Every row left out by a Newton step."""
    return dd.fit(X, y, objective, dd.DecoupledNewton(ridge=1.0), progress=False).best.train_error


# %%
# Sixty data sets. The test error is that of the model on 4000 fresh rows: for the hold-out set the
# model of 80 rows, for the others that of all rows.

methods = {"hold-out 20 %": held_out, "5-fold": folds(5), "10-fold": folds(10), "formula": formula}
errors, times = {name: [] for name in methods}, {name: [] for name in methods}
for seed in range(60):
    X, y = (part.numpy() for part in mixture.sample(100, seed=seed))
    fresh = [part.numpy() for part in mixture.sample(4000, seed=1000 + seed)]
    X, y, fresh = X.astype(float), y.astype(int), (fresh[0].astype(float), fresh[1].astype(int))
    for name, method in methods.items():
        start = time.process_time()
        found = float(method(X, y))
        times[name].append(time.process_time() - start)
        rows = slice(80 if name == "hold-out 20 %" else 100)
        errors[name].append(found - log_loss(model.fit(X[rows], y[rows]), *fresh))

# %%
# Left is cheap, low is precise.

figure, axis = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
for name in methods:
    cost, rms = 1000 * np.median(times[name]), np.sqrt(np.mean(np.square(errors[name])))
    axis.plot(cost, rms, "o", color="#D55E00" if name == "formula" else "#0072B2")
    axis.annotate(name, (cost, rms), xytext=(6, 6), textcoords="offset points")
axis.set(xscale="log", xlabel="processor time in milliseconds", ylabel="RMS error of the estimate")
axis.set_ylim(0, 0.09)
axis.margins(x=0.25)

# %%
# The mean of estimate minus test error, and its standard error:

for name, found in errors.items():
    print(f"{name:<14} {np.mean(found):+.3f} ± {np.std(found) / len(found) ** 0.5:.3f}")
