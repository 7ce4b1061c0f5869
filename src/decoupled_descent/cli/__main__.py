"""``python -m decoupled_descent.cli``."""

from decoupled_descent.cli import main

if __name__ == "__main__":
    main()
