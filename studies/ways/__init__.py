"""Ways to get a wrong number, one small function each, for ``studies/battery.py``."""
