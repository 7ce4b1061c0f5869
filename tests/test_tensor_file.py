"""What can be known of a model's file without PyTorch."""

import json

import pytest

from decoupled_descent.tensor_file import (
    CHECKSUM,
    DESCRIPTION,
    is_model,
    model_file,
    read_header,
)


def written(path, header):
    """A file of safetensors with this header and no tensors."""
    content = json.dumps(header).encode()
    path.write_bytes(len(content).to_bytes(8, "little") + content)
    return path


def test_the_description_and_the_checksum(tmp_path):
    about = {DESCRIPTION: "{}", CHECKSUM: "ab"}
    path = written(tmp_path / "model.safetensors", {"__metadata__": about})
    assert model_file(tmp_path) == model_file(path) == path
    assert read_header(path) == ("{}", "ab")
    assert is_model(path)


@pytest.mark.parametrize(
    "header",
    [
        {},
        [],
        {"__metadata__": {DESCRIPTION: "{}"}},
        {"__metadata__": {DESCRIPTION: 1, CHECKSUM: "ab"}},
    ],
    ids=str,
)
def test_other_files(tmp_path, header):
    path = written(tmp_path / "other.safetensors", header)
    assert not is_model(path)
    with pytest.raises(ValueError, match="is not a model or checkpoint of decoupled-descent"):
        read_header(path)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist; name a file or folder of train"):
        read_header(model_file(tmp_path))
    with pytest.raises(OSError, match="cannot be read"):
        read_header(tmp_path)
    assert not is_model(tmp_path)
