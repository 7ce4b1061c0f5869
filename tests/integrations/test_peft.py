"""Low-rank adapters of peft: only their parameters count, with path and folds."""

import pytest
import torch
from torch import nn

import decoupled_descent as dd
from tests.integrations.problems import two_classes

peft = pytest.importorskip("peft")


class ByHand(nn.Module):
    """A frozen linear layer plus the product of two thin trainable matrices, as peft makes it."""

    def __init__(self, layer, a, b):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.a, self.b = nn.Parameter(a.clone()), nn.Parameter(b.clone())

    def forward(self, x):
        return self.layer(x) + x @ self.a.T @ self.b.T


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 2)).double()


def adapted():
    """A network with adapters of rank 2 in both layers, whose second factor is not zero."""
    config = peft.LoraConfig(r=2, lora_alpha=2, target_modules=["0", "2"], lora_dropout=0.0)
    model = peft.get_peft_model(network(), config)
    for name, value in model.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(value, std=0.1)
    return model.double()


def by_hand(model):
    layers = model.base_model.model
    pairs = [
        (layers[k].lora_A["default"].weight, layers[k].lora_B["default"].weight) for k in (0, 2)
    ]
    plain = network()
    (a, b), (c, d) = pairs
    return nn.Sequential(ByHand(plain[0], a, b), nn.Tanh(), ByHand(plain[2], c, d))


def test_the_path_is_that_of_an_adapter_written_by_hand():
    X, y = two_classes(40)
    model = adapted()
    both = []
    for one in (model, by_hand(model)):
        algorithm = dd.DecoupledGaussNewton(ridge=1.0)
        both.append(dd.fit(X.double(), y, one, algorithm, loss="cross_entropy", steps=6))
    torch.testing.assert_close(both[0].train_error, both[1].train_error, rtol=1e-8, atol=1e-10)
    assert both[0].train_error[-1] < both[0].train_error[0]
    trained = both[0].to_module(best=False).state_dict()
    changed = {n for n, v in model.state_dict().items() if not torch.equal(v, trained[n])}
    assert changed
    assert all("lora" in name for name in changed)


@pytest.mark.parametrize("together", [True, False])
def test_the_folds_are_those_of_an_adapter_written_by_hand(together):
    X, y = two_classes(40)
    model = adapted()
    both = []
    for one in (model, by_hand(model)):
        make = lambda parameters: torch.optim.AdamW(parameters, lr=0.02)  # noqa: E731
        cross = dd.CrossFit(one, nn.CrossEntropyLoss(), make, folds=4, together=together)
        both.append(cross.fit(X.double(), y, epochs=3))
    assert both[0].stack.size == 2 * (6 + 7) + 2 * (7 + 2)  # the adapters alone
    torch.testing.assert_close(both[0].outputs, both[1].outputs, rtol=1e-8, atol=1e-10)
    trained = both[0].to_module().state_dict()
    frozen = {n: v for n, v in model.state_dict().items() if "lora" not in n}
    assert all(torch.equal(v, trained[n]) for n, v in frozen.items())


def test_fit_without_an_algorithm_counts_adapters_alone():
    """Frozen layers do not make a network large: the choice counts what is trained."""
    X, y = two_classes(40)
    torch.manual_seed(0)
    wide = nn.Sequential(nn.Linear(6, 2000), nn.Tanh(), nn.Linear(2000, 1000), nn.Linear(1000, 2))
    model = peft.get_peft_model(wide, peft.LoraConfig(r=1, target_modules=["0"]))
    run = dd.fit(X, y, model, loss="cross_entropy", steps=2)
    assert "For 40 rows and 2006 parameters" in run.note
