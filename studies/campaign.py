"""Files, options, models, streams and signals that nobody wrote, for the real command.

``python studies/campaign.py --minutes 60`` draws cases of each kind from small grammars, with a
fixed seed, and runs ``decoupled`` on them in processes with limits on time and memory. A case
passes if the command succeeds, or ends with one line that begins with "error:", or that says that
it was interrupted. The table at the end has the number of cases and faults, the longest time and
the largest memory of each kind; ``--keep DIR`` stores the cases that failed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from decoupled_descent.tensor_file import CHECKSUM, DESCRIPTION, content_checksum

COMMAND = f"{sys.executable} -m decoupled_descent.app.cli"
#: Seconds and bytes of a case. A small training takes 5 s and 500 MB.
MOST_SECONDS, MOST_MEMORY = 60.0, 1_500_000_000
FAST = "--features linear --ridge 1"
ODD = [
    "",
    "NA",
    "-1",
    "1e999",
    "nan",
    "inf",
    "1e-320",
    "12 %",
    "$1,234.5",
    "=1+1",
    "\u202e",
    "٣",
    '"',
]
ODD += [
    "2024-13-45",
    "x" * 3000,
    "\0",
    "9" * 400,
    "31/05/2024",
    "1_000",
    "\ufeff",
    "'",
    "; --",
    "\t",
]
MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
TYPES = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
LINKS = 'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"'
OASIS = "urn:oasis:names:tc:opendocument:xmlns:"
SPACES = " ".join(f'xmlns:{one}="{OASIS}{one}:1.0"' for one in ("office", "table", "text"))


class Case(NamedTuple):
    """A command for the shell, in a folder with its files."""

    command: str
    after: float = 0.0  # seconds until the signal is sent
    signal: int = 0


class Result(NamedTuple):
    """What happened."""

    seconds: float
    memory: int
    fault: str  # empty if there is none


@dataclass
class Grammar:
    """Draws cases in a folder.

    Attributes:
        folder: Where the files of a case are written.
        rng: The random numbers.
    """

    folder: Path
    rng: np.random.Generator
    models: Path = field(default_factory=Path)

    def one(self, choices: list) -> object:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def table(self, n: int = 40) -> pd.DataFrame:
        frame = pd.DataFrame(self.rng.normal(size=(n, 2)), columns=["a", "b"])
        frame["c"] = self.rng.choice(["x", "y", "z"], n)
        signal_ = frame["a"] + self.rng.normal(size=n)
        words = np.where(signal_ > 0, "yes", "no")
        return frame.assign(y=words if self.chance(0.5) else signal_)

    def odd_table(self) -> pd.DataFrame:
        frame = self.table(int(self.one([3, 12, 40, 40, 40]))).astype(object)
        for _ in range(int(self.rng.integers(4))):
            row, column = self.rng.integers(len(frame)), self.rng.integers(frame.shape[1])
            frame.iloc[row, column] = self.one(ODD)
        if self.chance(0.2):
            factor = 10.0 ** self.rng.integers(-300, 300)
            frame["y"] = [one * factor if isinstance(one, float) else one for one in frame["y"]]
        if self.chance(0.2):
            frame.columns = [*frame.columns[:-1], self.one(["Y", " y", "y", "y.1", "", "=y", "a"])]
        return frame

    def damaged(self, content: bytes, share: float = 0.5) -> bytes:
        """The content, with a few other bytes in this share of the cases; some are cut off."""
        if not content or not self.chance(share):
            return content
        array = bytearray(content)
        for _ in range(int(self.one([1, 3]))):
            array[self.rng.integers(len(array))] = self.rng.integers(256)
        return bytes(array[: self.rng.integers(len(array))] if self.chance(0.2) else array)

    def train(self, name: str, content: bytes, share: float = 0.5) -> Case:
        (self.folder / name).write_bytes(self.damaged(content, share))
        return Case(f"{COMMAND} train {name} --target y --out o {FAST}")

    def text(self) -> Case:
        separator = self.one([",", ";", "\t", "|"])
        text = self.odd_table().to_csv(index=False, sep=separator, decimal=self.one([".", ","]))
        encoding = self.one(["utf-8", "utf-8-sig", "utf-16", "cp1252"])
        content = text.encode(encoding, "replace")
        if self.chance(0.2):
            content = content.replace(b"\n", b"\n1" + b",1" * int(self.one([0, 3, 9, 99_999])), 1)
        if self.chance(0.2):
            bomb = b"\n1,2,x,3" * int(self.one([1, 10**5, 10**7]))
            return self.train("a.csv.gz", gzip.compress(content + bomb, 1))
        return self.train(str(self.one(["a.csv", "a.tsv", "a.txt"])), content)

    def json_lines(self) -> Case:
        rows = [json.dumps(row) for row in self.odd_table().to_dict("records")]
        more = [
            "{}",
            '{"y": 1, "y": 2}',
            '{"a": "\\ud800"}',
            "[1]",
            "{" * 9999,
            "NaN",
            '{"y": [[]]}',
        ]
        more += [json.dumps({f"n{k}": k for k in range(int(self.one([2000, 99_000])))})]
        if self.chance(0.6):
            rows.insert(int(self.rng.integers(len(rows) + 1)), str(self.one(more)))
        return self.train("a.jsonl", "\n".join(rows).encode("utf-8", "replace"))

    def parquet(self) -> Case:
        import pyarrow as arrow
        from pyarrow import parquet

        n = int(self.one([40, 1000, 10**5]))
        value = self.one(["x", "x" * 10**6, b"x" * 10**5, 1.5, 10**12])
        if isinstance(value, str | bytes):  # pyarrow expands the column when it writes it
            n = min(n, 5 * 10**8 // len(value))
        codes = arrow.array(np.zeros(n, np.int8))
        column = arrow.DictionaryArray.from_arrays(codes, arrow.array([value, value]))
        kinds = {"a": column, "b": arrow.array(self.rng.integers(3, size=n)), "n": arrow.nulls(n)}
        y = arrow.array(self.rng.normal(size=n)) if self.chance(0.7) else column
        parquet.write_table(arrow.table(kinds | {"y": y}), self.folder / "raw")
        return self.train("a.parquet", (self.folder / "raw").read_bytes())

    def archive(self, name: str, parts: dict[str, str]) -> Case:
        """An archive with damaged parts; damage of the archive itself shows in its checksums."""
        with zipfile.ZipFile(self.folder / "raw", "w", zipfile.ZIP_DEFLATED) as archive:
            for part, content in parts.items():
                if self.chance(0.98):
                    archive.writestr(part, self.damaged(content.encode("utf-8", "replace"), 0.1))
        return self.train(name, (self.folder / "raw").read_bytes(), 0.05)

    def xlsx(self) -> Case:
        long, uses = int(self.one([1, 1, 1000, 10**6])), int(self.one([1, 12, 12, 4000]))
        strange, indices = self.chance(0.2), [0, 1, 9] if self.chance(0.1) else [0, 1]
        rows = "".join(
            f'<row r="{k}"><c r="A{k}"><v>{k * k % 7}</v></c><c r="B{k}" t="str"><v>{word}</v></c>'
            f'<c r="{self.one(["D", "c", ""]) if strange else "C"}{k}" t="s">'
            f"<v>{self.one(indices)}</v></c>"
            "</row>"
            for k, word in enumerate(["y", *"ab" * uses], start=1)
        )
        odd = ['<row r="1048576"><c r="XFD1048576"/></row>', '<row r="x"/>', "<c/>"]
        far = self.one(odd) if self.chance(0.3) else ""
        strings = f"<si><t>{'s' * long}</t></si>" * int(self.one([1, 2])) + "<si/>"
        link = '<Relationship Id="r{}" Type="' + TYPES + '/{}" Target="{}"/>'
        first, second = (
            link.format(0, "officeDocument", "xl/workbook.xml"),
            link.format(1, "worksheet", "worksheets/sheet1.xml"),
        )
        sheet = f'<sheet name="S" sheetId="1" r:id="r1" state="{self.one(["visible", "hidden"])}"/>'
        return self.archive(
            str(self.one(["a.xlsx", "a.xlsm", "a.xls"])),
            {
                "_rels/.rels": f"<Relationships {LINKS}>{first}</Relationships>",
                "xl/workbook.xml": f'<workbook {MAIN} xmlns:r="{TYPES}"><sheets>{sheet}</sheets>'
                "</workbook>",
                "xl/_rels/workbook.xml.rels": f"<Relationships {LINKS}>{second}</Relationships>",
                "xl/sharedStrings.xml": f"<sst {MAIN}>{strings}</sst>",
                "xl/worksheets/sheet1.xml": f"<worksheet {MAIN}><sheetData>{rows}{far}</sheetData>"
                "</worksheet>",
            },
        )

    def ods(self) -> Case:
        text = "x" * int(self.one([1, 1, 1000, 10**6]))
        cell = "<table:table-cell office:value-type='{}' {}><text:p>{}</text:p></table:table-cell>"
        rows = ""
        for k in range(14):
            times = f"table:number-columns-repeated='{self.one([1, 3, 16384, 'x', -1, 10**12])}'"
            cells = cell.format("float", f"office:value='{k * k % 7}'", k) + cell.format(
                "string", times if self.chance(0.03) else "", "y" if not k else text[: 1 + k % 2]
            )
            cells += cell.format("string", "", text) if self.chance(0.2) else ""
            times = f"table:number-rows-repeated='{self.one([1, 2, 10**6, 10**13, 'x'])}'"
            rows += (
                f"<table:table-row {times if self.chance(0.03) else ''}>{cells}</table:table-row>"
            )
        tables = f"<table:table table:name='S'>{rows}</table:table>" * int(self.one([1, 1, 2, 900]))
        body = f"<office:body><office:spreadsheet>{tables}</office:spreadsheet></office:body>"
        content = f"<office:document-content {SPACES}>{body}</office:document-content>"
        kind = "application/vnd.oasis.opendocument.spreadsheet"
        parts = {"mimetype": kind, "content.xml": content, "META-INF/manifest.xml": "<m/>"}
        return self.archive("a.ods", parts)

    def options(self) -> Case:
        self.table().to_csv(self.folder / "a.csv", index=False)
        values = [
            "0",
            "-1",
            "1e308",
            "1e-308",
            "nan",
            "inf",
            "x",
            "''",
            "a",
            "y",
            "c",
            "1",
            "=",
            "-",
        ]
        names = ["ridge", "features", "seed", "task", "time-limit", "drop", "id", "group", "weight"]
        names += [
            "time",
            "cost-ratio",
            "sheet",
            "positive",
            "merge-classes",
            "target",
            "log-target",
        ]
        given = [f"--{self.one(names)} {self.one(values)}" for _ in range(self.rng.integers(1, 3))]
        command = f"{COMMAND} train a.csv --target y --out o --features linear"
        return Case(f"{command} {' '.join(given)}")

    def model(self) -> Case:
        source = self.models / str(self.one(["regression", "classification"]))
        with safe_open(source / "model.safetensors", "np") as file:
            content = json.loads(file.metadata()[DESCRIPTION])
        arrays = load_file(source / "model.safetensors")
        if self.chance(0.5):
            name = str(self.one(sorted(arrays)))
            changes: list[Callable] = [
                lambda v: v[:-1], lambda v: v.reshape(-1), lambda v: v * 0, lambda v: v - 5,
                lambda v: v[::-1], lambda v: v.astype("float32"), lambda v: v.reshape(-1)[0],
            ]  # fmt: skip
            arrays[name] = np.array(self.one(changes)(arrays[name]), order="C")
        else:
            place, key = content, str(self.one(sorted(content)))
            while isinstance(place[key], dict | list) and place[key] and self.chance(0.85):
                place = place[key]
                key = self.one(sorted(place)) if isinstance(place, dict) else self.one([0, -1])
            place[key] = self.one([None, True, -1, 0, 1e308, "1", [], {}, [[]], "9" * 400])
        text = json.dumps(content)
        meta = {DESCRIPTION: text, CHECKSUM: content_checksum(arrays, text)}
        save_file(arrays, self.folder / "m.safetensors", meta)
        self.table().to_csv(self.folder / "a.csv", index=False)
        return Case(f"{COMMAND} predict m.safetensors a.csv")

    def streams(self) -> Case:
        self.table().to_csv(self.folder / "a.csv", index=False)
        data = self.one(["a.csv", "<(cat a.csv)", "- < a.csv", "- <&-", "/dev/null", "/dev/zero"])
        data = "- < a.csv" if data == "/dev/zero" else data
        ends = ["> /dev/full", "2> /dev/full", "2>&-", ">&-", "| head -1", "> /dev/full 2>&1", ""]
        command = f"{COMMAND} train {data} --target y --out o {FAST}"
        return Case(f"{command} {self.one(['', '--json'])} {self.one(ends)}")

    def signals(self) -> Case:
        self.table(int(self.one([40, 400]))).to_csv(self.folder / "a.csv", index=False)
        sent = int(self.one([signal.SIGINT, signal.SIGTERM, signal.SIGHUP]))
        command = f"exec {COMMAND} train a.csv --target y --out o"
        return Case(command, float(self.rng.uniform(0.3, 6)), sent)


KINDS = ["text", "json_lines", "parquet", "xlsx", "ods", "options", "model", "streams", "signals"]


def limited() -> None:
    """Limit the memory of this process; its modules take 3 GB of addresses."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY + 6 * 2**30,) * 2)


def peak(pid: int) -> int:
    """The largest memory of a process so far, and of those that it has started."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # it has ended
        return 0
    own = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")]
    return max([1024 * one for one in own] + [peak(int(child)) for child in children], default=0)


def run(case: Case, folder: Path) -> Result:
    """Run a case, and say what is wrong about it."""
    start = time.monotonic()
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        process = subprocess.Popen(
            ["bash", "-c", case.command], cwd=folder, stdin=subprocess.DEVNULL, stdout=out,
            stderr=err, preexec_fn=limited, start_new_session=True,
        )  # fmt: skip
        memory, sent = 0, not case.signal
        while process.poll() is None:
            memory = max(memory, peak(process.pid))
            seconds = time.monotonic() - start
            if not sent and seconds > case.after:
                sent = os.kill(process.pid, case.signal) is None
            if seconds > MOST_SECONDS:
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.02)
    seconds = time.monotonic() - start
    said = (folder / "stderr").read_text("utf-8", "replace")
    errors = [line for line in said.splitlines() if line.startswith(("error:", "interrupted"))]
    fault = ""
    if seconds > MOST_SECONDS:
        fault = "too long"
    elif memory > MOST_MEMORY:
        fault = "too much memory"
    elif "Traceback" in said:
        fault = "traceback: " + said.strip().splitlines()[-1][:100]
    elif process.returncode not in (0, 1, 2, 129, 130, 143, -1, -2, -15):
        fault = f"status {process.returncode}"
    elif process.returncode == 2 and not errors and "2>" not in case.command:
        fault = "status 2 without a word"
    elif process.returncode == 1 and ">" not in case.command and "|" not in case.command:
        fault = "status 1"
    return Result(seconds, memory, fault)


def trained(folder: Path) -> None:
    """Two models, which are changed later."""
    grammar = Grammar(folder, np.random.default_rng(0))
    frame = grammar.table().drop(columns="y")
    noise = frame["a"] + grammar.rng.normal(size=len(frame))
    for name, y in (("regression", noise), ("classification", np.where(noise > 0, "yes", "no"))):
        frame.assign(y=y).to_csv(folder / "a.csv", index=False)
        result = run(Case(f"{COMMAND} train a.csv --target y --out {name}"), folder)
        assert not result.fault, result


def main() -> None:
    """Run the campaign and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--keep", type=Path, help="a folder for the cases that failed")
    options = parser.parse_args()
    results: dict[str, list[Result]] = {kind: [] for kind in options.kinds}
    end, number = time.monotonic() + 60 * options.minutes, 0
    with tempfile.TemporaryDirectory() as made:
        models = Path(made)
        trained(models)
        while time.monotonic() < end:
            kind = options.kinds[number % len(options.kinds)]
            with tempfile.TemporaryDirectory() as folder:
                rng = np.random.default_rng([options.seed, number])
                case = getattr(Grammar(Path(folder), rng, models), kind)()
                result = run(case, Path(folder))
                results[kind].append(result)
                if result.fault:
                    print(f"{kind} {number}: {result.fault}: {case.command[len(COMMAND) :][:110]}")
                    if options.keep:
                        shutil.copytree(folder, options.keep / f"{kind}-{number}")
            number += 1
    print(f"\n{'kind':12} {'cases':>6} {'faults':>6} {'worst s':>8} {'worst MB':>9}")
    for kind, some in results.items():
        if some:
            seconds, memory = max(one.seconds for one in some), max(one.memory for one in some)
            faults = sum(bool(one.fault) for one in some)
            print(f"{kind:12} {len(some):6} {faults:6} {seconds:8.1f} {memory / 1e6:9.0f}")


if __name__ == "__main__":
    main()
