"""Members by name, and from files."""

import pytest

from decoupled_descent.tables.members.catalogue import RECIPES, as_recipes, restore_member
from decoupled_descent.tables.members.growing import FORESTS, grow_forest
from tests.tables.members.problems import table


def test_names():
    assert [one.name for one in as_recipes("auto", True)] == list(RECIPES)
    assert as_recipes("auto", False) == []
    assert as_recipes(["extra trees"], False) == [FORESTS[1]]


@pytest.mark.parametrize("spec", ["forest", None, 3])
def test_other_things_are_refused(spec):
    with pytest.raises(ValueError, match="members="):
        as_recipes(spec, True)


def test_unknown_members_are_refused():
    with pytest.raises(ValueError, match="members has 'oak'"):
        as_recipes(["oak"], True)


def test_files():
    forest = grow_forest(table(), FORESTS[0], 0).model
    settings, tensors = forest.state()
    assert restore_member(settings, tensors, 2).name == "random forest"
    with pytest.raises(ValueError, match="does not exist"):
        restore_member(settings | {"kind": "oak"}, tensors, 2)


def test_a_forest_that_is_named_is_grown():
    """The other members leave nothing to it, so the default mixture does not finish it."""
    given = table("logistic", n=200)
    given = given._replace(mixed=0.98 * given.targets + 0.01)
    assert as_recipes("auto", True)[0].train(given, 0) == []
    (fit,) = as_recipes(["random forest"], True)[0].train(given, 0)
    assert fit.model.name == "random forest"
