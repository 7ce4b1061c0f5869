"""The callback for Lightning, with Lightning."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.integrations.problems import plain_folds, two_classes

pl = pytest.importorskip("lightning.pytorch")
from decoupled_descent.integrations.lightning import CrossFitCallback  # noqa: E402

pytestmark = [  # Lightning gives advice about loaders, and uses what PyTorch deprecates
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning"),
]


class Classifier(pl.LightningModule):
    """A module as users write it; two groups of parameters, and a schedule."""

    def __init__(self, dropout=0.0):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(
            nn.Linear(6, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 2)
        )

    def forward(self, x):
        return self.layers(x)

    def training_step(self, batch, _):
        x, y = batch[:2]
        return nn.functional.cross_entropy(self(x), y)

    def configure_optimizers(self):
        first, *rest = self.parameters()
        groups = [{"params": rest, "weight_decay": 0.0}, {"params": [first], "lr": 0.02}]
        optimizer = torch.optim.AdamW(groups, lr=0.05, weight_decay=0.1)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.5)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


def train(module, *callbacks, epochs=3, rows=True, ckpt_path=None, **options):
    X, y = two_classes()
    numbers = (torch.arange(len(X)),) if rows else ()
    generator = torch.Generator().manual_seed(1)
    data = TensorDataset(X, y, *numbers)
    loader = DataLoader(data, batch_size=20, shuffle=True, generator=generator)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    quiet |= {"enable_checkpointing": False, "accelerator": "cpu"}
    trainer = pl.Trainer(max_epochs=epochs, callbacks=list(callbacks), **quiet | options)
    torch.manual_seed(5)
    trainer.fit(module, loader, ckpt_path=ckpt_path)
    return trainer


def weights(module):
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def test_the_module_is_trained_as_without_it():
    alone, watched = Classifier(dropout=0.3), Classifier(dropout=0.3)
    train(alone)
    train(watched, CrossFitCallback(nn.CrossEntropyLoss(), folds=4))
    assert all(torch.equal(a, weights(watched)[name]) for name, a in weights(alone).items())


@pytest.mark.parametrize(
    "options", [{}, {"accumulate_grad_batches": 2}, {"gradient_clip_val": 0.05}], ids=str
)
def test_the_copy_of_all_rows_makes_the_same_steps(options):
    """Groups of parameters, schedule, accumulation and clipping are those of the trainer."""
    module, callback = Classifier(), CrossFitCallback(nn.CrossEntropyLoss(), folds=4)
    train(module, callback, **options)
    training = callback.beside.training
    last = training._stack.module(4, training._stack.snapshot())
    for name, value in weights(module).items():
        torch.testing.assert_close(last.state_dict()[name], value, rtol=1e-4, atol=1e-5)


class Batches(pl.Callback):
    """Remembers the rows of each batch."""

    def __init__(self):
        self.rows = []

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.rows.append(batch[2])


def test_the_error_is_that_of_trainings_without_the_folds():
    X, y = two_classes()
    folds, batches = torch.arange(len(X)) % 3, Batches()
    callback = CrossFitCallback(nn.CrossEntropyLoss(), folds=folds)
    trainer = train(Classifier(), batches, callback, epochs=2)

    def without(seen):
        module = Classifier()
        (optimizer,), schedules = module.configure_optimizers()
        for rows in batches.rows:
            mine = rows[seen[rows]]
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(X[mine]), y[mine]).backward()
            optimizer.step()
            schedules[0]["scheduler"].step()
        return module

    expected = plain_folds(X, y, folds, without)
    assert float(trainer.callback_metrics["out_of_fold_error"]) == pytest.approx(expected, rel=1e-4)
    assert float(callback.run.out_of_fold_error[-1]) == pytest.approx(expected, rel=1e-4)
    assert callback.run.estimate("accuracy").verdict is not None


def test_early_stopping_and_checkpoints_monitor_it(tmp_path):
    callback = CrossFitCallback(nn.CrossEntropyLoss(), folds=4)
    stop = pl.callbacks.EarlyStopping("out_of_fold_error", patience=2)
    keep = pl.callbacks.ModelCheckpoint(tmp_path, monitor="out_of_fold_error")
    trainer = train(
        Classifier(), callback, stop, keep, epochs=60, enable_checkpointing=True, max_steps=-1
    )
    errors = callback.run.out_of_fold_error
    assert len(errors) < 60
    assert float(keep.best_model_score) == pytest.approx(float(errors.min()), rel=1e-6)
    assert trainer.current_epoch == len(errors)


def test_batches_of_another_form():
    def split(batch):
        return batch[0], batch[1], batch[2]

    callback = CrossFitCallback(nn.CrossEntropyLoss(), folds=3, split=split)
    train(Classifier(), callback, epochs=1)
    assert len(callback.run.out_of_fold_error) == 1


def test_refusals(tmp_path):
    criterion = nn.CrossEntropyLoss()
    with pytest.raises(ValueError, match=r"call trainer\.fit"):
        _ = CrossFitCallback(criterion).run
    with pytest.raises(ValueError, match=r"torch.arange\(len\(X\)\)"):
        train(Classifier(), CrossFitCallback(criterion), rows=False)
    options = {"gradient_clip_val": 1.0, "gradient_clip_algorithm": "value"}
    with pytest.raises(ValueError, match="use 'norm'"):
        train(Classifier(), CrossFitCallback(criterion), **options)
    keep = pl.callbacks.ModelCheckpoint(tmp_path, filename="last")
    module = Classifier()
    train(module, keep, epochs=1, enable_checkpointing=True)
    with pytest.raises(ValueError, match="Train from the start"):
        train(module, CrossFitCallback(criterion), ckpt_path=tmp_path / "last.ckpt")


class Wide(Classifier):
    """It learns 60 random labels by heart in 60 epochs."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 2))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.02)


@pytest.mark.parametrize("independent", [False, True])
def test_a_second_fit_of_the_same_module_is_not_trusted(independent):
    """Its weights have seen the labels, which are random here."""
    draw = torch.Generator().manual_seed(3)
    X, y = torch.randn(60, 6, generator=draw), torch.randint(0, 2, (60,), generator=draw)
    data = TensorDataset(X, y, torch.arange(60))
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    quiet |= {"enable_checkpointing": False, "accelerator": "cpu"}
    module = Wide()
    pl.Trainer(max_epochs=60, **quiet).fit(module, DataLoader(data, batch_size=20))
    callback = CrossFitCallback(nn.CrossEntropyLoss(), 5, independent_start=independent)
    pl.Trainer(max_epochs=1, callbacks=[callback], **quiet).fit(
        module, DataLoader(data, batch_size=20)
    )
    accuracy = callback.run.estimate("accuracy")
    assert accuracy.value > 0.9
    assert callback.run.notes["independent_start"] == independent
    if not independent:
        assert accuracy.verdict == "do not trust"
    already = any("already predict these labels" in one for one in accuracy.reasons)
    assert already == (not independent)
