"""The options of ``decoupled train``: which go together, and what they become."""

import pytest

from decoupled_descent.app.cli.training_options import check_ridge


def test_ridges():
    assert check_ridge("auto") == "auto"
    assert check_ridge("0.5") == 0.5
    for text in ("0", "-1", "nan", "inf", "strong", "1e308", "1e-308"):
        with pytest.raises(ValueError, match=f"--ridge '{text}' must be a positive number"):
            check_ridge(text)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--time-limit", "0"), "--time-limit 0 must be a positive number of seconds"),
        (("--time-limit", "-2"), "--time-limit -2 must be a positive number of seconds"),
        (("--time-limit", "nan"), "--time-limit nan must be a positive number of seconds"),
        (("--time-limit", "soon"), "'--time-limit': Input should be a valid number"),
        (("--method", "newton"), "No such option: --method"),
    ],
)
def test_options_that_are_refused(run, shop, tmp_path, given, words):
    status, _, err = run("train", shop, "--target", "answer", "--out", tmp_path / "o", *given)
    assert status == 2
    assert words in " ".join(err.replace("│", " ").split())
