"""Your own training loop: an objective, an algorithm's ``init`` and ``step``, and nothing else."""

import torch
from torch import nn

import decoupled_descent as dd

device = "cuda" if torch.cuda.is_available() else "cpu"
mixture = dd.mixtures.flipped_classes(dimension=400, snr=2.0, flip=0.05, labels=(0, 1))
X, y = mixture.sample(600, seed=0)
head = nn.Sequential(nn.Tanh(), nn.Linear(8, 1))

objective = dd.Objective(head, "logistic")
algorithm = dd.DecoupledDescent(lr=0.3, damping=0.98)
rows = dd.Rows(X.to(device), y.to(device))
bound = algorithm.bind(rows, objective)  # looks at labels and head once, for all steps
state = algorithm.init(rows, bound, seed=0)
best = (float("inf"), state)
for step in range(100):
    following, info = algorithm.step(state, rows, bound)  # info describes `state`
    best = min(best, (info.train_error, state), key=lambda pair: pair[0])
    if step % 20 == 0:
        print(
            f"step {step:3d}  test error ≈ {info.train_error:.3f} ± {info.train_error_stderr:.3f}"
        )
    state = following

error, state = best
model = nn.Sequential(nn.Linear(400, 8, bias=False), objective.module(state.head))
with torch.no_grad():
    model[0].weight.copy_(state.theta)
print(f"best: test error ≈ {error:.3f}; an ordinary module:\n{model}")
