"""Scripts of ``studies`` as modules: they know where real rows come from."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[2] / "studies"


@cache
def study(name: str) -> ModuleType:
    """Import a script of ``studies`` by its name."""
    spec = importlib.util.spec_from_file_location(f"studies_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up
    spec.loader.exec_module(module)
    return module
