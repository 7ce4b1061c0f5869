"""``python -m decoupled_descent.app.cli``."""

from decoupled_descent.app.cli import main

if __name__ == "__main__":
    main()
