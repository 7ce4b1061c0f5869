"""The training rows: blocks, products, the Gram matrix; features and their ridge regressions."""

from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.candidates import as_features, fit_all
from decoupled_descent.rows.features import Kernel, restore
from decoupled_descent.rows.interface import Features
from decoupled_descent.rows.ridge_path import RidgePath
from decoupled_descent.rows.transformed import Transformed

__all__ = [
    "Features",
    "Kernel",
    "RidgePath",
    "Rows",
    "Transformed",
    "as_features",
    "fit_all",
    "restore",
]
