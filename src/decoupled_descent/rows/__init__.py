"""The training rows: blocks, products, the Gram matrix."""

from decoupled_descent.rows.blocks import Rows

__all__ = ["Rows"]
