"""The objective Ψ(h, y, a) and all its derivatives."""
