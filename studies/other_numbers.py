"""The numbers of docs/results/theory.md: what others published, and what the library finds.

``PYTHONPATH=. python studies/other_numbers.py`` prints them; the problems are those of
``tests/published``, at full size.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from tests.published import test_bellec_tan_descent as proximal
from tests.published import test_iacv_descent as iacv
from tests.published import test_newfluence_descent as newfluence
from tests.published import test_spoc_flow as flow
from tests.published import test_tan_bellec_descent as robust

DRAWS = 100


def line(name: str, iterate: int, true: torch.Tensor, estimate: torch.Tensor) -> None:
    """Print mean truth, mean estimate, and their difference with its standard error."""
    gap = estimate - true
    error = float(gap.std()) / len(gap) ** 0.5
    print(
        f"{name} {iterate}: {true.mean():.3f} {estimate.mean():.3f} {gap.mean():+.3f} ± {error:.3f}"
    )


def main() -> None:
    """Print everything."""
    m = np.array([flow.simulated(1200, seed, 50)[0] for seed in range(10)])
    for iterate, (theirs, _) in flow.PUBLISHED.items():
        ours, error = "", m.std(0, ddof=1) / 10**0.5
        if iterate < 50:
            ours = f"{m.mean(0)[iterate]:.4f} ± {error[iterate]:.4f}"
        print(f"flow {iterate}: {theirs:.5f}, limit {flow.limit(200)[iterate]:.5f}, runs {ours}")
    for case in robust.CASES:
        runs = [robust.risks(3000, 1000, seed, *robust.CASES[case]) for seed in range(DRAWS)]
        every = torch.stack(runs)
        for iterate in (0, every.shape[1] // 2, every.shape[1] - 1):
            line(case, iterate, every[:, iterate, 1], every[:, iterate, 0])
    for name, accelerated in (("ISTA", False), ("FISTA", True)):
        start = time.process_time()
        every = torch.stack([proximal.errors(seed, accelerated) for seed in range(DRAWS)])
        print(f"{name}: {(time.process_time() - start) / DRAWS:.3f} CPU seconds a run")
        for iterate in (0, 5, 10, 15, 20, 29):
            line(name, iterate, every[:, iterate, 1], every[:, iterate, 0])
        chosen = every[:, :, 0].argmin(1, keepdim=True)
        print(f"{name}, error at the iterate of the lowest estimate:", end=" ")
        print(f"{every[:, :, 1].gather(1, chosen).mean():.4f}, lowest", end=" ")
        print(f"{every[:, :, 1].min(1).values.mean():.4f}, last {every[:, -1, 1].mean():.4f}")
    for n in (250, 1000):
        left = [iacv.errors_left(n, seed) for seed in range(10)]
        print(f"IACV, n = {n}: {100 * np.max(left):.1f} % of the baseline's error at most")
    print("Newfluence:", newfluence.slopes_at_the_minimum(500, 1000))
    print("Newfluence, iterate 59:", newfluence.slopes_on_the_path(500, 1000, 60))


if __name__ == "__main__":
    main()
