"""The estimated test error of plain gradient descent."""

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.descent import responses
from tests.oracles.responses import corrected_preactivations
from tests.problems import normal

N, D, STEPS = 14, 10, 6


def xor(n=N, d=D):
    X, y = dd.mixtures.xor(dimension=d, snr=4.0).sample(n, seed=0)
    return X.double(), y.double(), dd.Objective(dd.heads.Product(a=1.25).double(), "logistic")


def small():
    """A bounded head, with which descent is stable."""
    X, y, _ = xor(40, 20)
    return X, y, dd.Objective(dd.heads.TwoLayer(2, seed=0).double(), "logistic")


def derivatives(y, a=1.25):
    """∇Ψ and ∇²Ψ of the logistic loss of a h₁ h₂, by hand."""

    def slope(i, h):
        return (1 / (1 + np.exp(-a * h[0] * h[1])) - float(y[i])) * a * h[::-1]

    def bend(i, h):
        p = 1 / (1 + np.exp(-a * h[0] * h[1]))
        first = a * h[::-1]
        off = np.array([[0.0, 1.0], [1.0, 0.0]])
        return p * (1 - p) * np.outer(first, first) + (p - float(y[i])) * a * off

    return slope, bend


SHARES = np.linspace(0.5, 1.5, N)
SPECTRUM = np.linspace(0.2, 1.8, D)


def soft(threshold):
    return {
        "prox": lambda v: np.sign(v) * np.maximum(np.abs(v) - threshold, 0),
        "slope": lambda v: (np.abs(v) > threshold).astype(float),
        "spectrum": np.ones(D),
    }


MODELS = {
    "plain": ({"lr": 0.3}, {}),
    "damped": ({"lr": 0.3, "damping": 0.9}, {"damping": 0.9}),
    "mean": ({"lr": 0.3 * N, "reduction": "mean"}, {}),
    "momentum": ({"lr": 0.3, "rule": dd.rules.SGD(0.3, momentum=0.5)}, {"momentum": 0.5}),
    "covariance": ({"lr": 0.3, "noise": dd.noise.Covariance(torch.tensor(SPECTRUM))},
                   {"spectrum": SPECTRUM}),
    "white": ({"lr": 0.3, "noise": dd.noise.White(1.2 / D)}, {"spectrum": (1.2,)}),
    "row norms": ({"lr": 0.3, "noise": dd.noise.RowNorms(torch.tensor(SHARES))},
                  {"shares": SHARES}),
    "ista": ({"lr": 0.3, "prox": dd.prox.SoftThreshold(0.4)}, soft(0.12)),
    "fista": ({"lr": 0.3, "prox": dd.prox.SoftThreshold(0.4), "accelerated": True},
              soft(0.12) | {"accelerated": True}),
    "accelerated": ({"lr": 0.3, "accelerated": True}, {"accelerated": True}),
    "box": ({"lr": 0.3, "damping": 0.9, "prox": dd.prox.Box(-0.5, 1.0)},
            {"damping": 0.9, "prox": lambda v: np.clip(v, -0.5, 1.0),
             "slope": lambda v: np.where((v > -0.5) & (v < 1.0), 1.0, 0.0),
             "spectrum": np.ones(D)}),
    "ridge": ({"lr": 0.3, "prox": dd.prox.Ridge(0.5)},
              {"prox": lambda v: v / 1.15, "slope": lambda v: np.ones_like(v) / 1.15,
               "spectrum": np.ones(D)}),
    "own map": ({"lr": 0.3, "prox": dd.prox.Entrywise(lambda v, rate: v - rate * v.tanh())},
                {"prox": lambda v: v - 0.3 * np.tanh(v),
                 "slope": lambda v: 1 - 0.3 / np.cosh(v) ** 2, "spectrum": np.ones(D)}),
    "ista, covariance": (
        {"lr": 0.3, "noise": dd.noise.Covariance(torch.tensor(SPECTRUM)),
         "prox": dd.prox.SoftThreshold(0.4)}, soft(0.12) | {"spectrum": SPECTRUM}),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_it_is_the_recursion(name):
    options, expected = MODELS[name]
    X, y, objective = xor()
    theta, seen = normal(2, D, seed=3), []
    algorithm = dd.GradientDescent(**options, head_lr=0, estimate=True)
    run = dd.fit(X, y, objective, algorithm, STEPS, theta=theta, callbacks=lambda s: seen.append(s))
    plain, new, uneven = corrected_preactivations(
        X.numpy(), *derivatives(y), theta.T.numpy(), STEPS, 0.3, **expected
    )
    result = torch.stack([step.info.preactivations for step in seen]).numpy()
    np.testing.assert_allclose(result, new, rtol=1e-10, atol=1e-12)
    for h, error, step in zip(plain, run.train_error, seen, strict=True):
        losses = objective.losses(torch.tensor(h), y, step.state.head)
        assert float(error) == pytest.approx(float(losses.mean()), rel=1e-10)
    assert run.estimated_test_error.tolist() == [step.train_error for step in seen]
    for h, each, step, factor in zip(plain, new, seen, uneven, strict=True):
        slopes = np.array([derivatives(y)[0](i, each[i]) for i in range(N)])
        overlap = (each - h).T @ slopes / N
        expected_pairs = factor * np.sum(overlap * overlap.T) / D
        assert float(step.info.pairs) == pytest.approx(expected_pairs, rel=1e-9, abs=1e-14)


def test_groups_of_steps_change_little(monkeypatch):
    monkeypatch.setattr(responses, "BYTES", 2**30)  # follow the same rows in both
    X, y = dd.mixtures.flipped_classes(300, 1.5, labels=(0.0, 1.0)).sample(300, seed=0)
    objective = dd.Objective(dd.heads.Linear(), "logistic")
    rule = dd.rules.SGD(0.3, momentum=0.5)
    for options in ({"lr": 0.5}, {"lr": 0.3, "rule": rule}, {"lr": 0.2, "batch_size": 100}):
        algorithm = dd.GradientDescent(**options, estimate=True)
        grouped = dd.fit(X, y, objective, algorithm, 61)
        with monkeypatch.context() as patch:
            patch.setattr(responses, "ALONE", 1000)
            single = dd.fit(X, y, objective, algorithm, 61)
        assert len(grouped.state.responses.sizes) < 40 < len(single.state.responses.sizes)
        assert int(grouped.state.responses.sizes.sum()) == int(single.state.responses.sizes.sum())
        gap = (grouped.estimated_test_error - single.estimated_test_error).abs()
        errors = single.train_error_stderr
        assert 0 < float((gap / errors).max()) < 0.02
        ratio = grouped.train_error_stderr / errors
        assert float((ratio - 1).abs().max()) < 0.02


def test_the_unevenness_is_that_of_the_response_matrix():
    """R, d × d, of the run itself: mean square of its eigenvalues over the square of their mean."""
    d, steps, lr = 150, 30, 0.5
    mixture = dd.mixtures.flipped_classes(d, 1.5, labels=(0.0, 1.0))
    objective, differences = dd.Objective(dd.heads.Linear(), "logistic"), []
    for seed in range(12):
        X, y = (part.double() for part in mixture.sample(d, seed=seed))
        seen = []
        dd.fit(X, y, objective, dd.GradientDescent(lr, estimate=True), steps, seed=seed,
               callbacks=lambda step, seen=seen: seen.append(step.state))  # fmt: skip
        moved = torch.zeros(d, d).double()
        for state in seen[:-1]:
            p = (X @ state.theta[0]).sigmoid()
            length = (p - y).square().mean().sqrt()
            moved = moved - lr * (X.T @ ((p * (1 - p)).unsqueeze(1) * (X @ moved)))
            moved = moved - lr * length * torch.eye(d).double()
        literal = float(moved.square().sum() / d / (moved.trace() / d) ** 2)
        differences.append(d * float(responses.unevenness(seen[-1].responses, d)) / literal - 1)
    assert abs(np.mean(differences)) < 3 * np.std(differences, ddof=1) / 12**0.5 + 1 / d


@pytest.mark.parametrize("options", [{}, {"batch_size": 5}], ids=["all rows", "batches"])
def test_training_is_that_without_the_estimate(options):
    X, y, objective = small()
    plain = dd.fit(X, y, objective, dd.GradientDescent(0.2, **options), 8)
    run = dd.fit(X, y, objective, dd.GradientDescent(0.2, estimate=True, **options), 8)
    assert torch.equal(run.theta, plain.theta)
    assert torch.equal(run.train_error, plain.train_error)
    assert float(run.estimated_test_error[-1]) > float(run.train_error[-1])
    with pytest.raises(ValueError, match=r"use GradientDescent\(…, estimate=True\)"):
        _ = plain.estimated_test_error


def test_a_batch_of_all_rows_is_no_batch():
    X, y, objective = small()
    every = dd.fit(X, y, objective, dd.GradientDescent(0.2, estimate=True), 6)
    batch = dd.fit(X, y, objective, dd.GradientDescent(0.2, estimate=True, batch_size=40), 6)
    torch.testing.assert_close(batch.estimated_test_error, every.estimated_test_error)


def test_continued_is_uninterrupted_and_states_do_not_change():
    X, y, objective = small()
    algorithm, states = dd.GradientDescent(0.2, estimate=True), []
    whole = dd.fit(X, y, objective, algorithm, 40, callbacks=lambda s: states.append(s.state))
    for start in (0, 3, 17, 38):  # 16 and 32 steps fill the memory of the responses
        rest = dd.fit(X, y, objective, algorithm, 40 - start, state=states[start])
        assert torch.equal(rest.estimated_test_error, whole.estimated_test_error[start:])
    other = dd.fit(-X, y, objective, algorithm, 20, state=states[20])
    assert not torch.equal(other.estimated_test_error, whole.estimated_test_error[20:])
    again = dd.fit(X, y, objective, algorithm, 2, state=states[38])
    assert torch.equal(again.estimated_test_error, whole.estimated_test_error[38:])


@pytest.mark.parametrize(
    "options",
    [{}, {"prox": dd.prox.SoftThreshold(0.1), "accelerated": True, "noise": "row norms"}],
    ids=["plain", "fista"],
)
def test_checkpoints(tmp_path, options):
    X, y, objective = small()
    algorithm = dd.GradientDescent(0.2, estimate=True, **options)
    whole = dd.fit(X, y, objective, algorithm, 12)

    def fail(step):
        if step.index == 7:
            raise RuntimeError

    kept = {"checkpoint": dd.Checkpoint(tmp_path, every=2)}
    with pytest.raises(RuntimeError):
        dd.fit(X, y, objective, algorithm, 12, callbacks=fail, **kept)
    run = dd.fit(X, y, objective, algorithm, 12, **kept)
    assert run.history == whole.history


def test_fewer_rows_are_followed_when_memory_is_short(monkeypatch):
    X, y, objective = xor(300, 100)
    every = dd.fit(X, y, objective, dd.GradientDescent(0.05, estimate=True), 12)
    monkeypatch.setattr(responses, "BYTES", 10**5)
    fewer = dd.fit(X, y, objective, dd.GradientDescent(0.05, estimate=True), 12)
    assert len(fewer.state.responses.rows) == 150 < len(every.state.responses.rows) == 300
    gap = (fewer.estimated_test_error - every.estimated_test_error).abs()
    assert 0 < float(gap.max()) < 0.2 * float(every.train_error_stderr[-1])


@pytest.mark.parametrize("options", [
    {"lr": 0.05}, {"lr": 0.05, "rule": dd.rules.SGD(0.02, momentum=0.6)},
    {"lr": 0.02, "batch_size": 200},
], ids=["gd", "momentum", "batches"])  # fmt: skip
def test_it_estimates_the_test_error(options):
    """Eight draws: the mean z has a standard error of 0.35, along the path it is dependent."""
    mixture, objective = (
        dd.mixtures.xor(600, 4.0),
        dd.Objective(dd.heads.Product(a=1.0), "logistic"),
    )
    z = []
    for seed in range(8):
        (X, y), test = mixture.sample(600, seed=seed), mixture.sample(4000, seed=seed + 100)
        algorithm = dd.GradientDescent(**options, estimate=True)
        run = dd.fit(X, y, objective, algorithm, 25, test=test, seed=seed)
        z.append((run.estimated_test_error - run.test_error) / run.train_error_stderr)
        assert float(run.test_error[-1] - run.train_error[-1]) > 5 * run.train_error_stderr[-1]
    assert abs(float(torch.stack(z)[:, -1].mean())) < 3 * 8**-0.5
    assert float(torch.stack(z).square().mean().sqrt()) < 1.6


def test_known_covariance_of_the_noise():
    """Without the covariance the estimate would be off by many standard errors."""
    d, n, z = 400, 400, {True: [], False: []}
    C = torch.linspace(0.05, 1, d).square()
    C = C / C.mean()
    objective = dd.Objective(dd.heads.Linear(), "squared")
    for seed in range(8):
        X, y = normal(n + 4000, d, seed=seed) * (C / d).sqrt(), normal(n + 4000, seed=50 + seed)
        for known, noise in ((True, dd.noise.Covariance(C.double())), (False, None)):
            algorithm = dd.GradientDescent(0.3, estimate=True, noise=noise)
            test = (X[n:], y[n:])
            run = dd.fit(X[:n], y[:n], objective, algorithm, 30, test=test, seed=seed)
            gap = run.estimated_test_error - run.test_error
            z[known].append(float(gap[-1] / run.train_error_stderr[-1]))
    assert abs(np.mean(z[True])) < 3 * 8**-0.5
    assert abs(np.mean(z[False])) > 3


def test_it_stops_early_and_has_metrics():
    mixture, objective = (
        dd.mixtures.xor(400, 4.0),
        dd.Objective(dd.heads.Product(a=1.0), "logistic"),
    )
    X, y = mixture.sample(400, seed=1)
    algorithm, stop = dd.GradientDescent(0.1, estimate=True), dd.EarlyStopping(patience=5)
    run = dd.fit(X, y, objective, algorithm, 200, callbacks=stop, seed=1)
    assert len(run.train_error) < 200
    assert run.best_step == int(run.estimated_test_error.argmin())
    X_test, y_test = mixture.sample(4000, seed=2)
    true = float(((run.predict(X_test, best=True) > 0) == (y_test > 0.5)).double().mean())
    accuracy = run.estimate("accuracy")
    assert abs(accuracy.value - true) < 3 * np.hypot(accuracy.stderr, 0.008)
    assert run.plot().axes[0].get_legend_handles_labels()[1][:2] == [
        "estimated test error",
        "train error",
    ]
    assert "estimated test error at this step" in run._repr_html_()


def test_it_is_diagnosed_like_decoupled_descent():
    X, y = dd.mixtures.flipped_classes(400, snr=2.0, labels=(0.0, 1.0)).sample(400, seed=1)
    objective = dd.Objective(dd.heads.Linear(), "logistic")
    run = dd.fit(X, y, objective, dd.GradientDescent(0.2, estimate=True), 20, seed=1)
    assert dd.diagnose(X, y, run).verdict in ("trust", "caution")
    plain = dd.fit(X, y, objective, dd.GradientDescent(0.2), 20, seed=1)
    assert dd.diagnose(X, y, plain).verdict == "do not trust"


def test_noise_is_for_the_estimate():
    with pytest.raises(ValueError, match="noise has no effect without estimate=True"):
        dd.GradientDescent(0.1, noise=dd.noise.White(1.0))


def huber(outputs, y):
    gap = (outputs.reshape(y.shape) - y).abs()
    return torch.where(gap < 1, gap.square() / 2, gap - 0.5)


def hinge(outputs, y):
    return (1 - (2 * y - 1) * outputs.reshape(y.shape)).clamp(min=0)


def linear_rows(n, d, seed):
    w, X = normal(d, seed=seed), normal(n, d, seed=100 + seed) / d**0.5
    return X, X @ w + normal(n, seed=200 + seed) / 2


def flipped(n, d, seed):
    X, y = dd.mixtures.flipped_classes(d, 2.0, labels=(0.0, 1.0)).sample(n, seed=seed)
    return X.double(), y.double()


def smoothed(loss, width=None):
    head = dd.heads.Linear()
    if width is not None:
        head = dd.heads.TwoLayer(width, activation=torch.relu, seed=0).double()
    return dd.Objective(head, loss, curvature="smoothed")


KINKS = {
    "absolute": (linear_rows, smoothed("absolute"), {"lr": 0.1}),
    "huber": (linear_rows, dd.Objective(dd.heads.Linear(), huber), {"lr": 0.3}),
    "hinge": (flipped, smoothed(hinge), {"lr": 0.2}),
    "hinge, batches": (flipped, smoothed(hinge), {"lr": 0.1, "batch_size": 100}),
    "relu": (flipped, smoothed("logistic", 3), {"lr": 0.3}),
}


#: These take longer than the others together.
LONGER = ("hinge, batches", "relu")


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.slow] * (one in LONGER)) for one in KINKS]
)
def test_losses_and_heads_with_kinks(name):
    """Test errors by the formula for new rows: 4000 of them, and eight draws."""
    make, objective, options = KINKS[name]
    z, optimism, n = [], [], 500
    for seed in range(8):
        X, y = make(n + 4000, n, seed)
        algorithm = dd.GradientDescent(**options, estimate=True)
        run = dd.fit(X[:n], y[:n], objective, algorithm, 25, test=(X[n:], y[n:]), seed=seed)
        z.append((run.estimated_test_error - run.test_error)[-1] / run.train_error_stderr[-1])
        optimism.append(float(run.test_error[-1] - run.train_error[-1]))
    assert np.mean(optimism) > 5 * np.std(optimism, ddof=1) / 8**0.5
    assert abs(float(torch.stack(z).mean())) < 3 * 8**-0.5
    assert float(torch.stack(z).square().mean().sqrt()) < 1.8


@pytest.mark.parametrize("accelerated", [False, True], ids=["ista", "fista"])
def test_it_is_the_run_without_the_row(accelerated):
    """Literal refits without a row: the differences fall like 1/n, those of the run do not."""
    steps, gaps = 12, []
    algorithm = dd.GradientDescent(
        0.3, estimate=True, prox=dd.prox.SoftThreshold(0.3), accelerated=accelerated
    )
    objective = dd.Objective(dd.heads.Linear(), "logistic")
    for n in (100, 400):
        X, y = linear_rows(n, n, seed=5)
        y, theta, seen = (y > 0).double(), normal(1, n, seed=6), []
        dd.fit(X, y, objective, algorithm, steps, theta=theta, callbacks=seen.append)
        last = seen[-1]
        plain, ours = X @ last.state.theta[0], last.info.preactivations[:, 0]
        left_out = torch.arange(0, n, n // 20)
        literal = []
        for i in left_out:
            rest = torch.arange(n) != i
            options = {"lr": 0.3, "prox": algorithm.prox, "accelerated": accelerated}
            plain_run = dd.GradientDescent(**options)
            refit = dd.fit(X[rest], y[rest], objective, plain_run, steps, theta=theta)
            literal.append(X[i] @ refit.theta[0])
        literal = torch.stack(literal)
        gaps.append([(h[left_out] - literal).square().mean().sqrt() for h in (plain, ours)])
    (plain_small, ours_small), (plain_large, ours_large) = gaps
    assert ours_small < 0.2 * plain_small
    assert ours_large < 0.1 * plain_large
    assert ours_large < 0.6 * ours_small


def test_fewer_columns_are_followed_when_memory_is_short(monkeypatch):
    X, y, objective = xor(100, 300)
    algorithm = dd.GradientDescent(0.05, estimate=True, prox=dd.prox.SoftThreshold(0.2))
    every = dd.fit(X, y, objective, algorithm, 12)
    monkeypatch.setattr(responses, "BYTES", 10**5)
    fewer = dd.fit(X, y, objective, algorithm, 12)
    assert len(fewer.state.responses.columns) == 150 < len(every.state.responses.columns) == 300
    gap = (fewer.estimated_test_error - every.estimated_test_error).abs()
    assert 0 < float(gap.max()) < 0.2 * float(every.train_error_stderr[-1])


def test_options_that_do_not_go_together():
    X, y, objective = small()
    rule, prox = dd.rules.SGD(0.1, momentum=0.5), dd.prox.Ridge(1.0)
    with pytest.raises(ValueError, match="does not go with prox or accelerated"):
        dd.GradientDescent(0.1, rule=rule, prox=prox)
    full = dd.noise.Covariance(0.1 + torch.eye(20, dtype=torch.float64))
    with pytest.raises(ValueError, match="has correlated columns, but a prox"):
        dd.fit(X, y, objective, dd.GradientDescent(0.1, estimate=True, noise=full, prox=prox), 3)
    exact = dd.Objective(dd.heads.Linear(), "absolute", curvature="autodiff")
    with pytest.raises(ValueError, match="needs the curvature of the loss"):
        dd.fit(X, y, exact, dd.GradientDescent(0.1, estimate=True), 3)
