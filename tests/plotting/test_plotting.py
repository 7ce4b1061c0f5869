"""The names that the package exports, and what importing them costs."""

import subprocess
import sys

from decoupled_descent import plotting
from decoupled_descent.plotting import runs, style, theory


def test_names():
    for name in plotting.__all__:
        homes = [home for home in (runs, style, theory) if hasattr(home, name)]
        assert homes
        assert all(getattr(home, name) is getattr(plotting, name) for home in homes)


def test_importing_does_not_import_matplotlib():
    code = "import sys, decoupled_descent.plotting; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
