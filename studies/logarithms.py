"""When does it help to fit the logarithm of the target, and is it advised then?

``python studies/logarithms.py [DATA] [DRAWS]`` trains on 150 rows of real and of drawn tables,
with the target and with its logarithm, and prints the ratio of the median absolute errors on other
rows, with ``*`` where the command line advises ``--log-target``.
"""

import os
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from tables import _rows, load, prepared

import decoupled_descent as dd
from decoupled_descent.app.cli.findings import logarithm_helps
from decoupled_descent.app.cli.tables import TrainingTable

ROWS, MOST = 150, 2000
FEATURES = ["linear", "rbf(1)", "laplace(1)"]
#: The target, given the signal f and a generator.
LAWS = {
    "drawn, lognormal (0.5)": lambda f, rng: np.exp(f + 0.5 * rng.normal(size=len(f))),
    "drawn, lognormal (0.1)": lambda f, rng: np.exp(3 + 0.2 * f + 0.1 * rng.normal(size=len(f))),
    "drawn, a sum with t₃ noise": lambda f, rng: 20 + 2 * f + rng.standard_t(3, size=len(f)),
    "drawn, a sum with normal noise": lambda f, rng: 20 + 3 * f + rng.normal(size=len(f)),
}


def real(data, name, draw):
    """Training rows and others of a real table, as numbers."""
    X, y, _ = load(data, name)
    order, n = np.random.default_rng(draw).permutation(len(y)), min(ROWS, len(y) // 2)
    train, test = order[:n], order[2 * n :][:MOST] if len(y) > 3 * n else order[n:]
    columns = prepared(_rows(X, train)).fit(_rows(X, train))
    found = [columns.transform(_rows(X, some)) for some in (train, test)]
    found = [np.asarray(A.toarray() if hasattr(A, "toarray") else A, float) for A in found]
    return found[0], y[train], found[1], y[test]


def drawn(law, draw):
    rng = np.random.default_rng(draw)
    parts = []
    for n in (ROWS, MOST):
        X = rng.normal(size=(n, 6))
        parts += [X, law(X[:, 0] + 0.5 * X[:, 1], rng)]
    return parts


def compared(X, y, fresh, truth):
    """The ratio of the median absolute errors, and whether the logarithm is advised."""
    models = [
        dd.DecoupledRegressor(features=FEATURES, random_state=0, log_target=log).fit(X, y)
        for log in (False, True)
    ]
    plain, log = (np.median(np.abs(model.predict(fresh) - truth)) for model in models)
    given = TrainingTable(X, y, None, "regression", [])
    return f"{log / plain:.2f}{'*' * logarithm_helps(given, models[0])}"


def main(data, draws):
    print("| table | ratio of the median absolute errors |\n|---|---|", flush=True)
    for name in ("ames", "biomass", "concrete", "tecator"):
        found = [compared(*real(data, name, draw)) for draw in range(draws)]
        print(f"| {name} | {', '.join(found)} |", flush=True)
    for name, law in LAWS.items():
        found = [compared(*drawn(law, draw)) for draw in range(draws)]
        print(f"| {name} | {', '.join(found)} |", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main(
        sys.argv[1] if len(sys.argv) > 1 else Path(os.environ["DECOUPLED_DATA"], "tables"),
        int(sys.argv[2]) if len(sys.argv) > 2 else 5,
    )
