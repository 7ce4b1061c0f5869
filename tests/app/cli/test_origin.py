"""What a result was made from: the same for the same file, another one for another file."""

import shlex
from pathlib import Path

import decoupled_descent as dd
from decoupled_descent.app.cli import origin
from decoupled_descent.app.cli.training_options import TrainOptions


def test_a_fingerprint_depends_on_every_byte(tmp_path):
    for name, text in (("a.csv", "x,y\n1,2\n"), ("b.csv", "x,y\n1,2\n"), ("c.csv", "x,y\n1,3\n")):
        (tmp_path / name).write_text(text)
    a, b, c = (origin.fingerprint(tmp_path / f"{name}.csv") for name in "abc")
    assert a == b != c
    assert len(a) == origin.DIGITS


def test_a_folder_is_fingerprinted_with_the_names_of_its_files(tmp_path):
    for folder, names in (("one", "ab"), ("same", "ab"), ("other", "ac")):
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).write_text("x")
    one, same, other = (origin.fingerprint(tmp_path / name) for name in ("one", "same", "other"))
    assert one == same != other


def test_the_command_gives_the_same_options_again(tmp_path):
    given = {"target": "the target", "identifier": "no", "missing": ["-9", "x"], "log_target": True}
    options = TrainOptions(data=Path("a b.csv"), **given, seed=4, as_json=True)
    words = shlex.split(origin.command_of(options))
    assert words[:3] == ["decoupled", "train", "a b.csv"]
    expected = ["--target", "the target", "--id", "no", "--na", "-9", "--na", "x", "--log-target"]
    assert words[3:] == [*expected, "--seed", "4"]


def test_an_origin_has_the_version_and_the_time(tmp_path):
    (tmp_path / "a.csv").write_text("x")
    made = origin.origin(tmp_path / "a.csv", "decoupled train a.csv")
    assert made.version == dd.__version__
    assert made.date.endswith(" UTC")
    assert made.command == "decoupled train a.csv"
