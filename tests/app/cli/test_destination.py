"""The folder of the results is checked before anything else is done."""

import os

import pytest

from decoupled_descent.app.cli.destination import FILES, check_folder


def test_a_folder_that_does_not_exist_can_be_used(tmp_path):
    assert check_folder(tmp_path / "a" / "b", tmp_path / "data.csv") is False
    assert not list(tmp_path.iterdir())


def test_results_of_a_training_are_replaced(trained):
    assert check_folder(trained / "answer", trained / "answer.csv") is True


def test_a_file_is_not_a_folder(tmp_path):
    (tmp_path / "a").touch()
    for out in (tmp_path / "a", tmp_path / "a" / "b"):
        with pytest.raises(OSError, match=r"cannot write there .*; choose another folder"):
            check_folder(out, tmp_path / "data.csv")


@pytest.mark.parametrize("name", FILES)
def test_files_of_others_are_not_replaced(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(OSError, match=f"has a {name} that is not from a training"):
        check_folder(tmp_path, tmp_path / "data.csv")


def test_the_table_is_not_replaced_under_any_name(tmp_path, trained):
    link = tmp_path / "link.csv"
    link.symlink_to(trained / "answer" / "left_out.csv")
    for data in (trained / "answer" / "left_out.csv", link):
        with pytest.raises(OSError, match=f"{data.name} in it is the table to read"):
            check_folder(trained / "answer", data)


def test_results_are_not_written_into_the_folder_of_the_table(tmp_path):
    (tmp_path / "data.csv").touch()
    with pytest.raises(OSError, match="is the folder to read; choose another folder"):
        check_folder(tmp_path, tmp_path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_of_others(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OSError, match="cannot write there"):
        check_folder(tmp_path / "a", tmp_path / "data.csv")
