"""Where data sets are looked for, and where downloads are kept."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return ``$XDG_CACHE_HOME/decoupled-descent`` (``~/.cache`` by default), for downloads."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "decoupled-descent"


def data_folders(data: str | Path | None = None) -> list[Path]:
    """Return where to look for data: the folder given, or ``$DECOUPLED_DATA`` and the cache."""
    if data is not None:
        if not Path(data).is_dir():
            raise FileNotFoundError(f"data folder {data} does not exist")
        return [Path(data)]
    named = os.environ.get("DECOUPLED_DATA")
    if named and not Path(named).is_dir():
        raise FileNotFoundError(f"DECOUPLED_DATA={named} is not a folder; correct it or unset it")
    return [Path(named), cache_folder()] if named else [cache_folder()]
