"""Campaigns of tests/test_fuzz.py that are guided by the lines they reach.

``python -m tests.fuzz KIND [OPTIONS]`` needs ``pip install atheris``. KIND is model, checkpoint,
text, arrays, parquet, xlsx, ods, jsonl or packed; the options are those of libFuzzer, such as
-max_total_time=300 and a folder that keeps interesting inputs. A failure prints what was drawn and
the traceback.
"""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["decoupled_descent"]):
    from tests.test_fuzz import KINDS, QUICK, campaign


def main() -> None:
    kind, *options = sys.argv[1:] or [""]
    if kind not in KINDS:
        sys.exit(f"{kind!r} is not a kind; choose one of {', '.join(KINDS)}")
    with tempfile.TemporaryDirectory() as folder:
        check = campaign(kind, Path(folder), QUICK)
        long = ["-len_control=0", "-max_len=4000"]  # a file takes many draws
        atheris.Setup([sys.argv[0], *long, *options], check.hypothesis.fuzz_one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
