"""Figures of runs and sweeps, in one style."""
