"""``decoupled export`` in words."""

from tests.app.cli.conftest import table


def test_the_files_are_named(run, tmp_path):
    table(60)[["a", "b", "price"]].to_csv(tmp_path / "t.csv", index=False)
    given = ("train", tmp_path / "t.csv", "--target", "price", "--fast", "--no-rows")
    assert run(*given, "--out", tmp_path / "o")[0] == 0
    status, out, err = run("export", tmp_path / "o", "--out", tmp_path / "e")
    assert (status, err) == (0, "")
    assert "predictor.py" in out
    assert {path.name for path in (tmp_path / "e").iterdir()} == {"predictor.py", "model.npz"}
