"""An estimate as people see it."""

from decoupled_descent.evaluation.estimate import Estimate


def test_an_estimate_is_words_and_a_number():
    found = Estimate(0.5, 0.1, (0.3, 0.7), "accuracy", 10, "caution", ("Few rows.",))
    assert str(found) == "accuracy 0.5 ± 0.1 (caution)"
    assert float(found) == 0.5
