"""The README's Python blocks run, one after the other, as a reader would type them."""

import re
from pathlib import Path

import decoupled_descent as dd

README = Path(__file__).parents[1] / "README.md"


def test_python_blocks_run():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) >= 4
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    assert names["run"].stop_reason is not dd.StopReason.STEPS
    assert names["result"].names[names["result"].best_index] == "0.9"
    assert bool(names["theory"].test_error.isfinite().all())


def test_files_it_points_to_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
