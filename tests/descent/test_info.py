"""What a step shows."""

import math

import pytest
import torch

from decoupled_descent.descent.info import Info, LimitStep


def test_info_summarises_the_losses():
    losses = torch.tensor([1.0, 2.0, 6.0])
    info = Info(losses, torch.zeros(3, 1), None)
    assert info.train_error == 3.0
    assert info.train_error_stderr == pytest.approx((7 / 3) ** 0.5)


def test_pairs_of_rows_add_to_the_standard_error():
    losses = torch.tensor([1.0, 2.0, 6.0])
    info = Info(losses, torch.zeros(3, 1), None, pairs=torch.tensor(2.0))
    assert info.train_error_stderr == pytest.approx((7 / 3 + 2) ** 0.5)
    for nothing in (-1.0, math.inf, math.nan):  # rounding, or a run that explodes
        assert info._replace(pairs=nothing).train_error_stderr == pytest.approx((7 / 3) ** 0.5)


def test_rows_of_all_processes_replace_those_of_this_one():
    info = Info(torch.ones(3), torch.zeros(3, 1), None, global_error=torch.tensor([4.0, 0.5]))
    assert (info.train_error, info.train_error_stderr) == (4.0, 0.5)


@pytest.mark.parametrize(
    ("options", "uses"),
    [({}, False), ({"divergence_free": True}, True), ({"hessian_damping": 0.1}, True)],
)
def test_which_limits_depend_on_the_jacobian(options, uses):
    assert LimitStep(**options).uses_jacobian is uses
