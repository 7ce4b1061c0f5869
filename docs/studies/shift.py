"""Train errors under a shift of label frequencies, with and without weights; a table.

``python docs/studies/shift.py`` prints the table of the theory page. A minute on one core.
"""

import torch

import decoupled_descent as dd

N, STEPS, RUNS = 1000, 30, 20
BEFORE = {0.0: 0.5, 1.0: 0.5}


def mixture(shares):
    """Two classes at ±v with these frequencies."""
    v = torch.full((1, N), 1.5, dtype=torch.float64)
    return dd.GaussianMixture(torch.cat([v, -v]), list(shares.values()), list(shares))


def measure(share, weighted, seed):
    """Train error, and the error after the shift of the same parameters."""
    after = {0.0: 1 - share, 1.0: share}
    plain = dd.Objective(dd.heads.TwoLayer(1, bias=True, seed=0), "logistic")
    objective = dd.label_shift(plain, BEFORE, after) if weighted else plain
    X, y = mixture(BEFORE).sample(N, seed=seed)
    algorithm, seen = dd.DecoupledDescent(0.1, 0.95), []
    dd.fit(X, y, objective, algorithm, STEPS, callbacks=[seen.append], seed=seed)
    state = seen[-1].state
    truth = dd.theory.population_test_error(mixture(after), plain, state.theta, state.head)
    return seen[-1].info.train_error, float(truth)


if __name__ == "__main__":
    print("| share of ones after | weights | train error | error after the shift | difference |")
    print("|---|---|---|---|---|")
    for share in (0.5, 0.3, 0.1):
        for weighted in (False, True):
            found = torch.tensor([measure(share, weighted, s) for s in range(RUNS)]).double()
            train, truth = found.mean(0).tolist()
            gap = found[:, 0] - found[:, 1]
            spread = f"{float(gap.mean()):+.4f} ± {float(gap.std()) / RUNS**0.5:.4f}"
            used = "yes" if weighted else "no"
            print(f"| {share} | {used} | {train:.4f} | {truth:.4f} | {spread} |", flush=True)
