"""The MNIST figure: rows, start, the paper's listing, and the numbers on the real data."""

import numpy as np
import pytest
import torch

from decoupled_descent.app.reproduce import mnist
from decoupled_descent.app.reproduce.experiment import default_theta, streams
from decoupled_descent.app.reproduce.listing import Listing
from decoupled_descent.app.reproduce.summary import curve
from decoupled_descent.datasets.mnist import load_mnist, two_digits
from decoupled_descent.objective.heads import TwoLayer
from tests.real_data import real_data

SMALL = mnist.MNIST.settings | {"n": 100, "widths": [2, 3], "steps": 8, "replications": 2}


def test_rows(mnist_data):
    whole = load_mnist(mnist_data)
    (X, y), (X_test, y_test) = mnist.noisy_digits(SMALL, 0, mnist_data)
    assert X.shape == (100, 784)
    images, labels = two_digits(whole.test_images, whole.test_labels)
    assert len(X_test) == len(images) == int(np.isin(whole.test_labels, (0, 8)).sum())
    assert torch.equal(y_test, labels)
    noise = (X_test - 30 / 784 * images) * 784**0.5
    assert noise.mul(1e3).round().unique().tolist() == [-1414, 0, 1414]
    pool, _ = two_digits(whole.train_images, whole.train_labels)
    (loud, loud_labels), _ = mnist.noisy_digits(SMALL | {"snr": 784e3}, 0, mnist_data)
    nearest = torch.cdist(loud / 1e3, pool).argmin(1)
    assert len(nearest.unique()) == 100, "images are drawn without replacement"
    assert torch.equal(loud_labels, y)
    assert 0.2 < y.mean() < 0.8


def test_rows_follow_the_seed(mnist_data):
    first, again, other = (mnist.noisy_digits(SMALL, seed, mnist_data) for seed in (0, 0, 1))
    assert torch.equal(first[0][0], again[0][0])
    assert not torch.equal(first[0][0], other[0][0])
    assert not torch.equal(first[1][0], other[1][0])


@pytest.mark.parametrize("width", [2, 3])
def test_decoupled_descent_is_the_listing(mnist_data, width):
    """Same train errors; the listing's test error, taken after an update, is the next entry."""
    (X, y), (X_test, y_test) = mnist.noisy_digits(SMALL, 1, mnist_data)
    theta_seed, head_seed = streams(1, 5)[3:]
    output = next(TwoLayer(width, seed=head_seed).parameters()).detach()
    listing = Listing(X, y, default_theta(width, 784, theta_seed), output, lr=1.0)
    train, test = [], []
    for _ in range(7):
        train.append(listing.step())
        logits = (torch.tanh(X_test @ listing.first.T) @ listing.second.T).squeeze(1)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, y_test)
        test.append(loss.item())
    curves = mnist.MNIST.replicate(SMALL, 1, mnist_data)
    np.testing.assert_allclose(curves[f"L={width}/dd/train"][:7], train, rtol=1e-5)
    np.testing.assert_allclose(curves[f"L={width}/dd/test"][1:], test, rtol=1e-5)


def test_gradient_descent_is_torchs(mnist_data):
    (X, y), (X_test, y_test) = mnist.noisy_digits(SMALL, 1, mnist_data)
    theta_seed, head_seed = streams(1, 5)[3:]
    first = torch.nn.Linear(784, 3, bias=False)
    first.weight.data = default_theta(3, 784, theta_seed)
    model = torch.nn.Sequential(first, *TwoLayer(3, seed=head_seed))
    optimiser = torch.optim.SGD(model.parameters(), lr=1.0)
    errors = []
    for _ in range(8):
        pairs = ((X, y), (X_test, y_test))
        losses = [
            torch.nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), t)
            for x, t in pairs
        ]
        errors.append([loss.item() for loss in losses])
        optimiser.zero_grad()
        losses[0].backward()
        optimiser.step()
    curves = mnist.MNIST.replicate(SMALL, 1, mnist_data)
    found = np.stack([curves[f"L=3/gd/{kind}"] for kind in ("train", "test")], axis=1)
    np.testing.assert_allclose(found, errors, rtol=1e-5)


def test_findings_and_figure(mnist_data):
    runs = [mnist.MNIST.replicate(SMALL, seed, mnist_data) for seed in range(2)]
    curves = {name: np.stack([run[name] for run in runs]) for name in runs[0]}
    text = mnist.MNIST.findings(SMALL, mnist.MNIST.summarise(curves))
    for width in (2, 3):
        lowest = np.median(curves[f"L={width}/dd/test"], axis=0)
        assert f"L = {width}: gradient descent ends with train error " in text
        assert f"(lowest {lowest.min():.3g}, at step {lowest.argmin()}; " in text
        apart = abs(np.median(curves[f"L={width}/dd/train"], axis=0) - lowest)
        assert f"differ by at most {apart[: lowest.argmin() + 1].max():.3f}, at the last" in text
        assert f"at the last step by {apart[-1]:.3f}." in text
    titles = [ax.get_title() for ax in mnist.MNIST.draw(SMALL, curves).axes]
    assert titles[0] == "L = 2: gradient descent"
    assert titles[-1] == "L = 3: decoupled descent"


def test_no_data(tmp_path):
    with pytest.raises(FileNotFoundError, match="no MNIST in"):
        mnist.prepare(tmp_path)


@pytest.mark.data
@pytest.mark.slow
def test_what_the_paper_shows():
    """One run of width 3 on MNIST itself: GD overfits, DD's errors stay together."""
    settings = mnist.MNIST.settings | {"widths": [3]}
    curves = mnist.MNIST.replicate(settings, 0, real_data("mnist"))
    (panel,) = mnist.MNIST.summarise({name: values[None] for name, values in curves.items()})
    gradient, decoupled = curve(panel, "gd"), curve(panel, "dd")
    assert gradient["train"]["median"][-1] < 0.01
    assert 0.1 < gradient["test"]["median"][-1] < 0.14
    assert 0.11 < decoupled["train"]["median"][-1] < 0.21
    assert 0.13 < decoupled["test"]["median"][-1] < 0.21
    assert 0.1 < min(decoupled["test"]["median"]) < 0.14
    assert decoupled["mean_absolute_gap"] < gradient["mean_absolute_gap"] / 2
