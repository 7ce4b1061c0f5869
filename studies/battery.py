"""Ways to break the promise "no wrong number with *trust*", tried on purpose.

    python studies/battery.py [--part networks|tables|evaluate] [--only NAME] [--out studies]

Each way is a mistake that users make, or data on which an earlier version told a wrong number with
*trust*; it goes through the public front. An answer is honest if it is an error of one line, if its
verdict is not *trust*, or if its number is within three standard errors of the truth. Prints a
table for ``docs/results/faults.md`` and, with ``--out``, writes ``battery.json`` there. A few
minutes of one core.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import time
import traceback
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from studies.ways import fits, models, networks, tables
from studies.ways.common import WAYS, Now

#: The modules that add ways to the list.
PARTS = {one.PART: one for one in (networks, tables, models, fits)}


def tried(one):
    """What a way leads to now; an exception is no answer."""
    start = time.perf_counter()
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            now = one.trial()
    except Exception as error:
        traceback.print_exc()
        now = Now(f"{type(error).__name__}: {str(error).splitlines()[0]}", False)
    return {
        "part": one.part, "way": one.name, "before": one.before, "now": now.said,
        "honest": bool(now.honest), "seconds": round(time.perf_counter() - start, 1),
    }  # fmt: skip


def as_table(records):
    """The records as a table in Markdown."""
    lines = ["| | way | said before | said now | honest |", "|---|---|---|---|---|"]
    for one in records:
        mark = "yes" if one["honest"] else "**no**"
        cells = [one["part"], one["way"], one["before"], one["now"], mark]
        lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    count = sum(one["honest"] for one in records)
    return "\n".join([*lines, "", f"{count} of {len(records)} ways get an honest answer."])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--only", default="", help="ways whose function has this in its name")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    records = []
    for one in WAYS:
        if asked.part in (None, one.part) and asked.only in one.trial.__name__:
            records.append(tried(one))
            print(f"{one.trial.__name__}: {records[-1]}", file=sys.stderr, flush=True)
    print(as_table(records))
    if asked.out is not None:
        (asked.out / "battery.json").write_text(json.dumps(records, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
