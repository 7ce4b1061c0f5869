"""``fit``: train once, by an algorithm or by the one that suits a network."""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from decoupled_descent.checks import whole_number
from decoupled_descent.descent.common import Algorithm
from decoupled_descent.networks.choice import EPOCHS, STEPS, Choice, batch_size, choose
from decoupled_descent.networks.folds.cross_fit import CrossFit
from decoupled_descent.networks.folds.run import CrossFitRun
from decoupled_descent.networks.given import given_rows, labels_for, unwrapped_module
from decoupled_descent.networks.path.run import PathRun
from decoupled_descent.networks.path.training import as_examples, described
from decoupled_descent.networks.patience import Patience
from decoupled_descent.objective import Objective
from decoupled_descent.progress import show_progress
from decoupled_descent.training import fit as training
from decoupled_descent.training.callbacks import Callback, as_callbacks
from decoupled_descent.training.checkpoint import Checkpoint
from decoupled_descent.training.stopping import EarlyStopping

#: Iterates where an algorithm is given.
ITERATES = 200
#: AdamW of stacked folds by default, with a cosine schedule.
RATE, DECAY = 2e-3, 0.01


def fit(
    X: Any,
    y: Any,
    objective: Objective | nn.Module,
    algorithm: Algorithm | None = None,
    steps: int | None = None,
    theta: Tensor | None = None,
    test: tuple[Any, Any] | None = None,
    callbacks: Callback | Sequence[Callback] = (),
    seed: int | None = 0,
    progress: bool | None = None,
    state: Any = None,
    checkpoint: str | Path | Checkpoint | None = None,
    *,
    loss: Any = None,
    weights: Any = None,
    groups: Any = None,
    patience: int | None = None,
    independent_start: bool = False,
) -> Any:
    r"""Train, and record an estimate of the test error at every step.

    Without an algorithm, any ``nn.Module`` is trained. Where that is affordable, every row is left
    out along the whole path (:class:`DecoupledGaussNewton`). Otherwise ten stacked folds are
    trained by AdamW with a cosine schedule (:class:`CrossFit`). ``run.note`` says which, and why.

    Args:
        X: Features, shape (n, d), noise variance 1/d. Training follows its dtype and device. Arrays
            on disk and other sources are read block by block, see :class:`Rows`. Or :class:`Rows`,
            which keep results such as the Gram matrix for the next run. For a whole module, rows of
            any shape and scale that it takes, a tuple or a dictionary of several inputs, or a
            ``Dataset`` or ``DataLoader`` with labels.
        y: Labels, n rows; None with :class:`Rows`.
        objective: A whole module, with ``loss``. Or Ψ, a head and a loss. The module is not
            changed: a copy is trained.
        algorithm: :class:`DecoupledGaussNewton`, :class:`DecoupledDescent`, …; chosen by default.
        steps: T, the number of iterates; the first is the start, so T − 1 updates are made. By
            default 200; without an algorithm at most 60, ended by early stopping, or 100 epochs of
            stacked folds.
        theta: θ_1, shape (L, d); by default the whole model's own weights, see
            :meth:`Objective.of_model`, or drawn from N(0, 1).
        test: ``(X_test, y_test)``: its error is recorded, and used for nothing else.
        callbacks: One or several, called with a :class:`Step` at every iterate; a truthy answer
            stops.
        seed: Draws θ_1.
        progress: Whether to draw a progress bar; by default, only on a terminal.
        state: Continue from a state (such as ``run.state``) instead of starting; ``theta`` and
            ``seed`` are then unused, and the first iterate recorded is that state's.
        checkpoint: A folder, or a :class:`Checkpoint`, to save the run in while it goes on. The
            same call takes up what it finds there: a run that was cut short continues, bit for bit
            on the same machine, and a finished one is returned at once.
        loss: The loss of a whole module: a name (``"logistic"``, ``"cross_entropy"``,
            ``"absolute"``, or ``"squared"``, which is *half* the squared error), a function that
            returns one value per row, or a criterion of PyTorch.
        weights: The weight of each row, where X is no :class:`Rows`.
        groups: Rows with the same number are left out together, where X is no :class:`Rows`.
        patience: Without an algorithm, end training when so many steps (or epochs of folds) in a
            row have not lowered the error. By default a path ends after 6 such steps, or after 20
            on a plateau at the start.
        independent_start: Say that the weights of a whole module do not come from these rows, such
            as those of a model that learned the same task elsewhere. Without it, a module that
            already predicts the labels is not trusted.

    Returns:
        The :class:`Run`; without an algorithm, one with the same names, and ``run.note``. Ctrl-C
        ends training early and returns what was reached; so does an error that is no longer finite,
        with a :class:`DivergenceWarning`.

    Example:
        >>> import decoupled_descent as dd
        >>> X, y = dd.mixtures.xor(dimension=10, snr=6.0).sample(80, seed=0)
        >>> _ = torch.manual_seed(0)  # draws the weights of the model
        >>> model = nn.Sequential(nn.Linear(10, 4), nn.Tanh(), nn.Linear(4, 1))
        >>> run = dd.fit(X, y, model, loss="logistic", steps=10)
        >>> run.train_error.shape
        torch.Size([10])
        >>> run.note
        'Chosen: leave-one-out along the path. For 80 rows and 49 parameters it takes about ...'
        >>> accuracy = run.estimate("accuracy")  # .value, .stderr, .interval, .verdict

        >>> mixture = dd.mixtures.xor(dimension=200, snr=8.0)
        >>> X, y = mixture.sample(200, seed=0)
        >>> objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
        >>> run = dd.fit(X, y, objective, dd.DecoupledDescent(lr=0.05), steps=50)
        >>> run.train_error.shape, run.theta.shape
        (torch.Size([50]), torch.Size([2, 200]))
    """
    options: dict[str, Any] = {"test": test, "callbacks": callbacks, "seed": seed}
    options |= {"progress": progress, "state": state, "checkpoint": checkpoint}
    options |= {"weights": weights, "groups": groups}
    if patience is not None:
        whole_number("patience", patience)
    if algorithm is not None:
        if patience is not None:
            raise ValueError(
                "patience works without an algorithm; pass callbacks=EarlyStopping(patience=…)"
            )
        if independent_start:
            options["independent_start"] = True
        count = ITERATES if steps is None else steps
        return training.fit(X, y, objective, algorithm, count, theta, loss=loss, **options)
    if isinstance(objective, Objective) and objective.source is None:
        raise ValueError(
            "algorithm is missing; pass one such as DecoupledDescent(lr=0.05), or a whole module, "
            "fit(X, y, model, loss=…), for which one is chosen"
        )
    if theta is not None:
        raise ValueError("theta has no effect on a whole module, which starts as it is")
    model, loss = described(objective, loss)
    X, y, model = given_rows(X, y, unwrapped_module(model))
    y = labels_for(loss, y)
    if steps is not None:
        whole_number("steps", steps)
    choice = choose(X, y, model, loss, weights, groups, steps)
    if show_progress(progress):
        print(choice.reason, file=sys.stderr)
    options["independent_start"] = independent_start
    if choice.path is None:
        options["patience"] = patience
        return _by_folds(X, y, model, loss, EPOCHS if steps is None else steps, choice, options)
    count = STEPS if steps is None else steps
    stopping = Patience() if patience is None else EarlyStopping(patience=patience)
    options["callbacks"] = [stopping, *as_callbacks(callbacks)]
    result: PathRun = choice.path.fit(X, y, model, loss=loss, steps=count, **options)
    return replace(result, choice=choice.reason)


def _by_folds(
    X: Any, y: Any, model: nn.Module, loss: Any, epochs: int, choice: Choice, given: dict[str, Any]
) -> CrossFitRun:
    """Stacked folds with the usual settings."""
    if given["state"] is not None:
        raise ValueError(
            "state works with leave-one-out along the path only, but stacked folds were "
            f"chosen. {choice.reason} Pass checkpoint=, which continues folds, or "
            "DecoupledGaussNewton()"
        )
    rows = as_examples(X, y, model, given["weights"], given["groups"])
    batch = batch_size(rows.n)
    steps = epochs * -(-rows.n // batch)

    def make(parameters: list[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, lr=RATE, weight_decay=DECAY)

    model = copy.deepcopy(model).to(rows.like)
    run = CrossFit(model, loss, make, independent_start=given["independent_start"]).fit(
        rows.X,
        rows.y,
        epochs,
        batch,
        scheduler=lambda each: torch.optim.lr_scheduler.CosineAnnealingLR(each, steps),
        scheduler_per_batch=True,
        groups=rows.groups if rows.grouped else None,
        sample_weight=rows.weights if rows.weighted else None,
        patience=given["patience"],
        test=given["test"],
        callbacks=given["callbacks"],
        seed=0 if given["seed"] is None else given["seed"],
        progress=given["progress"],
        checkpoint=given["checkpoint"],
    )
    return replace(run, choice=choice.reason)
