"""Callbacks: one or several, what is no callback, and reasons to stop."""

import pytest

import decoupled_descent as dd
from decoupled_descent.training.callbacks import StopReason, as_callbacks


def test_reasons_read_as_sentences():
    assert f"{StopReason.CALLBACK} at step 3" == "stopped by a callback at step 3"


def test_one_callback_or_several():
    assert as_callbacks(print) == as_callbacks([print]) == as_callbacks((print,)) == [print]
    assert as_callbacks(()) == []


@pytest.mark.parametrize("given", [None, [None], "print", 3])
def test_what_is_no_callback(given):
    with pytest.raises(ValueError, match=r"callbacks has .*; each must be a function of a Step"):
        as_callbacks(given)


def test_a_class_in_place_of_an_object_is_an_error():
    with pytest.raises(ValueError, match=r"class EarlyStopping; pass an object, EarlyStopping\(\)"):
        as_callbacks(dd.EarlyStopping)
    with pytest.raises(ValueError, match="class EarlyStopping"):
        as_callbacks([lambda step: None, dd.EarlyStopping])
