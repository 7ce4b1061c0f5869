"""Which class is the case."""

import pytest

from decoupled_descent.app.files.positive import positive_class


@pytest.mark.parametrize(
    ("labels", "positive"),
    [
        (["case", "control"], "case"),
        (["No", "Yes", "Yes", "Yes", "Yes"], "Yes"),
        ([0, 1, 1, 1], "1"),
        ([False, True], "True"),
        (["healthy", "ill"], "ill"),
        (["healthy", "thin"], "thin"),  # the other one is no case
        (["a", "b"], "b"),
        (["a", "b", "b", "b"], "a"),  # the rare one
        (["a", "b", "c"], ""),
        (["yes", "true"], "yes"),
    ],
)
def test_names(labels, positive):
    assert positive_class(labels) == positive


def test_the_class_that_is_named():
    assert positive_class(["a", "b"], "a") == "a"
    with pytest.raises(ValueError, match="--positive 'C' is no class; there are 'a', 'b'"):
        positive_class(["a", "b"], "C")
    with pytest.raises(ValueError, match="for two classes; the target has 3"):
        positive_class(["a", "b", "c"], "a")
