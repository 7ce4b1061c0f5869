"""Which of two classes is the case: the one to find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from decoupled_descent.app.files.targets import did_you_mean
from decoupled_descent.tables.columns.values import listed

#: Names of cases, and of what is no case, in small letters.
CASES = frozenset(
    {
        "1", "true", "yes", "y", "ja", "oui", "si", "sí", "case", "cases", "positive", "pos", "+",
        "ill", "sick", "disease", "diseased", "present", "dead", "died", "death", "event",
        "malignant", "abnormal", "fraud", "spam", "churn", "churned", "default", "fail", "failed",
        "failure", "defect", "defective", "relapse", "recurrence", "high",
    }
)  # fmt: skip
OTHERS = frozenset(
    {
        "0", "false", "no", "n", "nein", "non", "control", "controls", "negative", "neg", "-",
        "healthy", "well", "absent", "alive", "survived", "benign", "normal", "ham", "none", "ok",
        "pass", "passed", "low",
    }
)  # fmt: skip
#: Without such a name the second class is the case, unless its share is above this.
COMMON = 0.6


def positive_class(labels: Sequence[Any], wanted: str | None = None) -> str:
    """Return the class to find, as text; empty unless there are two classes.

    Args:
        labels: The class of each row.
        wanted: The class that the user names.

    Raises ``ValueError`` if there is no such class, or there are not two.

    Example:
        >>> positive_class(["case", "control"]), positive_class(["healthy", "thin"])
        ('case', 'thin')
        >>> positive_class([0, 1, 1, 1], "0")
        '0'
    """
    counts = Counter(labels)
    classes = [str(one) for one in sorted(counts)] if len(counts) <= 2 else []
    if wanted is not None:
        if len(classes) != 2:
            raise ValueError(f"--positive is for two classes; the target has {len(counts)}")
        if wanted not in classes:
            hint = did_you_mean(wanted, classes)
            raise ValueError(
                f"--positive {wanted!r} is no class; {hint}there are {listed(classes)}"
            )
        return wanted
    if len(classes) != 2:
        return ""
    cases = [one for one in classes if one.casefold() in CASES]
    cases = cases or [one for one in classes if one.casefold() not in OTHERS]
    if len(cases) == 1:
        return cases[0]
    return classes[0] if counts[sorted(counts)[1]] > COMMON * len(labels) else classes[1]
