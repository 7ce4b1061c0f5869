"""How notes say that the values of a column can be taken as they are."""

import pandas as pd

from decoupled_descent.tables.columns.rules import Columns


def test_the_remedy_is_said_in_the_words_of_the_caller():
    frame = pd.DataFrame({"zip": ["01067", "80331", "01067", "80331"]})
    (note,) = Columns.learn(frame).notes
    assert note.endswith("are names (plain_columns=['zip'] if they are numbers)")
    (note,) = Columns.learn(frame, undo="--plain {}".format).notes
    assert note.endswith("are names (--plain zip if they are numbers)")
