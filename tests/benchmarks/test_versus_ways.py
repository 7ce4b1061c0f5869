"""Hold-out and cross-validation around any learner, and the record of a measurement."""

from dataclasses import dataclass

import numpy as np
import pytest

from benchmarks.versus.ways import Draw, common_ways, cross_validation, hold_out, lowest, measure


@dataclass(frozen=True)
class Levels:
    """Three candidates: the mean of the training labels, shifted."""

    level: float
    shifts: tuple[float, ...]

    def losses(self, X, y):
        return np.array([(y - self.level - shift) ** 2 for shift in self.shifts])

    def pick(self, index):
        return lambda X, y: (y - self.level - self.shifts[index]) ** 2


def train(X, y, last=None):
    return Levels(float(y.mean()), (2.0, 0.0, -1.0)[: None if last is None else last + 1])


X, Y = np.zeros((20, 1)), np.arange(20.0) % 7


def test_hold_out_keeps_the_model_of_the_other_rows():
    answer = hold_out(train, 0.25)(X, Y)
    rest, held = Y[:15], Y[15:]
    losses = [np.mean((held - rest.mean() - shift) ** 2) for shift in (2.0, 0.0, -1.0)]
    best = int(np.argmin(losses))
    assert answer.estimate == pytest.approx(losses[best])
    shift = (2.0, 0.0, -1.0)[best]
    np.testing.assert_allclose(answer.losses(X, Y), (Y - rest.mean() - shift) ** 2)


def test_literal_leave_one_out_against_its_formula():
    answer = cross_validation(train, None)(X, Y)
    wanted = ((Y - Y.mean()) * 20 / 19) ** 2  # a mean without the row
    assert answer.estimate == pytest.approx(wanted.mean())
    assert answer.stderr == pytest.approx(wanted.std(ddof=1) / 20**0.5)
    np.testing.assert_allclose(answer.losses(X, Y), (Y - Y.mean()) ** 2)  # refitted on all rows


def test_folds_use_every_row_once():
    seen = []

    def watching(X, y, last=None):
        seen.append(len(y))
        return train(X, y, last)

    cross_validation(watching, 5)(X, Y)
    assert seen == [16] * 5 + [20]


def test_candidates_that_blew_up_and_rows_that_cannot_be_judged():
    assert lowest(np.array([[np.inf, 1.0], [3.0, np.nan], [4.0, 4.0]])) == 1


def test_a_measurement_has_the_truth_from_other_rows():
    ways = common_ways(train, literal=True)
    assert list(ways)[-1] == "leave-one-out"
    found = measure(ways["10-fold"], Draw(X, Y, np.zeros((3, 1)), np.array([1.0, 2.0, 9.0])))
    assert found["test"] == pytest.approx(np.mean((np.array([1, 2, 9]) - Y.mean()) ** 2))
    assert found["seconds"] >= 0
    assert found["test_sd"] == pytest.approx(found["test_se"] * 3**0.5)
