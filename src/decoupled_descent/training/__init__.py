"""``fit``, the training loop, callbacks, stopping and checkpoints."""
