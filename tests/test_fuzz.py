"""Files that nobody wrote: whatever they hold, they are read, or refused with one clear error.

Structures are drawn, not bytes alone: descriptions of models and checkpoints are changed in one
place and signed again, headers of arrays are rewritten, tables have odd cells, quotes and
separators. ``make slow`` runs long campaigns of the same; studies/campaign.py runs the real
command.
"""

import copy
import gzip
import io
import json
import shutil
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import decoupled_descent as dd
from decoupled_descent.app.cli import command
from decoupled_descent.app.files.reading import read_table
from decoupled_descent.tables.columns.rules import Columns
from decoupled_descent.tables.estimators.saving import load_model, save_model
from decoupled_descent.tensor_file import CHECKSUM, DESCRIPTION, content_checksum
from decoupled_descent.training import checkpoint as checkpoints
from tests.fuzzed_tables import fuzz_jsonl, fuzz_ods, fuzz_packed, fuzz_xlsx
from tests.problems import binary, two_layer
from tests.tables.estimators.test_saving import resigned

QUICK = settings(
    max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
LONG = settings(QUICK, max_examples=3000, derandomize=False)

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=5),
    st.just([]), st.just({}), st.lists(st.integers(-3, 3), max_size=3), st.just([[[]]]),
    st.just("9" * 400), st.just({"a": {"b": None}}),
)  # fmt: skip


def nodes(content, path=()):
    """The places of a JSON document."""
    found = [path] if path else []
    children = content.items() if isinstance(content, dict) else (
        enumerate(content) if isinstance(content, list) else ()
    )  # fmt: skip
    for key, part in list(children)[:40]:
        found += nodes(part, (*path, key))
    return found


def replaced(content, path, value):
    """A copy with another value in one place."""
    content = copy.deepcopy(content)
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return content


def accepted(call):
    """Make a call that may refuse with one line, and nothing else."""
    try:
        return call()
    except (ValueError, OSError):
        return None


def saved_models(folder):
    """A table with numbers and words, and the files of a regressor and a classifier."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=40), "b": rng.choice(["x", "y"], 40)})
    columns = Columns.learn(frame)
    X = columns.apply(frame)
    y = X[:, 0] + rng.normal(size=40)
    model = dd.DecoupledRegressor(features=["linear", "rbf"], ridge=1.0).fit(X, y)
    save_model(model, folder / "regressor.safetensors", columns, "y")
    model = dd.DecoupledClassifier(features="rbf", ridge=1.0).fit(X, np.where(y > 0, "p", "n"))
    save_model(model, folder / "classifier.safetensors", columns, "y")
    return frame, sorted(folder.iterdir())


def fuzz_model(models, data):
    frame, paths = models
    path = data.draw(st.sampled_from(paths))
    changed = path.with_name("changed.bin")
    changed.write_bytes(path.read_bytes())

    def change(content, tensors):
        if data.draw(st.booleans()):
            place = data.draw(st.sampled_from(nodes(content)))
            return replaced(content, place, data.draw(VALUES))
        name = data.draw(st.sampled_from(sorted(tensors)))
        kinds = [
            lambda t: t[:0], lambda t: t.reshape(-1), lambda t: t.to(torch.float16),
            lambda t: t * float("nan") if t.is_floating_point() else t - 5,
            lambda t: torch.zeros(3, 3, 3), lambda t: t.to(torch.int64) * 0 + 2**40,
        ]  # fmt: skip
        tensors[name] = data.draw(st.sampled_from(kinds))(tensors[name]).contiguous()
        return None

    resigned(changed, change)
    loaded = accepted(lambda: load_model(changed))
    if loaded is not None:
        assert accepted(lambda: len(loaded.predict(frame))) in (len(frame), None)


def saved_run(folder):
    """The checkpoint of a run, and the call that continues it."""
    X, y = binary()

    def call(where):
        options = dd.Checkpoint(where, every=2)
        algorithm = dd.OrthogonalDecoupledDescent(0.1, 0.9, 1.0)
        return dd.fit(X, y, two_layer(), algorithm, 4, checkpoint=options)

    call(folder)
    return folder / checkpoints.FILE, call


def fuzz_checkpoint(run, data):
    path, call = run
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    tensors, about = load_file(path), json.loads(metadata[DESCRIPTION])
    if data.draw(st.booleans()):
        about = replaced(about, data.draw(st.sampled_from(nodes(about))), data.draw(VALUES))
    else:
        del tensors[data.draw(st.sampled_from(sorted(tensors)))]
    text = json.dumps(about)
    metadata |= {DESCRIPTION: text, CHECKSUM: content_checksum(tensors, text)}
    folder = path.parent / "again"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    save_file(tensors, folder / checkpoints.FILE, metadata)
    with warnings.catch_warnings():  # the file may say that no minimum was reached
        warnings.simplefilter("ignore", dd.DivergenceWarning)
        accepted(lambda: call(folder))


CELLS = st.one_of(
    st.text(max_size=6), st.floats().map(str), st.integers().map(str),
    st.sampled_from([
        "", "NA", "-", "?", '"', '""', "$1,234.50", "12 %", "(5)", "1.234,50 €", "31/05/2024",
        "2024-13-45", "1e999", "-inf", "nan", "TRUE", "=1+1", "\u202e", "٣", "1_000", "0x1F",
        "\n", "\r", ";", "\t", "9" * 5000, "2024-05-31T25:61", "１２",
    ]),
)  # fmt: skip


def fuzz_text(folder, data):
    width = data.draw(st.integers(1, 4))
    lines = data.draw(st.lists(st.lists(CELLS, min_size=1, max_size=width), max_size=12))
    separator = data.draw(st.sampled_from([",", ";", "\t", "|", " "]))
    names = data.draw(st.lists(CELLS, min_size=width, max_size=width))
    quoted = data.draw(st.booleans())
    texts = [
        separator.join(f'"{cell}"' if quoted else cell for cell in line) for line in [names, *lines]
    ]
    encoding = data.draw(st.sampled_from(["utf-8", "utf-8-sig", "cp1252", "utf-16", "latin-1"]))
    content = data.draw(st.sampled_from(["\n", "\r\n", "\r"])).join(texts)
    content = content.encode(encoding, "replace")
    packed = data.draw(st.booleans())
    path = folder / ("a.csv.gz" if packed else "a.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    frame = accepted(lambda: read_table(path))
    if frame is not None:
        columns = accepted(lambda: Columns.learn(frame))
        if columns is not None:
            assert np.isfinite(columns.apply(frame)).all()
            assert Columns.from_dict(json.loads(json.dumps(columns.to_dict()))) == columns


DTYPES = ["<f8", ">i4", "<U3", "|b1", "|O", "<c16", "<M8[s]", "|V4", "<f2", "<U0", "|S4", "<f16"]


def array_bytes(data):
    """An array whose header says something else than is there."""
    array = data.draw(st.sampled_from([np.ones((12, 2)), np.array([["a", "b"]] * 3), np.arange(4)]))
    stream = io.BytesIO()
    shape = tuple(data.draw(st.lists(st.integers(-1, 2**40), max_size=3)))
    descr = data.draw(st.sampled_from(DTYPES))
    about = {"descr": descr, "fortran_order": data.draw(st.booleans()), "shape": shape}
    if data.draw(st.booleans()):
        about = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}
    text = repr(about) if data.draw(st.integers(0, 4)) else data.draw(st.text(max_size=20))
    header = text.encode("latin-1", "replace") + b"\n"
    version = data.draw(st.sampled_from([1, 2, 3, 9]))
    stream.write(b"\x93NUMPY" + bytes([version, 0]))
    stream.write(len(header).to_bytes(2 if version == 1 else 4, "little"))
    stream.write(header + array.tobytes()[: data.draw(st.integers(0, 200))])
    return stream.getvalue()


def fuzz_arrays(folder, data):
    if data.draw(st.booleans()):
        path = folder / "a.npy"
        path.write_bytes(array_bytes(data))
    else:
        path = folder / "a.npz"
        with zipfile.ZipFile(path, "w") as archive:
            for name in data.draw(
                st.sets(st.sampled_from(["X", "y", "z", "X.npy/.."]), max_size=3)
            ):
                archive.writestr(f"{name}.npy", array_bytes(data))
    accepted(lambda: read_table(path))


def fuzz_parquet(folder, data):
    arrow = pytest.importorskip("pyarrow")
    kinds = [
        [1, None, 3], [1.5, float("inf"), None], ["a", None, "="], [True, False, None],
        [[1], [2], []], [{"a": 1}, None, {"a": 2}], [b"\xff", b"", None], [None, None, None],
        [10**30, 1, 2.5],
    ]  # fmt: skip
    drawn = data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4))
    columns = {f"c{k}": arrow.array(v) for k, v in enumerate(drawn) if v[0] != 10**30}
    stream = io.BytesIO()
    from pyarrow import parquet

    parquet.write_table(arrow.table(columns or {"c": arrow.array([1])}), stream)
    content = bytearray(stream.getvalue())
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = folder / "a.parquet"
    path.write_bytes(bytes(content))
    frame = accepted(lambda: read_table(path))
    if frame is not None:
        accepted(lambda: Columns.learn(frame))


#: By kind of file: what is made once in a folder, and what draws a file and reads it.
KINDS = {
    "model": (saved_models, fuzz_model),
    "checkpoint": (saved_run, fuzz_checkpoint),
    "text": (Path, fuzz_text),
    "arrays": (Path, fuzz_arrays),
    "parquet": (Path, fuzz_parquet),
    "xlsx": (Path, fuzz_xlsx),
    "ods": (Path, fuzz_ods),
    "jsonl": (Path, fuzz_jsonl),
    "packed": (Path, fuzz_packed),
}


def campaign(kind, folder, options):
    """A test of Hypothesis without arguments."""
    make, draw = KINDS[kind]
    made = make(folder)

    @options
    @given(st.data())
    def check(data):
        draw(made, data)

    return check


@pytest.mark.parametrize(
    "options", [QUICK, pytest.param(LONG, marks=pytest.mark.slow)], ids=["quick", "long"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_files_are_read_or_refused(kind, options, tmp_path):
    campaign(kind, tmp_path, options)()


CORPUS = sorted((Path(__file__).parent / "corpus").iterdir())


@pytest.mark.parametrize(
    "path", [one for one in CORPUS if one.suffix != ".safetensors"], ids=lambda path: path.name
)
def test_the_command_refuses_them_in_one_line(path, tmp_path, capsys):
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow")
    out = tmp_path / "out"
    status = command.answer(["train", str(path), "--target", "no column", "--out", str(out)])
    said, error = capsys.readouterr()
    assert (status, said) == (2, "")
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_files_that_were_found(path):
    """Files that once took too much memory or time, or ended in another error."""
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow")
    tracemalloc.start()
    try:
        if path.suffix == ".safetensors":
            accepted(lambda: load_model(path))
        else:
            frame = accepted(lambda: read_table(path))
            columns = frame is not None and accepted(lambda: Columns.learn(frame))
            assert not columns or np.isfinite(columns.apply(frame)).all()
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
