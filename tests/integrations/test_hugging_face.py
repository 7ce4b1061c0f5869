"""The recipe for Hugging Face's Trainer, with transformers."""

import runpy
from pathlib import Path

import pytest
import torch

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
EXAMPLE = Path(__file__).parents[2] / "examples" / "hugging_face_trainer.py"


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(EXAMPLE))


def trained(example, kind, folder, dropout, **options):
    torch.manual_seed(0)
    config = example["config"].__class__.from_dict(example["config"].to_dict())
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout
    model = transformers.BertForSequenceClassification(config)
    quiet = {"save_strategy": "no", "report_to": "none", "disable_tqdm": True, "use_cpu": True}
    arguments = transformers.TrainingArguments(
        folder,
        max_steps=4,
        per_device_train_batch_size=25,
        learning_rate=0.01,
        weight_decay=0.1,  # not for norms and biases: two groups of parameters
        max_grad_norm=0.1,
        remove_unused_columns=False,
        **quiet | options,
    )
    data = example["Texts"](example["tokens"], example["labels"])
    trainer = kind(model, arguments, train_dataset=data)
    trainer.train()
    return trainer


def test_it_knows_the_error(example):
    run = example["run"]
    fresh, right = torch.randint(3, 20, (2000, 12)), torch.randint(0, 2, (2000,))
    fresh[torch.arange(2000), torch.randint(0, 8, (2000,))] = 1 + right
    fresh[::3, 9:] = 0
    with torch.no_grad():
        correct = (run.to_module()(fresh).argmax(1) == right).double()
    accuracy = 0.9 * correct.mean() + 0.1 * (1 - correct.mean())  # one label in ten is wrong
    found = run.estimate("accuracy")
    assert found.value > 0.8
    assert abs(found.value - accuracy) < 3 * found.stderr
    logged = [entry["eval_loss"] for entry in example["trainer"].state.log_history[:-1]]
    assert logged == pytest.approx(run.out_of_fold_error.tolist())


@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_copy_of_all_rows_makes_the_same_steps(example, tmp_path, accumulate):
    kind, options = example["CrossFitTrainer"], {"gradient_accumulation_steps": accumulate}
    trainer = trained(example, kind, tmp_path, dropout=0.0, **options)
    stack = trainer.beside.training._stack
    last = stack.module(10, stack.snapshot()).model.state_dict()
    for name, value in trainer.model.state_dict().items():
        torch.testing.assert_close(last[name], value, rtol=1e-3, atol=1e-5)


def test_the_model_is_trained_as_without_it(example, tmp_path):
    class Plain(transformers.Trainer):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.model_accepts_loss_kwargs = False

        def training_step(self, model, inputs, num_items_in_batch=None):
            inputs.pop("row")
            inputs["attention_mask"] = (inputs["input_ids"] != 0).long()
            return super().training_step(model, inputs, num_items_in_batch)

    with_it = trained(example, example["CrossFitTrainer"], tmp_path, dropout=0.2)
    without = trained(example, Plain, tmp_path, dropout=0.2)
    for a, b in zip(with_it.model.parameters(), without.model.parameters(), strict=True):
        assert torch.equal(a, b)
