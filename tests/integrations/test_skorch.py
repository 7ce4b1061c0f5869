"""The callback for skorch, with skorch."""

import pytest
import torch
from torch import nn

from tests.integrations.problems import plain_folds, two_classes

skorch = pytest.importorskip("skorch")
from skorch.callbacks import EarlyStopping, GradientNormClipping, LRScheduler  # noqa: E402

from decoupled_descent.integrations.skorch import CrossFitCallback  # noqa: E402


def module(dropout=0.0, softmax=False):
    torch.manual_seed(0)
    layers = [nn.Linear(6, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 2)]
    return nn.Sequential(*layers, *[nn.Softmax(1)] * softmax)


def net(*callbacks, epochs=3, of=None, **options):
    settings = {"criterion": nn.CrossEntropyLoss, "optimizer": torch.optim.AdamW, "lr": 0.05}
    settings |= {"batch_size": 20, "train_split": None, "verbose": 0, "max_epochs": epochs}
    settings |= {"iterator_train__shuffle": True}
    kind = options.pop("kind", skorch.NeuralNetClassifier)
    return kind(of or module(), callbacks=list(callbacks), **settings | options)


def trained(found, seed=3):
    X, y = two_classes()
    torch.manual_seed(seed)
    return found.fit(X.numpy(), y.numpy())


def folds_of(found):
    return next(c for _, c in found.callbacks_ if isinstance(c, CrossFitCallback))


def test_the_net_is_trained_as_without_it():
    alone = trained(net(of=module(0.3)))
    watched = trained(net(CrossFitCallback(4), of=module(0.3)))
    for a, b in zip(alone.module_.parameters(), watched.module_.parameters(), strict=True):
        assert torch.equal(a, b)
    assert watched.iterator_train is torch.utils.data.DataLoader


SCHEDULE = LRScheduler("StepLR", step_size=2, gamma=0.5, step_every="batch")


@pytest.mark.parametrize(
    "callbacks", [[], [SCHEDULE], [GradientNormClipping(0.05)]], ids=["plain", "lr", "clip"]
)
def test_the_copy_of_all_rows_makes_the_same_steps(callbacks):
    found = trained(net(CrossFitCallback(4), *callbacks))
    training = folds_of(found)._beside.training
    last = training._stack.module(4, training._stack.snapshot())
    for name, value in found.module_.state_dict().items():
        torch.testing.assert_close(last.state_dict()[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("criterion", [nn.CrossEntropyLoss, nn.NLLLoss])
def test_the_error_is_that_of_trainings_without_the_folds(criterion):
    X, y = two_classes()
    folds, softmax = torch.arange(len(X)) % 3, criterion is nn.NLLLoss
    options = {"criterion": criterion, "epochs": 2, "batch_size": -1}
    found = trained(net(CrossFitCallback(folds), of=module(softmax=softmax), **options))

    def without(seen):
        alone = module()  # with logits
        optimizer = torch.optim.AdamW(alone.parameters(), lr=0.05)
        for _ in range(2):
            optimizer.zero_grad()
            nn.functional.cross_entropy(alone(X[seen]), y[seen]).backward()
            optimizer.step()
        return alone

    expected = plain_folds(X, y, folds, without)
    assert found.history[-1, "out_of_fold_error"] == pytest.approx(expected, rel=1e-4)
    run = folds_of(found).run_
    assert float(run.out_of_fold_error[-1]) == pytest.approx(expected, rel=1e-4)
    assert 0 <= run.estimate("accuracy").value <= 1


def test_early_stopping_monitors_it():
    stop = EarlyStopping(monitor="out_of_fold_error", patience=2, sink=lambda _: None)
    found = trained(net(CrossFitCallback(4), stop, epochs=60))
    assert len(found.history) < 60
    best = folds_of(found).run_.best_step
    assert best == len(found.history) - 3 > 0  # two epochs without a lower error


def test_regression():
    X, _ = two_classes()
    options = {"kind": skorch.NeuralNetRegressor, "criterion": nn.MSELoss}
    found = net(CrossFitCallback(4), of=nn.Linear(6, 1), **options)
    found.fit(X.numpy(), X[:, :1].numpy())
    assert folds_of(found).run_.estimate("r2").value < 1


def test_refusals():
    with pytest.raises(ValueError, match=r"call net.fit\(X, y\)"):
        _ = CrossFitCallback().run_
    found = trained(net(CrossFitCallback(4), epochs=1))
    X, y = two_classes()
    with pytest.raises(ValueError, match="warm_start=False"):
        found.partial_fit(X.numpy(), y.numpy())
