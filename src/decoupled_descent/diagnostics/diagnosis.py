r"""May the train error be taken for the test error here? Alarms that need no test rows.

The common currency is the standard error of the train error. A corrected run has moved its train
error from the loss at plain Xθ to the loss at the corrected h, by Δ standard errors, and a wrong
assumption makes a fraction of that Δ wrong: where Δ is small nothing can go far wrong, and where it
is large every percent counts. Copied rows fool the correction and Δ with it; they are priced by
½√min(n, d), the order of magnitude of Δ. How the verdicts fare is in docs/diagnostics.md.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import torch
from scipy.special import stdtrit
from torch import Tensor

from decoupled_descent.descent import GradientDescent, OrthogonalDecoupledDescent
from decoupled_descent.descent.noise import RowNorms
from decoupled_descent.diagnostics import alarms
from decoupled_descent.diagnostics.alarms import Seen
from decoupled_descent.objective import Objective
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.training.callbacks import StopReason
from decoupled_descent.training.run import Run
from decoupled_descent.validation.sweep import Sweep

STATUSES = ("ok", "caution", "alarm")
VERDICTS = ("trust", "caution", "do not trust")
#: The spread of (train − test)/stderr is about √(1 + (WIDENING δ)²), δ being the correction in
#: standard deviations of a row's loss: measured, see docs/diagnostics.md.
WIDENING = 2.0


class Rule(NamedTuple):
    """Where a number becomes a caution and an alarm, why, and what to do about it.

    Lower is worse where the alarm is below the caution.
    """

    caution: float
    alarm: float
    reason: str
    advice: str


RULES = {
    "uncorrected error": Rule(
        0.5, 0.5, "gradient descent's rows have shaped the model that judges them",
        "use OrthogonalDecoupledDescent, or keep rows apart for validation",
    ),
    "rows": Rule(
        100, 50, "the corrections are exact for n → ∞; what is left is of order 1/n",
        "get more rows, or compare with leave-one-out cross-validation",
    ),
    "rows per column": Rule(
        2, -math.inf, "with few rows per column most of the fit is noise, and the correction for "
        "it is large",
        "use a strong ridge (10) and look again after training",
    ),
    "smallest class": Rule(
        20, 5, "what is learnt of a class of m rows, and its error, is uncertain by a share 1/√m",
        "get more rows of that class, or merge it with another",
    ),
    "twin rows": Rule(
        0.25, 1, "{share:.1%} of the rows have a (near) copy, through which they train the model "
        "that judges them; the number is the optimism to expect, in standard errors",
        "drop the copies, or keep one row of each group",
    ),
    "row norms": Rule(
        0.5, 1, "the coefficient of variation of the rows' squared lengths beyond that of Gaussian "
        "rows: a few long rows pull harder than the corrections allow for",
        "clip or transform long-tailed columns, or scale the rows to equal length",
    ),
    "leverage": Rule(
        0.5, 0.9, "the largest p_i: above a half a row has more say in its own fit than all "
        "others, and 1/(1 − p_i) amplifies what they say",
        "use a stronger ridge, or drop columns that hardly any row fills",
    ),
    "spectrum": Rule(
        0.1, 0.4, "the share of the variance above the Marchenko–Pastur edge, where white noise "
        "has none: the corrections assume white noise",
        "use OrthogonalDecoupledDescent, or noise=Covariance(C) if C is known",
    ),
    "scale": Rule(
        0.1, 0.3, "how far the mean of ‖x_i‖² is from 1, which the memory term takes it to be",
        "drop constant columns, standardise the others and divide by √d",
    ),
    "correction": Rule(
        0.3, math.inf, "the correction, in standard deviations of a row's loss: the model's own "
        "test error varies with the noise it has fitted, and the train error does not follow",
        "widen the interval by {factor:.1f}, or use more damping, a stronger ridge, fewer steps",
    ),
    "Stein's identity": Rule(
        0.5, 2, "how gradients vary with pre-activations is off by {share:.0%} from what Gaussian "
        "rows give and the corrections rely on; the number is the bias to expect, in standard "
        "errors, if as much of the correction is wrong",
        "look for outliers and long tails; use a stronger ridge",
    ),
    "memorised rows": Rule(
        0.1, 0.2, "how gradients vary with pre-activations is off by this share from what fresh "
        "rows would give: rows have moved the outputs that they are judged by",
        "the train error is no estimate of the test error: use a corrected algorithm",
    ),
    "tails of h": Rule(
        1, 10, "the excess kurtosis of the pre-activations within classes; Gaussian ones have 0",
        "clip or transform long-tailed columns",
    ),
    "rows behind the error": Rule(
        20, 2, "so many rows carry the variance of the losses: the standard error itself is "
        "uncertain by a share 1/(2√m), and rows like these may be missing",
        "{remedy}",
    ),
    "head": Rule(
        0.5, 10, "a head of P parameters fits its n rows better than new ones by up to P/n, here "
        "in standard errors",
        "use folds=5 (OrthogonalDecoupledDescent) or a smaller head",
    ),
    "folds": Rule(
        1, 10, "what the folds leave open of the head's own optimism, in standard errors: their "
        "heads have fewer rows, and wide ones are only half believed; the interval allows for it",
        "use a smaller head",
    ),
    "neighbouring rows": Rule(
        0.2, 0.3, "rows next to each other are alike, and err alike, with correlations of at least "
        "this: the estimate holds for more rows of the same people or days, not for new ones",
        "if rows belong together, keep one of each group, or hold whole groups out",
    ),
    "winner's curse": Rule(
        0.5, 2, "the best of many errors is too good, by this many standard errors",
        "quote corrected_error of the sweep instead of the winner's train error",
    ),
    "divergence": Rule(
        0.5, math.inf, "the run ended because its error was no longer finite",
        "use damping below the one used, or a smaller lr",
    ),
}  # fmt: skip
#: What to do about errors carried by a few rows, for classes and for numbers.
REMEDIES = (
    "report the accuracy, or a bounded loss, beside this one",
    "report the median absolute error beside this one, or predict the logarithm of a skewed target",
)
#: What orthogonal descent's correction assumes: moot where the whole correction is small.
ASSUMPTIONS = ("row norms", "leverage", "tails of h")
#: No alarm to orthogonal descent, which takes every row's own leverage into account.
GENTLE = ("row norms", "tails of h", "Stein's identity")


@dataclass(frozen=True)
class Finding:
    """One number and what to make of it.

    Attributes:
        name: What was looked at.
        value: The number.
        threshold: From where on it is a caution or an alarm, in words.
        status: ``"ok"``, ``"caution"`` or ``"alarm"``.
        reason: What the number is and why it matters.
        advice: What to do about it.
    """

    name: str
    value: float
    threshold: str
    status: str
    reason: str
    advice: str


@dataclass(frozen=True)
class Diagnosis:
    """All findings, worst first, and what they come to.

    Attributes:
        findings: One per check.
    """

    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> str:
        """``"trust"``, ``"caution"`` or ``"do not trust"``: as bad as the worst finding."""
        return VERDICTS[max((STATUSES.index(f.status) for f in self.findings), default=0)]

    @property
    def widening(self) -> float:
        r"""By what factor the standard error of a run is to be widened.

        .. math:: \sqrt{1 + (2\delta)^2 + b^2}\; t_{2m}/t_\infty

        with δ the *correction*, b what *folds* leave open, and m the *rows behind the error*: a
        variance carried by m rows is known as well as one of 2m degrees of freedom (Satterthwaite),
        so 95 % intervals need Student's quantile t.
        """
        values = {found.name: found.value for found in self.findings}
        freedom = 2 * values.get("rows behind the error", math.inf)
        quantiles = stdtrit([max(1.0, freedom), math.inf], 0.975)
        spread = math.hypot(1, WIDENING * values.get("correction", 0.0), values.get("folds", 0.0))
        return spread * float(quantiles[0] / quantiles[1])

    @property
    def summary(self) -> str:
        """The verdict in a sentence."""
        flagged = [finding for finding in self.findings if finding.status != "ok"]
        if not flagged:
            return f"trust: none of {len(self.findings)} checks speaks against the train error"
        names = ", ".join(finding.name for finding in flagged)
        return f"{self.verdict}: {names}; first of all, {flagged[0].advice}"

    def to_dict(self) -> dict[str, Any]:
        """Return verdict, summary and findings as JSON has them."""
        findings = [asdict(finding) for finding in self.findings]
        return {"verdict": self.verdict, "summary": self.summary, "findings": findings}

    def __str__(self) -> str:
        lines = [self.summary, ""]
        for found in self.findings:
            head = f"{found.status:<8} {found.name:<22} {found.value:>9.3g}   {found.threshold}"
            lines.append(head)
            if found.status != "ok":
                lines += [f"         {found.reason}", f"         → {found.advice}"]
        return "\n".join(lines)


def diagnose(
    X: Any,
    y: Any,
    run: Run | Sweep | None = None,
    algorithm: Any = None,
    objective: Objective | None = None,
    *,
    task: str | None = None,
) -> Diagnosis:
    r"""Say whether the train error may be taken for the test error, by looking at train rows alone.

    Before training the data are looked at: size, classes, copies, norms, and what the algorithm
    assumes of them. A finished run adds the size of its correction, whether Stein's identity
    Cov(h, ∇Ψ) = Cov(h) J̄ᵀ holds within classes, the tails of h, what the standard error rests on,
    the head's own fit and, for a sweep, the winner's curse. The run is judged at its best step.

    Args:
        X: Features as given to :func:`fit`: columns centred and scaled to variance about 1/d. Or
            :class:`Rows`.
        y: Labels, n rows; None with :class:`Rows`.
        run: What :func:`fit` or :func:`sweep` returned, of which the best run is taken; None before
            training.
        algorithm: How the rows will be trained on; the run's own when there is one, orthogonal
            descent with ridge 1 by default.
        objective: What will be minimised; says whether labels are classes.
        task: ``"classification"`` or ``"regression"``; from the loss or the labels by default.

    Returns:
        The findings, worst first, and the verdict.

    Example:
        >>> import decoupled_descent as dd
        >>> X, y = dd.mixtures.flipped_classes(50, 2.0, labels=(0.0, 1.0)).sample(400, seed=0)
        >>> diagnose(X, y).verdict
        'trust'
        >>> objective = dd.Objective(dd.heads.TwoLayer(3, seed=0), "logistic")
        >>> run = dd.fit(X, y, objective, dd.GradientDescent(0.1), steps=100)
        >>> diagnose(X, y, run).verdict
        'do not trust'
    """
    rows = X if isinstance(X, Rows) else Rows(X, y)
    best = run.best if isinstance(run, Sweep) else run
    if task not in (None, "classification", "regression"):
        raise ValueError(f"task={task!r} must be 'classification', 'regression' or None")
    if best is not None:
        algorithm, objective = best.algorithm, best.objective
        _check_run(best, rows)
    groups, classes = alarms.label_groups(rows, objective, task)
    seen = None if best is None else alarms.look(best, rows)
    findings = _of_the_data(rows, groups if classes else None, algorithm)
    if best is None or seen is None:
        findings.append(_judge("rows per column", rows.n / rows.d))
    else:
        findings += _of_the_run(best, seen, rows, groups)
        if isinstance(run, Sweep) and len(run.runs) > 1:
            curse = run.corrected_error.optimism / seen.stderr
            findings.append(_judge("winner's curse", curse))
    if algorithm is None or isinstance(algorithm, OrthogonalDecoupledDescent):
        size = math.inf if seen is None else abs(seen.correction)
        findings = [_soften(finding, size) for finding in findings]
    return Diagnosis(tuple(sorted(findings, key=_gravity, reverse=True)))


def _check_run(run: Run, rows: Rows) -> None:
    """Raise ``ValueError`` when a run was made on other rows."""
    if len(run.best_losses) != rows.n or run.theta.shape[1] != rows.d:
        raise ValueError(
            f"X has shape {(rows.n, rows.d)} but run was made on {len(run.best_losses)} rows and "
            f"{run.theta.shape[1]} columns; pass the rows that it was trained on"
        )


def _of_the_data(rows: Rows, classes: Tensor | None, algorithm: Any) -> list[Finding]:
    """What the rows show by themselves, and the kind of algorithm."""
    X, n, d = rows.X, rows.n, rows.d
    twins = alarms.twin_share(X)
    optimism = twins * 0.5 * math.sqrt(min(n, d))
    found = [_judge("rows", n), _judge("twin rows", optimism, share=twins)]
    if classes is not None:
        found.append(_judge("smallest class", int(torch.bincount(classes).min())))
    if isinstance(algorithm, GradientDescent):
        return [*found, _judge("uncorrected error", 1.0)]
    noise = getattr(algorithm, "noise", None)
    if not isinstance(noise, RowNorms):
        found.append(_judge("row norms", alarms.norm_spread(X, rows.gram)))
    if algorithm is None or isinstance(algorithm, OrthogonalDecoupledDescent):
        ridge = 1.0 if algorithm is None else float(algorithm.ridge)
        leverage = 0.0 if math.isinf(ridge) else float(rows.gram.leverages(ridge).max())
        found.append(_judge("leverage", leverage))
    elif noise is None:
        found.append(_judge("spectrum", alarms.spectrum_share(rows.gram, n, d)))
        found.append(_judge("scale", abs(float(X.double().square().sum()) / n - 1)))
    return found


def _of_the_run(run: Run, seen: Seen, rows: Rows, groups: Tensor) -> list[Finding]:
    """What only training shows."""
    algorithm: Any = run.algorithm
    correction = abs(seen.correction)
    remedy = REMEDIES[run.objective.loss.name in ("squared", "absolute")]
    found = [
        _judge("rows behind the error", alarms.rows_behind(seen.losses), remedy=remedy),
        _judge("tails of h", alarms.excess_kurtosis(seen.h, groups)),
        _judge(
            "folds" if getattr(run.best_state, "fold_heads", ()) else "head",
            alarms.head_optimism(run, seen),
        ),
        _judge("neighbouring rows", alarms.neighbours_alike(seen, rows, groups)),
        _judge("divergence", float(run.stop_reason is StopReason.DIVERGED)),
    ]
    residual = alarms.stein_residual(seen, groups)
    if isinstance(algorithm, GradientDescent):
        return [*found, _judge("memorised rows", residual)]
    share = correction / math.sqrt(rows.n)
    found.append(_judge("correction", share, factor=math.hypot(1, WIDENING * share)))
    if not isinstance(getattr(algorithm, "noise", None), RowNorms):  # J̄ is then a weighted mean
        found.append(_judge("Stein's identity", residual * correction, share=residual))
    return found


def _judge(name: str, value: float, **details: Any) -> Finding:
    """Compare a number with its rule."""
    rule = RULES[name]
    falling = rule.alarm < rule.caution
    limits = (rule.caution, rule.alarm)
    passed = [value < limit if falling else value >= limit for limit in limits]
    named = [pair for pair in zip(STATUSES[1:], limits, strict=True) if math.isfinite(pair[1])]
    threshold = ", ".join(f"{s} {'below' if falling else 'from'} {limit:g}" for s, limit in named)
    reason, advice = rule.reason.format(**details), rule.advice.format(**details)
    return Finding(name, float(value), threshold, STATUSES[sum(passed)], reason, advice)


def _gravity(finding: Finding) -> tuple[int, float]:
    """What findings are sorted by: the status, then how far beyond the caution the number is."""
    limit = RULES[finding.name].caution
    falling = RULES[finding.name].alarm < limit
    beyond = limit / max(finding.value, 1e-9) if falling else finding.value / limit
    return STATUSES.index(finding.status), beyond


def _soften(finding: Finding, correction: float) -> Finding:
    """Judge the assumptions of orthogonal descent by what rests on them."""
    if finding.name in ASSUMPTIONS and finding.status != "ok" and correction < 1:
        note = f"harmless, as the correction is but {correction:.2g} standard errors"
        return replace(finding, status="ok", reason=f"{note}: {finding.reason}")
    if finding.name in GENTLE:
        status = "caution" if finding.status == "alarm" else finding.status
        return replace(finding, status=status, threshold=finding.threshold.split(",")[0])
    return finding
