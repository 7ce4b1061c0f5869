"""
How many more rows? A curve from one fit
========================================

Would twice as many rows help? Models of one, two and three quarters of the rows follow by formula
from the fit to all rows. Their errors on the rows that they have not seen are extrapolated. Here
300 digits tell what to expect of 600, and the other digits tell whether that is right.
"""

import numpy as np
from sklearn.datasets import load_digits

import decoupled_descent as dd

X, y = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(y))
few, twice, new = order[:300], order[:600], order[600:]


def log_loss(rows):
    """The log loss on new rows of a model that is fitted to some rows."""
    model = dd.DecoupledClassifier(features="linear").fit(X[rows], y[rows])
    return -np.log(model.predict_proba(X[new])[np.arange(len(new)), y[new]]).mean()


model = dd.DecoupledClassifier(features="linear").fit(X[few], y[few])
curve = model.learning_curve(X[few], y[few])
print(curve)

# %%
# The crosses are true errors of models that are fitted to so many rows.

figure = curve.plot()
sizes = (75, 150, 300, 600)
figure.axes[0].plot(sizes, [log_loss(order[:size]) for size in sizes], "kx", label="on new rows")
figure.axes[0].legend(frameon=False)
figure
