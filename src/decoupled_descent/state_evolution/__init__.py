"""State evolution: training in the limit of many samples and many features."""
