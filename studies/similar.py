"""Are rows of one patient detected if they are scattered over the table, without false alarms?

``python studies/similar.py [DATA] [DRAWS]`` prints the tables of docs/diagnostics.md:
drawn patients (rows of a patient are alike, and so are their targets beyond the columns), and real
tables, 200 or 400 rows of each in random order. The rises are in standard errors of the estimate.
"""

import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from tables import _rows, load, prepared

import decoupled_descent as dd
from decoupled_descent.evaluation.checks import readings

#: patients, rows of each, noise of their columns, whether there are classes, the patients' effect
DRAWN = [
    (80, 5, 0.3, True, 1.0), (40, 5, 0.3, True, 1.0), (200, 2, 0.3, True, 1.0),
    (80, 5, 0.3, False, 1.0), (40, 5, 0.3, False, 1.0), (200, 2, 0.3, False, 1.0),
    (40, 10, 0.5, True, 1.0), (80, 5, 1.0, False, 1.0),
    (80, 5, 0.3, True, 0.0), (80, 5, 0.3, False, 0.0),
    (400, 1, 0.3, True, 1.0), (400, 1, 0.3, False, 1.0),
]  # fmt: skip
#: What the last check measured.
SEEN = []


def patients(count, size, noise, classes, effect, rng):
    own, its = rng.normal(size=(count, 8)), rng.normal(size=count)
    who = rng.permutation(np.repeat(np.arange(count), size))
    X = own[who] + noise * rng.normal(size=(len(who), 8))
    signal = X[:, 0] + 0.5 * X[:, 1] + effect * its[who]
    if classes:
        return X, (rng.random(len(who)) < 1 / (1 + np.exp(-2 * signal))).astype(int)
    return X, signal + 0.5 * rng.normal(size=len(who))


def judged(X, y, classes, **options):
    """The rise in standard errors of the estimate, and of its own, and whether it is a caution."""
    SEEN.clear()
    kind = dd.DecoupledClassifier if classes else dd.DecoupledRegressor
    model = kind(**options).fit(X, y)
    (found,) = [f for f in model.diagnostics_.findings if f.name == "unusually similar rows"]
    own = SEEN[-1].rise / SEEN[-1].stderr if SEEN and SEEN[-1] is not None else 0.0
    return found.value, own, found.status == "caution"


def main(data, draws):
    measured = readings.companions.companion_effect

    def watched(*given):
        SEEN.append(measured(*given))
        return SEEN[-1]

    readings.companions.companion_effect = watched
    features = ["linear", "rbf(1)", "laplace(1)"]
    for case in DRAWN:
        found = [
            judged(*patients(*case, np.random.default_rng(seed)), case[3], features=features)
            for seed in range(draws)
        ]
        own = [one[1] for one in found]
        cautions = sum(one[2] for one in found)
        print(f"| {case} | {np.median(own):.1f} | {cautions} of {draws} |", flush=True)
    for name in json.loads((Path(data) / "about.json").read_text()):
        X, y, task = load(data, name)
        told = []
        for n, seed in ((200, 1), (200, 2), (400, 0), (400, 1)):
            some = np.random.default_rng(seed).permutation(len(y))[:n]
            rows = _rows(X, some)
            columns = prepared(rows).fit_transform(rows)
            columns = columns.toarray() if hasattr(columns, "toarray") else np.asarray(columns)
            told.append(judged(columns, y[some], task == "classification"))
        print(f"| {name} | {' '.join(f'{v:.1f} ({own:.1f})' for v, own, _ in told)} |", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main(
        sys.argv[1]
        if len(sys.argv) > 1
        else Path(os.environ.get("DECOUPLED_DATA", "data"), "tables"),
        int(sys.argv[2]) if len(sys.argv) > 2 else 10,
    )
