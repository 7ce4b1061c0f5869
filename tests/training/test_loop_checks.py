"""What goes wrong in a loop with ``Decoupling``, and is noticed."""

import pytest
import torch
from sklearn import datasets
from torch import nn
from torch.nn import functional

import decoupled_descent as dd
from decoupled_descent.objective import KinkWarning
from decoupled_descent.training.loop_checks import check_white, variances

BCE = functional.binary_cross_entropy_with_logits


class Functions(nn.Module):
    """A model whose activation, or dropout, is a function and no module."""

    def __init__(self, function):
        super().__init__()
        self.first, self.last, self.function = nn.Linear(20, 4), nn.Linear(4, 1), function

    def forward(self, x):
        return self.last(self.function(self.first(x))).squeeze(1)


class Random(Functions):
    """Dropout as a function."""

    def __init__(self):
        super().__init__(torch.tanh)

    def forward(self, x):
        return functional.dropout(super().forward(x), training=self.training)


def network(*middle, d=20, **options):
    torch.manual_seed(0)
    parts = [nn.Linear(d, 4), nn.Tanh(), *middle, nn.Linear(4, 1), nn.Flatten(0)]
    return nn.Sequential(*parts).to(**options)


def loop(model, criterion=BCE, n=100, lr=0.1, **options):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    return optimizer, dd.Decoupling(model, criterion, optimizer, n, **options)


def white(n=100, d=20, seed=0):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, d, generator=generator)
    return X, (X[:, 0] > 0).float()


def epoch(optimizer, decoupling, X, y, size=25, numbers=None):
    for rows in torch.randperm(len(X)).split(size):
        optimizer.zero_grad()
        decoupling(X[rows], y[rows], rows if numbers is None else numbers(rows)).backward()
        optimizer.step()


@pytest.mark.parametrize(
    "load", [datasets.load_digits, datasets.load_breast_cancer, datasets.load_diabetes]
)
def test_real_features_are_refused(load):
    X = torch.tensor(load().data).float()
    X = X[:, X.std(0) > 0]
    X = (X - X.mean(0)) / X.std(0)
    y = (X[:, 0] > 0).float()
    optimizer, decoupling = loop(network(d=X.shape[1]), n=len(X))
    with pytest.raises(ValueError, match=r"correlated .* use CrossFit in your loop"):
        epoch(optimizer, decoupling, X, y)
    optimizer, decoupling = loop(network(d=X.shape[1]), n=len(X), check=False)
    epoch(optimizer, decoupling, X, y)


@pytest.mark.parametrize(
    ("mixture", "n"),
    [(dd.mixtures.xor(50, snr=6.0), 200), (dd.mixtures.xor(400, snr=4.0), 300),
     (dd.mixtures.flipped_classes(20, 5.0), 500), (dd.mixtures.signalless(30), 60)],
)  # fmt: skip
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_noise_with_a_signal_is_accepted(mixture, n, seed):
    X, _ = mixture.sample(n, seed=seed)
    check_white(X.double(), 1 / X.shape[1])
    with pytest.raises(ValueError, match=r"variance=1, but .* or pass variance=0\."):
        check_white(X.double(), 1.0)


def test_variances_are_those_of_principal_directions():
    X, _ = white(30, 50)
    X = X.double()
    torch.testing.assert_close(
        variances(X)[:29], torch.linalg.svdvals(X - X.mean(0))[:29] ** 2 / 29
    )
    assert variances(X).shape == (50,)


def test_dropout_is_an_error_as_a_module_and_as_a_function():
    X, y = white()
    optimizer, decoupling = loop(network(nn.Dropout(0.2)))
    with pytest.raises(ValueError, match="dropout, which is random; use CrossFit"):
        epoch(optimizer, decoupling, X, y)
    model = network(nn.Dropout(0.2))
    epoch(*loop(model.eval()), X, y)
    optimizer, decoupling = loop(Random())
    with pytest.raises(ValueError, match="draws random numbers"):
        epoch(optimizer, decoupling, X, y)


def test_kinks_of_functions_are_noticed():
    with pytest.warns(KinkWarning, match="kinks"):
        loop(Functions(functional.relu))
    loop(Functions(torch.tanh))


def test_numbers_within_the_batch_are_an_error():
    optimizer, decoupling = loop(network())
    with pytest.raises(ValueError, match="numbers of the rows in the data set, not in the batch"):
        epoch(optimizer, decoupling, *white(), numbers=lambda rows: torch.arange(len(rows)))


def test_a_wrong_n_is_an_error():
    optimizer, decoupling = loop(network(), n=300)
    for _ in range(2):
        epoch(optimizer, decoupling, *white())
        decoupling.estimate()
    epoch(optimizer, decoupling, *white())
    with pytest.raises(ValueError, match=r"n=300, but only rows 0 to 99 have come.*pass n=100"):
        decoupling.estimate()


def test_a_sum_over_rows_is_an_error():
    optimizer, decoupling = loop(network(), nn.BCEWithLogitsLoss(reduction="sum"))
    with pytest.raises(ValueError, match="criterion is a sum over rows"):
        epoch(optimizer, decoupling, *white())


def test_a_row_twice_in_a_window_is_an_error():
    (X, y), (optimizer, decoupling) = white(), loop(network())
    rows = torch.arange(10)
    for _ in range(2):
        decoupling(X[rows], y[rows], rows).backward()
    with pytest.raises(ValueError, match=r"a row occurs in two batches since the last"):
        optimizer.step()


def test_a_step_with_a_closure_is_the_same_step():
    (X, y), models = white(), (network(), network())
    for closed, model in zip((False, True), models, strict=True):
        optimizer, decoupling = loop(model)
        for rows in torch.arange(100).repeat(3).split(50):

            def closure(rows=rows, optimizer=optimizer, decoupling=decoupling):
                optimizer.zero_grad()
                loss = decoupling(X[rows], y[rows], rows)
                loss.backward()
                return loss

            if closed:
                assert optimizer.step(closure).ndim == 0
            else:
                closure()
                optimizer.step()
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(one, other)


def test_bfloat16_is_trained():
    X, y = white(200)
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        optimizer, decoupling = loop(network(dtype=dtype), n=200)
        torch.manual_seed(1)
        for _ in range(4):
            epoch(optimizer, decoupling, X.to(dtype), y.to(dtype))
            error, _ = decoupling.estimate()
        found.append(error)
    assert found[1] == pytest.approx(found[0], rel=0.03)


def test_a_rate_that_is_far_too_large_is_named():
    optimizer, decoupling = loop(network(), lr=500.0)
    epoch(optimizer, decoupling, *white())
    epoch(optimizer, decoupling, *white())
    with pytest.warns(dd.DivergenceWarning, match="lr=500 is too large"):
        decoupling.estimate()
