"""State evolution: sampled paths and stored directions against a plain double loop over (r, s)."""

import time

import numpy as np
import pytest
import torch

import decoupled_descent as dd

STEPS = 200
PATHS = 2**14
SNR = 4.0
LR = 0.05


def theory(paths, randomisations):
    mixture = dd.mixtures.xor(1000, SNR)
    objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
    algorithm = dd.DecoupledDescent(LR)
    options = {"paths": paths, "randomisations": randomisations}
    return dd.StateEvolution(mixture, objective, algorithm, **options)


def start():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(2, 1000, generator=generator, dtype=torch.float64)


def plain_g(h, y, a):
    """∇_hΨ of the XOR head with logistic loss, by hand."""
    product = h[:, :1] * h[:, 1:]
    return a * (0.5 * (1 + np.tanh(0.5 * a * product)) - y[:, None]) * h[:, ::-1]


class DoubleLoop:
    """Definition "ddState" as one would first write it: one expectation for every pair (r, s).

    The same number of samples as the paths have, shared out over the modes alike; g comes from the
    objective, as it does for the paths, or is written out by hand for this head.
    """

    def __init__(self, evolution, samples, by_hand=False):
        generator = np.random.default_rng(0)
        self.normals = generator.standard_normal((samples, 4))
        self.modes = np.repeat(np.arange(4), samples // 4)
        self.responses = np.repeat([0.0, 0.0, 1.0, 1.0], samples // 4)
        self.omega = evolution.omega.numpy()
        self.alignment = evolution.alignment.numpy()
        self.a = evolution.head["a"].numpy()
        labels = torch.from_numpy(self.responses)
        self.bound = evolution.theory.objective.bind(labels, 2, torch.zeros(()).double())
        self.by_hand = by_hand

    def g(self, h, t):
        if self.by_hand:
            return plain_g(h, self.responses, self.a[t])
        rows = self.bound.derivatives(
            torch.from_numpy(h),
            torch.from_numpy(self.responses),
            {"a": torch.tensor(self.a[t])},
            jacobian=False,
            head=False,
        )
        return rows.direction.numpy()

    def pair(self, r, s):
        omega = self.omega
        joint = np.block([[omega[r, r], omega[r, s]], [omega[s, r], omega[s, s]]])
        values, vectors = np.linalg.eigh(joint)
        G = self.normals @ (vectors * np.sqrt(np.clip(values, 0, None))).T
        g_r = self.g(G[:, :2] + self.alignment[r, self.modes], r)
        g_s = self.g(G[:, 2:] + self.alignment[s, self.modes], s)
        return g_r.T @ g_s / len(G)

    def run(self, steps):
        sigma = np.zeros((steps, steps, 2, 2))
        for t in range(steps):
            for r in range(t + 1):
                sigma[r, t] = self.pair(r, t)
        return sigma


def test_against_a_double_loop(race):
    samples = 2 * 4096
    ours, theta = theory(4096, 2), start()
    evolution = ours.run(STEPS, theta=theta)
    plain = DoubleLoop(evolution, samples)
    sigma = plain.run(20)  # the same quantity, up to sampling: both are what they claim to be
    for r, t in ((0, 0), (5, 19), (19, 19)):
        np.testing.assert_allclose(sigma[r, t], evolution.sigma[r, t], atol=0.1)
    times = {"paths": [], "double loop": []}
    for _ in range(2):
        for name, call in (
            ("paths", lambda: ours.run(STEPS, theta=theta)),
            ("double loop", lambda: plain.run(STEPS)),
        ):
            begin = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - begin)
    ratio = min(times["paths"]) / min(times["double loop"])
    race({"nothing": lambda: None}, rounds=1)
    race.ratio(f"XOR T={STEPS} M={samples}", "state evolution / double loop", (ratio, None), 0.1)


@pytest.mark.parametrize("by_hand", [False, True])
def test_at_a_standard_error_of_a_thousandth(race, by_hand):
    """Some pairs of the double loop are timed and multiplied by their number."""
    ours, theta = theory(PATHS, 8), start()
    begin = time.perf_counter()
    evolution = ours.run(STEPS, theta=theta)
    taken = time.perf_counter() - begin
    assert evolution.test_error_stderr.max() < 1e-3
    plain = DoubleLoop(evolution, 8 * PATHS, by_hand)
    begin = time.perf_counter()
    for r in range(0, STEPS, 4):
        plain.pair(r, STEPS - 1)
    whole = (time.perf_counter() - begin) / (STEPS / 4) * STEPS * (STEPS + 1) / 2
    race({"nothing": lambda: None}, rounds=1)
    what = "state evolution / double loop, from 50 pairs" + (", g by hand" if by_hand else "")
    size, target = f"XOR T={STEPS} M={8 * PATHS}", None if by_hand else 0.1
    race.ratio(size, what, (taken / whole, None), target)
