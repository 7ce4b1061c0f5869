"""Losses as independent values: what several processes have is what one has."""

import torch

from decoupled_descent.rows.averages import unit_values


def test_parts_of_the_rows_give_the_values_of_all():
    generator = torch.Generator().manual_seed(0)
    losses, weights = torch.rand(2, 12, dtype=torch.float64, generator=generator)
    groups = torch.arange(12) % 5
    whole = unit_values(losses, weights, groups)
    mean, mean_weight = weights @ losses / weights.sum(), weights.mean()
    parts = [
        unit_values(losses[some], weights[some], groups[some], mean, mean_weight, 12) - mean
        for some in (slice(0, 7), slice(7, 12))
    ]
    torch.testing.assert_close(parts[0] + parts[1] + mean, whole)
    torch.testing.assert_close(whole.mean(), mean)
    assert unit_values(losses) is losses
