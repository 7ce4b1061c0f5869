"""What can be known of a model's file without PyTorch."""

import json

import pytest

from decoupled_descent.model_file import KEY, description, is_model, model_file


def written(path, header):
    """A file of safetensors with this header and no tensors."""
    content = json.dumps(header).encode()
    path.write_bytes(len(content).to_bytes(8, "little") + content)
    return path


def test_the_description_and_the_checksum(tmp_path):
    about = {KEY: "{}", "sha256": "ab"}
    path = written(tmp_path / "model.safetensors", {"__metadata__": about})
    assert model_file(tmp_path) == model_file(path) == path
    assert description(path) == ("{}", "ab")
    assert is_model(path)


@pytest.mark.parametrize(
    "header",
    [{}, [], {"__metadata__": {KEY: "{}"}}, {"__metadata__": {KEY: 1, "sha256": "ab"}}],
    ids=str,
)
def test_other_files(tmp_path, header):
    path = written(tmp_path / "other.safetensors", header)
    assert not is_model(path)
    with pytest.raises(ValueError, match="is not a model of decoupled-descent"):
        description(path)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist; name a file or folder of train"):
        description(model_file(tmp_path))
    with pytest.raises(OSError, match="cannot be read"):
        description(tmp_path)
    assert not is_model(tmp_path)
