"""The names of the methods belong to algorithms."""

from decoupled_descent.method_names import AT_MINIMUM, BY_DESCENT, METHOD_NAMES, SETTINGS
from decoupled_descent.training.sweeps.methods import BUILDERS


def test_every_name_has_an_algorithm_and_known_settings():
    assert list(METHOD_NAMES) == list(BUILDERS)
    for about in METHOD_NAMES.values():
        assert set(about.settings) <= set(SETTINGS)
    assert METHOD_NAMES[AT_MINIMUM].minimises
    assert not METHOD_NAMES[BY_DESCENT].minimises
