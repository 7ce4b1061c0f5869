"""The number of threads: one for small matrices, the caller's for large ones, and set back."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.rows.threads import ENOUGH, FETCHING, one_thread, threads_for
from tests.problems import binary, two_layer


@pytest.fixture(autouse=True)
def three():
    """A caller who wants three threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def numbers() -> tuple[int, int]:
    """The threads that PyTorch's own routines take, and MKL's."""
    actual = re.search(r"mkl_get_max_threads\(\) : (\d+)", torch.__config__.parallel_info())
    return torch.get_num_threads(), int(actual[1]) if actual else torch.get_num_threads()


@pytest.mark.parametrize("width", [1, 8, 27])
def test_the_size_decides(width):
    least = -(-ENOUGH // (FETCHING + width))
    with threads_for(least, width):
        assert numbers() == (3, 3)
    with threads_for(least - 1, width):
        assert numbers() == (1, 1)
    assert numbers() == (3, 3)


def test_the_number_is_set_back_after_errors_and_inside_each_other():
    def interrupted():
        with one_thread():
            with one_thread():
                assert numbers() == (1, 1)
            assert numbers() == (1, 1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert numbers() == (3, 3)


def test_a_number_that_is_set_inside_stays():
    with one_thread():
        torch.set_num_threads(2)
    assert numbers() == (2, 2)


def test_other_threads_of_python_keep_theirs():
    entered, seen = threading.Barrier(2), threading.Barrier(2)

    def small():
        with one_thread():
            entered.wait()
            seen.wait()
            return numbers()

    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        inside = first.submit(small)
        entered.wait()
        assert numbers() == (3, 3)
        assert second.submit(numbers).result() == (3, 3)  # a thread that begins meanwhile
        seen.wait()
        assert inside.result() == (1, 1)
        assert first.submit(numbers).result() == (3, 3)
    assert numbers() == (3, 3)


def test_a_thread_of_python_that_begins_inside_has_the_callers_number():
    with one_thread(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(numbers).result() == (3, 3)


def small_fits(seed: int) -> list[torch.Tensor]:
    """A run, a sweep and a model: all numbers that come of them."""
    X, y = binary(60, 40, seed)
    objective = two_layer(3)
    run = dd.fit(X, y, objective, dd.DecoupledDescent(0.05, 0.9), 20)
    dampings = [dd.OrthogonalDecoupledDescent(0.1, damping) for damping in (0.9, 0.8)]
    actual = dd.sweep(X, y, objective, dampings, 10)
    model = dd.DecoupledClassifier(features="linear").fit(X.numpy(), y.numpy())
    chances = torch.from_numpy(model.predict_proba(X.numpy()))
    return [run.train_error, run.theta, *(one.theta for one in actual.runs), chances]


def test_fits_at_the_same_time_are_those_alone_and_leave_the_number():
    torch.set_num_threads(1)
    alone = [small_fits(seed) for seed in range(3)]
    torch.set_num_threads(3)
    with ThreadPoolExecutor(3) as pool:
        beside = list(pool.map(small_fits, range(3)))
        after = list(pool.map(lambda _: numbers(), range(6)))
    for one, other in zip(alone, beside, strict=True):
        assert all(map(torch.equal, one, other))
    assert set(after) == {(3, 3)}
    assert numbers() == (3, 3)


def test_callbacks_see_the_choice():
    seen = []
    for n, d in ((50, 20), (2000, 2000)):
        X, y = torch.randn(n, d) / d**0.5, torch.zeros(n)
        objective = dd.Objective(dd.heads.Linear(), "squared")
        dd.fit(
            X, y, objective, dd.GradientDescent(0.01), 1, callbacks=lambda _: seen.append(numbers())
        )
    assert seen == [(1, 1), (3, 3)]
