"""Names in capitals are matched, and names that are not clear are not."""

import io
import json

import pandas as pd
import pytest

from decoupled_descent.app.cli.column_names import note_on, renamed, spellings
from tests.app.cli.conftest import table


@pytest.mark.parametrize(
    ("wanted", "names", "matched"),
    [
        (["age"], ["Age"], {"Age": "age"}),
        (["age"], ["age", "AGE"], {}),
        (["age"], ["Age", "AGE"], {}),  # which one?
        (["age", "Age"], ["AGE"], {}),
        (["Größe"], [" GRÖSSE "], {" GRÖSSE ": "Größe"}),
        (["age"], ["weight"], {}),
    ],
)
def test_one_name_with_the_same_letters_is_matched(wanted, names, matched):
    assert renamed(wanted, names) == matched


def test_the_note_is_short():
    assert note_on({}) == []
    (note,) = note_on({f"A{k}": f"a{k}" for k in range(9)})
    assert "'A0' is 'a0'" in note
    assert note.endswith("and 4 more")
    assert spellings("a b") == ["a b", "A B", "A b"]


def test_predictions_of_a_table_in_capitals(run, trained, tmp_path):
    frame = table(30, seed=4)[["a", "b", "town", "price"]]
    frame.to_csv(tmp_path / "same.csv", index=False)
    frame.rename(columns=str.upper).to_csv(tmp_path / "upper.csv", index=False)
    same, upper = (
        json.loads(run("predict", trained / "price", tmp_path / f"{name}.csv", "--json")[1])
        for name in ("same", "upper")
    )
    assert upper["predictions"] == same["predictions"]
    assert upper["actual"] == same["actual"] != None  # noqa: E711 # of the column PRICE
    assert any("'TOWN' is 'town'" in note for note in upper["notes"])
    assert not any("capitals" in note for note in same["notes"])
    _, out, err = run("predict", trained / "price", tmp_path / "upper.csv")
    assert len(pd.read_csv(io.StringIO(out))) == 30
    assert "matched without regard to capitals" in err
