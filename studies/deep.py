r"""Networks whose hidden layers all grow with d, every layer with a memory: a prototype, measured.

A layer is h = c s Wᵀ with s the features below it and c = (number of features)^{−1/2}, but 1 for
the first, whose rows x have norm one. Row i moves W by −η c q_iᵀs_i, with q_i the slope of the loss
in h_i, and gets −η c²⟨s_i, s_i'⟩ q_i of it back in every later step with features s_i'. Every layer
adds this again: its memory is η c² Σ_r η₀^{t−1−r}⟨s_{i,t}, s_{i,r}⟩ q_{i,r}, as that of decoupled
descent is for the first layer. What comes back by way of other rows vanishes if the slope of the
output has mean derivative zero: ℓ' − (mean ℓ'') · output in place of ℓ' ("free of divergence").
Weights decay to their starting values.

``python studies/deep.py`` prints the table of the theory page. Ten minutes on one core.
"""

import math
from itertools import pairwise

import torch
from torch.nn.functional import softplus

import decoupled_descent as dd

STEPS, DAMPING = 30, 0.9
ROWS, MANY = 6000, 24_000  # training rows of all runs; many for the question of the study
#: Which layers have a memory (of the first and all), and whether slopes are free of divergence.
METHODS = {
    "gradient descent": ("none", False),
    "memory of the first layer, free of divergence": ("first", True),
    "memory of all layers": ("all", False),
    "memory of all layers, free of divergence": ("all", True),
}


class Layer:
    """Weights, their start, and what the rows remember of themselves."""

    def __init__(self, inputs, outputs, scale, remembers, generator):
        self.start = torch.randn(outputs, inputs, generator=generator)
        self.moved, self.scale = torch.zeros_like(self.start), scale
        self.remembers, self.features, self.slopes = remembers, [], []

    @property
    def weights(self):
        return self.scale * (self.start + self.moved)

    def __call__(self, s, lr):
        """Pre-activations of the training rows."""
        h = s @ self.weights.T
        if not self.remembers:
            return h
        for age, (past, slope) in enumerate(
            zip(self.features[::-1], self.slopes[::-1], strict=True)
        ):
            own = self.scale**2 * (s * past).sum(1, keepdim=True)
            h = h + lr * DAMPING**age * own * slope
        return h

    def step(self, s, slope, lr):
        """Move the weights; return the slope in the features."""
        below = slope @ self.weights
        self.moved = DAMPING * self.moved - lr * self.scale * slope.T @ s
        if self.remembers:
            self.features.append(s)
            self.slopes.append(slope)
        return below


def train(X, y, widths, lr, method, seed):
    """Train; return the train error and the network."""
    memory, free = METHODS[method]
    generator, sizes = torch.Generator().manual_seed(seed), [X.shape[1], *widths, 1]
    layers = [
        Layer(
            a,
            b,
            a**-0.5 if k else 1.0,
            memory == "all" or (memory == "first" and k == 0),
            generator,
        )
        for k, (a, b) in enumerate(pairwise(sizes))
    ]
    for step in range(STEPS):
        features = [X]
        for layer in layers:
            h = layer(features[-1], lr)
            features.append(torch.tanh(h))
        outputs = h[:, 0]
        error = float((softplus(outputs) - y * outputs).mean())
        if step == STEPS - 1:
            break
        p = torch.sigmoid(outputs)
        slope = p - y - (p * (1 - p)).mean() * outputs if free else p - y
        slope = slope.unsqueeze(1)
        for layer, s in zip(layers[::-1], features[-2::-1], strict=True):
            slope = layer.step(s, slope, lr) * (1 - s**2)
    return error, layers


def test_error(layers, X, y):
    s = X
    for layer in layers:
        h = s @ layer.weights.T
        s = torch.tanh(h)
    return float((softplus(h[:, 0]) - y * h[:, 0]).mean())


def measure(n, hidden, lr, method, rows):
    """Means of train and test error, and of their difference with its standard error."""
    mixture, found = dd.mixtures.flipped_classes(n, snr=1.5, labels=(0.0, 1.0)), []
    for seed in range(rows // n):
        train_error, layers = train(*mixture.sample(n, seed=seed), [n] * hidden, lr, method, seed)
        found.append((train_error, test_error(layers, *mixture.sample(2000, seed=10_000 + seed))))
    found = torch.tensor(found)
    gap = found[:, 0] - found[:, 1]
    return *found.mean(0).tolist(), float(gap.mean()), float(gap.std()) / math.sqrt(len(gap))


if __name__ == "__main__":
    print("| hidden layers | n = d = widths | η | method | train | test | train − test |")
    print("|---|---|---|---|---|---|---|")
    settings = [(2, n, 0.1) for n in (100, 200, 400)] + [(1, 200, 0.1), (3, 200, 0.1)]
    for hidden, n, lr in [*settings, (2, 200, 0.2), (2, 200, 0.3)]:
        for method in METHODS:
            many = n <= 200 and (hidden, lr) == (2, 0.1) and METHODS[method] == ("all", True)
            rows = MANY if many else ROWS
            train_error, test, gap, stderr = measure(n, hidden, lr, method, rows)
            cells = f"{train_error:.4f} | {test:.4f} | {gap:+.4f} ± {stderr:.4f}"
            print(f"| {hidden} | {n} | {lr} | {method} | {cells} |", flush=True)
