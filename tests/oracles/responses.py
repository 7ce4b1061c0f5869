"""The responses of gradient descent to its own rows, number by number."""

import numpy as np


def corrected_preactivations(X, gradient, bend, theta, steps, lr, damping=1.0, spectrum=(1.0,),
                             shares=None, momentum=0.0, prox=None, slope=None,
                             accelerated=False):  # fmt: skip
    """h_t and h_t − w Σ_s A_ts ĥ_s of every step, each of shape (T, n, L), and the unevenness.

    The last is, for every step, the mean square of the eigenvalues of the responses to a row whose
    direction has the root mean square length of the others, over the square of their mean.
    ``gradient(i, h)`` and ``bend(i, h)`` are ∇Ψ and ∇²Ψ of row i, ``theta`` has shape (d, L). With
    ``prox`` and its derivative ``slope``, θ ↦ (d, L), ``spectrum`` has a value for every column.
    ``accelerated`` extrapolates as FISTA does.
    """
    n, d = X.shape
    L, shares = theta.shape[1], np.ones(n) if shares is None else shares
    A = [{(0, s): np.zeros((L, L)) for s in range(steps)} for _ in spectrum]
    speeds = [{s: np.zeros((L, L)) for s in range(steps)} for _ in spectrum]
    D, gamma, hats, plain, corrected = {}, {}, [], [], []
    velocity, before, tau = np.zeros_like(theta), theta, 1.0
    befores = [{s: np.zeros((L, L)) for s in range(steps)} for _ in spectrum]
    for t in range(steps):
        h = X @ theta
        own = {s: sum(c * a[t, s] for c, a in zip(spectrum, A, strict=True)) / len(spectrum)
               for s in range(t)}  # fmt: skip
        new = h.copy()
        for i in range(n):
            for s in range(t):
                new[i] -= shares[i] * own[s] @ hats[s][i]
            for s in range(t + 1):
                inner = np.eye(L) if s == t else np.zeros((L, L))
                for r in range(s, t):
                    inner = inner + shares[i] * own[r] @ D[i, r, s]
                D[i, t, s] = bend(i, h[i]) @ inner
        for s in range(t + 1):
            gamma[t, s] = n / d * sum(shares[i] * D[i, t, s] for i in range(n)) / n
        hats.append(np.array([gradient(i, h[i]) for i in range(n)]))
        plain.append(h)
        corrected.append(new)
        velocity = momentum * velocity + X.T @ hats[t]
        descended = damping * theta - lr * velocity
        following = (1 + np.sqrt(1 + 4 * tau**2)) / 2
        further, tau = (tau - 1) / following if accelerated else 0.0, following
        for k, (c, a, speed) in enumerate(zip(spectrum, A, speeds, strict=True)):
            for s in range(steps):
                pulled = np.eye(L) if s == t else np.zeros((L, L))
                for r in range(t + 1):
                    pulled = pulled + c * gamma[t, r] @ a[r, s]
                speed[s] = momentum * speed[s] + pulled
                change = damping * a[t, s] - lr * speed[s]
                if slope is not None:
                    change = slope(descended)[k][:, None] * change
                a[t + 1, s] = change + further * (change - befores[k][s])
                befores[k][s] = change
        kept = descended if prox is None else prox(descended)
        theta, before = kept + further * (kept - before), kept
    lengths = [np.sqrt(np.mean(hat**2)) for hat in hats]
    uneven = unevenness(spectrum, A, D, lengths, shares, n / d, L)
    return np.array(plain), np.array(corrected), np.array(uneven)


def unevenness(spectrum, A, D, lengths, shares, ratio, L):
    """W_tt over the square of the mean response, for every step."""
    driven, W, result, steps, n = {}, {}, [], len(lengths), len(shares)
    for t in range(steps):
        for s in range(t + 1):
            W[t, s] = np.zeros((L, L))
            for c, a in zip(spectrum, A, strict=True):
                for p in range(t):
                    for q in range(s):
                        W[t, s] += c**2 * a[t, p] @ driven[p, q] @ a[s, q].T / len(spectrum)
            W[s, t] = W[t, s].T
        mean = sum((c * a[t, s] * lengths[s] for c, a in zip(spectrum, A, strict=True)
                    for s in range(t)), np.zeros((L, L))) / len(spectrum)  # fmt: skip
        result.append(np.trace(W[t, t]) / np.sum(mean**2) if t else 0.0)
        for s in range(t + 1):
            total = lengths[t] * lengths[s] * np.eye(L)
            for i in range(n):
                for p in range(t + 1):
                    for q in range(s + 1):
                        total = total + (
                            ratio / n * shares[i] * D[i, t, p] @ W[p, q] @ D[i, s, q].T
                        )
            driven[t, s], driven[s, t] = total, total.T
    return result
