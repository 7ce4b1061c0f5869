"""Five rows of each patient, and a patient effect: is the estimate with ``groups=`` right?

``python studies/groups.py [DRAWS]`` prints the table of docs/results/tables.md. Rows of a
patient are alike, and so are their outcomes beyond
what the columns explain. The test error is that of
20,000 rows of other patients.
"""

import sys

import numpy as np

import decoupled_descent as dd

FEATURES = ["linear", "rbf(1)", "laplace(1)"]
ROWS = 5


def patients(count, rng, classes):
    """X, y and the patient of each row; the patient effect is as strong as the columns."""
    own, effect = rng.normal(size=(count, 8)), rng.normal(size=count)
    who = np.repeat(np.arange(count), ROWS)
    X = own[who] + 0.3 * rng.normal(size=(len(who), 8))
    signal = X[:, 0] + 0.5 * X[:, 1] + effect[who]
    if classes:
        return X, (rng.random(len(who)) < 1 / (1 + np.exp(-2 * signal))).astype(int), who
    return X, signal + 0.5 * rng.normal(size=len(who)), who


def losses(model, X, y):
    """Losses of rows of new patients."""
    if isinstance(model, dd.DecoupledRegressor):
        return (model.predict(X) - y) ** 2
    return -np.log(model.predict_proba(X)[np.arange(len(y)), y])


def compare(seed, classes, count):
    """Estimate, standard error and truth, without groups and with them."""
    rng = np.random.default_rng(seed)
    X, y, who = patients(count, rng, classes)
    fresh, labels, _ = patients(4000, rng, classes)
    kind = dd.DecoupledClassifier if classes else dd.DecoupledRegressor
    found = []
    for groups in (None, who):
        model = kind(features=FEATURES).fit(X, y, groups=groups)
        truth = losses(model, fresh, labels).mean()
        found.append((model.estimated_test_error_, model.estimated_test_error_stderr_, truth))
    return found


def main(draws):
    print("| outcome, patients | | estimate | truth | mean z | spread of z | within two |")
    print("|---|---|---|---|---|---|---|")
    for classes in (True, False):
        for count in (40, 80):
            found = np.array([compare(seed, classes, count) for seed in range(draws)])
            for place, name in enumerate(("each row by itself", "`groups=`")):
                estimate, stderr, truth = found[:, place].T
                z = (estimate - truth) / stderr
                kind = f"{'two classes' if classes else 'a number'}, {count}"
                print(
                    f"| {kind} | {name} | {estimate.mean():.3f} | {truth.mean():.3f} | "
                    f"{z.mean():+.1f} | {z.std(ddof=1):.1f} | {np.mean(np.abs(z) < 2):.0%} |"
                )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 24)
