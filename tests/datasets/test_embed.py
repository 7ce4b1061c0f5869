"""Computing embeddings: the images a network sees, its last layer removed, cats and dogs kept."""

import sys
import types

import numpy as np
import pytest
import torch
from torch import nn

from decoupled_descent.datasets import embed
from decoupled_descent.datasets.embeddings import load_embeddings

IMAGES = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3)).astype(np.uint8)
CLASSES = [3, 5, 0, 9] * 5


class Small(nn.Module):
    """A convolutional network with random weights and, like a ResNet, a last layer ``fc``."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 6, 3, stride=2), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(1)
        )
        self.fc = nn.Linear(6, 10)

    def forward(self, x):
        return self.fc(self.body(x).flatten(1))


@pytest.fixture
def network():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Small()


def test_normalisation_is_imagenets():
    images = np.zeros((1, 32, 32, 3), np.uint8)
    images[..., 1] = 255
    red, green, blue = embed.prepare_images(images, size=16)[0]
    assert red.shape == (16, 16)
    for channel, value in ((red, -0.485 / 0.229), (green, 0.544 / 0.224), (blue, -0.406 / 0.225)):
        torch.testing.assert_close(channel, torch.full((16, 16), value))


def test_images_at_their_own_size_are_not_blurred():
    deviation, mean = np.array(embed.DEVIATION), np.array(embed.MEAN)
    found = embed.prepare_images(IMAGES, size=32).permute(0, 2, 3, 1).numpy()
    np.testing.assert_allclose(found * deviation + mean, IMAGES / 255, atol=1e-6)


def test_features_are_the_input_of_the_last_layer(network):
    seen = []
    handle = network.fc.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    network.eval()(embed.prepare_images(IMAGES, size=32))
    handle.remove()
    features = embed.embed(embed.without_last_layer(network), IMAGES, batch=7, size=32)
    np.testing.assert_allclose(features, seen[0].detach().numpy(), atol=1e-6)


def test_the_network_is_put_in_evaluation_mode(network):
    network.train()
    one = embed.embed(embed.without_last_layer(network), IMAGES[:1], size=32)
    many = embed.embed(network, IMAGES, size=32)
    np.testing.assert_allclose(one[0], many[0], atol=1e-6)


def test_cats_and_dogs(network, tmp_path):
    embed.without_last_layer(network)
    parts = [(IMAGES[:16], CLASSES[:16]), (IMAGES[16:], CLASSES[16:])]
    path = embed.save_npz(tmp_path / "new" / "e", embed.cats_and_dogs(network, parts, size=32))
    found = load_embeddings(path)
    assert path.name == "e.npz"
    assert found.y.tolist() == [0, 1] * 5
    assert found.split.tolist() == [0] * 8 + [1] * 2
    wanted = np.array(CLASSES) < 6
    wanted &= np.array(CLASSES) > 0
    expected = embed.embed(network, IMAGES[wanted], size=32)
    np.testing.assert_allclose(found.X, expected, rtol=2e-3, atol=1e-3)  # kept in half precision
    assert [file.name for file in path.parent.iterdir()] == ["e.npz"]


def test_the_command_with_a_stand_in_for_torchvision(network, tmp_path, monkeypatch, capsys):
    asked = []

    def cifar10(root, train, download):
        asked.append((root, train, download))
        half = slice(0, 10) if train else slice(10, 20)
        return types.SimpleNamespace(data=IMAGES[half], targets=CLASSES[half])

    def resnet18(weights):
        asked.append(weights)
        return network

    stand_in = types.SimpleNamespace(
        models=types.SimpleNamespace(
            resnet18=resnet18,
            ResNet18_Weights=types.SimpleNamespace(IMAGENET1K_V1="trained on ImageNet"),
        ),
        datasets=types.SimpleNamespace(CIFAR10=cifar10),
    )
    monkeypatch.setitem(sys.modules, "torchvision", stand_in)
    out, images = tmp_path / "e.npz", tmp_path / "images"
    embed.main(["--out", str(out), "--images", str(images)])
    assert capsys.readouterr().out == f"{out}\n"
    assert asked == ["trained on ImageNet", (str(images), True, True), (str(images), False, True)]
    assert load_embeddings(out).X.shape == (10, 6)


def test_without_torchvision(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(SystemExit) as ended:
        embed.main(["--out", str(tmp_path / "e.npz")])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "error: this needs torchvision: pip install torchvision\n"


@pytest.mark.parametrize("shape", [(2, 32, 32), (2, 3, 32, 32)])
def test_images_of_another_shape(shape):
    with pytest.raises(ValueError, match=r"must be bytes of shape \(n, height, width, 3\)"):
        embed.prepare_images(np.zeros(shape, np.uint8))


def test_a_network_without_a_last_layer():
    with pytest.raises(ValueError, match="Identity has no linear layer called fc to remove"):
        embed.without_last_layer(nn.Identity())
