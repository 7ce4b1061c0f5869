"""The responses of gradient descent to its own rows, number by number."""

import numpy as np


def corrected_preactivations(X, gradient, bend, theta, steps, lr, damping=1.0, spectrum=(1.0,),
                             shares=None, momentum=0.0):  # fmt: skip
    """h_t and h_t − w Σ_s A_ts ĥ_s of every step, each of shape (T, n, L).

    ``gradient(i, h)`` and ``bend(i, h)`` are ∇Ψ and ∇²Ψ of row i, ``theta`` has shape (d, L).
    """
    n, d = X.shape
    L, shares = theta.shape[1], np.ones(n) if shares is None else shares
    A = [{(0, s): np.zeros((L, L)) for s in range(steps)} for _ in spectrum]
    speeds = [{s: np.zeros((L, L)) for s in range(steps)} for _ in spectrum]
    D, gamma, hats, plain, corrected = {}, {}, [], [], []
    velocity = np.zeros_like(theta)
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
        for c, a, speed in zip(spectrum, A, speeds, strict=True):
            for s in range(steps):
                pulled = np.eye(L) if s == t else np.zeros((L, L))
                for r in range(t + 1):
                    pulled = pulled + c * gamma[t, r] @ a[r, s]
                speed[s] = momentum * speed[s] + pulled
                a[t + 1, s] = damping * a[t, s] - lr * speed[s]
        velocity = momentum * velocity + X.T @ hats[t]
        theta = damping * theta - lr * velocity
    return np.array(plain), np.array(corrected)
