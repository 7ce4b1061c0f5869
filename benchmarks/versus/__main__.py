"""Compare ways to learn a test error.

    python -m benchmarks.versus run [--quick] [--family NAME] [--rows 1000] [--out FILE]
    python -m benchmarks.versus table [--short | --full] [FILE]
    python -m benchmarks.versus plot [FILE] [--out PNG]

``run`` measures what the file of results lacks, small samples first, and can be stopped at any
time. Real data are found by DECOUPLED_DATA. Times are processor seconds: one process, one thread.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

RESULTS = Path(__file__).parent / "results.jsonl"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.versus", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure what the results lack")
    run.add_argument("--out", type=Path, default=RESULTS, help="file of results, continued")
    run.add_argument("--family", help="only model classes whose name has this in it")
    run.add_argument("--rows", type=int, default=5000, help="at most this many training rows")
    run.add_argument("--replications", type=int, help="at most this many data sets of a kind")
    run.add_argument("--quick", action="store_true", help="two data sets of 100 rows of each kind")
    for name in ("table", "plot"):
        command = commands.add_parser(name)
        command.add_argument("file", nargs="?", type=Path, default=RESULTS)
    lengths = commands.choices["table"].add_mutually_exclusive_group()
    lengths.add_argument("--short", action="store_true", help="the main methods at two sizes")
    lengths.add_argument("--full", action="store_true", help="every problem")
    commands.choices["plot"].add_argument(
        "--out", type=Path, default=Path("docs/figures/versus.png")
    )
    return parser.parse_args()


def main() -> None:
    options = arguments()
    from benchmarks.versus.records import read, run  # torch and scikit-learn: only once asked for

    if options.command == "run":
        import torch

        from benchmarks.versus.problems import cells

        torch.set_num_threads(1)
        rows, most = (100, 2) if options.quick else (options.rows, options.replications)
        wanted = [
            cell for cell in cells() if cell.n <= rows and (options.family or "") in cell.family
        ]
        for record in run(wanted, options.out, most):
            words = (record[name] for name in ("family", "problem", "n", "seed", "way"))
            print(*words, f"{record['seconds']:.2f} s", sep=" · ", flush=True)
        return
    records = read(options.file)
    if not records:
        sys.exit(f"{options.file} has no results; python -m benchmarks.versus run makes them")
    if options.command == "table":
        from benchmarks.versus.summary import cell_tables, family_tables, short_table

        table = short_table if options.short else cell_tables if options.full else family_tables
        print(table(records))
    else:
        from benchmarks.versus.plot import draw

        draw(records).savefig(options.out, dpi=160)


if __name__ == "__main__":
    main()
