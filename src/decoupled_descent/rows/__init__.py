"""The training rows: blocks, products, the Gram matrix."""
