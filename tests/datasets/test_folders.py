"""Where data are looked for."""

from pathlib import Path

import pytest

from decoupled_descent.datasets.folders import cache_folder, data_folders


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DECOUPLED_DATA", raising=False)
    return tmp_path / "cache" / "decoupled-descent"


def test_the_cache_follows_the_environment(cache, monkeypatch):
    assert cache_folder() == cache
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "decoupled-descent"


def test_order(cache, monkeypatch, tmp_path):
    assert data_folders() == [cache]
    monkeypatch.setenv("DECOUPLED_DATA", str(tmp_path))
    assert data_folders() == [tmp_path, cache]
    (tmp_path / "given").mkdir()
    assert data_folders(tmp_path / "given") == [tmp_path / "given"]


def test_folders_that_do_not_exist(cache, monkeypatch, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"data folder .*nowhere does not exist"):
        data_folders(tmp_path / "nowhere")
    monkeypatch.setenv("DECOUPLED_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match=r"DECOUPLED_DATA=.*nowhere is not a folder"):
        data_folders()
