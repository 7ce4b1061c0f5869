"""Replications in parallel processes; each is saved when it is finished and not computed again."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from pathlib import Path

import joblib
import numpy as np

import decoupled_descent as dd
from decoupled_descent.app.reproduce.experiment import Experiment, Settings
from decoupled_descent.app.reproduce.summary import Curves
from decoupled_descent.files import written_whole
from decoupled_descent.progress import progress_bar
from decoupled_descent.rows.threads import one_thread

FOLDER = "replications"


def key(name: str, settings: Settings, seed: int) -> str:
    """Everything a replication depends on, as one line of JSON, without the number of replications.

    Example:
        >>> key("xor", {"replications": 20, "n": 1000}, 3)
        '{"figure": "xor", "n": 1000, "seed": 3, "version": "..."}'
    """
    relevant = {k: v for k, v in settings.items() if k != "replications"}
    identity = {"figure": name, "seed": seed, "version": dd.__version__}
    return json.dumps(identity | relevant, sort_keys=True)


def saved_at(folder: Path, identity: str) -> Path:
    """The file of the replication with this key."""
    name, seed = (json.loads(identity)[field] for field in ("figure", "seed"))
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    return folder / FOLDER / f"{name}-{digest}-{seed}.npz"


def save(path: Path, identity: str, curves: Curves) -> None:
    """Write one replication beside its key, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as partial:
        np.savez_compressed(partial, key=np.array(identity), **curves)  # type: ignore[arg-type]


def load(path: Path, identity: str) -> Curves | None:
    """Read a replication; None if the file is missing, damaged or belongs to other settings."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            curves = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error):
        return None
    return curves if str(curves.pop("key", None)) == identity else None


def run_all(
    experiment: Experiment,
    settings: Settings,
    seed: int,
    folder: Path,
    data: Path | None = None,
    jobs: int | None = None,
    progress: bool | None = None,
) -> Curves:
    """Compute the replications that are not in the folder yet; return all, stacked, by name.

    ``seed`` is that of the first replication, the others follow it. ``jobs`` is the number
    of processes, by default one per core. ``progress`` is as in :func:`progress_bar`.
    """
    seeds = range(seed, seed + settings["replications"])
    identities = [key(experiment.name, settings, s) for s in seeds]
    loaded = {s: load(saved_at(folder, i), i) for s, i in zip(seeds, identities, strict=True)}
    missing = [s for s, curves in loaded.items() if curves is None]
    kept = len(loaded) - len(missing)
    description = experiment.name + (f" ({kept} replications are there already)" if kept else "")
    jobs = 1 if experiment.timed else min(jobs or int(joblib.cpu_count()), max(1, len(missing)))
    parallel = joblib.parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1)
    with progress_bar(len(missing), description, progress) as advance, parallel:
        pool = joblib.Parallel(return_as="generator_unordered", batch_size=1)
        calls = (joblib.delayed(_replicate)(experiment, settings, s, folder, data) for s in missing)
        for done, (s, curves) in enumerate(pool(calls), 1):
            loaded[s] = curves
            advance(done, f"seed {s}")
    every = [curves for curves in loaded.values() if curves is not None]
    return {name: np.stack([curves[name] for curves in every]) for name in every[0]}


def _replicate(
    experiment: Experiment, settings: Settings, seed: int, folder: Path, data: Path | None
) -> tuple[int, Curves]:
    """Compute one replication, and save it; on one thread, since processes share the cores."""
    with one_thread():
        curves = experiment.replicate(settings, seed, data)
    identity = key(experiment.name, settings, seed)
    save(saved_at(folder, identity), identity, curves)
    return seed, curves
