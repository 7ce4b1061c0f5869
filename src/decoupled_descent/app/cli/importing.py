"""Quicker imports for a process that runs one command.

Half of the time of a small training was not spent on it: Python's garbage collector searched the
modules again and again while they were imported, and once more at the end, and scikit-learn
imports ``scipy.stats``, which a training does not use.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

#: Modules that scikit-learn imports at once, and what it takes from them at that time. If another
#: version takes more, the module is imported at once, as without this table.
SELDOM: Mapping[str, Sequence[str]] = {"scipy.stats": ("rankdata", "gmean", "spearmanr", "chi2")}


class Later:
    """A function or an object of a module, which is looked up when it is used."""

    def __init__(self, name: str, look_up: Callable[[str], Any]) -> None:
        self._name, self._look_up = name, look_up

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Call it."""
        return self._look_up(self._name)(*given, **named)

    def __getattr__(self, attribute: str) -> Any:
        """An attribute of it."""
        return getattr(self._look_up(self._name), attribute)


@contextmanager
def imports(seldom: Mapping[str, Sequence[str]] = {}) -> Iterator[None]:
    """In this block, modules are imported. They are no garbage, so nothing looks for some.

    Afterwards garbage is collected as before, but not among the modules. The modules of ``seldom``
    are put off.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        for name, taken in seldom.items():
            put_off(name, taken)
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


def put_off(name: str, taken: Sequence[str] = ()) -> None:
    """Let the first use of a module import it, instead of its first ``import``.

    What is ``taken`` from it can be imported, and is looked up when it is used.

    Example:
        >>> import sys
        >>> put_off("scipy.datasets", ["face"])
        >>> from scipy.datasets import face
        >>> "scipy.datasets._fetchers" in sys.modules
        False
        >>> from scipy.datasets import ascent
        >>> "scipy.datasets._fetchers" in sys.modules
        True
    """
    if name in sys.modules:
        return
    spec = importlib.util.find_spec(name)
    if spec is None:
        return
    stand_in = ModuleType(name)
    stand_in.__spec__, stand_in.__loader__ = spec, spec.loader
    if spec.submodule_search_locations is not None:
        stand_in.__path__ = spec.submodule_search_locations

    def of_the_module(attribute: str) -> Any:
        if attribute.startswith("__"):  # asked of all modules, for example by ``inspect``
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]
        return getattr(importlib.import_module(name), attribute)

    stand_in.__dict__.update({one: Later(one, of_the_module) for one in taken})
    stand_in.__dict__["__getattr__"] = of_the_module
    sys.modules[name] = stand_in
