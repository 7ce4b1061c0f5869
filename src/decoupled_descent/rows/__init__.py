"""The training rows: blocks, sources, products, the Gram matrix, several processes."""

from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.processes import ProcessLostError

__all__ = ["ProcessLostError", "Rows"]
