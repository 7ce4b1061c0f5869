"""A loop with ``Decoupling`` as a run: the same numbers as those of ``fit``, metrics, checks."""

import pytest
import torch
from sklearn import datasets
from torch import nn
from torch.nn import functional

import decoupled_descent as dd
from tests.problems import binary

N, D, STEPS = 60, 16, 8
BCE = functional.binary_cross_entropy_with_logits


def network(outputs=1, flat=True):
    torch.manual_seed(0)
    layers = [nn.Linear(D, 3), nn.Tanh(), nn.Linear(3, outputs), *[nn.Flatten(0)] * flat]
    return nn.Sequential(*layers).double()


def trained(model, criterion, X, y, steps=STEPS, lr=0.3, **options):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    decoupling = dd.Decoupling(model, criterion, optimizer, len(X), **options)
    for _ in range(steps):
        optimizer.zero_grad()
        decoupling(X, y, torch.arange(len(X))).backward()
        optimizer.step()
    return decoupling


def fitted(model, loss, X, y):
    objective = dd.Objective.of_model(model, loss)
    algorithm = dd.DecoupledDescent(0.3, head_lr=0.3, reduction="mean")
    return dd.fit(X, y, objective, algorithm, STEPS + 1)


@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_it_is_the_run_of_fit(scale):
    """Also for columns of another variance, which the loop knows and ``fit`` gets scaled."""
    X, y = binary(N, D)
    wanted = fitted(network(), "logistic", X, y)
    model = network()
    with torch.no_grad():
        model[0].weight /= scale
    options = {"variance": scale**2 / D, "check": False}
    optimizer = torch.optim.SGD(
        [{"params": [model[0].weight], "lr": 0.3 / scale**2}, {"params": [*model[2].parameters()]},
         {"params": [model[0].bias]}], lr=0.3,
    )  # fmt: skip
    decoupling = dd.Decoupling(model, BCE, optimizer, N, **options)
    for _ in range(STEPS):
        optimizer.zero_grad()
        decoupling(scale * X, y, torch.arange(N)).backward()
        optimizer.step()
    found = decoupling.run(scale * X, y)
    torch.testing.assert_close(found.theta, wanted.theta, rtol=0, atol=1e-10)
    last = wanted.last.info
    torch.testing.assert_close(found.best_losses, last.losses, rtol=0, atol=1e-10)
    torch.testing.assert_close(found.best_preactivations, last.preactivations, rtol=0, atol=1e-10)
    assert float(found.train_error_stderr) == pytest.approx(wanted.last.train_error_stderr)


def test_metrics_of_two_and_of_several_classes():
    X, y = binary(N, D)
    found = trained(network(), BCE, X, y, variance=1 / D).run(X, y)
    right = (found.best_outputs > 0).flatten() == (y > 0.5)
    assert found.estimate("accuracy").value == pytest.approx(float(right.double().mean()))
    assert 0 < found.estimate("auc").value < 1
    labels = torch.arange(N) % 3
    decoupling = trained(network(3, flat=False), nn.CrossEntropyLoss(), X, labels, variance=1 / D)
    run = decoupling.run(X, labels)
    with torch.no_grad():
        batch = decoupling(X, labels, torch.arange(N))
    assert run.estimate("log_loss").value == pytest.approx(float(batch))


def test_images_and_reduced_precision():
    X, y = binary(N, D)
    model = nn.Sequential(nn.Flatten(), *network()).float()
    images = X.float().reshape(N, 4, 4)
    decoupling = trained(model, BCE, images, y.float(), variance=1 / D)
    with torch.no_grad():
        batch = decoupling(images, y.float(), torch.arange(N))
    assert float(decoupling.run(images, y).train_error) == pytest.approx(float(batch), rel=1e-5)


def test_before_any_step():
    X, y = binary(N, D)
    found = trained(network(), BCE, X, y, steps=0, variance=1 / D).run(X, y)
    with torch.no_grad():
        wanted = BCE(network()(X), y)
    assert float(found.train_error) == pytest.approx(float(wanted))


def test_rows_of_another_number():
    X, y = binary(N, D)
    decoupling = trained(network(), BCE, X, y, variance=1 / D)
    with pytest.raises(ValueError, match=r"X has 10 rows .* made with n=60"):
        decoupling.run(X[:10], y[:10])


def test_diagnose_says_what_it_says_of_fit():
    X, y = binary(N, D)
    wanted = dd.diagnose(X, y, fitted(network(), "logistic", X, y))
    found = dd.diagnose(X, y, trained(network(), BCE, X, y, variance=1 / D))
    known = {each.name: each.value for each in wanted.findings}
    assert known.keys() == {each.name for each in found.findings}
    along = {"correction", "Stein's identity", "head", "long tails"}  # of the best step in fit
    for each in found.findings:
        if each.name not in along:
            assert each.value == pytest.approx(known[each.name], rel=1e-6, abs=1e-9), each.name


def test_diagnose_of_noise_and_of_real_features():
    X, y = dd.mixtures.flipped_classes(100, 2.0, labels=(0.0, 1.0)).sample(800, seed=0)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(100, 2), nn.Tanh(), nn.Linear(2, 1), nn.Flatten(0))
    decoupling = trained(model, BCE, X, y, steps=50, lr=1.0, variance=1 / 100)
    assert dd.diagnose(X, y, decoupling).verdict == "trust"
    features, labels = datasets.load_breast_cancer(return_X_y=True)
    real = torch.tensor((features - features.mean(0)) / features.std(0), dtype=torch.float32)
    labels = torch.tensor(labels, dtype=torch.float32)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(30, 2), nn.Tanh(), nn.Linear(2, 1), nn.Flatten(0))
    decoupling = trained(model, BCE, real, labels, steps=20, check=False)
    found = dd.diagnose(real, labels, decoupling)
    assert found.verdict == "do not trust"
    assert "spectrum" in found.summary
