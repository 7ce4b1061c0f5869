"""Ctrl-C and SIGTERM end a command in order and with one line; SIGTERM ends it in any case.

An exception that a signal raises can be lost: in a destructor, in a library that catches
everything, or while a long computation in C does not come back to Python. SIGTERM is therefore
repeated, and at last the process leaves at once. This module is imported before all others of the
command, so it imports little.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import time

TYPE_CHECKING = False  # type checkers take a variable of this name as true
if TYPE_CHECKING:
    from types import FrameType

#: The exit status after a signal is this plus the signal's number, as shells define it.
STATUS = 128
#: The exit status after Ctrl-C.
INTERRUPTED = STATUS + signal.SIGINT
#: Signals that end the process, where the system has them; SIGHUP: the terminal was closed.
ENDING = tuple(getattr(signal, one) for one in ("SIGTERM", "SIGHUP") if hasattr(signal, one))
#: Seconds until SIGTERM is repeated, and how often it is. With the seconds before the process
#: leaves at once they are less than the ten after which most service managers kill.
PAUSE, TIMES = 3.0, 2
#: Seconds until a signal is repeated whose exception was raised in a destructor: long enough for
#: the main thread of a busy machine to be outside of it, or the repetition would be lost as well.
SOON = 0.5


class SignalState:
    """What has happened to the process so far."""

    came = 0  # the last signal
    postponed = False  # whether signals wait for the end of a block
    leaving = False  # whether the command is over


def take() -> None:
    """Handle signals from now on; those that the parent process ignores stay ignored."""
    SignalState.came, SignalState.leaving = 0, False
    try:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _raise)
        for number in ENDING:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _raise)
    except ValueError:  # only the main thread can
        return
    sys.unraisablehook = _lost
    if os.name == "posix":
        notice, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)  # written to at once, even in C
        os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
        _thread.start_new_thread(_watch, (notice, _thread.get_ident()))


def leave() -> None:
    """The command is over: signals raise nothing any more, and Ctrl-C ends the process at once."""
    SignalState.leaving = True
    if signal.getsignal(signal.SIGINT) is _raise:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _clean()


def interrupted() -> bool:
    """Whether Ctrl-C was pressed."""
    return SignalState.came == signal.SIGINT


class Postponed:
    """Signals wait for the end of this block, whose steps are quick and belong together.

    Example:
        >>> with Postponed():
        ...     done = ["one file", "and the other"]
    """

    def __enter__(self) -> None:
        SignalState.came, SignalState.postponed = 0, True

    def __exit__(self, *_: object) -> None:
        SignalState.postponed = False
        if SignalState.came:
            _raise(SignalState.came)


def _raise(number: int, _: FrameType | None = None) -> None:
    """Turn a signal into an exception."""
    SignalState.came = number
    if SignalState.postponed or SignalState.leaving:
        return
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(STATUS + number)


def _lost(unraisable: sys.UnraisableHookArgs) -> None:
    """Repeat a signal whose exception cannot be raised, because it came in a destructor."""
    if SignalState.came and issubclass(unraisable.exc_type, KeyboardInterrupt | SystemExit):
        if not SignalState.leaving:
            _thread.start_new_thread(_repeat, (SignalState.came, SOON, _main()))
    else:
        sys.__unraisablehook__(unraisable)


def _main() -> int:
    """The identifier of the main thread."""
    import threading

    return threading.main_thread().ident or 0


def _repeat(number: int, pause: float, thread: int) -> None:
    """Send a signal to a thread of this process after a pause."""
    time.sleep(pause)
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(thread, number)
    else:
        _thread.interrupt_main(signal.Signals(number))


def _watch(notice: int, thread: int) -> None:
    """Wait for a signal that ends the process, repeat it, and leave at last."""
    number = 0
    while number not in ENDING:
        number = os.read(notice, 1)[0]
    for _ in range(TIMES):
        _repeat(number, PAUSE, thread)
    time.sleep(PAUSE)
    _clean()
    os._exit(STATUS + number)


def _clean() -> None:
    """Remove the temporary files that are left, if any were made."""
    files = sys.modules.get("decoupled_descent.files")
    if files is not None:
        files.remove_unfinished()
