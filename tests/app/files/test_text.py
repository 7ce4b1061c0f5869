"""Delimited text: encodings, separators, decimal marks, quotes, and the line that is wrong."""

import csv
import io
import string

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoupled_descent.app.files.reading import read_table

NAN = float("nan")
PLAIN = "size,town,price\n1.5,Bonn,20\n2.5,Köln,30\n,Ulm,41\n"
EXPECTED = {"size": [1.5, 2.5, NAN], "town": ["Bonn", "Köln", "Ulm"], "price": [20, 30, 41]}


def written(folder, name, content):
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def assert_table(frame, expected):
    assert list(frame.columns) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(frame[name].to_list(), values)


def test_windows_characters_beyond_latin_1(tmp_path):
    frame = read_table(written(tmp_path, "a.csv", "a,b\n1,5 €\n".encode("cp1252")))
    assert frame["b"].tolist() == ["5 €"]


def test_semicolons_come_before_commas_that_may_be_decimal_marks(tmp_path):
    frame = read_table(written(tmp_path, "a.csv", "size,cm;price\n1,5;20\n2,5;30\n"))
    assert_table(frame, {"size,cm": [1.5, 2.5], "price": [20, 30]})


def test_points_mean_that_commas_are_no_decimal_marks(tmp_path):
    frame = read_table(written(tmp_path, "a.csv", "a;b\n1,234;0.5\n5,678;1.5\n"))
    assert_table(frame, {"a": ["1,234", "5,678"], "b": [0.5, 1.5]})
    assert frame.attrs["notes"] == []


def test_quoted_fields_may_hold_separators_lines_and_quotes(tmp_path):
    frame = read_table(written(tmp_path, "a.csv", 'a,"b,c"\n"1,2\nx","say ""hi"""\n3,4\n'))
    assert_table(frame, {"a": ["1,2\nx", "3"], "b,c": ['say "hi"', "4"]})


def test_one_column_is_a_table(tmp_path):
    assert_table(read_table(written(tmp_path, "a.csv", "size\n1.5\n2\n")), {"size": [1.5, 2]})


@pytest.mark.parametrize("start", ["", "\ufeff", "\n\n", "\ufeff\n"])
@pytest.mark.parametrize("end", ["", "\n", "\n\n\n", "\n \n"])
@pytest.mark.parametrize("line", ["\n", "\r\n", "\r"])
def test_empty_lines_in_one_column_are_missing_values(tmp_path, start, end, line):
    text = start + "size\n1.5\n\n  \n2" + end
    frame = read_table(written(tmp_path, "a.csv", text.replace("\n", line)))
    assert_table(frame, {"size": [1.5, NAN, NAN, 2]})
    pd.DataFrame({"size": [NAN, 1.5, NAN]}).to_csv(tmp_path / "b.csv", index=False)
    assert_table(read_table(tmp_path / "b.csv"), {"size": [NAN, 1.5, NAN]})


def test_one_column_of_words(tmp_path):
    frame = read_table(written(tmp_path, "a.csv", "home town\nBad Ems\nBad Hall\n"))
    assert_table(frame, {"home town": ["Bad Ems", "Bad Hall"]})


names = st.lists(
    st.text(string.ascii_letters + "ü ;,\t\"'", min_size=1, max_size=5)
    .map(lambda text: "n" + text.strip())
    .filter(lambda text: text.casefold() not in ("nan", "na")),
    min_size=2,
    max_size=4,
    unique=True,
)


@settings(max_examples=60, deadline=None)
@given(names=names, separator=st.sampled_from(",;\t"), end=st.sampled_from(["\n", "\r\n"]))
def test_any_names_in_any_dialect(tmp_path_factory, names, separator, end):
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=separator, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerow(names)
    rows = np.random.default_rng(len(names)).integers(0, 9, (3, len(names)))
    writer.writerows(rows.tolist())
    frame = read_table(written(tmp_path_factory.mktemp("t"), "a.csv", buffer.getvalue()))
    assert list(frame.columns) == names
    np.testing.assert_array_equal(frame.to_numpy(), rows)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("line", range(2, 9))
def test_quotes_do_not_change_which_line_is_wrong(tmp_path, line, end):
    lines = ["a,b", "", *(f"{k},{k}" for k in range(6))]
    lines[line - 1] = "7,8,9"
    messages = []
    for first in ("a", '"a"'):
        lines[0] = f"{first},b"
        with pytest.raises(ValueError, match=f"line {line} has 3 fields") as caught:
            read_table(written(tmp_path, "a.csv", end.join(lines)))
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_utf_16(tmp_path):
    """What Excel calls Unicode text."""
    content = PLAIN.replace(",", "\t").encode("utf-16")
    assert_table(read_table(written(tmp_path, "a.txt", content)), EXPECTED)


@pytest.mark.parametrize(
    ("above", "note"),
    [
        ("Results of 2024,,\nexported 2024-06-30,,\n", "lines 1 to 2 were left out: the names"),
        ("Results\n", "line 1 was left out: the names of the columns are in line 2"),
        ("\nResults of the spring\n\n", "lines 1 to 3 were left out"),
        (",Where,\n", "line 1 was left out"),
    ],
)
def test_titles_above_the_names(tmp_path, above, note):
    file = written(tmp_path, "a.csv", above + PLAIN)
    frame = read_table(file)
    assert_table(frame, EXPECTED)
    assert note in frame.attrs["notes"][0]
    written(tmp_path, "a.csv", above + PLAIN + "1,2\n")
    line = above.count("\n") + 5
    with pytest.raises(ValueError, match=f"line {line} has 2 fields, but the first row has 3"):
        read_table(file)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a,b\nr1,x,y\nr2,z,w\n", "line 2 has 3 fields"),  # row names without a name
        ("a,,c\nx,y,z\nu,v,w\n", "column 2 has no name"),
    ],
)
def test_what_is_no_title(tmp_path, content, words):
    with pytest.raises(ValueError, match=words):
        read_table(written(tmp_path, "a.csv", content))
    frame = read_table(written(tmp_path, "a.csv", "a,b,c\n1,,3\nx,y,z\n"))
    assert list(frame.columns) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("content", "mark", "first"),
    [
        ("a;b\n1.234;0,5\n987;12,25\n", ",", "1.234"),
        ("a;b\n1.234;5 kg\n987;12,25 kg\n", ",", "1.234"),
        ("a;b\n1.234;0.5\n2.345;12,25\n", "", 1.234),
        ("a;b\n1.234;x\n2.345;y\n", "", 1.234),
        ('a,b\n1.234,"0,5 €"\n987,"1,5 €"\n', ",", "1.234"),
    ],
)
def test_a_file_has_one_decimal_mark(tmp_path, content, mark, first):
    frame = read_table(written(tmp_path, "a.csv", content))
    assert (frame.attrs["decimal"], frame["a"].iloc[0]) == (mark, first)


def test_the_mark_of_the_training_table_decides_if_the_file_does_not(tmp_path):
    file = written(tmp_path, "a.csv", "a;b\n1.234;x\n2.345;y\n")
    assert read_table(file, usual=",")["a"].tolist() == ["1.234", "2.345"]
    written(tmp_path, "a.csv", "a;b\n1.234;0.5\n2.345;1.5\n")
    assert read_table(file, usual=",")["a"].tolist() == [1.234, 2.345]
