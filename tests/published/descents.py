"""What the tests of published descents share: means over draws, in their standard errors."""

import torch

import decoupled_descent as dd


def z_of_means(gaps):
    """The mean over draws of every step, divided by its standard error; gaps (draws, steps)."""
    gaps = torch.as_tensor(gaps, dtype=torch.float64)
    return gaps.mean(0) / (gaps.std(0) / len(gaps) ** 0.5)


def followed(X, y, objective, algorithm, steps, measure):
    """``measure(step)`` of every step of a run from zero."""
    seen, theta = [], X.new_zeros(1, X.shape[1])
    dd.fit(
        X, y, objective, algorithm, steps, theta=theta, callbacks=lambda s: seen.append(measure(s))
    )
    return torch.tensor(seen, dtype=torch.float64)
