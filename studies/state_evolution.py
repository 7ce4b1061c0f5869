"""Compare decoupled descent at finite n with state evolution; print the tables of the theory page.

python studies/state_evolution.py {signalless,sizes,xor,informed-xor}
"""

import argparse
import time
from dataclasses import dataclass

import numpy as np
import torch

import decoupled_descent as dd

STEPS = 30


@dataclass(frozen=True)
class RowRates:
    """The paper's rule with rates of its own for every row of θ: several settings in one run."""

    lr: torch.Tensor
    damping: torch.Tensor

    def slots(self, value):
        return ()

    def __call__(self, value, direction, slots, step, scale):
        lr, damping = (rate.to(value).unsqueeze(1) for rate in (self.lr, self.damping))
        return damping * value - lr * scale * direction, slots


def signalless(quick):
    """Mean of 50 runs at n = d = 2000 against the prediction, at each of 100 steps."""
    n, replications, steps = (500, 10, 100) if quick else (2000, 50, 100)
    eta = 0.05
    names = ["pure", *[f"damped, c = {c}" for c in (0.25, 0.5, 0.75, 1.0, 1.25)]]
    lr = torch.tensor([eta, *[c * eta for c in (0.25, 0.5, 0.75, 1.0, 1.25)]]).double()
    damping = torch.tensor([1.0, *[1 - eta] * 5]).double()
    mixture = dd.mixtures.signalless(n)
    theta = torch.randn(len(names), n, generator=torch.Generator().manual_seed(0)).double()
    theta *= n**0.5 / theta.norm(dim=1, keepdim=True)
    objective = dd.Objective(torch.nn.Identity(), "squared", width=len(names))
    algorithm = dd.DecoupledDescent(1.0, rule=RowRates(lr, damping))
    curves = []
    for seed in range(replications):
        X, _ = mixture.sample(n, seed=seed)
        errors = []

        def record(step, errors=errors):
            errors.append(step.info.preactivations.double().square().mean(0).numpy() / 2)

        y = torch.zeros(n, len(names))
        dd.fit(X, y, objective, algorithm, steps=steps, theta=theta, callbacks=[record])
        curves.append(errors)
    curves = np.array(curves)  # (replications, steps, settings)
    print(f"\nn = d = {n}, {replications} runs, {steps} steps, eta = {eta}")
    print("| setting | prediction at the end | runs | largest z | rms z | steps beyond 3 |")
    print("|---|---|---|---|---|---|")
    linear = dd.Objective(dd.heads.Linear(), "squared")
    for k, name in enumerate(names):
        theory = dd.StateEvolution(
            dd.mixtures.signalless(n),
            linear,
            dd.DecoupledDescent(float(lr[k]), float(damping[k])),
        )
        predicted = theory.run(steps, overlap=torch.eye(1).double()).test_error.numpy()
        mean, stderr = curves[:, :, k].mean(0), curves[:, :, k].std(0, ddof=1) / replications**0.5
        z = np.abs(mean - predicted) / stderr
        print(
            f"| {name} | {predicted[-1]:.5g} | {mean[-1]:.5g} ± {stderr[-1]:.2g} | {z.max():.2f} | "
            f"{np.sqrt((z**2).mean()):.2f} | {(z > 3).sum()} |"
        )


def informed(mixture, picks, strength=0.3):
    """Return orthonormal noise rows plus a share of some means: the same overlaps at every n."""
    n = mixture.dimension
    noise = torch.randn(n, len(picks), generator=torch.Generator().manual_seed(1)).double()
    directions = torch.linalg.svd(mixture.means, full_matrices=False)
    span = directions.Vh[: int(torch.linalg.matrix_rank(mixture.means))]
    noise = torch.linalg.qr(noise - span.T @ (span @ noise)).Q * n**0.5
    return (noise.T + strength * mixture.means[picks]).float()


def problem(name, n):
    """Return mixture, objective, algorithm and an informed starting point."""
    if name == "flipped classes, logistic":
        mixture = dd.mixtures.flipped_classes(n, snr=1.5, flip=0.1, labels=(0.0, 1.0))
        objective = dd.Objective(dd.heads.Linear(), "logistic")
        algorithm = dd.DecoupledDescent(lr=0.15, damping=0.97)
        return mixture, objective, algorithm, informed(mixture, [1])
    if name == "four modes, two-layer tanh":
        mixture = dd.mixtures.xor(n, snr=2.0)
        head = dd.heads.TwoLayer(3, seed=3)
        objective = dd.Objective(head, "logistic")
        algorithm = dd.DecoupledDescent(lr=0.1, damping=0.98, head_lr=0.3)
        return mixture, objective, algorithm, informed(mixture, [0, 2, 3])
    mixture = dd.mixtures.discrete_regression(n, modes=100, snr=2.0, response_noise=0.3)
    objective = dd.Objective(dd.heads.TwoLayer(1, seed=2), "squared")
    algorithm = dd.DecoupledDescent(lr=0.1, damping=0.97, head_lr=0.2)
    return mixture, objective, algorithm, informed(mixture, [50])


def measure(mixture, objective, algorithm, theta, n, seed, steps):
    """Overlaps, head and train error of one run, by name."""
    X, y = mixture.sample(n, seed=seed)
    thetas, heads = [], []

    def record(step):
        thetas.append(step.state.theta.double())
        heads.append({k: v.double().flatten() for k, v in step.state.head.items()})

    run = dd.fit(X, y, objective, algorithm, steps=steps, theta=theta, callbacks=[record])
    path, d = torch.stack(thetas), X.shape[1]
    tilde = (algorithm.damping * path[:-1] - path[1:]) / algorithm.lr
    found = {
        "m": path @ mixture.means.T / d,  # (T, L, J)
        "Omega": path @ path.transpose(1, 2) / d,
        "Xi": path[:-1] @ tilde.transpose(1, 2) / d,
        "train error": run.train_error,
    }
    if heads[0]:
        found["a"] = torch.stack([torch.cat(list(h.values())) for h in heads])
    return {k: v.flatten(1).numpy() if v.ndim > 1 else v.numpy()[:, None] for k, v in found.items()}


def predict(mixture, objective, algorithm, theta, steps):
    """The same quantities in the limit, and their standard errors."""
    theory = dd.StateEvolution(mixture, objective, algorithm, paths=2**13)
    evolution = theory.run(steps, theta=theta)
    diagonal = torch.arange(steps - 1)

    def gather(values, head):
        found = {
            "m": values["alignment"].transpose(1, 2),
            "Omega": values["overlap"],
            "Xi": values["xi"][diagonal, diagonal],
            "train error": values["test_error"].unsqueeze(1),
        }
        if head:
            found["a"] = torch.cat([v.flatten(1) for v in head.values()], 1)
        return {k: v.flatten(1).numpy() for k, v in found.items()}

    means = {k: getattr(evolution, k) for k in ("alignment", "overlap", "xi", "test_error")}
    head = {k: evolution.stderr[f"head.{k}"] for k in evolution.head}
    return gather(means, evolution.head), gather(evolution.stderr, head)


def sizes(quick):
    """Deviation of runs from the prediction at growing n, and its exponent."""
    grid = [250, 500, 1000] if quick else [500, 1000, 2000, 4000]
    replications = 8 if quick else 24
    for name in ("flipped classes, logistic", "four modes, two-layer tanh", "discrete, J = 100"):
        print(f"\n{name}: rms deviation of a run over {STEPS} steps, {replications} runs each")
        table = {}
        for n in grid:
            setting = problem(name, n)
            predicted, noise = predict(*setting, STEPS)
            runs = [measure(*setting, n, seed, STEPS) for seed in range(replications)]
            for key in predicted:
                values = np.stack([run[key] for run in runs])
                deviation = np.sqrt(((values - predicted[key]) ** 2).mean())
                variance = values.var(0, ddof=1) / replications + noise[key] ** 2
                moving = variance > 1e-20  # the starting point does not move
                z = np.abs(values.mean(0) - predicted[key])[moving] / np.sqrt(variance[moving])
                table.setdefault(key, []).append((deviation, np.sqrt((z**2).mean()), z.max()))
        print("| quantity | " + " | ".join(f"n = {n}" for n in grid), end=" | exponent | ")
        print(f"rms z, largest z of the mean at n = {grid[-1]} |")
        print("|---" * (len(grid) + 3) + "|")
        for key, rows in table.items():
            deviations = [row[0] for row in rows]
            exponent = np.polyfit(np.log(grid), np.log(deviations), 1)[0]
            cells = " | ".join(f"{value:.4f}" for value in deviations)
            print(f"| {key} | {cells} | {exponent:.2f} | {rows[-1][1]:.2f}, {rows[-1][2]:.2f} |")


def informed_xor(quick):
    """XOR from a start with a little signal of both kinds, m_1 = 0.32."""
    xor(quick, signal=0.02)


def xor(quick, signal=0.0):
    """XOR at snr 4 through the escape from the saddle, with each start's own overlaps."""
    steps = 200
    grid = [500, 1000] if quick else [1000, 2000, 4000]
    objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
    algorithm = dd.DecoupledDescent(lr=0.05)
    marks = [0, 20, 40, 60, 80, 120, 160, 199]
    for n in grid:
        mixture = dd.mixtures.xor(n, snr=4.0)
        theta = torch.randn(2, n, generator=torch.Generator().manual_seed(1))
        if signal:
            extra = signal * mixture.means[[2, 2]].float()
            theta = informed(mixture, [0, 1], signal) + extra
        evolution = dd.StateEvolution(mixture, objective, algorithm, paths=2**14).run(
            steps, theta=theta
        )
        errors, alignments = [], []
        for seed in range(4 if quick else 12):
            found = measure(mixture, objective, algorithm, theta, n, seed, steps)
            errors.append(found["train error"][:, 0])
            alignments.append(np.abs(found["m"]).max(1))
        errors, alignments = np.array(errors), np.array(alignments)
        strongest = evolution.alignment.abs().flatten(1).amax(1)
        print(
            f"\nXOR, snr 4, signal {signal:g}, n = d = {n}, {len(errors)} runs (median, and range)"
        )
        print("| step | predicted error | runs | predicted alignment | runs |")
        print("|---|---|---|---|---|")
        for t in marks:
            e, a = errors[:, t], alignments[:, t]
            print(
                f"| {t} | {evolution.test_error[t]:.4f} ± {evolution.test_error_stderr[t]:.4f} | "
                f"{np.median(e):.4f} ({e.min():.4f} – {e.max():.4f}) | {strongest[t]:.3f} | "
                f"{np.median(a):.3f} ({a.min():.3f} – {a.max():.3f}) |"
            )


STUDIES = {"signalless": signalless, "sizes": sizes, "xor": xor, "informed-xor": informed_xor}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", choices=list(STUDIES))
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer runs")
    options = parser.parse_args()
    start = time.perf_counter()
    STUDIES[options.study](options.quick)
    print(f"\n{time.perf_counter() - start:.0f} s")
