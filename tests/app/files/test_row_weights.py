"""The weights of the rows: read, refused, and asked about."""

import pandas as pd
import pytest

from decoupled_descent.app.files.row_weights import about_weights, weights_of


@pytest.mark.parametrize(
    "name", ["wt", "weight", "pweight", "sample_weight", "Survey weight", "fwgt2"]
)
def test_names_of_weights_get_a_question(name):
    frame = pd.DataFrame({name: [1.5, 2.0], "a": [1, 2]})
    notes, doubts = about_weights(frame, [name, "a"])
    assert len(notes) == 1
    assert "--weight" in notes[0]
    assert doubts == []
    notes, doubts = about_weights(frame.assign(stratum=[1, 2]), [name, "a"])
    assert (len(notes), len(doubts)) == (0, 1)


def test_other_columns_get_none():
    frame = pd.DataFrame(
        {"weight_loss": [1.0, -2.0], "weighted mean": [1.0, 2.0], "wt": [-1.0, 2.0]}
    )
    assert about_weights(frame, list(frame.columns)) == ([], [])


@pytest.mark.parametrize("values", [[1.0, -1.0], [1.0, None], [0.0, 0.0]])
def test_bad_weights(values):
    with pytest.raises(ValueError, match="--weight 'wt' is "):
        weights_of(pd.Series(values, name="wt"))
