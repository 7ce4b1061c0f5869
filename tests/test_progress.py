"""The progress bar, and when it is drawn."""

import io
import sys

import pytest

from decoupled_descent.progress import in_stages, progress_bar, show_progress, stages


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_on_terminals_unless_told_otherwise(monkeypatch):
    assert not show_progress(None)
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert show_progress(None)
    assert not show_progress(False)
    assert show_progress(True)


def test_drawn_on_standard_error(capsys):
    with progress_bar(7, "sweeping", True) as advance:
        advance(7, "nearly there")
    drawn = capsys.readouterr()
    assert drawn.out == ""
    assert all(part in drawn.err for part in ("sweeping", "7/7", "nearly there"))


def test_silent_by_default_in_a_pipe(capsys):
    with progress_bar(7, "sweeping") as advance:
        advance(3, "note")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("wanted", [True, False])
def test_exceptions_pass_through(wanted, capsys):
    with pytest.raises(KeyboardInterrupt), progress_bar(2, "work", wanted):
        raise KeyboardInterrupt


def test_stages_are_lines_in_a_pipe(capsys):
    with stages({"one": 1, "two": 3}) as enter:
        enter("one")
        with progress_bar(2, "inner") as advance:
            advance(1, "half")
        enter("two")
        assert in_stages()
    assert not in_stages()
    assert capsys.readouterr() == ("", "one\ntwo\n")


def test_stages_are_one_bar_on_a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with stages({"one": 1, "two": 3}) as enter:
        enter("two")
        with progress_bar(2, "inner") as advance:
            advance(1, "half way")
    drawn = terminal.getvalue()
    assert "two: half way" in drawn
    assert "inner" not in drawn
    assert " 62%" in drawn  # a quarter, and half of the rest
