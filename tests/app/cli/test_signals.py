"""Signals end a command in order, with one line, and always."""

import signal
import subprocess
import sys

import pytest

from decoupled_descent.app.cli import signals

pytestmark = pytest.mark.skipif(
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
    reason="Ctrl-C is ignored here, as in the background of a script, and programs inherit that",
)
#: A command that handles signals, and says when it does.
START = """
import os, signal, sys, time
from decoupled_descent import files
from decoupled_descent.app.cli import signals
signals.PAUSE = 0.3
signals.take()
def ready():
    print("ready", flush=True)
"""


def ended(body, number, wait=60.0):
    """Send a signal to a program when it is ready; its status and what it wrote to stderr."""
    program = START + body
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout.readline() == "ready\n"
        running.send_signal(number)
        try:
            _, err = running.communicate(timeout=wait)
        finally:
            running.kill()
    return running.returncode, err


def test_the_status_is_that_of_shells():
    assert ended("ready()\ntime.sleep(60)", signal.SIGTERM) == (143, "")
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as under nohup, and it stays so
        assert ended("ready()\ntime.sleep(60)", signal.SIGHUP) == (129, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_exception_in_a_destructor_is_repeated(number):
    status, err = ended(
        """
class Slow:
    def __del__(self):
        ready()
        time.sleep(60)
one = Slow()
try:
    del one
    time.sleep(60)
except KeyboardInterrupt:
    sys.exit(130)
""",
        number,
    )
    assert (status, err) == (128 + number, "")


def test_a_library_that_catches_everything(tmp_path):
    status, err = ended(
        f"""
with files.written_whole({str(tmp_path / "a.txt")!r}), files.temporary_folder({str(tmp_path)!r}):
    ready()
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass
""",
        signal.SIGTERM,
    )
    assert (status, err) == (143, "")
    assert not list(tmp_path.iterdir())


def test_a_computation_that_does_not_come_back_to_python():
    # a lock that another thread holds, with no handler of Python's in between
    body = """
import ctypes
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
import threading
def other():
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    time.sleep(60)
threading.Thread(target=other, daemon=True).start()
ready()
ctypes.CDLL(None).sleep(60)
"""
    assert ended(body, signal.SIGTERM) == (143, "")


def test_signals_wait_for_files_that_belong_together(tmp_path):
    body = f"""
with signals.Postponed():
    ready()
    time.sleep(0.5)
    open({str(tmp_path / "a")!r}, "w").close()
print("not reached", file=sys.stderr)
"""
    assert ended(body, signal.SIGTERM) == (143, "")
    assert (tmp_path / "a").exists()


def test_after_the_end_nothing_is_raised():
    assert ended("signals.leave()\nready()\ntime.sleep(60)", signal.SIGINT) == (-2, "")
    body = "signals.PAUSE = 0.01\nsignals.leave()\nready()\ntime.sleep(60)"
    assert ended(body, signal.SIGTERM) == (143, "")


def test_ignored_signals_stay_ignored():
    program = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" + START
    program += "assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN\nsignals.leave()\n"
    program += "assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN\n"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_child_does_not_end_its_parent():
    body = """
child = os.fork()
if not child:
    time.sleep(60)
time.sleep(0.2)
os.kill(child, signal.SIGTERM)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 143
time.sleep(1.5)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", START + body], check=True)


def test_only_the_main_thread_can():
    body = """
import threading
thread = threading.Thread(target=signals.take)
thread.start()
thread.join()
"""
    program = START.replace("signals.take()", "") + body
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert found.stderr == b""


def test_other_exceptions_in_destructors_are_shown():
    body = "class Wrong:\n    def __del__(self):\n        raise ValueError('seen')\nWrong()"
    found = subprocess.run([sys.executable, "-c", START + body], check=True, capture_output=True)
    assert b"ValueError: seen" in found.stderr


def test_ctrl_c_while_modules_are_imported(tmp_path):
    """From the moment that the command handles signals, an interruption is one line."""
    program = (
        "import sys, time, builtins\nfrom decoupled_descent.app import cli\nwhole = __import__\n"
    )
    program += """
def slow(name, *rest):
    if name == "typer":
        print("ready", flush=True)
        time.sleep(60)
    return whole(name, *rest)
builtins.__import__ = slow
cli.main()
"""
    command = [sys.executable, "-c", program, "train", "absent.csv", "--target", "y"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout.readline() == "ready\n"
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (signals.INTERRUPTED, "interrupted\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_error_that_an_interruption_became(number, tmp_path):
    """Libraries turn Ctrl-C during their import into an error of their own."""
    program = "import os, sys, signal\nfrom decoupled_descent.app.cli import command, main\n"
    program += f"""
def app(*_, **__):
    try:
        os.kill(os.getpid(), {int(number)})
    except BaseException:
        raise ImportError("a part is missing") from None
command.app = app
main()
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    if number == signal.SIGINT:
        line = "interrupted (ImportError: a part is missing)\n"
        assert (found.returncode, found.stderr) == (130, line)
    else:
        assert "a part is missing" in found.stderr


def test_the_seconds_are_those_of_service_managers():
    assert signals.PAUSE * (signals.TIMES + 1) < 10
