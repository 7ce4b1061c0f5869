"""Files are written whole or not at all."""

import os
import stat
import subprocess
import sys

import pytest

from decoupled_descent.files import (
    permissions,
    remove_unfinished,
    temporary_folder,
    write_text,
    written_whole,
)


def test_the_file_appears_only_at_the_end(tmp_path):
    path = tmp_path / "a.npz"
    with written_whole(path) as partial:
        partial.write_bytes(b"new")
        assert not path.exists()
        assert (partial.parent, partial.suffix) == (tmp_path, ".npz")
        assert partial.name.startswith(".")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_failure_keeps_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail():
        with written_whole(path) as partial:
            partial.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_body_that_removes_the_file(tmp_path):
    with pytest.raises(FileNotFoundError), written_whole(tmp_path / "a.txt") as partial:
        partial.unlink()
    assert not list(tmp_path.iterdir())


def test_two_writers_do_not_disturb_each_other(tmp_path):
    path = tmp_path / "a.txt"
    with written_whole(path) as one, written_whole(path) as other:
        one.write_text("first")
        other.write_text("second")
        assert one != other
    assert path.read_text() == "first"  # the outer one is renamed last


def test_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(FileNotFoundError), written_whole(tmp_path / "absent" / "a.txt"):
        pass


def test_text_is_utf_8_with_its_own_line_ends(tmp_path):
    write_text(tmp_path / "a.txt", "→\r\nx\n")
    assert (tmp_path / "a.txt").read_bytes() == "→\r\nx\n".encode()


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_permissions_are_those_of_any_new_file(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "a.txt", "")
        (tmp_path / "b.txt").touch()
        (tmp_path / "folder").mkdir()
        assert permissions(0o777) == stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o750
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a.txt", "b.txt")]
    assert modes == [0o640, 0o640]


def test_a_folder_is_removed_with_all_in_it_unless_it_is_renamed(tmp_path):
    with temporary_folder(tmp_path) as folder:
        (folder / "a").touch()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not list(tmp_path.iterdir())
    with temporary_folder(tmp_path) as folder:
        folder.rename(tmp_path / "b")
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_a_hasty_end_removes_what_is_not_complete(tmp_path):
    with temporary_folder(tmp_path) as folder:
        (folder / "a").touch()
        remove_unfinished()
        assert not list(tmp_path.iterdir())
    remove_unfinished()


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path):
    script = (
        "import os, pathlib, sys\n"
        "from decoupled_descent.files import temporary_folder, written_whole\n"
        "with temporary_folder(sys.argv[1]) as folder, written_whole(sys.argv[1] + '/a') as part:\n"
        "    (folder / 'half').touch()\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert len(list(tmp_path.iterdir())) == 2
    with written_whole(tmp_path / "b.txt") as other:  # of a process that is running
        write_text(tmp_path / "c.txt", "")
        assert other.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.txt", "c.txt"]


def test_the_umask_of_other_threads_is_not_touched(monkeypatch):
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("the umask was set"))
    if os.path.exists("/proc/self/status"):
        assert permissions(0o666) & 0o600 == 0o600
