"""Imports of a command: less is searched for garbage, seldom used modules come when used."""

import json
import subprocess
import sys

PROGRAM = """
import gc, json, sys
from decoupled_descent.app.cli.importing import SELDOM, imports

with imports(SELDOM):
    inside = gc.isenabled()
    import sklearn.metrics
    import scipy.stats
seen = {"inside": inside, "after": gc.isenabled(), "frozen": gc.get_freeze_count()}
seen["put off"] = "scipy.stats._stats_py" not in sys.modules
seen["ranks"] = sklearn.metrics._ranking.rankdata([30, 10, 20]).tolist()
seen["used"] = "scipy.stats._stats_py" in sys.modules
seen["quantile"] = float(scipy.stats.norm.ppf(0.975))
print(json.dumps(seen))
"""


def test_a_module_is_put_off_until_it_is_used():
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    seen = json.loads(run.stdout)
    assert (seen["inside"], seen["after"]) == (False, True)
    assert seen["frozen"] > 10_000  # the objects of the modules
    assert seen["put off"]
    assert seen["used"]
    assert seen["ranks"] == [3, 1, 2]
    assert abs(seen["quantile"] - 1.959964) < 1e-6


def test_a_training_needs_neither_matplotlib_nor_the_statistics_of_scipy(tmp_path):
    lines = [f"{k % 7},{k * k % 11},{'ab'[k * k % 11 > 4]}" for k in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["u,v,y", *lines]))
    program = (
        "import sys\nfrom decoupled_descent.app.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "print([one for one in ('matplotlib', 'scipy.stats._stats_py') if one in sys.modules])"
    )
    given = ["train", str(tmp_path / "t.csv"), "--target", "y", "--out", str(tmp_path / "out")]
    run = subprocess.run(
        [sys.executable, "-c", program, *given], capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines()[-1] == "[]"
