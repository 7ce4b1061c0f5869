"""``tune``: what is tried, what wins, what happens when a rate is too large."""

import warnings

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.descent import ScalingWarning
from decoupled_descent.training import Step, StopReason
from decoupled_descent.training.sweeps.tuning import DEFAULTS, stopping
from tests.problems import binary, two_layer

#: The rates for the logistic loss, whose curvature is 1/4.
USUAL, CAREFUL = (4 * rate for rate in DEFAULTS.rates)
MIXTURE = dd.mixtures.flipped_classes(20, 3.0, labels=(0.0, 1.0))
X, Y = MIXTURE.sample(100, seed=0)
OBJECTIVE = dd.Objective(dd.heads.TwoLayer(3, seed=0), "logistic")


def tried(sweep):
    """(lr, damping, ridge) of every run, as far as the algorithm has them."""
    names = ("lr", "damping", "ridge")
    return [
        tuple(getattr(run.algorithm, name) for name in names if hasattr(run.algorithm, name))
        for run in sweep.runs
    ]


def lowest(runs):
    return min(runs, key=lambda run: min(run.history.train_error))


@pytest.mark.parametrize("n", [100, 400, 2000])
def test_candidates_of_orthogonal_descent(n):
    ridges, dampings = DEFAULTS.ridges_for(n), DEFAULTS.dampings(n)
    sweep = dd.tune(*MIXTURE.sample(n, seed=0), OBJECTIVE, steps=5)
    contest, challengers = sweep.runs[: len(ridges)], tried(sweep)[len(ridges) :]
    assert tried(sweep)[: len(ridges)] == [(USUAL, dampings[0], ridge) for ridge in ridges]
    best = lowest(contest).algorithm.ridge
    assert challengers == [(CAREFUL, dampings[0], best), (USUAL, dampings[1], best)]
    assert {run.algorithm.reduction for run in sweep.runs} == {"mean"}
    assert len(set(sweep.names)) == len(sweep.runs)


def test_defaults_have_no_jumps_in_the_number_of_rows():
    """One row more changes a setting by little, and many rows bring the limits."""
    settings = {n: DEFAULTS.ridges_for(n) + DEFAULTS.dampings(n) for n in range(20, 3000)}
    for n in range(21, 3000):
        for one, other in zip(settings[n - 1], settings[n], strict=True):
            assert abs(one - other) <= 2 / n * max(one, other)
    assert DEFAULTS.ridges_for(10**9) == pytest.approx(DEFAULTS.ridges)
    decay = DEFAULTS.weight_decay
    assert DEFAULTS.dampings(10**9) == pytest.approx((1 - decay, 1 - 2 * decay))
    assert all(0 < damping < 1 for damping in DEFAULTS.dampings(2))


@pytest.mark.parametrize("n", [100, 2000], ids=["few", "many"])
def test_candidates_of_the_other_methods(n):
    rows, dampings = MIXTURE.sample(n, seed=0), DEFAULTS.dampings(n)
    decoupled = dd.tune(*rows, OBJECTIVE, method="decoupled", steps=5)
    assert {type(run.algorithm) for run in decoupled.runs} == {dd.DecoupledDescent}
    expected = [(USUAL, dampings[0]), (CAREFUL, dampings[0]), (USUAL, dampings[1])]
    assert tried(decoupled) == expected
    gradient = dd.tune(*rows, OBJECTIVE, method="gradient", steps=5)
    assert [run.algorithm for run in gradient.runs] == [dd.GradientDescent(USUAL, reduction="mean")]


FEW, (MILD, CAUTIOUS) = DEFAULTS.ridges_for(100), DEFAULTS.dampings(100)


@pytest.mark.parametrize(
    ("fixed", "candidates"),
    [
        ({"lr": 0.3}, [*((0.3, MILD, ridge) for ridge in FEW), (0.3, CAUTIOUS, None)]),
        ({"damping": 0.8, "ridge": 2}, [(USUAL, 0.8, 2.0), (CAREFUL, 0.8, 2.0)]),
        (
            {"ridge": 2.0},
            [(USUAL, MILD, 2.0), (CAREFUL, MILD, 2.0), (USUAL, CAUTIOUS, 2.0)],
        ),
        ({"lr": 0.3, "damping": 0.8, "ridge": float("inf")}, [(0.3, 0.8, float("inf"))]),
    ],
)
def test_what_is_given_is_kept(fixed, candidates):
    sweep = dd.tune(X, Y, OBJECTIVE, steps=5, **fixed)
    best = lowest(sweep.runs[: len(FEW)]).algorithm.ridge
    assert tried(sweep) == [(*c[:2], best if c[2] is None else c[2]) for c in candidates]


@pytest.mark.parametrize(
    ("loss", "outputs", "labels", "rate"),
    [
        ("squared", 1, Y, DEFAULTS.rates[0]),
        ("logistic", 1, Y, USUAL),
        ("cross_entropy", 3, torch.arange(100) % 3, DEFAULTS.rates[0] * 9 / 2),
        ("absolute", 1, Y, DEFAULTS.rates[0]),  # which has no curvature: κ = 1 is taken instead
    ],
)
def test_rates_are_in_units_of_the_curvature(loss, outputs, labels, rate):
    head = dd.heads.TwoLayer(2, outputs=outputs, seed=0)
    objective = dd.Objective(head, loss, curvature="smoothed" if loss == "absolute" else "auto")
    sweep = dd.tune(X, labels, objective, ridge=1.0, damping=0.9, steps=3)
    assert [run.algorithm.lr for run in sweep.runs] == pytest.approx([rate, rate / 2], rel=1e-6)


@pytest.mark.parametrize(("n", "damping"), [(150, 0.9), (120, 0.5), (500, 0.9)])
def test_rates_grow_with_the_degrees_of_freedom(n, damping):
    """By a share of (1 − η₀) tr X(XᵀX + μI)⁻¹Xᵀ with μ = λ‖X‖²/d, for orthogonal descent only."""
    X, y = dd.mixtures.flipped_classes(200, 3.0, labels=(0.0, 1.0)).sample(n, seed=0)
    options = {"damping": damping, "steps": 2}
    gram, ridge = X.double().T @ X.double(), 1.0
    mu = ridge * X.double().square().sum() / 200
    freedom = torch.linalg.solve(gram + mu * torch.eye(200).double(), gram).trace().item()
    factor = DEFAULTS.newton_share * (1 - damping) * freedom
    assert factor > 1
    rates = [run.algorithm.lr for run in dd.tune(X, y, OBJECTIVE, ridge=ridge, **options).runs]
    assert rates == pytest.approx([factor, factor / 2], rel=1e-4)
    unbounded = dd.tune(X, y, OBJECTIVE, ridge=float("inf"), **options)
    assert [run.algorithm.lr for run in unbounded.runs] == [USUAL, CAREFUL]
    given = dd.tune(X, y, OBJECTIVE, ridge=ridge, lr=0.7, **options)
    assert given.best.algorithm.lr == 0.7
    decoupled = dd.tune(X, y, OBJECTIVE, method="decoupled", **options)
    assert [run.algorithm.lr for run in decoupled.runs] == [USUAL, CAREFUL]


def interrupt(step):
    if step.index == 2:
        raise KeyboardInterrupt


def test_interruption_ends_the_contest_with_what_was_reached():
    sweep = dd.tune(X, Y, OBJECTIVE, steps=10, callbacks=[interrupt])
    assert [run.algorithm.ridge for run in sweep.runs] == list(DEFAULTS.ridges_for(len(X)))
    assert {run.stop_reason for run in sweep.runs} == {StopReason.INTERRUPTED}
    complete = dd.tune(X, Y, OBJECTIVE, steps=3, callbacks=[])
    assert sweep.runs[0].history == complete.runs[0].history


def test_equals_a_sweep_over_the_same_candidates():
    """Up to rounding: in the sweep all candidates share one stack."""
    objective = dd.Objective(dd.heads.TwoLayer(3, seed=0).double(), "logistic")
    tuned = dd.tune(X.double(), Y, objective, steps=160, seed=3)
    algorithms = [run.algorithm for run in tuned.runs]
    by_hand = dd.sweep(X.double(), Y, objective, algorithms, 160, seed=3, callbacks=stopping())
    assert tuned.names == by_hand.names
    assert tuned.best_index == by_hand.best_index
    assert tuned.corrected_error == pytest.approx(by_hand.corrected_error, rel=1e-9)
    for one, other in zip(tuned.runs, by_hand.runs, strict=True):
        assert one.history.train_error == pytest.approx(other.history.train_error, rel=1e-9)
        torch.testing.assert_close(one.best_theta, other.best_theta, rtol=1e-8, atol=1e-9)
        assert one.stop_reason == other.stop_reason
    assert tuned.best is lowest(tuned.runs)


def test_rows_theta_and_callbacks_are_used_as_given():
    theta = torch.randn(3, 20, generator=torch.Generator().manual_seed(5))
    fixed = {"lr": 1.0, "damping": 0.9, "ridge": 1.0, "steps": 500}
    sweep = dd.tune(dd.Rows(X, Y), None, OBJECTIVE, theta=theta, callbacks=[], **fixed)
    algorithm = dd.OrthogonalDecoupledDescent(1.0, 0.9, 1.0, reduction="mean")
    expected = dd.fit(X, Y, OBJECTIVE, algorithm, 500, theta=theta)
    assert sweep.best.history == expected.history
    assert len(sweep.best.train_error) == 500
    assert len(dd.tune(X, Y, OBJECTIVE, theta=theta, **fixed).best.train_error) < 500


def test_the_order_of_columns_is_no_matter_when_theta_follows():
    order = torch.randperm(20, generator=torch.Generator().manual_seed(1))
    theta = torch.randn(3, 20, generator=torch.Generator().manual_seed(5)).double()
    fixed = {"damping": 0.9, "steps": 40}
    objective = dd.Objective(dd.heads.TwoLayer(3, seed=0).double(), "logistic")
    one = dd.tune(X.double(), Y, objective, theta=theta, **fixed)
    other = dd.tune(X[:, order].double(), Y, objective, theta=theta[:, order], **fixed)
    assert one.best_index == other.best_index
    np.testing.assert_allclose(one.best.train_error, other.best.train_error, rtol=1e-10)
    torch.testing.assert_close(one.best.best_theta[:, order], other.best.best_theta)


def test_all_ridges_share_one_decomposition(monkeypatch):
    decomposed, original = [], torch.linalg.eigh
    monkeypatch.setattr(torch.linalg, "eigh", lambda A: decomposed.append(A) or original(A))
    dd.tune(X, Y, OBJECTIVE, steps=3)
    assert len(decomposed) == 1


def quartic(outputs, y):
    """A loss that is flat at zero for small labels and steep a little further out."""
    return (outputs.reshape(len(y)) - y).pow(4)


def steep(size):
    """Labels ±size, so that the usual rate is 1/(48 size²) whatever the outputs are."""
    usual = DEFAULTS.rates[0] / (12 * size**2)
    return size * (2 * Y - 1), dd.Objective(dd.heads.Linear(), quartic), usual


@pytest.mark.parametrize("method", ["orthogonal", "decoupled", "gradient"])
def test_a_rate_that_blows_up_is_taken_back_until_it_does_not(method):
    labels, objective, usual = steep(0.03)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sweep = dd.tune(X, labels, objective, method=method, steps=60)
    assert sweep.best.stop_reason is not StopReason.DIVERGED
    back = usual / sweep.runs[0].algorithm.lr
    retreats = round(np.log(back) / np.log(DEFAULTS.back_off))
    assert back == pytest.approx(DEFAULTS.back_off**retreats, rel=1e-4)
    assert 1 <= retreats <= DEFAULTS.retreats
    rate = DEFAULTS.back_off * sweep.runs[0].algorithm.lr
    with pytest.warns(dd.DivergenceWarning):
        bold = dd.tune(X, labels, objective, method=method, steps=60, lr=rate)
    assert bold.best.stop_reason is StopReason.DIVERGED


def test_as_many_retreats_as_allowed_and_no_more():
    labels, objective, usual = steep(0.01)
    with pytest.warns(dd.DivergenceWarning) as caught:
        sweep = dd.tune(X, labels, objective, steps=60)
    assert len(caught) == 1
    assert str(caught[0].message) == sweep.best.message
    assert caught[0].filename == __file__
    assert sweep.runs[0].algorithm.lr == pytest.approx(
        usual / DEFAULTS.back_off**DEFAULTS.retreats, rel=1e-4
    )


def test_a_given_rate_is_never_taken_back():
    labels, objective, usual = steep(0.03)
    with pytest.warns(dd.DivergenceWarning):
        sweep = dd.tune(X, labels, objective, lr=usual, damping=0.9, ridge=1.0, steps=60)
    assert [run.algorithm.lr for run in sweep.runs] == [usual]


def test_the_winner_is_at_least_as_good_as_every_candidate():
    sweep = dd.tune(X, Y, OBJECTIVE, steps=80)
    errors = [min(run.history.train_error) for run in sweep.runs]
    assert float(sweep.best.train_error.min()) == min(errors)
    assert sweep.corrected_error.error >= min(errors) - 1e-6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "sgd"}, "method='sgd' must be one of newton, orthogonal, decoupled, gradient"),
        ({"lr": "fast"}, "lr='fast' must be a number or 'auto'"),
        ({"lr": True}, "lr=True must be a number or 'auto'"),
        ({"damping": None}, "damping=None must be a number or 'auto'"),
        ({"ridge": [1.0]}, r"ridge=\[1.0\] must be a number or 'auto'"),
        ({"lr": -1.0}, "lr=-1.0 must be a number of at least 0"),
        ({"lr": float("nan")}, "lr=nan must be a number"),
        ({"ridge": 0.0}, "ridge=0.0 must be a positive number"),
        ({"steps": 0}, "steps=0 must be a whole number of at least 1"),
        ({"X": X * torch.nan}, r"X\[0, 0\] is nan"),
        ({"y": 2 * Y - 1}, "y contains -1, but loss 'logistic'"),
        ({"theta": torch.zeros(2, 20)}, "theta has 2 rows"),
    ],
)
def test_bad_settings(change, message):
    arguments = {"X": X, "y": Y, "objective": OBJECTIVE, "steps": 3} | change
    with pytest.raises(ValueError, match=message) as caught:
        dd.tune(**arguments)
    assert "\n" not in str(caught.value)


def test_theta_gives_the_width_of_a_head_that_does_not_say():
    class Ends(torch.nn.Module):
        def forward(self, h):
            return h[:, 0] * h[:, 2]

    objective, theta = dd.Objective(Ends(), "logistic"), torch.ones(3, 20)
    algorithm = dd.GradientDescent(1.0, reduction="mean")
    expected = dd.fit(X, Y, objective, algorithm, 3, theta=theta)
    result = dd.tune(X, Y, objective, method="gradient", lr=1.0, steps=3, theta=theta)
    assert result.best.history == expected.history


@pytest.mark.parametrize("steps", [0, 2.5])
def test_steps_are_checked_with_rows_too(steps):
    with pytest.raises(ValueError, match=f"steps={steps} must be a whole number"):
        dd.tune(dd.Rows(X, Y), None, OBJECTIVE, steps=steps)


def test_labels_beside_rows_are_refused():
    with pytest.raises(ValueError, match="y"):
        dd.tune(dd.Rows(X, Y), 1 - Y, OBJECTIVE, steps=2)


def test_runs_may_linger_before_they_find_the_signal():
    """The error rises at first, and falls only then: the usual patience alone would end the run."""
    errors = [0.7 + 0.001 * k for k in range(60)] + [0.76 - 0.01 * k for k in range(40)]

    def ends(rule):
        steps = (Step(k, error, 0.05, None, None, None) for k, error in enumerate(errors))
        return next((step.index for step in steps if rule(step)), None)

    hasty = dd.EarlyStopping(patience=DEFAULTS.patience, standard_errors=DEFAULTS.progress)
    assert ends(hasty) == DEFAULTS.patience
    assert ends(stopping()) is None
    errors += [errors[-1]] * 40
    assert ends(stopping()) == max(99, DEFAULTS.start) + DEFAULTS.patience


COLUMN_LOSSES = {
    "rows of labels": lambda u, y: 0.5 * (u - y[:, None]).square().sum(1),
    "one column": lambda u, y: 0.5 * (u[:, 0] - y).square(),
    "squeezed": lambda u, y: 0.5 * (u.squeeze(1) - y).square(),
}


@pytest.mark.parametrize("loss", COLUMN_LOSSES.values(), ids=COLUMN_LOSSES)
def test_a_loss_gets_outputs_in_the_shape_that_training_gives_it(loss):
    head = dd.heads.TwoLayer(2, seed=0)
    options = {"ridge": 1.0, "damping": 0.9, "steps": 3}
    own = dd.tune(X, Y, dd.Objective(head, loss), **options)
    named = dd.tune(X, Y, dd.Objective(head, "squared"), **options)
    assert own.best.algorithm.lr == pytest.approx(named.best.algorithm.lr)
    np.testing.assert_allclose(own.best.train_error, named.best.train_error, rtol=1e-5)


@pytest.mark.parametrize("delta", [1.0, 0.3])
def test_robust_losses_learn_labels_far_from_zero(delta):
    def huber(u, y):
        return torch.nn.functional.huber_loss(u[:, 0], y, reduction="none", delta=delta)

    objective = dd.Objective(dd.heads.TwoLayer(3, bias=True, seed=0), huber, curvature="autodiff")
    sweep = dd.tune(X, 3 + Y, objective, ridge=1.0, steps=300)
    assert sweep.best.best_step > 10
    residual = 3 + Y - (3 + Y).median()
    constant = huber((3 + Y - residual)[:, None], 3 + Y).mean()
    assert sweep.corrected_error.error < 1.1 * float(constant)
    assert sweep.best.algorithm.lr < 5 / delta


def test_a_rate_at_which_nothing_beats_the_start_is_taken_back():
    """A head so steep that the usual rate overshoots, and so bounded that nothing blows up."""
    head = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(1, 1, bias=False))
    torch.nn.init.constant_(head[1].weight.requires_grad_(False), 30.0)
    objective, labels = dd.Objective(head, "squared"), 2 * Y - 1
    options = {"method": "gradient", "theta": torch.zeros(1, 20), "steps": 20}
    with pytest.warns(dd.DivergenceWarning, match="learning rate is too large"):
        bold = dd.tune(X, labels, objective, lr=DEFAULTS.rates[0], **options)
    assert bold.best.best_step == 0
    assert bold.best.stop_reason is StopReason.STEPS
    sweep = dd.tune(X, labels, objective, **options)
    assert sweep.best.best_step > 0
    taken_back = [DEFAULTS.rates[0] / DEFAULTS.back_off**k for k in range(1, DEFAULTS.retreats + 1)]
    assert sweep.best.algorithm.lr in taken_back


def test_a_head_that_does_not_say_its_width():
    class Ends(torch.nn.Module):
        def forward(self, h):
            return h[:, 0] * h[:, 2]

    with pytest.raises(ValueError, match="L cannot be read off head Ends; pass Objective"):
        dd.tune(X, Y, dd.Objective(Ends(), "logistic"), steps=3)


def test_integers_from_numpy_are_seeds():
    options = {"ridge": 1.0, "damping": 0.9, "steps": 3}
    one, other = (dd.tune(X, Y, OBJECTIVE, seed=s, **options) for s in (3, np.int64(3)))
    assert one.best.history == other.best.history


def test_a_call_cut_short_continues_bit_for_bit(tmp_path):
    often, complete = dd.Checkpoint(tmp_path, every=2), dd.tune(X, Y, OBJECTIVE, steps=8)

    class Cut:
        """Ends the call in the second stack, whose folder is there by then."""

        def __call__(self, step):
            if step.index == 3 and (tmp_path / "stack 2").exists():
                raise InterruptedError

    rule = stopping()
    with pytest.raises(InterruptedError):
        dd.tune(X, Y, OBJECTIVE, steps=8, callbacks=[rule, Cut()], checkpoint=often)
    result = dd.tune(X, Y, OBJECTIVE, steps=8, callbacks=rule, checkpoint=often)
    assert result.names == complete.names
    assert [run.history for run in result.runs] == [run.history for run in complete.runs]


@pytest.mark.parametrize("scale", [1 / 16, 16.0])
def test_the_scale_of_x_does_not_matter(scale):
    X, y = binary(80, 10)
    options = {"ridge": 1.0, "steps": 60}
    usual = dd.tune(X, y, two_layer(), **options)
    other = dd.tune(scale * X, y, two_layer(), **options)
    torch.testing.assert_close(other.best.train_error, usual.best.train_error)
    torch.testing.assert_close(scale * other.best.theta, usual.best.theta)


def test_columns_that_are_not_centred_are_noticed():
    X, y = binary(80, 10)
    with pytest.warns(ScalingWarning, match="columns of X are not centred"):
        dd.tune(X + 3, y, two_layer(), ridge=1.0, damping=0.9, steps=5)


def test_a_model_that_is_not_trained_yet_is_not_trusted():
    X, y = binary(200, 10)
    objective = dd.Objective(dd.heads.Linear(), "logistic")
    with pytest.warns(dd.DivergenceWarning, match="still falling when steps=100 were made"):
        short = dd.tune(X, y, objective, lr=0.3, damping=0.99, ridge=1.0, steps=100).best
    found = dd.diagnose(X, y, short)
    assert found.verdict != "trust"
    assert any(each.name == "not converged" and each.status == "caution" for each in found.findings)
    long = dd.tune(X, y, objective, lr=0.3, damping=0.99, ridge=1.0).best  # goes on until it ends
    assert str(long.stop_reason) != "steps exhausted"
    assert long.still_falling == 0
    assert long.best.train_error < short.best.train_error
