"""The training rows: blocks, sources, products, the Gram matrix, several processes."""

from decoupled_descent.rows.blocks import Rows

__all__ = ["Rows"]
