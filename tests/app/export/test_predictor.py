"""The code that is exported; test_numpy_files.py runs it without other libraries."""

from decoupled_descent.app.export.predictor import _encoded, _spelling


def test_categories_are_spelt_as_in_training():
    column = {"name": "t", "kind": "category", "levels": ["Ulm", "a"], "other": True}
    column["missing"] = True
    found = _encoded(column, ["ULM ", "a", "A", None, "Rom"]).argmax(1).tolist()
    assert found == [0, 1, 2, 3, 2]
    assert _spelling("New  York") == "new york"
