"""Warnings of one thread are left out; fits in several threads do not wait for each other."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge

import decoupled_descent as dd
from decoupled_descent.quiet import ignoring
from tests.tables.estimators.problems import real

FITS = 8


def test_one_thread_leaves_out_what_another_shows():
    both = threading.Barrier(2, timeout=30)

    def quiet():
        with ignoring(UserWarning):
            both.wait()
            warnings.warn("noise of one", UserWarning, stacklevel=1)
            both.wait()

    def loud():
        both.wait()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.warn("noise of another", UserWarning, stacklevel=1)
        both.wait()
        return [str(one.message) for one in caught]

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(quiet), pool.submit(loud)
        first.result()
        assert second.result() == ["noise of another"]


def test_only_the_category_is_left_out():
    with ignoring(UserWarning):
        warnings.warn("noise", UserWarning, stacklevel=1)
        with pytest.warns(RuntimeWarning, match="noise"):
            warnings.warn("noise", RuntimeWarning, stacklevel=1)
    with pytest.warns(UserWarning, match="noise"):
        warnings.warn("noise", UserWarning, stacklevel=1)


class Meeting(RegressorMixin, BaseEstimator):
    """A ridge regression; the first fit of each thread waits until all threads fit one."""

    barrier, met = threading.Barrier(FITS, timeout=120), threading.local()

    def fit(self, X, y):
        if not hasattr(self.met, "once"):
            self.met.once = self.barrier.wait()
        warnings.warn("noise", UserWarning, stacklevel=1)
        self.model_ = Ridge().fit(X, y)
        return self

    def predict(self, X):
        return self.model_.predict(X)


def test_fits_in_threads_hold_no_lock_and_are_those_of_one_thread():
    """A refit of ``evaluate`` waits for seven others: with a lock none of them would end."""
    problems = [real(30, seed=seed) for seed in range(FITS)]

    def error(problem):
        X, y = problem
        meeting = Meeting()
        meeting.model_ = Ridge().fit(X, y)
        evaluation = dd.evaluate(meeting, X, y, refits=2)
        model = dd.DecoupledRegressor(features="linear").fit(X, y)
        return evaluation.error, model.estimated_test_error_

    with ThreadPoolExecutor(FITS) as pool:
        together = list(pool.map(error, problems))
    Meeting.met.once = True
    np.testing.assert_array_equal(together, [error(one) for one in problems])
