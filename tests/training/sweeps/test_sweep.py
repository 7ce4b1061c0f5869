"""A sweep is its separate runs, only together."""

import os
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import joblib
import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.descent import GreedyDescent
from decoupled_descent.training import StopReason
from decoupled_descent.training.sweeps import Halving

MIXTURE = dd.mixtures.flipped_classes(30, 3.0, labels=(0, 1))
X, Y = MIXTURE.sample(40, seed=0, dtype=torch.float64)
TEST = MIXTURE.sample(50, seed=1, dtype=torch.float64)
OBJECTIVE = dd.Objective(dd.heads.TwoLayer(3, seed=0).double(), "logistic")


def assert_same_run(one, other):
    np.testing.assert_allclose(one.train_error, other.train_error, rtol=0, atol=1e-12)
    np.testing.assert_allclose(one.theta, other.theta, rtol=0, atol=1e-11)
    np.testing.assert_allclose(one.best_losses, other.best_losses, rtol=0, atol=1e-11)
    assert one.stop_reason == other.stop_reason
    if one.test_error is not None:
        np.testing.assert_allclose(one.test_error, other.test_error, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_equals_separate_runs_of_all_kinds(n_jobs):
    objectives = [
        OBJECTIVE,
        dd.Objective(dd.heads.Linear(), "logistic"),
        dd.Objective(dd.heads.Deep([5, 2], bias=True, seed=1).double(), "logistic"),
        dd.Objective(dd.heads.TwoLayer(4, "relu", seed=2), "logistic", curvature="smoothed"),
        dd.Objective(dd.heads.TwoLayer(2, seed=3), "logistic", curvature="autodiff"),
    ]
    algorithms = [
        dd.DecoupledDescent(0.1, damping=0.95),
        dd.DecoupledDescent(5.0, reduction="mean", head_lr=0),
        dd.GradientDescent(0.1),
    ]
    result = dd.sweep(X, Y, objectives, algorithms, 8, seed=[0, 7], test=TEST, n_jobs=n_jobs)
    assert len(result.runs) == len(set(result.names)) == 30
    combinations = [(o, a, s) for o in objectives for a in algorithms for s in (0, 7)]
    for run, (objective, algorithm, seed) in zip(result.runs, combinations, strict=True):
        assert_same_run(run, dd.fit(X, Y, objective, algorithm, 8, seed=seed, test=TEST))


def test_blocks_change_nothing():
    algorithms = [dd.DecoupledDescent(lr) for lr in (0.1, 0.2)]
    complete = dd.sweep(X, Y, OBJECTIVE, algorithms, 10)
    blocks = dd.sweep(dd.Rows(X, Y, block_size=7), None, OBJECTIVE, algorithms, 10)
    for one, other in zip(complete.runs, blocks.runs, strict=True):
        assert_same_run(one, other)


def test_one_diverging_run_leaves_the_others_alone():
    algorithms = {"wild": dd.GradientDescent(1e3), "calm": dd.GradientDescent(0.1)}
    objective = dd.Objective(dd.heads.Linear(), "squared")
    with pytest.warns(dd.DivergenceWarning, match="wild: the train error became"):
        result = dd.sweep(X, Y, objective, algorithms, 200)
    wild, calm = result.runs
    assert wild.stop_reason is StopReason.DIVERGED
    assert len(wild.train_error) < 200 == len(calm.train_error)
    assert_same_run(calm, dd.fit(X, Y, objective, algorithms["calm"], 200))
    assert result.best is calm


def test_every_run_has_its_own_callbacks():
    stopping = dd.EarlyStopping()
    algorithms = [dd.DecoupledDescent(lr) for lr in (0.05, 0.4, 1.0)]
    result = dd.sweep(X, Y, OBJECTIVE, algorithms, 150, callbacks=[stopping])
    for run, algorithm in zip(result.runs, algorithms, strict=True):
        alone = dd.fit(X, Y, OBJECTIVE, algorithm, 150, callbacks=[dd.EarlyStopping()])
        assert_same_run(run, alone)


def test_halving_drops_the_clearly_worse_and_only_them():
    algorithms = [dd.DecoupledDescent(lr, damping=0.9) for lr in (0.5, 0.45, 0.0, 1e-4)]
    big = dd.mixtures.flipped_classes(100, 6.0, flip=0.05, labels=(0, 1)).sample(300, seed=0)
    result = dd.sweep(*big, OBJECTIVE, algorithms, 64, halving=Halving())
    reasons = [run.stop_reason for run in result.runs]
    assert reasons == [StopReason.STEPS] * 2 + [StopReason.PRUNED] * 2
    assert {len(run.train_error) for run in result.runs[2:]} <= {9, 17, 33}
    assert "behind the leader" in result.runs[2].message
    full = dd.sweep(*big, OBJECTIVE, algorithms, 64)
    assert result.best_index == full.best_index
    for run, alone in zip(result.runs[:2], full.runs[:2], strict=True):
        np.testing.assert_allclose(run.train_error, alone.train_error, rtol=1e-5)


def test_halving_without_rungs_drops_nothing():
    algorithms = [dd.DecoupledDescent(lr, damping=0.9) for lr in (0.5, 0.0)]
    big = dd.mixtures.flipped_classes(100, 6.0, flip=0.05, labels=(0, 1)).sample(300, seed=0)
    for rungs, reason in (
        ((), StopReason.STEPS),
        (None, StopReason.PRUNED),
    ):
        result = dd.sweep(*big, OBJECTIVE, algorithms, 64, halving=Halving(rungs))
        assert result.runs[1].stop_reason is reason


def test_halving_keeps_what_the_standard_error_cannot_tell_apart():
    algorithms = [dd.DecoupledDescent(0.1 + 1e-7 * k) for k in range(8)]
    result = dd.sweep(X, Y, OBJECTIVE, algorithms, 32, halving=Halving(z=1e9))
    assert all(run.stop_reason is StopReason.STEPS for run in result.runs)


def test_table_and_winner():
    algorithms = {"slow": dd.DecoupledDescent(0.01), "fast": dd.DecoupledDescent(0.2, 0.9)}
    result = dd.sweep(X, Y, OBJECTIVE, algorithms, 40, test=TEST)
    table = result.table
    lowest = [float(run.train_error.min()) for run in result.runs]
    assert result.best_index == int(np.argmin(lowest))
    assert table["train_error"].tolist() == pytest.approx(sorted(lowest))
    assert set(table["name"]) == {"slow", "fast"}
    assert set(table["lr"]) == {0.01, 0.2}
    assert table["behind_best"][0] == 0
    assert "best '" in repr(result)
    assert {"damping", "width", "head", "stderr", "test_error", "best_step"} <= set(table)


def test_simplest_prefers_small_heads():
    heads = [dd.heads.TwoLayer(width, seed=0) for width in (6, 2, 4)]
    objectives = [dd.Objective(head, "logistic") for head in heads]
    result = dd.sweep(X, Y, objectives, dd.DecoupledDescent(1e-3), 3, halving=Halving(z=99))
    within = [k for k in range(3) if result.difference(k).mean <= result.difference(k).stderr]
    widths = [len(result.runs[k].theta) for k in within]
    assert len(result.runs[result.simplest()].theta) == min(widths)


def test_theta_for_all_or_one_each():
    start = torch.ones(3, 30, dtype=torch.float64)
    algorithms = [dd.DecoupledDescent(0.1), dd.DecoupledDescent(0.2)]
    shared = dd.sweep(X, Y, OBJECTIVE, algorithms, 2, theta=start)
    assert all(torch.equal(run.best_state.theta, start) or run.best_step for run in shared.runs)
    with pytest.raises(ValueError, match="theta has 3 entries for 1 objectives"):
        dd.sweep(X, Y, OBJECTIVE, algorithms, 2, theta=[start] * 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"algorithms": []}, "at least one objective, one algorithm"),
        ({"steps": 0}, "steps=0"),
        ({"test": (X[:, 1:], Y)}, "test has 29 columns"),
        ({"halving": Halving(), "n_jobs": 2}, "n_jobs=None"),
    ],
)
def test_bad_input(change, message):
    two = [dd.DecoupledDescent(0.1), dd.DecoupledDescent(0.2)]
    arguments = {"objective": OBJECTIVE, "algorithms": two, "steps": 3} | change
    with pytest.raises(ValueError, match=message):
        dd.sweep(X, Y, **arguments)


def test_interrupted_sweep_keeps_what_was_reached():
    def interrupt(step):
        if step.index == 4:
            raise KeyboardInterrupt

    algorithms = [dd.DecoupledDescent(0.1), dd.DecoupledDescent(0.2)]
    result = dd.sweep(X, Y, OBJECTIVE, algorithms, 20, callbacks=[interrupt])
    assert {run.stop_reason for run in result.runs} == {StopReason.INTERRUPTED}
    assert all(4 <= len(run.train_error) <= 5 for run in result.runs)


def test_xor_sweep_picks_mild_damping():
    """Fixed a = 1, snr 4, η₀ ∈ {1, 0.9, 0.8}: the train error chooses 0.9, the test error too."""
    mixture = dd.mixtures.xor(1000, 4.0)
    data, test = mixture.sample(1000, seed=0), mixture.sample(4000, seed=1)
    dampings = {f"{eta:g}": dd.DecoupledDescent(0.05, eta, head_lr=0) for eta in (1, 0.9, 0.8)}
    objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
    result = dd.sweep(*data, objective, dampings, 200, test=test, seed=3)
    assert result.names[result.best_index] == "0.9"
    assert min(result.runs, key=lambda run: float(run.test_error[-1])) is result.best


def test_dask_cluster_gives_the_same_runs():
    distributed = pytest.importorskip("distributed", reason="needs dask[distributed]")
    algorithms = [dd.DecoupledDescent(lr) for lr in (0.05, 0.1, 0.2)]
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        far = dd.sweep(X, Y, OBJECTIVE, algorithms, 10, n_jobs=2)
    near = dd.sweep(X, Y, OBJECTIVE, algorithms, 10)
    for one, other in zip(far.runs, near.runs, strict=True):
        assert_same_run(one, other)


@contextmanager
def separate_workers(count):
    """A Dask scheduler and workers in processes of their own; yields the scheduler's address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    host, port = address.split(":")
    source = os.pathsep.join([str(Path(dd.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    variables = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    scheduler = ["scheduler", "--host", host, "--port", port, "--no-dashboard"]
    worker = ["worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "dask", *command], env=variables, stderr=subprocess.DEVNULL
        )
        for command in (scheduler, *[worker] * count)
    ]
    try:
        yield address
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_separate_dask_workers_give_the_same_runs():
    distributed = pytest.importorskip("distributed", reason="needs dask[distributed]")
    algorithms = [dd.DecoupledDescent(lr) for lr in (0.05, 0.1, 0.2)]
    with (
        separate_workers(2) as address,
        distributed.Client(address, timeout=90) as client,
        joblib.parallel_config(backend="dask"),
    ):
        client.wait_for_workers(2, timeout=90)
        processes = set(client.run(os.getpid).values())
        far = dd.sweep(X, Y, OBJECTIVE, algorithms, 10, n_jobs=2)
    assert len(processes - {os.getpid()}) == 2
    near = dd.sweep(X, Y, OBJECTIVE, algorithms, 10)
    for one, other in zip(far.runs, near.runs, strict=True):
        assert_same_run(one, other)


@pytest.mark.slow
def test_sweep_over_c_picks_the_lowest_test_error():
    """Signal-less regression, η₀ = 1 − η, η₁ = cη: the choice agrees with the exact test error.

    Here the test error of θ is ‖θ‖²/(2d), with no sampling error of its own.
    """
    eta, right = 0.05, 0
    grid = (0.25, 0.5, 0.75, 1.0, 1.25)
    algorithms = [dd.DecoupledDescent(c * eta, 1 - eta) for c in grid]
    objective = dd.Objective(dd.heads.Linear(), "squared")
    for seed in range(100):
        data = dd.mixtures.signalless(800).sample(800, seed=seed)
        result = dd.sweep(*data, objective, algorithms, 60, seed=seed)
        exact = [float(run.best_theta.double().square().mean()) / 2 for run in result.runs]
        chosen, best = result.best_index, int(np.argmin(exact))
        right += chosen == best
        stderr = dd.evaluation.paired_difference(result.losses[chosen], result.losses[best]).stderr
        assert exact[chosen] <= exact[best] + 2 * stderr
    assert right >= 95


def test_sharers_and_loners_go_together():
    algorithms = [
        dd.DecoupledDescent(0.1),
        GreedyDescent.grid(0.1),
        dd.GradientDescent(0.1),
        dd.OrthogonalDecoupledDescent(0.5, damping=0.9),
    ]
    result = dd.sweep(X, Y, OBJECTIVE, algorithms, 12, test=TEST)
    for run, algorithm in zip(result.runs, algorithms, strict=True):
        assert_same_run(run, dd.fit(X, Y, OBJECTIVE, algorithm, 12, test=TEST))


def mixed(steps=60, **options):
    """A sweep in which gradient descent overfits beside two corrected runs."""
    algorithms = {
        "gd": dd.GradientDescent(0.5),
        "slow": dd.DecoupledDescent(0.01, 0.9),
        "dd": dd.DecoupledDescent(0.1, 0.9),
    }
    return dd.sweep(X, Y, OBJECTIVE, algorithms, steps, **options)


def test_gradient_descent_is_never_chosen_beside_corrected_runs():
    result = mixed()
    lowest = {name: run.history.lowest for name, run in zip(result.names, result.runs, strict=True)}
    assert lowest["gd"] < min(lowest["slow"], lowest["dd"])
    alone = dd.sweep(X, Y, OBJECTIVE, [run.algorithm for run in result.runs[1:]], 60)
    assert result.best_index == alone.best_index + 1
    assert result.corrected_error == pytest.approx(alone.corrected_error)
    assert result.simplest() == alone.simplest() + 1
    assert result.difference(0).mean < 0
    assert result.table["name"].tolist() == [
        *sorted(("slow", "dd"), key=lowest.__getitem__),
        "gd",
    ]
    assert "apart" not in result.table


def test_gradient_descent_prunes_no_corrected_run():
    assert StopReason.PRUNED in {run.stop_reason for run in mixed(halving=Halving(z=0)).runs}
    two = {"gd": dd.GradientDescent(0.5), "dd": dd.DecoupledDescent(0.1, 0.9)}
    result = dd.sweep(X, Y, OBJECTIVE, two, 60, halving=Halving(z=0))
    assert {run.stop_reason for run in result.runs} == {StopReason.STEPS}


def test_gradient_descent_competes_with_itself():
    algorithms = [dd.GradientDescent(lr) for lr in (0.01, 0.1)]
    result = dd.sweep(X, Y, OBJECTIVE, algorithms, 20)
    assert result.best.history.lowest == min(run.history.lowest for run in result.runs)


@pytest.mark.parametrize("seed", [np.int64(3), [np.int64(3)], np.array([3]), range(3, 4)])
def test_any_integers_are_seeds(seed):
    result = dd.sweep(X, Y, OBJECTIVE, dd.DecoupledDescent(0.1), 3, seed=seed)
    assert_same_run(result.best, dd.fit(X, Y, OBJECTIVE, dd.DecoupledDescent(0.1), 3, seed=3))


@pytest.mark.parametrize("seed", [None, 1.5, "ab", [0, None]])
def test_what_is_no_seed(seed):
    with pytest.raises(ValueError, match=r"seed=.* must be a whole number, or several in a list"):
        dd.sweep(X, Y, OBJECTIVE, dd.DecoupledDescent(0.1), 3, seed=seed)


def test_an_option_left_to_its_default_is_named_too():
    algorithms = [dd.DecoupledDescent(0.1), dd.DecoupledDescent(0.1, head_lr=0.2)]
    result = dd.sweep(X, Y, OBJECTIVE, algorithms, 2)
    assert result.names == ("head_lr=None", "head_lr=0.2")


def test_the_winner_is_no_way_behind_itself():
    result = dd.sweep(X, Y, OBJECTIVE, [dd.DecoupledDescent(lr) for lr in (0.1, 0.2)], 3)
    assert result.difference(result.best_index).z == 0.0


def cut(index):
    """A callback that ends the whole sweep at a step; worker processes get it by value."""

    def end(step):
        if step.index == index:
            raise InterruptedError

    return end


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("halving", [None, Halving(rungs=(4,), z=0.0)])
def test_a_sweep_cut_short_continues_bit_for_bit(tmp_path, n_jobs, halving):
    if n_jobs and halving:
        pytest.skip("halving needs one stack")
    algorithms = {"a/b": dd.DecoupledDescent(0.05), "c": dd.OrthogonalDecoupledDescent(0.3)}
    options = {"seed": [0, 1], "halving": halving, "n_jobs": n_jobs}
    rule, often = dd.EarlyStopping(patience=2, start=3), dd.Checkpoint(tmp_path, every=2)

    def call(*callbacks, **more):
        told = [rule, *callbacks]
        return dd.sweep(X, Y, OBJECTIVE, algorithms, 12, callbacks=told, **options, **more)

    complete = call()
    with pytest.raises(InterruptedError):
        call(cut(7), checkpoint=often)
    for _ in range(2):
        result = call(checkpoint=often)
        assert result.names == complete.names
        for run, other in zip(result.runs, complete.runs, strict=True):
            assert (run.history, run.message) == (other.history, other.message)
            torch.testing.assert_close(run.state, other.state, rtol=0, atol=0)
            torch.testing.assert_close(run.best_losses, other.best_losses, rtol=0, atol=0)
    if n_jobs is None:
        call(cut(0), checkpoint=often)  # nothing is trained again
        algorithms["a/b"] = dd.DecoupledDescent(0.06)
        with pytest.raises(ValueError, match=r"configurations.0.algorithm.lr was 0.05 and is now"):
            call(checkpoint=often)


def test_another_default_device_changes_nothing():
    algorithms = [dd.DecoupledDescent(lr) for lr in (0.1, 0.05)]
    wanted = dd.sweep(X, Y, OBJECTIVE, algorithms, 8, halving=Halving())
    with torch.device("meta"):
        result = dd.sweep(X, Y, OBJECTIVE, algorithms, 8, halving=Halving())
        corrected = result.corrected_error
    assert corrected == wanted.corrected_error
    assert torch.equal(result.best.theta, wanted.best.theta)


def test_shown_in_notebooks():
    algorithms = {"slow & small": dd.DecoupledDescent(0.01), "fast": dd.DecoupledDescent(0.1)}
    result = dd.sweep(X, Y, OBJECTIVE, algorithms, 5)
    shown = result._repr_html_()
    assert shown.startswith(
        f"<p>Sweep(2 configurations, best &#x27;{result.names[result.best_index]}"
    )
    assert shown.count("<tr>") == 2  # and one with a style, for the names of the columns
    assert "slow &amp; small" in shown
