import decoupled_descent as dd
from decoupled_descent import theory
from decoupled_descent.theory import taylor


def test_everything_public_is_there():
    assert {"StateEvolution", "MixtureLimit", "fixed_point", "taylor_terms"} < set(theory.__all__)
    for name in theory.__all__:
        assert getattr(theory, name).__doc__


def test_every_name_is_in_the_overview():
    for name in theory.__all__:
        assert f"`{name}`" in theory.__doc__, name


def test_names_are_the_same_objects():
    assert theory.StateEvolution is dd.StateEvolution
    assert theory.taylor_terms is taylor.taylor_terms
    assert dd.theory is theory
