"""Imports of a command: less is searched for garbage, and no module stands in for another."""

import json
import subprocess
import sys

PROGRAM = """
import gc, json
from decoupled_descent.app.cli.importing import imports

with imports():
    inside = gc.isenabled()
    import sklearn.metrics
print(json.dumps([inside, gc.isenabled(), gc.get_freeze_count()]))
"""


def test_garbage_is_not_searched_for_among_modules():
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    inside, after, frozen = json.loads(run.stdout)
    assert (inside, after) == (False, True)
    assert frozen > 10_000  # the objects of the modules


def test_a_training_does_not_need_matplotlib(tmp_path):
    lines = [f"{k % 7},{k * k % 11},{'ab'[k * k % 11 > 4]}" for k in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["u,v,y", *lines]))
    program = (
        "import sys\nfrom decoupled_descent.app.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "print('matplotlib' in sys.modules)"
    )
    given = ["train", str(tmp_path / "t.csv"), "--target", "y", "--out", str(tmp_path / "out")]
    run = subprocess.run(
        [sys.executable, "-c", program, *given], capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines()[-1] == "False"
