"""``fit``, the training loop, callbacks, stopping and checkpoints."""

from decoupled_descent.training.callbacks import Step, StopReason

__all__ = ["Step", "StopReason"]
