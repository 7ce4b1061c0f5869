"""Names of columns, checked before a table is read."""

import pytest

from decoupled_descent.app.files.names import check_names
from decoupled_descent.app.files.reading import read_table


@pytest.mark.parametrize("names", [["a", "b"], ["", "", "a"], ["1", "2", "3"], ["Unnamed: 0", "a"]])
def test_names_that_can_be_used(names):
    check_names(names)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b", "a"], "more than one column is called 'a'; rename all but one"),
        (["1.5", "2"], "the first line has numbers"),
        (["1", "1"], "the first line has numbers"),
    ],
)
def test_names_that_cannot(names, message):
    with pytest.raises(ValueError, match=message):
        check_names(names)


def test_many_equal_names_are_refused_before_the_rows_are_read(tmp_path):
    """pandas numbers equal names in a time that grows with their square."""
    line = ",".join(["a"] * 90_000)
    (tmp_path / "a.csv").write_text(f"{line}\n{line}\n")
    with pytest.raises(ValueError, match="more than one column is called 'a'"):
        read_table(tmp_path / "a.csv")
