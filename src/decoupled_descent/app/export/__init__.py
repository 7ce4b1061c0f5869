"""Models for use without PyTorch: a file of NumPy code and a file of numbers."""
