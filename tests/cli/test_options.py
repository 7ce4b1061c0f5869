"""Folders to write to."""

import pytest

from decoupled_descent.cli.options import cannot_write, output_folder


def test_a_folder_is_made_and_left_empty(tmp_path):
    folder = output_folder(tmp_path / "new" / "folder")
    assert list(folder.iterdir()) == []
    (folder / "kept").write_text("mine")
    assert output_folder(folder) == folder
    assert [path.name for path in folder.iterdir()] == ["kept"]


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("kept")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError, match=f"--out {path}: cannot write there \\("):
            output_folder(path)
    assert (tmp_path / "file").read_text() == "kept"


def test_the_reason_is_given_with_or_without_a_number(tmp_path):
    assert str(cannot_write(tmp_path, OSError(28, "No space left"))).endswith("(No space left)")
    assert str(cannot_write(tmp_path, OSError("odd"), "; why")).endswith("there (odd); why")
