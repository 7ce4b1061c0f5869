"""The command ``decoupled``.

:func:`main` handles signals before it imports anything else, so that Ctrl-C ends the command with
one line from the first moment on.
"""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command; bad input gives one line on standard error and exit status 2."""
    from decoupled_descent.app.cli import signals, streams

    signals.take()
    streams.open_streams()
    try:
        from decoupled_descent.app.cli.importing import imports

        with imports():
            from decoupled_descent.app.cli.command import answer

        status = answer(sys.argv[1:])
    except BaseException as error:
        if isinstance(error, SystemExit) or not signals.interrupted():
            raise
        # while modules were imported, or while another interruption was answered
        sys.stderr.write("interrupted\n")
        status = signals.INTERRUPTED
    finally:
        signals.leave()
        gc.freeze()  # the process ends: nothing needs to be collected any more
    sys.exit(status)
