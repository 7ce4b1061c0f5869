"""Are train errors with a worse verdict of ``dd.diagnose`` wrong more often?

Each of 19 problems of ``problems.py`` is split at random, trained on, and diagnosed before and
after. The test rows then say how far off the train error was, z = (train − test)/noise, with the
sampling noise of both in the denominator. Errors are those of the best step, as a user would quote
them.

Run with ``python studies/diagnostics.py RECORDS.json`` (ten minutes on one core), then with
``python studies/diagnostics.py RECORDS.json OUT.json [FIGURE.png]`` for tables and figure.
"""

import json
import math
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from problems import PROBLEMS, split

import decoupled_descent as dd
from decoupled_descent.checks import VERDICTS
from decoupled_descent.evaluation.checks.check import STATUSES
from decoupled_descent.evaluation.checks.diagnosis import diagnose

STEPS = 150
#: The limits were set on the problems of the half "develop", which are not run again.
SPLITS = {"report": range(20, 32)}
ALGORITHMS = {
    "ODD, ridge 1": dd.OrthogonalDecoupledDescent(2.0, 0.98, 1.0, reduction="mean"),
    "ODD, ridge 10": dd.OrthogonalDecoupledDescent(2.0, 0.98, 10.0, reduction="mean"),
    "DD": dd.DecoupledDescent(2.0, 0.98, reduction="mean"),
    "GD": dd.GradientDescent(2.0, reduction="mean"),
}
CORRECTED = tuple(ALGORITHMS)[:3]
EARLY = ("ODD, ridge 1", "DD")  # these are diagnosed before training, too


def digest(diagnosis):
    findings = {f.name: [float(f"{f.value:.4g}"), f.status] for f in diagnosis.findings}
    widening = float(f"{diagnosis.widening:.4g}")
    return {"verdict": diagnosis.verdict, "widening": widening, "findings": findings}


def measure(name, seed):
    """One record per algorithm."""
    X, y, X_test, y_test, objective, task = split(name, seed)
    before = {}
    for label, algorithm in ALGORITHMS.items():
        if label in EARLY:
            before = digest(diagnose(X, y, None, algorithm, objective, task=task))
        run = dd.fit(X, y, objective, algorithm, STEPS, seed=seed, progress=False)
        losses = objective.losses(X_test @ run.best_theta.T, y_test, run.best_state.head).double()
        error, test = float(run.train_error[run.best_step]), float(losses.mean())
        own = float(run.train_error_stderr[run.best_step])
        noise = math.hypot(own, float(losses.std()) / math.sqrt(len(losses)))
        yield {
            "problem": name, "half": PROBLEMS[name].half, "seed": seed, "algorithm": label,
            "estimate": error, "test": test, "z": (error - test) / noise,
            "before": before if label in EARLY else None,
            "after": digest(diagnose(X, y, run, task=task)),
        }  # fmt: skip


def of(records):
    """The columns of every table: how wrong, how often, how many."""
    z = np.array([record["z"] for record in records])
    miss = np.array([record["estimate"] - record["test"] for record in records])
    return {
        "cases": len(z),
        "bias": miss.mean(),
        "mean_z": z.mean(),
        "z_spread": z.std(),
        "beyond_2": (abs(z) > 2).mean(),
        "beyond_3": (abs(z) > 3).mean(),
        "rms_z": math.sqrt((z**2).mean()),
        "beyond_2_widened": (abs(z / [r["after"]["widening"] for r in records]) > 2).mean(),
        "verdicts": [sum(r["after"]["verdict"] == v for r in records) for v in VERDICTS],
    }


def by_verdict(records, when):
    having = [r for r in records if r[when]]
    groups = {v: [r for r in having if r[when]["verdict"] == v] for v in VERDICTS}
    return {verdict: of(group) for verdict, group in groups.items() if group}


def by_finding(records):
    """For each check: runs it passed, cautioned and alarmed, among those that have it."""
    table = {}
    for name in sorted({name for r in records for name in r["after"]["findings"]}):
        having = [r for r in records if name in r["after"]["findings"]]
        groups = {s: [r for r in having if r["after"]["findings"][name][1] == s] for s in STATUSES}
        table[name] = {s: of(group) for s, group in groups.items() if group}
    return table


def by_problem(records):
    rows = []
    for name in PROBLEMS:
        for label in ALGORITHMS:
            own = [r for r in records if r["problem"] == name and r["algorithm"] == label]
            if own:
                flags = [n for r in own for n, f in r["after"]["findings"].items() if f[1] != "ok"]
                often = {n: flags.count(n) for n in sorted(set(flags), key=flags.count)[::-1]}
                row = {"problem": name, "half": PROBLEMS[name].half, "algorithm": label}
                rows.append(row | of(own) | {"flags": often})
    return rows


def summarise(records):
    result = {"steps": STEPS, "problems": by_problem(records)}
    for half in SPLITS:
        own = [r for r in records if r["half"] == half]
        result[half] = {
            label: {when: by_verdict([r for r in own if r["algorithm"] in names], when)
                    for when in ("before", "after")}
            for label, names in {"ODD": CORRECTED[:2], "DD": CORRECTED[2:], "GD": ("GD",)}.items()
        }  # fmt: skip
        for label, names in (("ODD", CORRECTED[:2]), ("DD", CORRECTED[2:])):
            result[half][label]["findings"] = by_finding(
                [r for r in own if r["algorithm"] in names]
            )
    return result


def rounded(value):
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def draw(records, path):
    """z by verdict, corrected algorithms, one dot per run, the reported half."""
    import matplotlib.pyplot as plt

    chosen = [r for r in records if r["half"] == "report" and r["algorithm"] in CORRECTED]
    figure, axes = plt.subplots(figsize=(7, 3.2), constrained_layout=True)
    rng = np.random.default_rng(0)
    for height, verdict in enumerate(reversed(VERDICTS)):
        z = np.array([r["z"] for r in chosen if r["after"]["verdict"] == verdict])
        axes.plot(z, height + rng.uniform(-0.3, 0.3, len(z)), ".", ms=3, alpha=0.5)
    axes.axvspan(-2, 2, color="0.9", zorder=0)
    axes.set(xlabel="(train error − test error) / noise", xlim=(-12, 8))
    axes.set_yticks(range(3), reversed(VERDICTS))
    figure.savefig(path, dpi=150)


def main(source, out=None, figure=None):
    if out is None:
        records = []
        for name in PROBLEMS:
            for seed in SPLITS.get(PROBLEMS[name].half, ()):
                records += measure(name, seed)
            print(name, flush=True)
        Path(source).write_text(json.dumps(records))
        return
    records = json.loads(Path(source).read_text())
    Path(out).write_text(json.dumps(rounded(summarise(records))).replace("}, {", "},\n {") + "\n")
    if figure:
        draw(records, figure)


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # runs that diverge are part of the picture
    main(*sys.argv[1:])
