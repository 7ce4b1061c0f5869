"""Many runs on the same rows: sweeps, architectures, and rates chosen by the train error."""

from decoupled_descent.training.sweeps.sweep import Halving, Sweep, select_architecture

__all__ = ["Halving", "Sweep", "select_architecture"]
