"""What Newton's method minimises, and what it says of itself."""

import numpy as np
import pytest
import torch

from tests.leave_one_out.test_minimise import posed
from tests.problems import normal


def test_slopes_of_many_versions_of_the_rows():
    for loss, outputs in (("logistic", 1), ("cross_entropy", 3)):
        at = posed(loss, outputs)
        versions = normal(outputs, 40, 4, seed=3)
        for span in (slice(0, 40), slice(7, 19)):
            result = at.slopes(versions[:, span], span)
            for s in range(4):
                expected = at.expand(versions[:, :, s].T).slope.T[:, span]
                torch.testing.assert_close(result[:, :, s], expected)


def test_what_a_problem_says_of_itself():
    weights = np.linspace(1, 2, 40)
    at = posed("squared", weights=weights)
    assert at.quadratic
    assert at.intercept
    assert at.total == pytest.approx(60)
    assert at.classes is None
    assert torch.equal(posed("logistic").classes, posed("logistic").rows.y.long())
    assert not posed("logistic").quadratic
    assert not posed("logistic", intercept=False).intercept
