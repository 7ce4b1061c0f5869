"""Leave-one-out by literal refits of anything that can be fitted: nothing but a loop."""

import numpy as np


def literal(fit, X, y, weights=None, groups=None):
    """Predictions of each row by a model fitted without it, or without its group.

    ``fit(X, y, weights)`` returns a function that predicts rows.
    """
    n = len(y)
    groups = np.arange(n) if groups is None else groups
    found = [None] * n
    for group in np.unique(groups):
        out = groups == group
        left = None if weights is None else weights[~out]
        said = fit(X[~out], y[~out], left)(X[out])
        for row, one in zip(np.flatnonzero(out), said, strict=True):
            found[row] = one
    return np.array(found)


def mean_log_loss(labels, probabilities, weights=None):
    """The log loss, probabilities at least as large as the smallest spacing of numbers near 1."""
    own = probabilities[np.arange(len(labels)), labels]
    return float(np.average(-np.log(own), weights=weights))


def one_step(X, y, loss, slope, ridge, beta, weights=None):
    """One Newton step without each row, by the full Hessian without it: outputs of the row.

    ``loss`` and ``slope`` are the first and second derivative of the loss by the output; the last
    column of X is the intercept, which is not penalised.
    """
    n, d = X.shape
    weights = np.ones(n) if weights is None else weights
    penalty = ridge * np.eye(d)
    penalty[-1, -1] = 0.0
    outputs, found = X @ beta, np.empty(n)
    for row in range(n):
        kept = np.delete(np.arange(n), row)
        first = X[kept].T @ (weights[kept] * loss(outputs[kept], y[kept])) + penalty @ beta
        second = X[kept].T @ ((weights[kept] * slope(outputs[kept], y[kept]))[:, None] * X[kept])
        found[row] = X[row] @ (beta - np.linalg.solve(second + penalty, first))
    return found
