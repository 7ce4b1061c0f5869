"""Free text: the same numbers as scikit-learn's vectoriser."""

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer

from decoupled_descent.tables.columns import words
from decoupled_descent.tables.columns.counting import CountingEncoder
from decoupled_descent.tables.columns.rules import Columns


def sentences(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    vocabulary = [f"word{k}" for k in range(40)]
    return [" ".join([*rng.choice(vocabulary, 7), f"once{k}"]) for k in range(rows)]


def test_against_scikit_learn():
    texts = sentences()
    terms, weights = words.learn_terms(texts)
    result = words.tf_idf(["word3 word3 new", "", *texts], terms, weights)
    options = {"min_df": 3, "max_df": 0.5, "max_features": 500, "sublinear_tf": True}
    expected = TfidfVectorizer(**options).fit(texts)
    assert set(terms) == set(expected.get_feature_names_out())
    wanted = expected.transform(["word3 word3 new", "", *texts]).toarray()
    np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-12)


def test_columns_of_text():
    frame = pd.DataFrame({"review": [None, *sentences()[1:]], "x": np.arange(60, 0, -1) / 7})
    columns = Columns.learn(frame)
    assert [column.kind for column in columns.columns] == ["text", "number"]
    X = columns.apply(frame)
    assert X.shape[1] == len(columns.names)
    assert X[0, columns.names.index("review_missing")] == 1
    assert Columns.from_dict(columns.to_dict()) == columns
    encoder = CountingEncoder(columns, strict=True)
    np.testing.assert_array_equal(encoder.apply(frame), X)
    assert encoder.notes("training", everything=True) == []


def test_what_is_a_sentence():
    assert words.is_wordy(["we had a very nice evening there"])
    assert not words.is_wordy(["Anna Schmidt", "Max Weber"])
    assert words.learn_terms(["one two", "three four"]) == ((), ())
