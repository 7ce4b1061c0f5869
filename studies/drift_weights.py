"""The error after a drift, from rows before it: where weights help and where they cannot.

``python studies/drift_weights.py`` prints the table of docs/theory/beyond.md.
"""

from __future__ import annotations

import numpy as np
import torch

import decoupled_descent as dd

SIZE, DRAWS = 400, 20
V = torch.ones(SIZE, dtype=torch.float64)
BEFORE = dd.GaussianMixture(torch.stack([2 * V, -V]), [0.5, 0.5], [0.0, 1.0])
OBJECTIVE = dd.Objective(dd.heads.Linear(), "logistic")


def trained(seed: int) -> tuple[dd.Run, torch.Tensor, torch.Tensor]:
    X, y = BEFORE.sample(SIZE, seed=seed)
    run = dd.fit(X, y, OBJECTIVE, dd.DecoupledDescent(0.2, 0.9), 15, seed=seed, progress=False)
    return run, X, y


def on_new_rows(run: dd.Run, X: torch.Tensor, y: torch.Tensor) -> float:
    return float(OBJECTIVE.loss.of(run.predict(X, best=True), y).mean())


def shares(share: float) -> list[tuple[float, float, float]]:
    """Class 0 has this share after the drift: z with and without weights, and effective rows."""
    results = []
    for seed in range(DRAWS):
        run, _, y = trained(seed)
        X_new, y_new = BEFORE.sample(40_000, seed=1000 + seed)
        keep = torch.where(y_new == 0, share, 1 - share)
        drawn = torch.multinomial(keep, 20_000, replacement=True,
                                  generator=torch.Generator().manual_seed(seed))  # fmt: skip
        true = on_new_rows(run, X_new[drawn], y_new[drawn])
        results.append(scores(run, torch.where(y == 0, 2 * share, 2 - 2 * share), true))
    return results


def moved(delta: float) -> list[tuple[float, float, float]]:
    """The noise of all rows moves by δ standard deviations along one direction, up the means."""
    results = []
    along = BEFORE.means[0] / BEFORE.means[0].norm()
    for seed in range(DRAWS):
        run, X, y = trained(seed)
        X_new, y_new = BEFORE.sample(20_000, seed=1000 + seed)
        true = on_new_rows(run, X_new + (delta / SIZE**0.5 * along).float(), y_new)
        # p(x − δ)/p(x) of a normal: the label of a row says which one it comes from
        centres = (BEFORE.means @ along)[y.long()] / SIZE**0.5
        noise = (X.double() @ along) * SIZE**0.5 - centres
        results.append(scores(run, torch.exp(delta * noise - delta**2 / 2), true))
    return results


def scores(run: dd.Run, weights: torch.Tensor, true: float) -> tuple[float, float, float]:
    weights = weights.double()
    effective = float(weights.sum() ** 2 / weights.square().sum())
    plain = (run.best.train_error - true) / run.best.train_error_stderr
    try:
        estimate = run.under(weights)
    except ValueError:
        return float("nan"), plain, effective
    return (estimate.value - true) / estimate.stderr, plain, effective


def row(name: str, results: list[tuple[float, float, float]]) -> None:
    weighted, plain, effective = np.array(results).T
    refused = int(np.isnan(weighted).sum())
    z = weighted[~np.isnan(weighted)]
    shown = f"{z.mean():+.2f} | {np.sqrt(np.mean(z**2)):.2f}" if len(z) else "– | –"
    print(f"| {name} | {effective.mean():.0f} | {shown} | {plain.mean():+.1f} | {refused} |")


if __name__ == "__main__":
    print("| drift | effective rows | mean z | rms z | mean z without weights | refused, of 20 |")
    print("|---|---|---|---|---|---|")
    for share in (0.3, 0.1, 0.02):
        row(f"class 0: 50 to {100 * share:.0f} %", shares(share))
    for delta in (0.5, 1.0, 2.0, 4.0):
        row(f"mean moves by {delta:g}", moved(delta))
