"""Messy files as people have them, trained from the command line with no step before it."""

import io
import json
import re

import numpy as np
import pandas as pd
import pytest

from tests.app.cli.conftest import SAID, table

ROWS = 150


def signal(rows=ROWS, seed=0):
    """Two useful numbers, the number that depends on them, and a class."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, rows))
    y = 2 * a - b + 0.5 * rng.normal(size=rows)
    return pd.DataFrame({"a": a.round(3), "b": b.round(3), "y": np.where(y > 0, "good", "bad")}), y


def with_column(values, **options):
    frame, _ = signal()
    return frame.assign(c=values).to_csv(index=False, **options)


def money(seed=0):
    return [f"${v:,.2f}" for v in np.exp(np.random.default_rng(seed).normal(9, 1, ROWS))]


def holes(values, word, every=7):
    return [word if k % every == 3 else value for k, value in enumerate(values)]


def european():
    frame, y = signal()
    amounts = [f"{v:,.2f} €".translate(str.maketrans(",.", ".,")) for v in np.exp(8 + y)]
    return frame.assign(c=amounts).to_csv(index=False, sep=";")


def reviews():
    frame, y = signal()
    rng = np.random.default_rng(3)
    kind = {True: "lovely great friendly tasty", False: "awful slow rude cold"}
    neutral = [
        "the",
        "waiter",
        "brought",
        "our",
        "dinner",
        "table",
        "evening",
        "street",
        "menu",
        "city",
        "window",
    ]
    texts = [
        " ".join([*rng.choice(neutral, 6), *rng.choice(kind[bool(v > 0)].split(), 2), f"no{k}"])
        for k, v in enumerate(y)
    ]
    return frame.drop(columns=["a", "b"]).assign(review=texts).to_csv(index=False)


def patients():
    frame, _ = signal()
    return frame.assign(patient_id=1000 + np.arange(ROWS) // 5).to_csv(index=False)


def german_prices():
    """The decimal mark of one column says that points are thousands in the other ones."""
    frame, y = signal()
    size = [f"{v:.1f} m²".replace(".", ",") for v in 90 + 20 * frame["a"]]
    count = [f"{round(v):,}".replace(",", ".") for v in 5000 + 900 * frame["b"]]
    price = [f"{round(v):,} €".replace(",", ".") for v in 300_000 + 50_000 * y]
    return pd.DataFrame({"size": size, "count": count, "y": price}).to_csv(index=False, sep=";")


def excel():
    """What a German Excel writes: a line with the separator, percentages, powers of ten, times."""
    frame, y = signal()
    cells = {
        "share": [f"{50 + 9 * v:.1f} %".replace(".", ",") for v in frame["a"]],
        "amount": [f"{np.exp(9 + v):.2E}".replace(".", ",") for v in frame["b"]],
        "time": [f"{k % 12 + 7}:{k % 60:02}" for k in range(ROWS)],
        "y": np.where(y > 0, "Ja", "nein"),
    }
    text = pd.DataFrame(cells).to_csv(index=False, sep=";")
    return f"\ufeffsep=;\r\n{text}".encode()


def titled(above):
    frame, _ = signal()
    return above + frame.to_csv(index=False)


def with_target(change):
    frame, _ = signal()
    return frame.assign(y=[change(k, v) for k, v in enumerate(frame["y"])]).to_csv(index=False)


NUMBERS = np.random.default_rng(5).integers(1, 100, ROWS)
TOWNS = np.random.default_rng(6).choice(["Ulm", "ULM", " ulm", "Bonn", "bonn ", "New  York"], ROWS)
DAYS = pd.to_datetime("2024-01-01") + pd.to_timedelta(NUMBERS, "D")

#: A file, options, and words of the note about it.
MESSY = {
    "currency": (with_column(money()), (), "'c': numbers, written as 1,234.5"),
    "accounting": (
        with_column([f"({v})" if v % 2 else f"{v:,}" for v in NUMBERS * 50]),
        (),
        "'c': numbers, written as 1,234.5",
    ),
    "per cent": (with_column([f"{v} %" for v in NUMBERS]), (), "'c': numbers, written as 1,234.5"),
    "European money": (european(), (), "'c': numbers, written as 1.234,5"),
    "unknown": (
        with_column(holes(NUMBERS, "unknown")),
        (),
        "'c': 21 missing values replaced by the median",
    ),
    "n.a. and dashes": (
        with_column(holes(holes(NUMBERS, "n.a."), "-", 11)),
        (),
        "missing values replaced by the median",
    ),
    "a code for missing": (
        with_column(holes(NUMBERS, -999)),
        ("--na", "-999"),
        "'c': 21 missing values replaced",
    ),
    "two words for missing": (
        with_column(holes(holes(NUMBERS, "refused"), "later", 11)),
        ("--na", "refused", "--na", "later"),
        "missing values replaced by the median",
    ),
    "days first": (
        with_column(DAYS.strftime("%d/%m/%Y")),
        (),
        "'c': dates, written as 31/12/2024, turned into days",
    ),
    "months first": (
        with_column(DAYS.strftime("%m/%d/%Y")),
        (),
        "'c': dates, written as 12/31/2024, turned into days",
    ),
    "dots": (with_column(DAYS.strftime("%d.%m.%Y %H:%M")), (), "'c': dates, written as 31/12/2024"),
    "slashes": (with_column(DAYS.strftime("%Y/%m/%d")), (), "'c': dates, written as 2024/12/31"),
    "capitals and blanks": (
        with_column(TOWNS),
        (),
        "'c': text with 3 different values (3 other spellings were merged)",
    ),
    "free text": (reviews(), (), "'review': free text, turned into"),
    "patients": (patients(), (), "'patient_id': 30 values in 150 rows"),
    "unwanted columns": (
        with_column(NUMBERS),
        ("--drop", "c", "--id", "b"),
        "dropped, as requested: 'c'",
    ),
    "money as target": (
        signal()[0].assign(y=[f"${v:,.2f}" for v in 9000 + 999 * signal()[1]]).to_csv(index=False),
        (),
        "'y': numbers, written as 1,234.5",
    ),
    "Latin-1, semicolons, decimal commas": (
        with_column(["Köln", "Bad Tölz", "Ulm"] * 50, sep=";", decimal=",").encode("cp1252"),
        (),
        "read as Windows-1252",
    ),
    "kilograms": (with_column([f"{v} kg" for v in NUMBERS]), (), "written as 1,234.5 kg ('9"),
    "years": (
        with_column([f"{v} yr{'s' * int(v > 1)}" for v in NUMBERS]),
        (),
        "'c': numbers, written as 1,234.5 yrs",
    ),
    "below the limit": (
        with_column([f"{v / 10}" if v > 20 else "<2.1" for v in NUMBERS]),
        (),
        "'c': numbers, written as 1,234.5 ('<2.1' was read as 2.1)",
    ),
    "German prices": (german_prices(), (), "'count': numbers, written as 1.234,5"),
    "German Excel": (excel(), (), "'time': times, turned into hours"),
    "Unicode text": (
        with_column(["Łódź", "Kraków", "Ulm"] * 50, sep="\t").encode("utf-16"),
        (),
        "'c': text with 3 different values",
    ),
    "a title": (
        titled("Spring term,,\nexported 2024-06-30,,\n"),
        (),
        "lines 1 to 2 were left out: the names of the columns are in line 3",
    ),
    "two lines of names": (titled("Measured,,\n"), (), "the names of the columns are in line 2"),
    "dates of three kinds": (
        with_column(
            [
                day.strftime(("%Y-%m-%d", "%d.%m.%Y", "%d %b %Y")[k % 3])
                for k, day in enumerate(DAYS)
            ]
        ),
        (),
        "'c': dates, written as 31/12/2024",
    ),
    "half days": (
        with_column(DAYS.strftime("%m/%d/%Y %I:%M %p")),
        (),
        "'c': dates, written as 12/31/2024",
    ),
    "spellings of the target": (
        with_target(lambda k, v: v.upper() if k % 9 == 0 else f"{v} "),
        (),
        "'y': other spellings: 'BAD'",
    ),
    "errors of a spreadsheet": (
        with_column(holes(NUMBERS, "#DIV/0!")),
        (),
        "'c': 21 missing values replaced by the median",
    ),
}


@pytest.mark.parametrize("case", MESSY)
def test_messy_files(run, tmp_path, case):
    content, options, words = MESSY[case]
    data = tmp_path / "data.csv"
    data.write_bytes(content if isinstance(content, bytes) else content.encode())
    arguments = ("train", data, "--target", "y", "--out", tmp_path / "o", *options)
    status, text, err = run(*arguments, "--ridge", "1", "--json", "--features", "linear")
    assert (status, err) == (0, SAID)
    found = json.loads(text)
    assert any(words in note for note in found["notes"]), found["notes"]
    assert found["better_than"]["guessing"]["word"] == "yes"
    status, text, err = run("predict", tmp_path / "o", data, "--json")
    assert status == 0, err
    again = json.loads(text)
    assert len(again["predictions"]) == ROWS
    assert again["actual"]["rows"] == ROWS


@pytest.mark.slow
def test_free_text_is_worth_something(run, tmp_path):
    (tmp_path / "data.csv").write_text(reviews())
    arguments = ("train", tmp_path / "data.csv", "--target", "y", "--out", tmp_path / "o", "--json")
    found = json.loads(run(*arguments)[1])
    assert found["estimated_score"] > 0.9


def test_all_problems_at_once(run, tmp_path):
    frame, _ = signal()
    frame["a"] = ["oops", *frame["a"][1:]]
    frame["c"] = [*NUMBERS[1:], "eh"]
    frame.to_csv(tmp_path / "data.csv", index=False)
    status, _, err = run("train", tmp_path / "data.csv", "--target", "y", "--out", tmp_path / "o")
    assert status == 2
    assert "column 'a', row 1: 'oops' is not a number" in err
    assert "column 'c', row 150: 'eh' is not a number" in err


def test_the_identifier_is_carried(run, tmp_path):
    frame, _ = signal()
    frame.insert(0, "name", [f"n{k}" for k in range(ROWS)])
    frame.to_csv(tmp_path / "data.csv", index=False)
    arguments = ("train", tmp_path / "data.csv", "--target", "y", "--out", tmp_path / "o")
    assert run(*arguments, "--id", "name", "--ridge", "1", "--features", "linear")[0] == 0
    new, _ = signal(seed=9)
    new.insert(1, "name", [f"m{k}" for k in range(ROWS)])
    new[:5].to_csv(tmp_path / "new.csv", index=False)
    printed = pd.read_csv(io.StringIO(run("predict", tmp_path / "o", tmp_path / "new.csv")[1]))
    assert printed.columns.tolist()[:2] == ["name", "prediction"]
    assert printed["name"].tolist() == [f"m{k}" for k in range(5)]
    found = json.loads(run("predict", tmp_path / "o", tmp_path / "new.csv", "--json")[1])
    assert found["id"] == [f"m{k}" for k in range(5)]
    assert set(found["probabilities"]) == {"good", "bad"}
    new.drop(columns="name").to_csv(tmp_path / "new.csv", index=False)
    err = run("predict", tmp_path / "o", tmp_path / "new.csv")[2]
    assert "the table has no column 'name', which identified the rows in training" in err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--group", "absent"), "--group 'absent' is not a column; columns are 'a', 'b'"),
        (("--group", "B"), "--group 'B' is not a column; did you mean 'b'? columns are"),
        (("--id", "y"), "--id 'y' is the target"),
        (("--drop", "a", "--drop", "z"), "--drop 'z' is not a column"),
        (("--drop", "a", "--drop", "b"), "no column is left to learn from"),
    ],
)
def test_options_that_name_no_column(run, tmp_path, options, words):
    signal()[0].to_csv(tmp_path / "data.csv", index=False)
    arguments = ("train", tmp_path / "data.csv", "--target", "y", "--out", tmp_path / "o")
    status, _, err = run(*arguments, *options)
    assert status == 2
    assert words in err


def test_a_column_that_knows_the_answer(run, tmp_path):
    frame = table(150).drop(columns=["grade", "answer"])
    frame["tax"] = (0.19 * frame["price"]).round(2)
    frame.to_csv(tmp_path / "data.csv", index=False)
    arguments = ("train", tmp_path / "data.csv", "--target", "price", "--out", tmp_path / "o")
    found = json.loads(run(*arguments, "--json", "--ridge", "1", "--features", "linear")[1])
    leak = [one for one in found["findings"] if one["name"] == "column that leaks the target"]
    assert [one["advice"] for one in leak] == ["if so, train with --drop tax"]
    frame.drop(columns="tax").to_csv(tmp_path / "data.csv", index=False)
    found = json.loads(run(*arguments, "--json", "--ridge", "1", "--features", "linear")[1])
    (leak,) = [one for one in found["findings"] if one["name"] == "column that leaks the target"]
    assert leak["status"] == "ok"


def test_thousands_mean_the_same_in_training_and_prediction(run, tmp_path):
    """1.234 is 1234 in the training file; a file that does not show it is read in the same way."""
    (tmp_path / "data.csv").write_text(german_prices())
    arguments = ("train", tmp_path / "data.csv", "--target", "y", "--out", tmp_path / "o", "--json")
    found = json.loads(run(*arguments, "--ridge", "1", "--features", "linear")[1])
    (price,) = [note for note in found["notes"] if note.startswith("'y': numbers")]
    assert re.search(r"'(-?\d+)\.(\d+) €' was read as \1\2\)", price)
    assert found["estimated_test_error"] ** 0.5 > 10_000
    new = "size;count\n90 m²;5.900\n90 m²;4.100\n"
    (tmp_path / "new.csv").write_text(new)
    first, second = json.loads(run("predict", tmp_path / "o", tmp_path / "new.csv", "--json")[1])[
        "predictions"
    ]
    assert second - first == pytest.approx(100_000, rel=0.2)  # −50,000 for each 900
