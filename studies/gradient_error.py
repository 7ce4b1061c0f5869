"""The test error of gradient descent as it is: estimate, truth, limit, and other estimates.

``python studies/gradient_error.py`` prints the tables of docs/theory/gradient_error.md.
"""

from __future__ import annotations

import time

import torch

import decoupled_descent as dd

DRAWS, SIZE = 60, 1000


def problems() -> dict[str, tuple[dd.GaussianMixture, dd.Objective, dd.GradientDescent, int]]:
    """Mixture, objective, algorithm and steps of each problem."""
    xor, product = dd.mixtures.xor(SIZE, 4.0), dd.heads.Product(a=1.0)
    flipped = dd.mixtures.flipped_classes(SIZE, snr=1.5, labels=(0.0, 1.0))
    momentum = dd.rules.SGD(0.02, momentum=0.6)
    tanh = dd.heads.TwoLayer(3, seed=0)
    gd = dd.GradientDescent
    return {
        "signal-less, squared": (
            dd.mixtures.signalless(SIZE), dd.Objective(dd.heads.Linear(), "squared"),
            gd(0.05, estimate=True), 80,
        ),
        "flipped classes, logistic": (
            flipped, dd.Objective(dd.heads.Linear(), "logistic"), gd(0.5, estimate=True), 80,
        ),
        "regression": (
            dd.mixtures.discrete_regression(SIZE, response_noise=1.0),
            dd.Objective(dd.heads.Linear(), "squared"),
            gd(0.1, estimate=True), 80,
        ),
        "XOR": (xor, dd.Objective(product, "logistic"), gd(0.05, estimate=True), 80),
        "XOR, momentum": (
            xor, dd.Objective(product, "logistic"), gd(0.05, rule=momentum, estimate=True), 80,
        ),
        "XOR, batches of 250": (
            xor, dd.Objective(product, "logistic"), gd(0.02, batch_size=250, estimate=True), 25,
        ),
        "XOR, 3 tanh units": (xor, dd.Objective(tanh, "logistic"), gd(0.1, estimate=True), 80),
    }  # fmt: skip


def measure(name: str) -> dict[str, float]:
    """Errors at the last step, and z along the path, over all draws."""
    mixture, objective, algorithm, steps = problems()[name]
    errors, z = [], []
    for seed in range(DRAWS):
        rows, test = mixture.sample(SIZE, seed=seed), mixture.sample(5000, seed=10_000 + seed)
        run = dd.fit(*rows, objective, algorithm, steps, test=test, seed=seed, progress=False)
        assert run.test_error is not None
        estimate = run.estimated_test_error
        errors.append([run.train_error[-1], estimate[-1], run.test_error[-1]])
        z.append((estimate - run.test_error) / run.train_error_stderr)
    means, path = torch.tensor(errors).mean(0).tolist(), torch.stack(z)
    rms, along = (float(part.square().mean().sqrt()) for part in (path[:, -1], path))
    return {"train": means[0], "estimate": means[1], "test": means[2]} | {
        "mean z": float(path[:, -1].mean()), "rms z": rms, "rms z along the path": along
    }  # fmt: skip


def least_squares() -> None:
    """Root mean square error of three estimates of the last step, in units of a test set."""
    from benchmarks.versus.paths import bellec_tan, descend

    print("\n| estimate | RMS error, in standard errors of a test set of n rows |\n|---|---|")
    objective, size = dd.Objective(dd.heads.Linear(), "squared"), 400
    gaps: dict[str, list[float]] = {"responses": [], "Bellec–Tan": []}
    for seed in range(DRAWS):
        draw = torch.Generator().manual_seed(seed)
        X = torch.randn(size + 40_000, size, generator=draw) / size**0.5
        y = X @ torch.randn(size, generator=draw) + torch.randn(len(X), generator=draw)
        test, X, y = (X[size:], y[size:]), X[:size], y[:size]
        algorithm, start = dd.GradientDescent(0.1, estimate=True), torch.zeros(1, size)
        run = dd.fit(X, y, objective, algorithm, 60, start, test=test, progress=False)
        assert run.test_error is not None
        losses = 0.5 * (test[1] - test[0] @ run.theta[0]).square()
        unit = float(losses.std()) / size**0.5
        gaps["responses"].append(float(run.estimated_test_error[-1] - run.test_error[-1]) / unit)
        rows, labels = X.double().numpy(), y.double().numpy()
        residuals = labels - descend(rows, labels, 0.1, 60) @ rows.T
        other = 0.5 * bellec_tan(rows, residuals, 0.1)[-1].mean()
        gaps["Bellec–Tan"].append((float(other) - float(run.test_error[-1])) / unit)
    for name, values in gaps.items():
        print(f"| {name} | {float(torch.tensor(values).square().mean().sqrt()):.2f} |")


def limits() -> None:
    """Means over draws at the last step beside the limit as n, d → ∞, from the same start."""
    print("\n| problem | train: limit | runs | test: limit | estimates | tests |")
    print("|---|---|---|---|---|---|")
    for name in ("flipped classes, logistic", "XOR"):
        mixture, objective, algorithm, _ = problems()[name]
        theta = torch.randn(objective.width, SIZE, generator=torch.Generator().manual_seed(7))
        if name == "XOR":  # without a signal at the start, each run leaves the saddle when it likes
            theta = theta + 0.02 * mixture.means[[0, 2]].float()
        theory = dd.StateEvolution(mixture, objective, algorithm).run(40, theta.double())
        errors = []
        for seed in range(DRAWS):
            rows, test = mixture.sample(SIZE, seed=seed), mixture.sample(5000, seed=10_000 + seed)
            run = dd.fit(*rows, objective, algorithm, 40, theta, test=test, progress=False)
            assert run.test_error is not None
            errors.append([run.train_error[-1], run.estimated_test_error[-1], run.test_error[-1]])
        means, doubts = torch.tensor(errors).mean(0), torch.tensor(errors).std(0) / DRAWS**0.5
        cells = [f"{m:.3f} ± {d:.3f}" for m, d in zip(means, doubts, strict=True)]
        limit = [f"{float(one[-1]):.3f}" for one in (theory.train_error, theory.test_error)]
        print(f"| {name} | {limit[0]} | {cells[0]} | {limit[1]} | {cells[1]} | {cells[2]} |")


def literal() -> None:
    """Losses of single rows: of the run, as if new by the estimate, and by runs without the row."""
    print("\n| n = d | loss in the run | estimate | without the row | h: run | h: estimate |")
    print("|---|---|---|---|---|---|")
    objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
    for size in (200, 400, 800, 1600):
        mixture = dd.mixtures.xor(size, 4.0)
        X, y = mixture.sample(size, seed=0)
        theta = torch.randn(2, size, generator=torch.Generator().manual_seed(7))
        theta = theta + 0.02 * mixture.means[[0, 2]].float()
        seen: list[torch.Tensor] = []
        run = dd.fit(X, y, objective, dd.GradientDescent(0.05, estimate=True), 60, theta,
                     callbacks=[lambda step, seen=seen: seen.append(step.info.preactivations)],
                     progress=False)  # fmt: skip
        others, fitted = torch.arange(100), X @ run.theta.T
        without, losses = [], []
        for row in others.tolist():
            kept = torch.arange(size) != row
            alone = dd.fit(X[kept], y[kept], objective, dd.GradientDescent(0.05), 60, theta,
                           progress=False)  # fmt: skip
            without.append(X[row] @ alone.theta.T)
            output = alone.predict(X[row : row + 1])
            losses.append(float(objective.loss.of(output, y[row : row + 1])))
        head = run.state.head
        means = [float(objective.loss.of(objective.pure_head(h[others], head), y[others]).mean())
                 for h in (fitted, seen[-1])]  # fmt: skip
        truth = torch.stack(without)
        gaps = [float((h[others] - truth).square().mean().sqrt()) for h in (fitted, seen[-1])]
        mean = sum(losses) / len(losses)
        print(f"| {size} | {means[0]:.3f} | {means[1]:.3f} | {mean:.3f} | {gaps[0]:.3f} "
              f"| {gaps[1]:.3f} |")  # fmt: skip


def times() -> None:
    """Processor time with the estimate, in units of that without it."""
    print("\n| n = d | time / time without the estimate, 100 steps | 200 steps | 400 steps |")
    print("|---|---|---|---|")
    objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
    for size in (1000, 2000, 4000):
        X, y = dd.mixtures.xor(size, 4.0).sample(size, seed=0)
        ratios = []
        for steps in (100, 200, 400):
            seconds = []
            for estimate in (False, True) * 2:
                start = time.process_time()
                algorithm = dd.GradientDescent(0.05, estimate=estimate)
                dd.fit(X, y, objective, algorithm, steps, progress=False)
                seconds.append(time.process_time() - start)
            ratios.append(seconds[3] / seconds[2])
        print(f"| {size} | " + " | ".join(f"{ratio:.1f}" for ratio in ratios) + " |")


if __name__ == "__main__":
    print("| problem | train | estimate | test | mean z | rms z | rms z, all steps |")
    print("|---|---|---|---|---|---|---|")
    for name in problems():
        result = measure(name)
        print(f"| {name} | " + " | ".join(f"{value:.3f}" for value in result.values()) + " |")
    limits()
    literal()
    least_squares()
    times()
