"""The folder of real data sets, for tests marked ``data``."""

import os
from pathlib import Path

import pytest


def real_data(name):
    """The folder named by DECOUPLED_DATA, or a skip when it does not hold ``name``."""
    folder = os.environ.get("DECOUPLED_DATA")
    if not folder:
        pytest.skip(f"needs {name}: set DECOUPLED_DATA to the folder that holds it")
    if not (Path(folder) / name).exists():
        pytest.skip(f"needs {name}, which is not in DECOUPLED_DATA={folder}")
    return Path(folder)
