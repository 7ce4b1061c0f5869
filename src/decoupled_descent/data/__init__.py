"""Data: Gaussian mixtures to sample from, and rows to train on."""
