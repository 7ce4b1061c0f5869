"""Penalised minima and literal refits, by NumPy and SciPy alone."""

import numpy as np
from scipy.optimize import minimize


def squared(outputs, y):
    residual = outputs - y.reshape(outputs.shape)
    return 0.5 * (residual**2).sum(1), residual


def logistic(outputs, y):
    y = y.reshape(outputs.shape)
    losses = np.logaddexp(0, outputs) - y * outputs
    return losses.sum(1), 1 / (1 + np.exp(-outputs)) - y


def cross_entropy(outputs, y):
    top = outputs.max(1, keepdims=True)
    logs = outputs - top - np.log(np.exp(outputs - top).sum(1, keepdims=True))
    rows = np.arange(len(y))
    slope = np.exp(logs)
    slope[rows, y] -= 1
    return -logs[rows, y], slope


def poisson(outputs, y):
    y = y.reshape(outputs.shape)
    return (np.exp(outputs) - y * outputs).sum(1), np.exp(outputs) - y


def huber(width):
    """The absolute loss averaged over u − width … u + width."""

    def loss(outputs, y):
        residual = outputs - y.reshape(outputs.shape)
        near = np.abs(residual) < width
        value = np.where(near, (residual**2 + width**2) / (2 * width), np.abs(residual))
        return value.sum(1), np.clip(residual / width, -1, 1)

    return loss


def fit(X, y, loss, ridge, weights=None, outputs=1, intercept=True, start=None):
    """The minimum of Σ w ℓ(Xβ + b, y) + ½ λ‖β‖², as (d + 1, K) with the intercept last."""
    n, d = X.shape
    weights = np.ones(n) if weights is None else weights
    extended = np.hstack([X, np.ones((n, 1)) if intercept else np.zeros((n, 1))])

    def value(flat):
        beta = flat.reshape(d + 1, outputs)
        losses, slope = loss(extended @ beta, y)
        penalised = np.vstack([beta[:-1], np.zeros((1, outputs))])
        gradient = extended.T @ (weights[:, None] * slope) + ridge * penalised
        return weights @ losses + 0.5 * ridge * (penalised**2).sum(), gradient.ravel()

    if loss is squared:  # a linear system
        penalty = ridge * np.eye(d + 1)
        penalty[-1, -1] = 0.0 if intercept else 1.0
        gram = extended.T @ (weights[:, None] * extended) + penalty
        return np.linalg.solve(gram, extended.T @ (weights[:, None] * y.reshape(n, -1)))
    start = np.zeros((d + 1) * outputs) if start is None else start.ravel()
    options = {"maxiter": 20000, "maxfun": 40000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30}
    found = minimize(value, start, jac=True, method="L-BFGS-B", options=options)
    return found.x.reshape(d + 1, outputs)


def predict(X, beta):
    return X @ beta[:-1] + beta[-1]


def weights_without(out, weights, classes=None):
    """Weights without some rows; with classes, the other rows of a class get what it has lost."""
    left = np.where(out, 0.0, weights)
    if classes is None:
        return left
    for label in np.unique(classes):
        own = classes == label
        if left[own].sum() > 0:
            left[own] *= weights[own].sum() / left[own].sum()
    return left


def refits(X, y, loss, ridge, weights=None, groups=None, outputs=1, intercept=True):
    """Outputs of each row after a refit without it, in which the classes keep their shares."""
    n = len(X)
    weights = np.ones(n) if weights is None else weights
    classes = y if loss in (logistic, cross_entropy) else None
    groups = np.arange(n) if groups is None else groups
    start = fit(X, y, loss, ridge, weights, outputs, intercept)
    found = np.empty((n, outputs))
    for label in np.unique(groups):
        out = groups == label
        left = weights_without(out, weights, classes)
        beta = fit(X, y, loss, ridge, left, outputs, intercept, start)
        found[out] = predict(X[out], beta)
    return found
