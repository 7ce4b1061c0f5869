"""Where estimates fail first: no signal, balanced classes, weights. Are they right there?

``python studies/edges.py signal [DRAWS]`` draws tables without signal and with a weak one,
for several shares of classes; ``… weights [DRAWS]`` draws rows with weights, ``… groups [DRAWS]``
patients with several rows, ``… constant [DRAWS]`` compares with mixtures that have no constant
member. Each line compares the mean estimate with the mean truth, which is
measured on 3,000 other rows of each draw, and counts how often the 95 % interval covers the truth.
The tables are those of docs/results/tables.md.
"""

import sys
import warnings

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

import decoupled_descent as dd
from decoupled_descent.tables.members.catalogue import AUTO
from decoupled_descent.tables.members.interface import TableSize

NEW = 3000
#: Rows, columns, signal, shares of the classes, and whether a design fixes the shares.
SETTINGS = [
    (20, 2, 0.0, (0.5, 0.5), True),
    (40, 5, 0.0, (0.5, 0.5), True),
    (80, 5, 0.0, (0.5, 0.5), True),
    (80, 5, 0.0, (0.5, 0.5), False),
    (80, 200, 0.0, (0.5, 0.5), True),
    (80, 5, 0.7, (0.5, 0.5), True),
    (80, 5, 0.7, (0.5, 0.5), False),
    (80, 5, 0.0, (0.3, 0.7), False),
    (100, 5, 0.0, (0.05, 0.95), True),
    (200, 20, 0.0, (0.5, 0.5), True),
    (200, 20, 0.7, (0.5, 0.5), False),
    (90, 5, 0.0, (1 / 3, 1 / 3, 1 / 3), True),
    (400, 20, 0.7, (0.5, 0.5), False),
    (80, 1000, 0.7, (0.5, 0.5), False),
    (200, 5, 0.7, (0.1,) * 10, False),
]
#: Those on which the default is compared with one without the constant member.
DRAWN = [
    (20, 2, 0.0, (0.5, 0.5), True),
    (40, 5, 0.0, (0.5, 0.5), True),
    (80, 5, 0.0, (0.5, 0.5), False),
    (80, 5, 0.0, (0.3, 0.7), False),
    (80, 200, 0.0, (0.5, 0.5), True),
    (80, 5, 0.7, (0.5, 0.5), False),
    (80, 1000, 0.7, (0.5, 0.5), False),
    (200, 20, 0.7, (0.5, 0.5), False),
]
#: Sample weights: a constant, or a function of a generator and the number of rows.
WEIGHTS = {
    "none": None,
    "2 for all": 2.0,
    "lognormal": lambda rng, n: np.exp(rng.normal(size=n) - 0.5),
    "1, 2 or 3": lambda rng, n: rng.integers(1, 4, n).astype(float),
}


def weights_of(kind, rng, n):
    """Weights of n rows, or None."""
    return kind(rng, n) if callable(kind) else None if kind is None else np.full(n, kind)


def draw(rng, n, d, signal, shares, designed):
    """Normal rows, whose means depend on the class by ``signal``."""
    count = len(shares)
    if designed:
        y = rng.permutation(
            np.repeat(np.arange(count), np.round(np.multiply(shares, n)).astype(int))
        )
    else:
        y = rng.choice(count, n, p=shares)
    means = np.random.default_rng(7).normal(size=(count, d))
    means *= signal / np.linalg.norm(means, axis=1, keepdims=True)
    return rng.normal(size=(len(y), d)) + means[y], y


def classified(seed, setting, weights=None, members="auto"):
    """Estimates beside truths: accuracy, area under the curve, log loss; and what is covered."""
    n, *rest, designed = setting
    rng = np.random.default_rng(1000 + seed)
    X, y = draw(rng, n, *rest, designed)
    new, labels = draw(rng, NEW, *rest, False)
    if len(np.unique(y)) < len(setting[3]) or np.unique(y, return_counts=True)[1].min() < 2:
        return None
    model = dd.DecoupledClassifier(members=members)
    model.fit(X, y, sample_weight=weights_of(weights, rng, n))
    chances = model.predict_proba(new)
    right = np.mean(chances.argmax(1) == labels)
    loss = -np.log(chances[np.arange(len(labels)), labels]).mean()
    accuracy = model.estimated_accuracy_
    low, high = model.estimated_accuracy_interval_
    error, doubt = model.estimated_test_error_, model.estimated_test_error_stderr_
    below, above = model.estimated_test_error_interval_
    auc = [0.5, 0.5, True]
    if chances.shape[1] == 2:
        area, truth = model.estimate("auc"), roc_auc_score(labels, chances[:, 1])
        auc = [area.value, truth, area.interval[0] <= truth <= area.interval[1]]
    return [
        accuracy, right, low <= right <= high, *auc, error, loss, below <= loss <= above,
        (error - loss) / doubt,
    ]  # fmt: skip


def regressed(seed, n, weights):
    """The same for a number: estimate, truth, covered, z."""
    rng = np.random.default_rng(2000 + seed)
    X = rng.normal(size=(n + NEW, 6))
    y = X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + rng.normal(size=n + NEW)
    model = dd.DecoupledRegressor().fit(X[:n], y[:n], sample_weight=weights_of(weights, rng, n))
    error, doubt = model.estimated_test_error_, model.estimated_test_error_stderr_
    truth = np.mean((model.predict(X[n:]) - y[n:]) ** 2)
    low, high = model.estimated_test_error_interval_
    return [error, truth, low <= truth <= high, (error - truth) / doubt]


def grouped(seed, patients=30, rows=8):
    """Patients without signal, left out together: accuracy and log loss for new patients."""
    rng = np.random.default_rng(3000 + seed)

    def draw_patients(count):
        who = np.repeat(np.arange(count), rows)
        X = rng.normal(size=(count, 5))[who] + 0.5 * rng.normal(size=(len(who), 5))
        return X, rng.integers(0, 2, count)[who], who

    X, y, who = draw_patients(patients)
    new, labels, _ = draw_patients(400)
    model = dd.DecoupledClassifier().fit(X, y, groups=who)
    chances = model.predict_proba(new)
    right = np.mean(chances.argmax(1) == labels)
    low, high = model.estimated_accuracy_interval_
    error, loss = model.estimated_test_error_, -np.log(chances[np.arange(len(new)), labels]).mean()
    below, above = model.estimated_test_error_interval_
    return [model.estimated_accuracy_, right, low <= right <= high, error, loss,
            below <= loss <= above]  # fmt: skip


def groups(draws):
    a = np.array([grouped(seed) for seed in range(draws)], dtype=float)
    print("| table | accuracy, truth | bias | covered | log loss bias | covered |")
    print("|---|---|---|---|---|---|")
    print(f"| 30 patients × 8 rows | {a[:, 0].mean():.3f}, {a[:, 1].mean():.3f} | "
          f"{bias(a[:, 0], a[:, 1])} | {100 * a[:, 2].mean():.0f} % | "
          f"{bias(a[:, 3], a[:, 4])} | {100 * a[:, 5].mean():.0f} % |")  # fmt: skip


def bias(estimates, truths):
    """Mean difference with its standard error, in words."""
    miss = estimates - truths
    return f"{miss.mean():+.3f} ± {miss.std(ddof=1) / len(miss) ** 0.5:.3f}"


def signal(draws):
    print("| rows, columns | signal | classes | accuracy, truth | bias | covered | AUC bias | "
          "covered | log loss bias | covered |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|")
    for setting in SETTINGS:
        results = [one for seed in range(draws) if (one := classified(seed, setting)) is not None]
        a = np.array(results, dtype=float)
        shares = f"{len(setting[3])} equal" if len(setting[3]) > 2 else ":".join(
            f"{100 * share:.0f}" for share in setting[3]
        )  # fmt: skip
        kind = f"{shares}, {'by design' if setting[4] else 'drawn'}"
        auc = "– | –"
        if len(setting[3]) == 2:
            auc = f"{bias(a[:, 3], a[:, 4])} | {100 * a[:, 5].mean():.0f} %"
        print(f"| {setting[0]}, {setting[1]} | {setting[2]:g} | {kind} | {a[:, 0].mean():.3f}, "
              f"{a[:, 1].mean():.3f} | {bias(a[:, 0], a[:, 1])} | {100 * a[:, 2].mean():.0f} % | "
              f"{auc} | {bias(a[:, 6], a[:, 7])} | {100 * a[:, 8].mean():.0f} % |",
              flush=True)  # fmt: skip


def constant(draws):
    """The default with and without the member that has no columns, on the same draws."""
    print("| rows, columns | signal | classes | members | accuracy, truth | bias | "
          "log loss, truth | bias | covered |\n|---|---|---|---|---|---|---|---|---|")  # fmt: skip
    for n, d, size, shares, designed in DRAWN:
        plain = [one.name for one in AUTO if one.suits(TableSize(n, d, 1, True))]
        plain.remove("constant")
        for name, members in (("without", plain), ("default", "auto")):
            setting = n, d, size, shares, designed
            results = [classified(seed, setting, members=members) for seed in range(draws)]
            a = np.array([one for one in results if one is not None], dtype=float)
            kind = ":".join(f"{100 * one:.0f}" for one in shares)
            kind += ", by design" if designed else ", drawn"
            print(f"| {n}, {d} | {size:g} | {kind} | {name} | "
                  f"{a[:, 0].mean():.3f}, {a[:, 1].mean():.3f} | {bias(a[:, 0], a[:, 1])} | "
                  f"{a[:, 6].mean():.3f}, {a[:, 7].mean():.3f} | {bias(a[:, 6], a[:, 7])} | "
                  f"{100 * a[:, 8].mean():.0f} % |", flush=True)  # fmt: skip


def weights(draws):
    print("| weights | rows | target | estimate, truth | mean z | rms z | covered |")
    print("|---|---|---|---|---|---|---|")
    for name, make in WEIGHTS.items():
        for n in (80, 300):
            setting = (n, 6, 1.2, (0.5, 0.5), False)
            classes = np.array([classified(seed, setting, make) for seed in range(draws)], float)
            numbers = np.array([regressed(seed, n, make) for seed in range(draws)], float)
            for kind, columns in (
                ("log loss", classes[:, [6, 7, 8, 9]]),
                ("squared error", numbers),
            ):
                estimate, truth, covered, z = columns.T
                print(f"| {name} | {n} | {kind} | {estimate.mean():.3f}, {truth.mean():.3f} | "
                      f"{z.mean():+.2f} | {np.sqrt((z**2).mean()):.2f} | "
                      f"{100 * covered.mean():.0f} % |", flush=True)  # fmt: skip


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    chosen = {"signal": signal, "weights": weights, "groups": groups, "constant": constant}
    chosen = chosen[sys.argv[1]]
    chosen(int(sys.argv[2]) if len(sys.argv) > 2 else 200)
