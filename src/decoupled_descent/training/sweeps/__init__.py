"""Many runs on the same rows: sweeps, and rates chosen by the train error."""

from decoupled_descent.training.sweeps.sweep import Halving, Sweep

__all__ = ["Halving", "Sweep"]
