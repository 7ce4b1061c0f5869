"""The names that the package exports."""

from decoupled_descent import plotting
from decoupled_descent.plotting import runs, style, theory


def test_names():
    for name in plotting.__all__:
        homes = [home for home in (runs, style, theory) if hasattr(home, name)]
        assert homes
        assert all(getattr(home, name) is getattr(plotting, name) for home in homes)
