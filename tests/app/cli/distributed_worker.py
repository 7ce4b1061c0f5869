"""What a process of test_distributed.py does: ``decoupled``, killed in the middle once.

``python distributed_worker.py MARK train …`` with the variables that torchrun sets. The process of
rank 1 kills itself in its third fit, unless the file MARK says that it did so before.
"""

import os
import signal
import sys
from pathlib import Path

from decoupled_descent.app import cli
from decoupled_descent.tables.search import ridge_fits


def main(mark):
    """Run the command with the arguments after MARK."""
    whole, made = ridge_fits.fit, []

    def fit(*arguments, **options):
        made.append(None)
        if os.environ["RANK"] == "1" and len(made) == 3 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(*arguments, **options)

    ridge_fits.fit = fit
    cli.main()


if __name__ == "__main__":  # pytest imports all modules for their doctests
    main(Path(sys.argv.pop(1)))
