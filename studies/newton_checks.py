"""Do the checks of the Newton method distinguish right estimates from wrong ones?

``DECOUPLED_DATA=folder python studies/newton_checks.py OUT.json`` fits classifiers and
regressors to real tables at 100 and 400 rows and to drawn rows with one departure each, compares
the estimate with the error on all other rows, and prints the tables of docs/diagnostics.md.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
from sklearn import datasets

import decoupled_descent as dd

FEATURES = ["linear", "rbf(1)", "rbf(0.5)", "laplace(1)"]
FRESH = 4000


def real_tables():
    """Name, X, y of the tables in npz files, and those of scikit-learn."""
    for path in sorted(Path(os.environ["DECOUPLED_DATA"], "tables").glob("*.npz")):
        with np.load(path) as content:
            yield path.stem, content["X"].astype(float), content["y"]
    for name in ("breast_cancer", "wine", "digits", "diabetes"):
        yield name, *getattr(datasets, f"load_{name}")(return_X_y=True)


def real_fits(splits=2):
    """Training rows and all others, at 100 and 400 rows."""
    for name, X, y in real_tables():
        for n, count in ((100, splits), (400, 1)):
            if len(y) < 1.4 * n:
                continue
            for seed in range(count):
                order = np.random.default_rng(seed).permutation(len(y))
                train, test = order[:n], order[n:][:FRESH]
                if y.dtype.kind != "f" and len(np.unique(y[train])) < len(np.unique(y)):
                    continue
                yield f"{name}, {n}", (X[train], y[train]), (X[test], y[test])


def gaussian(n, rng, d=10):
    X = rng.normal(size=(n, d))
    return X, (rng.random(n) < 1 / (1 + np.exp(-2 * X[:, 0] - X[:, 1]))).astype(int)


def patients(n, rng, rows, own=2.0):
    """Rows of patients who are alike, and whose labels are mostly their own."""
    count = n // rows
    base = rng.normal(size=(count, 10))
    chance = 1 / (1 + np.exp(-base[:, 0] - own * rng.normal(size=count)))
    who = np.repeat(np.arange(count), rows)
    X = base[who] + 0.5 * rng.normal(size=(len(who), 10))
    return X, (rng.random(len(who)) < chance[who]).astype(int)


def shuffled(X, y, rng):
    order = rng.permutation(len(y))
    return X[order], y[order]


def copied(n, rng, share):
    X, y = gaussian(n, rng)
    count = int(share * n)
    X[n - count :], y[n - count :] = X[:count], y[:count]
    return shuffled(X, y, rng)


def curved(n, rng):
    X = rng.normal(size=(n, 6))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=n)


def tails(n, rng):
    X = rng.standard_t(2, size=(n, 10))
    return X, X[:, 0] + rng.standard_t(3, size=n)


DRAWN = {
    "independent rows, two classes": (gaussian, gaussian),
    "independent rows, curved target": (curved, curved),
    "long tails, regression": (tails, tails),
    "5 rows of each patient, in order": (lambda n, rng: patients(n, rng, 5),) * 2,
    "5 rows of each patient, shuffled": (
        lambda n, rng: shuffled(*patients(n, rng, 5), rng),
        lambda n, rng: patients(n, rng, 5),
    ),
    "25 % copies": (lambda n, rng: copied(n, rng, 0.25), gaussian),
    "5 % copies": (lambda n, rng: copied(n, rng, 0.05), gaussian),
    "20 rows": (lambda _, rng: gaussian(20, rng), gaussian),
}


def drawn_fits(draws=6, n=200):
    for name, (train, fresh) in DRAWN.items():
        for seed in range(draws):
            rng = np.random.default_rng(seed)
            yield name, train(n, rng), fresh(FRESH, rng)


def record(name, train, test):
    """z of the estimate, the verdict and what each check said."""
    X, y = train
    kind = dd.DecoupledRegressor if y.dtype.kind == "f" else dd.DecoupledClassifier
    model = kind(features=FEATURES).fit(X, y)
    if kind is dd.DecoupledRegressor:
        losses = (model.predict(test[0]) - test[1]) ** 2
    else:
        places = np.searchsorted(model.classes_, test[1])
        losses = -np.log(model.predict_proba(test[0])[np.arange(len(places)), places])
    spread = np.hypot(model.estimated_test_error_stderr_, losses.std() / np.sqrt(len(losses)))
    return {
        "name": name,
        "z": float((model.estimated_test_error_ - losses.mean()) / spread),
        "verdict": model.diagnostics_.verdict,
        "checks": {one.name: (one.value, one.status) for one in model.diagnostics_.findings},
    }


def share_off(records):
    return f"{np.mean([abs(one['z']) > 2 for one in records]):.0%}" if records else "–"


def line(label, records):
    z = np.array([one["z"] for one in records])
    rms = np.sqrt((z**2).mean())
    return f"| {label} | {len(z)} | {z.mean():+.2f} | {rms:.2f} | {share_off(records)} |"


def tables(records):
    """The tables by verdict, by check and by problem, in Markdown."""
    real = [one for one in records if one["name"] not in DRAWN]
    print("| fits | number | mean z | rms z | beyond 2 |\n|---|---|---|---|---|")
    for kind, some in (("real", real), ("drawn", [o for o in records if o not in real])):
        for verdict in ("trust", "caution", "do not trust"):
            mine = [one for one in some if one["verdict"] == verdict]
            if mine:
                print(line(f"{kind}, {verdict}", mine))
    print("\n| check | ok | note | caution | alarm |\n|---|---|---|---|---|")
    for check in sorted({name for one in records for name in one["checks"]}):
        cells = []
        for status in ("ok", "note", "caution", "alarm"):
            mine = [one for one in records if one["checks"].get(check, (0, ""))[1] == status]
            cells.append(f"{share_off(mine)} of {len(mine)}" if mine else "–")
        print(f"| {check} | {' | '.join(cells)} |")
    print(
        "\n| drawn rows | mean z | beyond 2 | trust / caution / do not trust |\n|---|---|---|---|"
    )
    for name in DRAWN:
        mine = [one for one in records if one["name"] == name]
        counts = [sum(one["verdict"] == v for one in mine) for v in dd_verdicts()]
        mean = np.mean([one["z"] for one in mine]) if mine else 0.0
        print(f"| {name} | {mean:+.1f} | {share_off(mine)} | {' / '.join(map(str, counts))} |")


def dd_verdicts():
    return ("trust", "caution", "do not trust")


if __name__ == "__main__":
    path = Path(sys.argv[1])
    if not path.exists():
        fits = [*drawn_fits(), *real_fits()]
        path.write_text(json.dumps([record(*one) for one in fits]))
    tables(json.loads(path.read_text()))
