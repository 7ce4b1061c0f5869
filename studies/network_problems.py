"""Real data sets and networks for the studies of whole networks, and AdamW with a validation set.

Imported by ``path.py``; there is nothing to run.
"""

from __future__ import annotations

import copy
import functools
import math
import time
from pathlib import Path

import numpy as np
import tables
import torch
from torch import nn

from decoupled_descent.datasets.mnist import load_mnist
from decoupled_descent.networks.modules import as_loss

#: The constants of the algorithm were chosen on these tables.
DEVELOPED = (
    *("ionosphere", "saheart", "spam", "dhfr", "tweets", "concrete", "vehicle", "titanic"),
    "diabetes",
)
#: Data on which nothing was chosen.
OTHERS = (
    *("phoneme", "crabs", "wine", "biomass", "italypowerdemand", "glass", "tecator", "credit"),
    *("breast_cancer", "digits", "dna", "ames", "cifar", "mnist 4 9", "mnist 3 5"),
)
IMAGES = ("mnist 4 9", "mnist 3 5")
#: Digits of the pre-training, and pairs of others for the fine-tuning.
FIRST_HALF, PAIRS = (0, 1, 2, 3, 4), ("mnist 5 8", "mnist 7 9", "mnist 5 6")
FINE_TUNED = ("linear head", "transformer head", "last block", "adapters")
WIDTHS = {"16": (16,), "32-32": (32, 32), "64-64": (64, 64)}
ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU, "gelu": nn.GELU}
ROWS, MULTICLASS_ROWS, IMAGE_ROWS, MOST_TEST = 400, 200, 300, 3000
#: Fewer rows for networks whose steps take long.
SLOW_ROWS = {"cnn tanh": 200, "cnn relu": 200, "transformer": 150}


# Data


@functools.cache
def digits(data, chosen, shuffle):
    """Images from 0 to 1 of these digits, (n, 1, 28, 28), and numbers 0, 1, … of the digits."""
    arrays = load_mnist(data)
    images = np.concatenate([arrays.train_images, arrays.test_images])
    labels = np.concatenate([arrays.train_labels, arrays.test_labels])
    keep = np.flatnonzero(np.isin(labels, chosen))
    keep = np.random.default_rng(shuffle).permutation(keep)
    X = torch.tensor(images[keep].reshape(-1, 1, 28, 28) / 255.0).float()
    return X, torch.tensor(np.searchsorted(chosen, labels[keep]))


def prepared(data, name, n, seed):
    """Rows and labels for training and for the test, the loss, and the number of outputs."""
    if name.startswith("mnist"):
        pair = tuple(sorted(int(digit) for digit in name.split()[1:]))
        X, y = digits(data, pair, seed)
        end = n + MOST_TEST
        return X[:n], y[:n].float(), X[n:end], y[n:end].float(), "logistic", 1
    if name == "cifar":
        with np.load(Path(data) / "cifar10_cats_dogs_resnet18.npz") as arrays:
            X, y = arrays["X"].astype(float), arrays["y"].astype(int)
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:n], order[n:]
        X, y, new, labels, task = X[train], y[train], X[test], y[test], "classification"
    else:
        X, y, new, labels, task = tables.split(Path(data) / "tables", name, n, seed)
    prepare = tables.prepared(X).fit(X)
    X, new = (torch.tensor(np.asarray(prepare.transform(each))).float() for each in (X, new))
    new, labels = new[:MOST_TEST], labels[:MOST_TEST]
    if task == "regression":
        y, labels = ((each - y.mean()) / y.std() for each in (y, labels))
        return X, torch.tensor(y).float(), new, torch.tensor(labels).float(), "squared", 1
    count = int(y.max()) + 1
    y, labels = torch.tensor(y), torch.tensor(labels)
    if count == 2:
        return X, y.float(), new, labels.float(), "logistic", 1
    return X, y, new, labels, "cross_entropy", count


def row_count(data, name, kind):
    """Rows for training: half of a small table, and fewer for several classes."""
    if name.startswith("mnist"):
        return SLOW_ROWS.get(kind, IMAGE_ROWS)
    if name == "cifar":
        return ROWS
    _, y, task = tables.load(Path(data) / "tables", name)
    several = task == "classification" and y.max() > 1
    return min(MULTICLASS_ROWS if several else ROWS, len(y) // 2)


# Networks


def perceptron(columns, outputs, widths, activation, seed):
    torch.manual_seed(seed)
    layers, before = [], columns
    for width in widths:
        layers += [nn.Linear(before, width), activation()]
        before = width
    return nn.Sequential(*layers, nn.Linear(before, outputs))


def convolutional(activation, seed, outputs=1):
    torch.manual_seed(seed)
    first = nn.Sequential(nn.Conv2d(1, 8, 5, stride=3), activation())
    second = nn.Sequential(nn.Conv2d(8, 12, 3, stride=2), activation(), nn.Flatten())
    return nn.Sequential(first, second, nn.Linear(108, outputs))


class Transformer(nn.Module):
    """One block of attention over 16 patches of 7 × 7 pixels."""

    def __init__(self, seed, width=12, outputs=1):
        super().__init__()
        torch.manual_seed(seed)
        self.embed, self.place = nn.Linear(49, width), nn.Parameter(0.1 * torch.randn(16, width))
        self.block = nn.TransformerEncoderLayer(
            width, 2, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.head = nn.Linear(width, outputs)

    def forward(self, x):
        patches = nn.functional.unfold(x, 7, stride=7).mT
        return self.head(self.block(self.embed(patches) + self.place).mean(1))


class Body(Transformer):
    """A transformer without its head."""

    def __init__(self, whole):
        nn.Module.__init__(self)
        self.embed, self.place, self.block = whole.embed, whole.place, whole.block
        self.head = nn.Identity()


class Adapted(nn.Module):
    """A frozen linear layer and a trained product of two thin matrices, of rank 2."""

    def __init__(self, layer, rank=2):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


@functools.cache
def pretrained(data, kind, seed):
    """A network trained on 2,000 images of the first half of the digits."""
    X, y = digits(data, FIRST_HALF, seed)
    X, y = X[:2000], y[:2000]
    if kind in ("last block", "linear head"):
        model = convolutional(nn.ReLU, seed, outputs=5)
    elif kind == "transformer head":
        model = Transformer(seed, outputs=5)
    else:
        model = nn.Sequential(nn.Flatten(), *perceptron(784, 5, (32, 32), nn.ReLU, seed))
    epochs_of_adamw(model, X, y, "cross_entropy", seed, 8, rate=3e-3)
    return model


def fine_tuned(data, kind, seed):
    """The pre-trained network with a new last layer, of which a part is trained."""
    model = copy.deepcopy(pretrained(data, kind, seed))
    torch.manual_seed(seed + 1)
    if kind in ("last block", "linear head"):
        model[0 if kind == "last block" else slice(0, 2)].requires_grad_(False)
        model[2] = nn.Linear(108, 1)
        return model
    if kind == "transformer head":
        return nn.Sequential(Body(model).requires_grad_(False).eval(), nn.Linear(12, 1))
    return nn.Sequential(
        model[0], Adapted(model[1]), model[2], Adapted(model[3]), model[4], nn.Linear(32, 1)
    )


def network(data, kind, X, outputs, seed):
    """The network of this name for these rows."""
    if kind.startswith("cnn"):
        return convolutional(ACTIVATIONS[kind.split()[1]], seed)
    if kind == "transformer":
        return Transformer(seed)
    if kind in FINE_TUNED:
        return fine_tuned(data, kind, seed)
    shape, activation = kind.split()
    columns = math.prod(X.shape[1:])
    model = perceptron(columns, outputs, WIDTHS[shape], ACTIVATIONS[activation], seed)
    return model if X.ndim == 2 else nn.Sequential(nn.Flatten(), *model)


# AdamW


def losses(model, X, y, loss):
    outputs = model(X)
    return as_loss(loss).of(outputs.squeeze(1) if outputs.shape[1] == 1 else outputs, y)


def epochs_of_adamw(model, X, y, loss, seed, epochs, watch=None, patience=30, rate=1e-2):
    """Train by AdamW; with rows to watch, stop by their error and return to the best epoch."""
    draw = torch.Generator().manual_seed(seed)
    trained = [each for each in model.parameters() if each.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=rate, weight_decay=1e-2)
    lowest, best, kept = math.inf, 0, None
    for epoch in range(epochs):
        for batch in torch.randperm(len(X), generator=draw).split(32):
            optimiser.zero_grad()
            losses(model, X[batch], y[batch], loss).mean().backward()
            optimiser.step()
        if watch is None:
            continue
        with torch.no_grad():
            error = losses(model, *watch, loss).mean().item()
        if error < lowest:
            lowest, best, kept = error, epoch, copy.deepcopy(model.state_dict())
        if epoch - best >= patience:
            break
    if kept is not None:
        model.load_state_dict(kept)
    return lowest, best + 1


def adamw(start, X, y, loss, seed):
    """The model of 80 % of the rows, that of all rows, the validation error and both CPU times."""
    began = time.process_time()
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(seed))
    watched, rest = order[: len(X) // 5], order[len(X) // 5 :]
    model = copy.deepcopy(start)
    watch = (X[watched], y[watched])
    error, epochs = epochs_of_adamw(model, X[rest], y[rest], loss, seed, 300, watch)
    taken = time.process_time() - began
    again = copy.deepcopy(start)
    epochs_of_adamw(again, X, y, loss, seed, epochs)
    return model, again, error, (taken, time.process_time() - began)


def tested(model, X, y, loss):
    """The test error and its standard error."""
    with torch.no_grad():
        found = losses(model, X, y, loss).double()
    return found.mean().item(), found.std().item() / math.sqrt(len(found))
