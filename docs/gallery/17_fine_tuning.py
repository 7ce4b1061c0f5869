"""
Fine-tuning with 300 labels, and no validation split
====================================================

A convolutional network was trained on images of the digits 0 to 4. Now it shall tell 5 to 9 apart,
and there are 300 labelled images. All of them train, and the error on new images is known at every
step: for a new last layer, for low-rank adapters of the layer before it, and for that whole layer.
"""

import copy
import warnings

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

import decoupled_descent as dd

warnings.simplefilter("ignore")  # warnings of a last epoch that is not the best
digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
labels = torch.tensor(digits.target)
_ = torch.manual_seed(0)

# %%
# The backbone
# ------------
# It has seen half of the classes only.

convolutions = nn.Sequential(
    nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
)
dense = nn.Linear(128, 32)
backbone = nn.Sequential(convolutions, dense, nn.ReLU())
known = labels < 5
pretrained = nn.Sequential(backbone, nn.Linear(32, 5))
adam = torch.optim.Adam(pretrained.parameters(), lr=0.003)
for _ in range(60):
    adam.zero_grad()
    nn.functional.cross_entropy(pretrained(images[known]), labels[known]).backward()
    adam.step()

# %%
# Three ways to go on
# -------------------
# Parameters with ``requires_grad=False`` stay as they are. Frozen layers at the beginning are
# computed once.

for parameter in backbone.parameters():
    parameter.requires_grad_(False)


class Adapted(nn.Module):
    """A linear layer with a correction of low rank, which begins at zero."""

    def __init__(self, layer, rank=2):
        super().__init__()
        self.layer = layer
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


whole = copy.deepcopy(dense)
for parameter in whole.parameters():
    parameter.requires_grad_(True)
ways = {
    "last layer": nn.Sequential(convolutions, dense, nn.ReLU(), nn.Linear(32, 5)),
    "adapters": nn.Sequential(convolutions, Adapted(dense), nn.ReLU(), nn.Linear(32, 5)),
    "last two layers": nn.Sequential(convolutions, whole, nn.ReLU(), nn.Linear(32, 5)),
}

# %%
# Honest curves
# -------------
# ``dd.fit`` leaves every image out along the whole training. The other 595 images of the new digits
# show how right the estimate is.

X, y = images[~known], labels[~known] - 5
order = torch.randperm(len(X), generator=torch.Generator().manual_seed(1))
train, test = order[:300], order[300:]
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, ways.items(), strict=True):
    run = dd.fit(
        X[train], y[train], model, loss="cross_entropy",
        test=(X[test], y[test]), independent_start=True, progress=False,
    )  # fmt: skip
    steps = torch.arange(len(run.train_error))
    low, high = (run.train_error + sign * 1.96 * run.train_error_stderr for sign in (-1, 1))
    ax.fill_between(steps, low, high, alpha=0.25)
    ax.plot(steps, run.train_error, label="estimate from the training images")
    ax.plot(steps, run.test_error, "--", label="new images")
    ax.plot(run.best_step, run.train_error[run.best_step], "o", color="C0")
    ax.set(title=name, xlabel="step", yscale="log")
    accuracy = run.estimate("accuracy")
    low, high = accuracy.interval
    right = (run.to_module()(X[test]).argmax(1) == y[test]).double().mean()
    print(
        f"{name}: accuracy {accuracy.value:.3f}, 95 % interval {low:.3f} to {high:.3f}, "
        f"{run.evaluation.verdict}; new images {right:.3f}"
    )
axes[0].set_ylabel("cross-entropy")
axes[0].legend(fontsize=8)
figure.suptitle("The dot is the step that is kept: the error itself says when to stop")
plt.show()

# %%
# The pretrained weights come from other images, which ``independent_start=True`` says. Without it a
# check asks whether the start knows these labels already.
