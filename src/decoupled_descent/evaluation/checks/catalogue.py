r"""All checks. To add one, add an object to :data:`CHECKS` and a test.

The common unit is the standard error of the train error. A corrected run has moved its train error
by Δ standard errors away from the loss of the uncorrected outputs. If an assumption is wrong by a
fraction r, the expected bias is about r Δ standard errors. Duplicate rows also make Δ itself wrong,
so for them ½√min(n, d) replaces Δ, which is its order of magnitude. docs/diagnostics.md shows how
often the verdicts are right, and why some checks are only notes.
"""

from __future__ import annotations

from dataclasses import replace

from decoupled_descent.evaluation.checks import measures, readings
from decoupled_descent.evaluation.checks.check import Check
from decoupled_descent.evaluation.checks.of_evaluations import OF_EVALUATIONS, SIMILAR_ROWS
from decoupled_descent.evaluation.checks.table_checks import LEAK_CHECK, TABLE_CHECKS

ORTHOGONAL = "use the orthogonal method (OrthogonalDecoupledDescent)"
#: Traits of algorithms: the estimate holds along the path, at the minimum only, or never.
PATH, MINIMUM = frozenset({"path"}), frozenset({"minimum"})
UNCORRECTED = frozenset({"uncorrected"})


CHECKS = (
    Check(
        name="uncorrected error", measure=lambda _: 1.0, alarm=0.5, concerns=UNCORRECTED,
        question="Is each row predicted as if it were new?",
        meaning="With this method each row is predicted by a model that was fitted to it. The "
        "error on new rows is higher.",
        advice=f"{ORTHOGONAL}, or use a validation set",
    ),
    Check(
        name="rows", measure=lambda e: e.rows.n, note=100, alarm=50, below=True,
        concerns=PATH | UNCORRECTED,
        question="Are there enough rows for the corrections?",
        meaning="The corrections are exact for many rows. With few, an error of order 1/n remains.",
        advice="get more rows, or compare with leave-one-out cross-validation",
    ),
    Check(
        name="rows per column", caution=2, below=True,
        measure=lambda e: e.rows.n / e.rows.d if e.run is None else None,
        question="Are there enough rows for the number of columns?",
        meaning="With few rows per column most of the fit is noise, and its correction is large.",
        advice="use a strong ridge (10) and look again after training",
        command_advice="drop columns that cannot matter with --drop, and look at the verdict after"
        " training",
    ),
    Check(
        name="smallest class", note=20, caution=20, alarm=5, below=True,
        measure=readings.smallest,
        question="Does every class have enough rows?",
        meaning="Few rows say little about their class and its error.",
        definition="m, the rows of the smallest class, or the groups with such rows; its error has "
        "a relative standard error of about 1/√m",
        advice="get more rows of that class, or merge it with another",
    ),
    Check(
        name="duplicate rows", measure=readings.duplicates, note=0.25, caution=0.25, alarm=1,
        question="Do rows occur twice, exactly or nearly?",
        meaning="{share} of the rows have an exact or near duplicate. Such a row is predicted "
        "by a model that was fitted to its duplicate, so the estimate is too low.",
        definition="{how}",
        advice="drop the duplicates, or keep one row of each group",
        command_advice="leave the duplicates out with --drop-duplicates; or, if a column says "
        "which rows are of the same person or thing, train with --group and its name",
    ),
    Check(
        name="row norms", note=0.5, concerns=frozenset({"equal norms", "leverage"}),
        measure=lambda e: measures.norm_spread(e.rows),
        question="Do some rows have much larger values than others?",
        meaning="Some rows have much larger values than others and more influence on the model.",
        definition="coefficient of variation of ‖x_i‖² beyond that of Gaussian rows",
        advice="clip or transform columns with long tails, or scale the rows to equal length",
    ),
    Check(
        name="leverage", measure=readings.leverage, note=0.5, caution=0.9,
        concerns=frozenset({"leverage"}),
        question="Does a single row decide its own prediction?",
        meaning="At least one row decides most of its own prediction: leaving it out is uncertain.",
        definition="the largest leverage p_i. Above ½ a row outweighs all others in its own fit "
        "(Huber); at 0.9 the factor 1/(1 − p_i) is 10",
        advice="use a larger ridge, or drop columns that are zero in almost all rows",
        command_advice="train with a larger --ridge, or drop columns that are zero in almost all "
        "rows with --drop",
    ),
    Check(
        name="spectrum", caution=0.1, alarm=0.4, concerns=frozenset({"white noise"}),
        measure=lambda e: measures.spectrum_share(e.rows.gram, e.rows.n, e.rows.d),
        question="Do the columns fit the assumption of this method that they are uncorrelated?",
        meaning="The columns are correlated or unequally spread, which this method does not allow.",
        definition="share of the variance above the Marchenko–Pastur edge; white noise has none",
        advice=f"{ORTHOGONAL}, or noise=Covariance(C) if the covariance C is known; "
        "GradientDescent(estimate=True) has noise='any covariance'",
    ),
    Check(
        name="scale", caution=0.1, alarm=0.3, concerns=frozenset({"white noise"}),
        measure=lambda e: abs(float(e.rows.squares.sum()) / e.rows.n - 1),
        question="Do the rows have the size that this method assumes?",
        meaning="The rows do not have the norm that this method assumes.",
        definition="difference of the mean ‖x_i‖² from 1: the relative error of the memory",
        advice="drop constant columns, standardise the others and divide by √d",
    ),
    Check(
        name="correction", measure=readings.correction, needs_run=True, caution=0.3, concerns=PATH,
        question="How large is the correction for fitted noise?",
        meaning="Much of the fit was noise and had to be corrected for. The test error of the "
        "model then varies more than the standard error says.",
        definition="the correction in standard deviations of a row's loss",
        advice="widen the interval by {factor:.1f} (estimators have done so); a larger ridge, more "
        "damping or fewer steps make the correction smaller",
        widening=readings.spread,
    ),
    Check(
        name="fitted error", measure=readings.fitted_share, needs_run=True, caution=0.4, alarm=0.15,
        below=True, concerns=frozenset({"leverage"}),
        question="Does the model fit the training rows much better than new ones?",
        meaning="The model fits the training rows much better than it should fit new ones. If it "
        "nearly memorises them, the correction is not reliable.",
        definition="the loss at the uncorrected outputs, divided by the estimate. On real tables "
        "of 100 rows the intervals covered the truth in 41 % of the cases below 0.4, in 90 % above",
        advice="use DecoupledNewton (leave-one-out at the minimum), use a larger ridge, or stop "
        "earlier",
    ),
    Check(
        name="Stein's identity", measure=readings.stein, needs_run=True, caution=0.5, alarm=2,
        concerns=frozenset({"gaussian rows"}),
        question="Does the relation hold on which the correction rests?",
        meaning="The correction assumes a relation between inputs and gradients. For these rows it "
        "is violated by {share}.",
        definition="the violation of Cov(h, ∇Ψ) = Cov(h) J̄ᵀ within classes × the correction: the "
        "expected bias, in standard errors",
        advice="look for outliers and long tails; use a larger ridge",
    ),
    Check(
        name="memorised rows", needs_run=True, caution=0.1, alarm=0.2, concerns=UNCORRECTED,
        measure=lambda e: measures.stein_residual(e.best_step, e.groups),
        question="Have the outputs moved towards the labels of the rows that measure the error?",
        meaning="The outputs have moved towards the labels of the rows that measure the error.",
        definition="the relative violation of Cov(h, ∇Ψ) = Cov(h) J̄ᵀ within classes",
        advice=f"{ORTHOGONAL}: this train error does not estimate the test error",
    ),
    Check(
        name="long tails", needs_run=True, note=1, concerns=frozenset({"gaussian rows"}),
        measure=lambda e: measures.excess_kurtosis(e.best_step.h, e.groups),
        question="Do some rows lie far from all others?",
        meaning="Some rows lie far from the others in the directions that the model uses.",
        definition="excess kurtosis of the pre-activations within classes; Gaussian ones have 0",
        advice="clip or transform columns with long tails",
    ),
    Check(
        name="head", measure=readings.head, needs_run=True, caution=0.5, alarm=10,
        concerns=PATH | UNCORRECTED,
        question="Do the last layers have few parameters for the number of rows?",
        meaning="The last layers have many parameters and fit these rows better than new ones. "
        "The estimate does not correct for this.",
        definition="P/n for P trained parameters of the head, in standard errors",
        advice="use a smaller head (fewer hidden units)",
    ),
    Check(
        name="neighbouring rows", needs_run=True, caution=0.2, alarm=0.3,
        measure=lambda e: measures.neighbour_correlation(e.best_step, e.rows, e.groups),
        concerns=PATH | UNCORRECTED,
        question="Do rows resemble the rows next to them?",
        meaning="Rows resemble the rows next to them, in their values and in their errors. They "
        "may belong together, and the estimate then holds for the same people or days only.",
        definition="the smaller of the correlations with the next row: of features, of gradients",
        advice="if rows belong together, keep one of each group, or hold whole groups out",
        command_advice="if rows belong together, train with --group and the column that says so",
    ),
    Check(
        name="rows that belong together", needs_run=True, caution=0.5, alarm=1, concerns=MINIMUM,
        measure=readings.together,
        question="Do neighbouring rows of the table belong together (one patient, one day)?",
        meaning="A row is predicted worse if its neighbours in the table are also left out than if "
        "other rows are. Rows may belong together (one patient, one day). The estimate then holds "
        "for the same patients or days only.{order}",
        definition="rise of the error if ten consecutive rows are left out together instead of ten "
        "random rows of the same classes, in standard errors of the estimate; 0 if the rise is "
        "below two of its standard errors",
        advice="give the groups: fit(X, y, groups=…)",
        command_advice="train with --group and the column that says which rows belong together",
    ),
    Check(
        name="drift", needs_run=True, caution=0.5, alarm=3, concerns=MINIMUM,
        measure=readings.drift,
        question="Does the estimate hold for later rows?",
        meaning="A row is predicted worse if the rows of the same period ({name!r}) are also left "
        "out than if as many random rows are. The target or its relation to the columns changes "
        "with time. The estimate is for rows like these, not for later ones.",
        definition="rise of the error if rows are left out in ten periods instead of ten random "
        "parts, in standard errors of the estimate; 0 if the rise is below its standard error. "
        "studies/drift.py has drawn tables with and without drift",
        advice="the estimate is for rows like these, not for later ones: compare with the error of "
        "the last rows, predicted by a model of the rows before them",
        command_advice="the estimate is for rows like these, not for later ones: train on the rows "
        "before a date, and let predict report the actual error of the rows after it",
    ),
    Check(
        name="rows left out in blocks", needs_run=True, caution=1, alarm=3, concerns=MINIMUM,
        measure=readings.in_blocks,
        question="Is a row predicted about as well if a few random rows are left out with it?",
        meaning="A row is predicted much worse if a few random other rows are left out with it. "
        "A few rows of many cannot matter so much, so the estimate is too low: rows were not left "
        "out completely, or very few rows decide.",
        definition="rise of the error if 5 % of the rows, at most ten, are left out together, in "
        "standard errors of the estimate; 0 if the rise is below two of its standard errors. "
        "For 15 real tables with 60 and with 200 rows it was at most 0.3; with errors of the fit "
        "instead of left-out ones it is above 10",
        advice="look for rows that occur twice, for weights that are much larger than others, and "
        "for classes with few rows; use a larger ridge",
    ),
    replace(SIMILAR_ROWS, measure=readings.similar, needs_run=True, concerns=MINIMUM),
    Check(
        name="winner's curse", measure=readings.curse, needs_run=True,
        note=0.5, caution=0.5, alarm=2,
        question="Is the error too low because the best of many models was chosen?",
        meaning="The best of many candidates was chosen by its error, which is therefore too low.",
        definition="the optimism of the lowest error, in standard errors",
        advice="quote corrected_error of the sweep (estimators do so), or compare fewer candidates",
        command_advice="nothing: the estimate and its interval allow for it",
    ),
    Check(
        name="distance from the minimum", needs_run=True, alarm=0.5, concerns=MINIMUM,
        measure=lambda e: 0.0 if e.run is not None and e.run.best.info.estimates else 1.0,
        question="Did training reach the minimum?",
        meaning="Training ended before it reached the minimum. The leave-one-out formula holds "
        "only at the minimum.",
        definition="1 if the Newton decrement was above the tolerance at the last step, else 0",
        advice="allow more steps, or use a larger ridge",
        command_advice="train with a larger --ridge",
    ),
    Check(
        name="refitted rows", needs_run=True, caution=0.1, alarm=0.3, concerns=MINIMUM,
        measure=readings.refitted,
        question="Can rows be left out without changing the model much?",
        meaning="For this share of the rows, leaving the row out changes the model so much that "
        "the formula is doubtful.",
        definition="share of rows whose further Newton steps do not converge; up to ``repairs`` of "
        "them are refitted exactly",
        advice="use a larger ridge, or get more rows",
        command_advice="train with a larger --ridge, or get more rows",
    ),
    LEAK_CHECK,
)  # fmt: skip

#: What checks ask, by name.
QUESTIONS = {check.name: check.question for check in (*CHECKS, *OF_EVALUATIONS, *TABLE_CHECKS)}
