"""Folders to write to, and what is known before anything slow is imported."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer

from decoupled_descent.app.cli.options import Data, Json, cannot_write, output_folder, takes


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


def test_fields_of_a_dataclass_are_the_options_of_a_command():
    @dataclass(frozen=True, kw_only=True)
    class Asked:
        data: Data
        as_json: Json = False

    received = []

    @takes(Asked)
    def show(asked: Asked) -> None:
        """Show something."""
        received.append(asked)

    app = typer.Typer()
    app.command()(show)
    app(["a.csv", "--json"], standalone_mode=False)
    assert received == [Asked(data=Path("a.csv"), as_json=True)]
    assert (show.__name__, show.__doc__) == ("show", "Show something.")
    with pytest.raises(Exception, match="Missing parameter: data"):
        app([], standalone_mode=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "--help"),
        ("train", "absent.csv", "--target", "y"),
        ("train", "data.csv", "--target", "z"),
        ("train", "data.csv", "--target", "y", "--ridge", "x"),
        ("train", "data.csv", "--target", "y", "--out", "data.csv"),
        ("train", "results/left_out.csv", "--target", "y", "--out", "results"),
        ("predict", "absent", "data.csv"),
        ("predict", "damaged", "data.csv"),
        ("predict", "results", "other.csv"),
        ("predict", "results", "data.csv", "--out", "results"),
        ("evolve", "spiral"),
        ("evolve", "xor", "--out", "data.csv"),
        ("reproduce", "xor", "--out", "data.csv"),
        ("reproduce", "moon"),
        ("reproduce", "mnist", "--data", "absent"),
        ("diagnose", "data.csv", "--target", "z"),
    ],
    ids=" ".join,
)
def test_help_and_errors_do_not_wait_for_pytorch(tmp_path, trained, arguments):
    """A process of its own, because this one has imported everything."""
    (tmp_path / "data.csv").write_text("a,y\n" + "1,yes\n2,no\n" * 10)
    (tmp_path / "other.csv").write_text("a\n1\n")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    (tmp_path / "results").symlink_to(trained / "answer")
    code = (
        "import sys\nfrom decoupled_descent.app.cli import main\n"
        f"sys.argv = ['decoupled', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit as error:\n"
        "    heavy = {'torch', 'sklearn', 'matplotlib', 'scipy'} & set(sys.modules)\n"
        "    print(error.code, sorted(heavy))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    status = "0" if "--help" in arguments else "2"
    assert found.stdout.splitlines()[-1] == f"{status} []"
