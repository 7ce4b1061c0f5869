"""Fine-tune a transformer with Hugging Face's Trainer and know its test error, without a split."""

import tempfile

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from decoupled_descent.integrations.beside import FoldsBeside


class Texts(Dataset):
    """Token numbers and labels; every row says which one it is."""

    def __init__(self, tokens, labels):
        self.tokens, self.labels = tokens, labels

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, row):
        return {"input_ids": self.tokens[row], "labels": self.labels[row], "row": row}


class Logits(nn.Module):
    """The outputs for token numbers, where 0 is padding."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(input_ids=tokens, attention_mask=(tokens != 0).long()).logits


class CrossFitTrainer(Trainer):
    """A Trainer that evaluates every row by a copy of the model that did not see it."""

    def __init__(self, *args, folds=10, **options):
        super().__init__(*args, eval_dataset=options["train_dataset"], **options)
        self.folds, self.beside = folds, None
        self.model_accepts_loss_kwargs = False  # a step uses the mean of the batches' mean losses

    def training_step(self, model, inputs, num_items_in_batch=None):
        if self.beside is None:
            data, criterion = self.train_dataset, nn.CrossEntropyLoss()
            assert self.state.global_step == 0, "these weights have seen all rows"
            self.beside = FoldsBeside(
                Logits(model), criterion, self.optimizer, data.labels, folds=self.folds
            )
        rows, share = inputs.pop("row"), 1 / self.current_gradient_accumulation_steps
        inputs["attention_mask"] = (inputs["input_ids"] != 0).long()
        self.beside.batch(inputs["input_ids"], inputs["labels"], rows, share)
        if self.accelerator.sync_gradients:  # the last batch before a step
            self.beside.step(clip=self.args.max_grad_norm)
        return super().training_step(model, inputs, num_items_in_batch)

    def evaluate(self, *args, **options):
        epoch = self.beside.evaluate(self.train_dataset.tokens, self.train_dataset.labels)
        metrics = {"eval_loss": epoch.error, "eval_stderr": epoch.stderr}
        self.log(metrics)
        call = self.callback_handler.on_evaluate
        self.control = call(self.args, self.state, self.control, metrics)
        return metrics


# Sentences of 12 words out of 20, some shorter. The class is the one of two words that occurs,
# but one label in ten is wrong.
torch.manual_seed(0)
tokens, labels = torch.randint(3, 20, (200, 12)), torch.randint(0, 2, (200,))
tokens[torch.arange(200), torch.randint(0, 8, (200,))] = 1 + labels
tokens[::3, 9:] = 0
labels[::10] = 1 - labels[::10]
small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
config = BertConfig(vocab_size=20, intermediate_size=32, max_position_embeddings=16, **small)
model = BertForSequenceClassification(config)  # or .from_pretrained("bert-base-uncased")

with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        num_train_epochs=10,
        per_device_train_batch_size=20,
        learning_rate=0.01,
        eval_strategy="epoch",
        remove_unused_columns=False,  # keeps the number of the row
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = CrossFitTrainer(model, arguments, train_dataset=Texts(tokens, labels), folds=5)
    trainer.train()

run = trainer.beside.run()
print(run.estimate("accuracy"), run.estimate("auc"), run.note, sep="\n")
