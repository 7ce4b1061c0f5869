"""Feature maps of rows, which use no labels, and ridge regressions on their features.

:class:`Kernel` has linear features and those of a kernel, :class:`Transformed` those of a
scikit-learn transformer. :func:`as_features` makes them from names, :func:`fit_all` fits several to
the same rows, and :func:`restore` makes a map again from a file. :class:`RidgePath` leaves every
row out of the ridge regressions on such features.
"""

from decoupled_descent.tables.features.candidates import as_features, fit_all, restore
from decoupled_descent.tables.features.interface import Features
from decoupled_descent.tables.features.kernel_map import Kernel
from decoupled_descent.tables.features.ridge_path import RidgePath
from decoupled_descent.tables.features.transformed import Transformed

__all__ = [
    "Features",
    "Kernel",
    "RidgePath",
    "Transformed",
    "as_features",
    "fit_all",
    "restore",
]
