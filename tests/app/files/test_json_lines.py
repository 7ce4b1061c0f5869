"""One JSON object per line."""

import json

import numpy as np
import pandas as pd
import pytest

from decoupled_descent.app.files.reading import read_table


def saved(tmp_path, text, name="a.jsonl"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_lines_are_rows(tmp_path):
    rows = [{"a": 1, "b": "x", "c": True}, {"a": 2.5, "c": None}, {"b": "ü", "a": 3}]
    text = "\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    table = read_table(saved(tmp_path, "\ufeff" + text + "\n"))
    np.testing.assert_array_equal(table["a"], [1, 2.5, 3])
    assert table["b"].isna().tolist() == [False, True, False]
    assert table["c"].dropna().tolist() == [True]
    assert table.index.tolist() == [1, 2, 3]


def test_as_pandas_writes_them(tmp_path):
    frame = pd.DataFrame({"a": np.arange(9) / 7, "b": [*"abcabcabc"]})
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True, double_precision=15)
    pd.testing.assert_frame_equal(
        read_table(tmp_path / "a.jsonl").reset_index(drop=True), frame, check_dtype=False
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1}\nb', "line 2 is not JSON"),
        ("[1, 2]", "line 1 must be an object"),
        ('{"a": ' + "[" * 100_000, "line 1 is not JSON"),
        (b'{"a": "\xff"}', "not UTF-8"),
        ("", "file is empty"),
        ("{}\n{}", "no line has a name"),
        ('{"a": 1}\n{"y": 1, "a": 2, "y": 3}', "line 2 is not JSON .the name 'y' occurs twice"),
        ('{"a": {"b": 1, "b": 2}}', "line 1 is not JSON .the name 'b' occurs twice"),
        ('{"a": "\\ud800"}', "line 1 is not JSON .*surrogates"),
        ('{"\\ud800": 1}', "line 1 is not JSON .*surrogates"),
    ],
)
def test_other_lines(text, words, tmp_path):
    with pytest.raises(ValueError, match=rf"a\.jsonl: .*{words}"):
        read_table(saved(tmp_path, text))
