"""A headless Chromium for tests that look at pages: found, or installed once per session."""

import functools
import os
import shutil
import subprocess

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

INSTALL_SECONDS = 300


def run_chromium(profile, *options, seconds=60):
    """Run the browser headless with a fresh profile folder; returns the finished process."""
    command = [chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [f"--user-data-dir={profile}", "--enable-logging=stderr", "--v=0", *options]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=seconds, check=True, encoding="utf-8"
    )


def chromium():
    """The browser's path, or a skip when there is none and none can be installed."""
    found, reason = _find_or_install()
    if found is None:
        pytest.skip(f"needs a headless Chromium ({reason}): put one of {', '.join(NAMES)} on PATH")
    return found


@functools.cache
def _find_or_install():
    found = _find()
    if found:
        return found, ""
    if getattr(os, "geteuid", lambda: 1)() != 0 or not shutil.which("apt-get"):
        return None, "none found, and only root with apt-get could install it"
    try:
        for arguments in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
            subprocess.run(
                ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=60", *arguments],
                env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
                stdin=subprocess.DEVNULL, capture_output=True, timeout=INSTALL_SECONDS, check=True,
            )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"none found, and apt-get failed: {type(error).__name__}"
    return _find(), "apt-get installed the package chromium, but no browser is on PATH"


def _find():
    return next((path for path in map(shutil.which, NAMES) if path), None)
