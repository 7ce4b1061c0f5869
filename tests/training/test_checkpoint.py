"""A run that is cut short continues as if nothing had happened, and nothing else is continued."""

import math
import re
import resource
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

import decoupled_descent as dd
from decoupled_descent.training import StopReason
from decoupled_descent.training.checkpoint import FILE, kept_in
from tests.descent.test_common import ALGORITHMS
from tests.problems import binary, normal, two_layer

STEPS = 9
EVERY = ALGORITHMS | {"newton": dd.DecoupledNewton(1.0)}
every_algorithm = pytest.mark.parametrize("algorithm", EVERY.values(), ids=EVERY)


def objective_for(algorithm):
    linear = dd.heads.Linear(intercept=True).double()
    newton = isinstance(algorithm, dd.DecoupledNewton)
    return dd.Objective(linear, "logistic") if newton else two_layer()


class CutError(Exception):
    """The end of a run that nobody expected."""


def cut_at(index):
    def cut(step):
        if step.index == index:
            raise CutError

    return cut


def cut_short(index, call, *arguments, callbacks=(), **options):
    with pytest.raises(CutError):
        call(*arguments, callbacks=[*callbacks, cut_at(index)], **options)


def assert_same(run, other):
    assert run.history == other.history
    assert (run.stop_reason, run.message, run.alarm) == (
        other.stop_reason,
        other.message,
        other.alarm,
    )
    for one, two in ((run.last, other.last), (run.best, other.best)):
        assert type(one.state) is type(two.state)
        assert one.index == two.index
        torch.testing.assert_close(one.state, two.state, rtol=0, atol=0)
        torch.testing.assert_close(one.info, two.info, rtol=0, atol=0)


def often(folder, every=1):
    return dd.Checkpoint(folder, every=every)


@every_algorithm
@pytest.mark.parametrize("index", [1, 5])
def test_a_run_cut_short_continues_bit_for_bit(tmp_path, algorithm, index):
    (X, y), test = binary(), binary(10, seed=1)
    rows, objective = dd.Rows(X, y, block_size=7), objective_for(algorithm)
    call = partial(dd.fit, rows, None, objective, algorithm, STEPS, test=test, seed=3)
    full = call()
    if index < len(full.train_error):
        cut_short(index, call, checkpoint=often(tmp_path, 2 if index > 2 else 1))
        assert (tmp_path / FILE).exists()
    assert_same(call(checkpoint=often(tmp_path)), full)
    seen = []
    assert_same(call(checkpoint=tmp_path, callbacks=seen.append), full)
    assert seen == []  # it was done, and nothing was computed


@every_algorithm
def test_equal_calls_give_equal_bits(algorithm):
    (X, y), objective = binary(), objective_for(algorithm)
    call = partial(dd.fit, objective=objective, algorithm=algorithm, steps=STEPS, seed=3)
    assert_same(call(dd.Rows(X, y, 7), None), call(dd.Rows(X.clone(), y.clone(), 7), None))


def test_early_stopping_goes_on_counting(tmp_path):
    (X, y), objective = binary(), two_layer()
    call = partial(dd.fit, X, y, objective, dd.DecoupledDescent(0.5, 0.9), 300)
    rule = partial(dd.EarlyStopping, tolerance=1e-3, patience=7, start=5)
    full = call(callbacks=rule())
    last = len(full.train_error) - 1
    assert full.stop_reason in ("converged", "rising")
    cut_short(last - 2, call, callbacks=[rule()], checkpoint=often(tmp_path))
    assert_same(call(callbacks=rule(), checkpoint=tmp_path), full)
    with pytest.raises(ValueError, match=r"callbacks.0.patience was 7 and is now 8"):
        call(callbacks=replace(rule(), patience=8), checkpoint=tmp_path)


def test_a_start_that_nobody_can_repeat(tmp_path):
    """With seed=None the start is in the file alone."""
    (X, y), objective = binary(), two_layer()
    call = partial(dd.fit, X, y, objective, dd.DecoupledDescent(0.1), STEPS, seed=None)
    first = {}
    with pytest.raises(CutError):
        call(
            callbacks=[lambda step: first.update({step.index: step.train_error}), cut_at(4)],
            checkpoint=often(tmp_path),
        )
    run = call(checkpoint=tmp_path)
    assert run.history.train_error[:5] == list(first.values())


def test_continued_states_and_divergence(tmp_path):
    (X, y), objective = binary(), two_layer()
    algorithm = dd.DecoupledDescent(0.1)
    part = dd.fit(X, y, objective, algorithm, 4)
    call = partial(dd.fit, X, y, objective, algorithm, STEPS, state=part.state)
    cut_short(3, call, checkpoint=often(tmp_path / "a"))
    assert_same(call(checkpoint=tmp_path / "a"), call())
    call = partial(dd.fit, X, y, dd.Objective(dd.heads.Linear(), "squared"), dd.GradientDescent(90))
    with pytest.warns(dd.DivergenceWarning):
        full = call()
    for _ in range(2):
        with pytest.warns(dd.DivergenceWarning):
            assert_same(call(checkpoint=tmp_path / "b"), full)


def test_time_decides_by_default(tmp_path):
    (X, y), objective = binary(), two_layer()
    call = partial(dd.fit, X, y, objective, dd.DecoupledDescent(0.1), STEPS)
    cut_short(5, call, checkpoint=tmp_path / "a")
    assert not list((tmp_path / "a").iterdir())  # half a minute has not passed
    cut_short(5, call, checkpoint=dd.Checkpoint(tmp_path / "b", seconds=0))
    assert len(list((tmp_path / "b").iterdir())) == 1


def test_interruption_by_the_keyboard_is_continued(tmp_path):
    (X, y), objective = binary(), two_layer()
    call = partial(dd.fit, X, y, objective, dd.DecoupledDescent(0.1), STEPS)

    def interrupt(step):
        if step.index == 5:
            raise KeyboardInterrupt

    part = call(callbacks=interrupt, checkpoint=often(tmp_path))
    assert part.stop_reason is StopReason.INTERRUPTED
    assert_same(call(checkpoint=tmp_path), call())


def head_of_ones_own(power):
    class Head(nn.Module):
        width = 2

        def forward(self, h):
            return (h**power).sum(1)

    return dd.Objective(Head(), "squared")


X, Y = binary()
GIVEN = {
    "X": X,
    "y": Y,
    "objective": two_layer(),
    "algorithm": dd.DecoupledDescent(0.1, 0.9, g=lambda h, y, a: h - y[:, None]),
    "steps": STEPS,
    "seed": 0,
}
CHANGES = {
    "rows.X": {"X": X + 1e-15 * (torch.arange(16) == 3)},
    "rows.y": {"y": 1 - Y},
    "rows.X was 'torch.float64": {"X": X.float()},
    "rows.block_size was 24 and is now 5": {"X": dd.Rows(X, Y, 5), "y": None},
    "algorithm.lr was 0.1 and is now 0.2": {"algorithm": replace(GIVEN["algorithm"], lr=0.2)},
    "algorithm was|algorithm.kind was": {"algorithm": dd.GradientDescent(0.1, 0.9)},
    "algorithm.g.function": {
        "algorithm": replace(GIVEN["algorithm"], g=lambda h, y, a: h + y[:, None])
    },
    "algorithm.head_optimizer": {
        "algorithm": replace(GIVEN["algorithm"], head_optimizer=partial(torch.optim.Adam, lr=0.1))
    },
    "objective.head": {"objective": two_layer(seed=1)},
    "objective.loss": {"objective": dd.Objective(two_layer().head, "squared")},
    "steps was 9 and is now 10": {"steps": 10},
    "seed was 0 and is now 1": {"seed": 1},
    "theta was None": {"theta": normal(3, 16)},
    "test": {"test": binary(8)},
}


@pytest.mark.parametrize(("message", "change"), CHANGES.items(), ids=CHANGES)
def test_another_call_is_refused(tmp_path, message, change):
    dd.fit(**GIVEN, checkpoint=tmp_path)
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(ValueError, match=message) as refusal:
        dd.fit(**GIVEN | change, checkpoint=tmp_path)
    assert "another folder to start anew" in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert (tmp_path / FILE).read_bytes() == before


def test_code_of_ones_own_is_compared(tmp_path):
    call = partial(dd.fit, X, Y, algorithm=dd.DecoupledDescent(0.01), steps=3, theta=normal(2, 16))
    call(objective=head_of_ones_own(2), checkpoint=tmp_path)
    call(objective=head_of_ones_own(2), checkpoint=tmp_path)
    with pytest.raises(ValueError, match=r"objective.head.*closure.0 was 2 and is now 3"):
        call(objective=head_of_ones_own(3), checkpoint=tmp_path)


def test_another_version_is_refused(tmp_path, monkeypatch):
    dd.fit(**GIVEN, checkpoint=tmp_path)
    monkeypatch.setattr(dd, "__version__", "77.0")
    with pytest.raises(ValueError, match=r"version was '.*' and is now '77.0'"):
        dd.fit(**GIVEN, checkpoint=tmp_path)


def test_damage_is_refused(tmp_path):
    """Every kind of byte: header, metadata, tensors. A flipped bit never goes through."""
    run = dd.fit(**GIVEN, checkpoint=tmp_path)
    path = tmp_path / FILE
    full = path.read_bytes()
    generator = torch.Generator().manual_seed(0)
    places = torch.randint(len(full), (60,), generator=generator).tolist()
    damaged = [full[:k] for k in (0, 1, 7, 8, 100, len(full) // 2, len(full) - 1)]
    for number, place in enumerate([*range(9), *places]):
        flipped = bytearray(full)
        flipped[place] ^= 1 << number % 8
        damaged.append(bytes(flipped))
    for content in (*damaged, full + b"\0", b"a,b\n1,2\n"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"is damaged or no checkpoint"):
            dd.fit(**GIVEN, checkpoint=tmp_path)
    path.write_bytes(full)
    assert_same(dd.fit(**GIVEN, checkpoint=tmp_path), run)


def test_a_full_disk_ends_the_run_with_the_last_good_state(tmp_path):
    """A limit on the size of files stands for the disk: the history outgrows it."""
    call = partial(dd.fit, **GIVEN | {"steps": 400})
    cut_short(20, call, checkpoint=often(tmp_path))
    room = (tmp_path / FILE).stat().st_size + 2000
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        with pytest.raises(OSError, match=r"The one before it is intact.*call again to continue"):
            call(checkpoint=often(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    assert_same(call(checkpoint=tmp_path), call())


def test_what_no_file_can_hold_is_refused_before_training(tmp_path):
    with pytest.raises(ValueError, match=r"checkpoint=3 must be a folder or a dd.Checkpoint"):
        dd.fit(**GIVEN, checkpoint=3)

    class Odd(dd.GradientDescent):
        def init(self, *arguments, **options):
            state = super().init(*arguments, **options)
            return state._replace(slots=(object(),))

    with pytest.raises(ValueError, match=r"state.slots.0 is a object, which no file"):
        dd.fit(**GIVEN | {"algorithm": Odd(0.1)}, checkpoint=tmp_path)


HOLDS = """
import sys
from decoupled_descent.files import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_folder_belongs_to_one_process(tmp_path):
    source = str(Path(dd.__file__).parents[1])
    command = [sys.executable, "-c", HOLDS, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": {"PYTHONPATH": source}}
    with subprocess.Popen(command, **pipes) as other:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(ValueError, match=r"is in use by another call.*use another folder"):
            dd.fit(**GIVEN, checkpoint=tmp_path)
        other.kill()
    dd.fit(**GIVEN, checkpoint=tmp_path)  # a process that was killed holds nothing
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_a_folder_is_free_after_a_call_that_failed(tmp_path):
    cut_short(2, partial(dd.fit, **GIVEN), checkpoint=tmp_path)
    dd.fit(**GIVEN, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="steps was"):
        dd.fit(**GIVEN | {"steps": 3}, checkpoint=tmp_path)
    assert_same(dd.fit(**GIVEN, checkpoint=tmp_path), dd.fit(**GIVEN))


def test_calls_within_a_block_are_kept_apart(tmp_path):
    def runs():
        with kept_in(tmp_path):
            return [dd.fit(**GIVEN | {"steps": steps}) for steps in (4, 5)]

    first, files = runs(), sorted(tmp_path.glob(f"*/{FILE}"))
    before = [path.stat().st_mtime_ns for path in files]
    for one, other in zip(runs(), first, strict=True):
        assert_same(one, other)
    assert len(before) == 2
    assert [path.stat().st_mtime_ns for path in files] == before  # nothing was trained again
    dd.fit(**GIVEN)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("options", [{"every": 0}, {"seconds": -1}, {"seconds": math.nan}])
def test_options_are_checked(tmp_path, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        dd.Checkpoint(tmp_path, **options)


@pytest.mark.slow
def test_kills_at_random_moments():
    """SIGKILL, again and again: in the end the run is the one that nobody killed."""
    script = Path(__file__).parents[2] / "studies" / "kills.py"
    seed = str(int(time.time()))
    command = [sys.executable, str(script), "--cycles", "5", "--seed", seed, "--calls", "fit"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert re.fullmatch(r"fit: 5 kills, \d+ runs finished, 0 differ\n", result.stdout), (
        result.stderr
    )
