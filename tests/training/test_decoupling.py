"""A training loop of one's own, decoupled, against ``fit`` and a loop that moves every row."""

import copy
from functools import partial

import pytest
import torch
from sklearn import datasets
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import decoupled_descent as dd
from decoupled_descent.descent.batches import Batches
from decoupled_descent.objective import KinkWarning
from tests.problems import binary

N, D, PASSES = 24, 16, 6
BCE = functional.binary_cross_entropy_with_logits


def network(bias=True):
    torch.manual_seed(0)
    layers = [nn.Linear(D, 3, bias=bias), nn.Tanh(), nn.Linear(3, 1), nn.Flatten(0)]
    return nn.Sequential(*layers).double()


SETTINGS = {
    "plain": {},
    "weight decay": {"weight_decay": 0.05},
    "momentum": {"momentum": 0.8, "dampening": 0.2},
    "nesterov": {"momentum": 0.8, "nesterov": True, "weight_decay": 0.02},
}
COSINE = partial(torch.optim.lr_scheduler.CosineAnnealingLR, T_max=15)


def batches_of(X, y, size):
    rows = dd.Rows(X, y)
    for number in range(PASSES):
        batches = Batches(rows, size, 0, number)
        yield from (batches[k] for k in range(len(batches)))


@pytest.mark.parametrize("size", [N, 7])
@pytest.mark.parametrize("schedule", [None, COSINE], ids=["constant", "cosine"])
@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
def test_the_loop_is_fit(options, schedule, size):
    """Standardised columns: the whole model ends where ``fit`` takes it, with the same memory."""
    (X, y), model = binary(N, D), network()
    X = X * D**0.5
    objective = dd.Objective.of_model(model, "logistic")
    rule = dd.rules.SGD(0.1, schedule=schedule, **options)

    algorithm = dd.DecoupledDescent(
        0.1,
        reduction="mean",
        rule=rule,
        head_lr=0.1,
        batch_size=size,
        noise=dd.noise.White(),
    )
    run = dd.fit(X, y, objective, algorithm, PASSES + 1)

    head = [p for p in model.parameters() if p is not model[0].weight]
    optimizer = torch.optim.SGD([model[0].weight], lr=0.1, **options)
    other = torch.optim.SGD(head, lr=0.1)
    scheduler = None if schedule is None else schedule(optimizer)
    decoupling = dd.Decoupling(model, BCE, optimizer, N)
    losses = []
    for batch in batches_of(X, y, size):
        optimizer.zero_grad()
        other.zero_grad()
        loss = decoupling(batch.X, batch.y, batch.index)
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        other.step()
        if scheduler is not None:
            scheduler.step()
    trained = run.to_module()
    torch.testing.assert_close(model.state_dict(), trained.state_dict(), rtol=0, atol=1e-10)
    memory = decoupling.state_dict()["memory"]
    torch.testing.assert_close(memory[0], run.state.memory, rtol=0, atol=1e-10)
    with torch.no_grad():
        full = decoupling(X, y, torch.arange(N))
    assert full.item() == pytest.approx(float(run.train_error[-1]), abs=1e-10)
    mean, stderr = decoupling.estimate()
    sizes = torch.tensor([len(b.index) for b in batches_of(X, y, size)]).double()
    shares, losses = sizes / sizes.sum(), torch.tensor(losses, dtype=torch.float64)
    assert mean == pytest.approx(float(shares @ losses))
    if size == N:
        assert stderr == pytest.approx(float(losses.std() / len(losses) ** 0.5))


def train(model, optimizer, decoupling, X, y, batches, scale=1.0, clip=None):
    for batch in batches:
        optimizer.zero_grad()
        (scale * decoupling(X[batch.index], y[batch.index], batch.index)).backward()
        if scale != 1:
            for parameter in model.parameters():
                parameter.grad.div_(scale)
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()


def decoupled(**options):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, **{"momentum": 0.8} | options)
    return model, optimizer, dd.Decoupling(model, BCE, optimizer, N, variance=1 / D)


def test_scaled_gradients_are_those_of_the_batch():
    X, y = binary(N, D)
    plain, scaled = decoupled(), decoupled()
    train(*plain, X, y, batches_of(X, y, 8))
    train(*scaled, X, y, batches_of(X, y, 8), scale=64.0)
    ends = [model.state_dict() for model, _, _ in (plain, scaled)]
    torch.testing.assert_close(*ends, rtol=0, atol=1e-12)
    memories = [each.state_dict()["memory"] for _, _, each in (plain, scaled)]
    torch.testing.assert_close(*memories, rtol=0, atol=1e-12)


def test_clipped_norms_multiply_the_memory_too():
    """One clipped step: the memory is the same multiple of an unclipped one as the gradient."""
    X, y = binary(N, D)
    plain, clipped = decoupled(), decoupled()
    start = plain[0][0].weight.detach().clone()
    (batch, *_) = batches_of(X, y, 8)
    train(*plain, X, y, [batch])
    train(*clipped, X, y, [batch], clip=0.05)
    moved = [model[0].weight.detach() - start for model, _, _ in (plain, clipped)]
    factor = float((moved[0] * moved[1]).sum() / moved[0].square().sum())
    assert factor < 0.9
    memories = [each.state_dict()["memory"][0] for _, _, each in (plain, clipped)]
    torch.testing.assert_close(memories[1], factor * memories[0])
    torch.testing.assert_close(moved[1], factor * moved[0])


def test_a_checkpoint_continues():
    X, y = binary(N, D)
    batches = list(batches_of(X, y, 7))
    full, first, second = decoupled(), decoupled(), decoupled()
    train(*full, X, y, batches)
    train(*first, X, y, batches[:9])
    second[0].load_state_dict(first[0].state_dict())
    second[1].load_state_dict(copy.deepcopy(first[1].state_dict()))
    second[2].load_state_dict(first[2].state_dict())
    train(*second, X, y, batches[9:])
    ends = [model.state_dict() for model, _, _ in (full, second)]
    torch.testing.assert_close(*ends, rtol=0, atol=1e-12)
    model, optimizer, _ = decoupled()
    other = dd.Decoupling(model, BCE, optimizer, 5)
    with pytest.raises(ValueError, match=r"need \(3, 5\)"):
        other.load_state_dict(first[2].state_dict())


def script(decouple, seed):
    """A typical script: three classes, a two-layer network, momentum, mini-batches, a schedule."""
    n = d = 300
    torch.manual_seed(seed)
    centres = 2.5 * torch.randn(3, d) / d**0.5
    labels = torch.randint(3, (n + 3000,))
    rows = centres[labels] + torch.randn(n + 3000, d)
    dataset = TensorDataset(rows[:n], labels[:n], torch.arange(n))
    loader = DataLoader(dataset, batch_size=50, shuffle=True)
    model = nn.Sequential(nn.Linear(d, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.8)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    loss_of = dd.Decoupling(model, functional.cross_entropy, optimizer, n) if decouple else None
    gaps = []
    for _ in range(10):
        for x, y, index in loader:
            optimizer.zero_grad()
            with torch.no_grad():
                test = functional.cross_entropy(model(rows[n:]), labels[n:])
            loss = loss_of(x, y, index) if decouple else functional.cross_entropy(model(x), y)
            gaps.append(loss.item() - test.item())
            loss.backward()
            optimizer.step()
        scheduler.step()
    return sum(gaps) / len(gaps)


def test_a_typical_script():
    """Mean of batch loss − test error over ten passes and eight data sets."""
    gaps = torch.tensor([script(True, seed) for seed in range(8)])
    stderr = float(gaps.std() / 8**0.5)
    assert stderr < 0.02
    assert abs(float(gaps.mean())) < 3 * stderr + 0.02  # 0.02: finite-size bias at n = 300
    assert sum(script(False, seed) for seed in range(3)) / 3 < -0.15


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (torch.tensor([0, 1, 1]), "each at most once"),
        (torch.tensor([0.0, 1.0, 2.0]), "whole number per row"),
        (torch.tensor([0, 1, N]), "below n = 24"),
        (torch.tensor([0, 1, -1]), "at least 0"),
    ],
)
def test_bad_rows(rows, message):
    (X, y), (_, _, decoupling) = binary(N, D), decoupled()
    with pytest.raises(ValueError, match=message):
        decoupling(X[:3], y[:3], rows)


def test_what_would_go_wrong_is_refused():
    (X, y), (model, optimizer, decoupling) = binary(N, D), decoupled()
    with pytest.raises(ValueError, match=r"optimizer\.step\(\) without a loss"):
        optimizer.step()
    with pytest.raises(ValueError, match="no batch was trained on"):
        decoupling.estimate()
    decoupling(X[:5], y[:5], torch.arange(5)).backward()
    model[0].weight.grad.clamp_(-0.001, 0.001)
    with pytest.raises(ValueError, match="clip it by its norm"):
        optimizer.step()
    optimizer.zero_grad()
    for _ in range(2):
        decoupling(X[:5], y[:5], torch.arange(5)).backward()
        decoupling(X[5:9], y[5:9], torch.arange(5, 9)).backward()
    with pytest.raises(ValueError, match="do not accumulate batches"):
        optimizer.step()
    with pytest.raises(ValueError, match="optimizer is Adam"):
        dd.Decoupling(model, BCE, torch.optim.Adam(model.parameters()), N)
    norm = nn.Sequential(nn.Linear(D, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    with pytest.raises(ValueError, match="batch normalisation"):
        dd.Decoupling(norm, BCE, torch.optim.SGD(norm.parameters(), 0.1), N)
    bent = nn.Sequential(nn.Linear(D, 3), nn.ReLU(), nn.Linear(3, 1))
    with pytest.warns(KinkWarning, match="kinks") as caught:
        dd.Decoupling(bent, BCE, torch.optim.SGD(bent.parameters(), 0.1), N)
    assert caught[0].filename == __file__


def test_plain_calls_and_copies_of_the_model_are_plain():
    (X, y), (model, optimizer, decoupling) = binary(N, D), decoupled()
    train(model, optimizer, decoupling, X, y, batches_of(X, y, 8))
    fresh = network()
    fresh.load_state_dict(model.state_dict())
    copied = copy.deepcopy(model)
    assert torch.equal(model(X), fresh(X))
    assert torch.equal(copied(X), fresh(X))
    with torch.no_grad():
        assert decoupling(X, y, torch.arange(N)) > BCE(model(X), y) + 0.01


def test_all_rows_are_evaluated_as_if_they_were_new():
    (X, y), (model, optimizer, decoupling) = binary(N, D), decoupled()
    train(model, optimizer, decoupling, X, y, batches_of(X, y, 8))
    rows = torch.arange(N)
    with torch.no_grad():
        outputs, loss = decoupling.outputs(X, rows), decoupling(X, y, rows)
    assert BCE(outputs, y).item() == pytest.approx(loss.item(), abs=1e-12)
    evaluation = dd.evaluate(predictions=outputs.sigmoid(), y=y)
    assert evaluation.error == pytest.approx(loss.item(), abs=1e-9)
    assert 0 < evaluation.estimate("auc").value < 1


def layers(*middle, d=20, **options):
    torch.manual_seed(0)
    parts = [nn.Linear(d, 4), nn.Tanh(), *middle, nn.Linear(4, 1), nn.Flatten(0)]
    return nn.Sequential(*parts).to(**options)


def loop(model, n=100, **options):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return optimizer, dd.Decoupling(model, BCE, optimizer, n, **options)


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
    optimizer, decoupling = loop(layers(d=X.shape[1]), n=len(X))
    with pytest.raises(ValueError, match=r"correlated .* use CrossFit in your loop"):
        epoch(optimizer, decoupling, X, y)
    optimizer, decoupling = loop(layers(d=X.shape[1]), n=len(X), check=False)
    epoch(optimizer, decoupling, X, y)


@pytest.mark.parametrize(
    ("mixture", "n"),
    [(dd.mixtures.xor(50, snr=6.0), 200), (dd.mixtures.xor(400, snr=4.0), 300),
     (dd.mixtures.flipped_classes(20, 5.0), 500), (dd.mixtures.signalless(30), 60)],
)  # fmt: skip
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_noise_with_a_signal_is_accepted(mixture, n, seed):
    X, _ = mixture.sample(n, seed=seed)
    d = X.shape[1]
    y = (X[:, 0] > 0).float()
    epoch(*loop(layers(d=d), n=n, variance=1 / d), X, y)
    with pytest.raises(ValueError, match=r"variance=1, but .* or pass variance=0\."):
        epoch(*loop(layers(d=d), n=n), X, y)


def test_dropout_is_an_error():
    X, y = white()
    optimizer, decoupling = loop(layers(nn.Dropout(0.2)))
    with pytest.raises(ValueError, match=r"draws random numbers .* use CrossFit"):
        epoch(optimizer, decoupling, X, y)
    model = layers(nn.Dropout(0.2))
    epoch(*loop(model.eval()), X, y)


def test_numbers_within_the_batch_are_an_error():
    optimizer, decoupling = loop(layers())
    with pytest.raises(ValueError, match="numbers of the rows in the data set, not in the batch"):
        epoch(optimizer, decoupling, *white(), numbers=lambda rows: torch.arange(len(rows)))


def test_bfloat16_is_trained():
    X, y = white(200)
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        optimizer, decoupling = loop(layers(dtype=dtype), n=200)
        torch.manual_seed(1)
        for _ in range(4):
            epoch(optimizer, decoupling, X.to(dtype), y.to(dtype))
            error, _ = decoupling.estimate()
        found.append(error)
    assert found[1] == pytest.approx(found[0], rel=0.03)
