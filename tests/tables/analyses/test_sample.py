"""The rows by class, against pandas."""

import numpy as np
import pandas as pd

import decoupled_descent as dd
from decoupled_descent.tables.analyses.sample import MOST_CLASSES, sample_by_class


def fitted(classes=2, n=120):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(50, 9, n).round(1), "sex": rng.choice(["f", "m"], n)})
    frame.loc[::10, "age"] = np.nan
    y = np.array([f"c{k}" for k in range(classes)])[np.arange(n) % classes]
    model = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(frame, y)
    return frame, y, sample_by_class(model, frame)


def test_against_pandas():
    frame, y, rows = fitted()
    found = {one.name: one for one in rows}
    assert found["rows"][1:] == ("120", ("60", "60"))
    for at, label in enumerate(("c0", "c1")):
        own = frame[y == label]
        low, middle, high = own["age"].quantile([0.25, 0.5, 0.75])
        text = found["age: median (quartiles)"].classes[at]
        assert text == f"{middle:.4g} ({low:.4g} to {high:.4g})"
        women, absent = (own["sex"] == "f").sum(), own["age"].isna().sum()
        assert found["sex = f"].classes[at].startswith(f"{women} ({100 * women / 60:.1f}")
        assert found["age: missing"].classes[at].startswith(f"{absent} (")


def test_no_table_for_many_classes():
    assert fitted(MOST_CLASSES + 1)[2] == []
