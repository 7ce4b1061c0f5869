"""The model without columns: shares of classes, and files."""

import numpy as np
import pytest
import torch

from decoupled_descent.tables.members.constant import Constant, ConstantRecipe
from decoupled_descent.tables.members.interface import TableSize
from tests.tables.members.problems import table


@pytest.mark.parametrize(("kind", "outputs"), [("logistic", 1), ("cross_entropy", 3)])
def test_shares_of_the_classes(kind, outputs):
    given = table(kind, outputs=outputs)
    weights = torch.linspace(1.0, 2.0, len(given.y)).double()
    (fit,) = ConstantRecipe().train(given._replace(weights=weights), 0)
    classes = given.classes.numpy()
    expected = [
        weights.numpy()[classes == one].sum() / float(weights.sum()) for one in range(given.width)
    ]
    np.testing.assert_allclose(fit.model.shares, expected, rtol=1e-12)
    np.testing.assert_allclose(fit.predictions, np.tile(expected, (len(given.y), 1)), rtol=1e-12)
    assert fit.model.predict(given.X[:4]).shape == (4, given.width)
    assert fit.is_reference
    assert not fit.excess.any()


def test_a_class_without_rows_has_share_zero():
    given = table("cross_entropy", outputs=3)
    (fit,) = ConstantRecipe().train(given._replace(y=given.y % 2), 0)
    assert fit.model.shares[2] == 0.0


def test_numbers_have_none():
    assert ConstantRecipe().train(table("squared"), 0) == []
    assert not ConstantRecipe().suits(TableSize(100, 5, 1, has_classes=False))
    assert ConstantRecipe().suits(TableSize(100, 5, 1, has_classes=True))


def test_files():
    given = table("cross_entropy", outputs=3)
    model = ConstantRecipe().train(given, 0)[0].model
    settings, tensors = model.state()
    again = Constant.restore(settings, tensors, 3)
    torch.testing.assert_close(again.predict(given.X), model.predict(given.X), rtol=0, atol=0)
    with pytest.raises(ValueError, match="no intervals"):
        model.changes(None, None)
