"""Texts of several lengths classified by means of embeddings: offsets, a collate function, a random split."""

from __future__ import annotations

from typing import Any

from tests.torch.programs import Compile, eagerly, fill, text


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn = torch.nn

    class TextClassificationModel(nn.Module):
        def __init__(self, vocabulary: int, width: int, classes: int) -> None:
            super().__init__()
            self.embedding = nn.EmbeddingBag(vocabulary, width, sparse=False)
            self.fc = nn.Linear(width, classes)
            initrange = 0.5
            self.embedding.weight.data.uniform_(-initrange, initrange)
            self.fc.weight.data.uniform_(-initrange, initrange)
            self.fc.bias.data.zero_()

        def forward(self, words: Any, offsets: Any) -> Any:
            return self.fc(self.embedding(words, offsets))

    def collate_batch(batch: list[Any]) -> Any:
        label_list, text_list, offsets = [], [], [0]
        for label, words in batch:
            label_list.append(label)
            text_list.append(torch.tensor(words, dtype=torch.int64))
            offsets.append(len(words))
        return (
            torch.tensor(label_list, dtype=torch.int64),
            torch.cat(text_list),
            torch.tensor(offsets[:-1]).cumsum(dim=0),
        )

    corpus = text(400).tolist()
    data = [(i % 3, [i % 3, *corpus[5 * i : 5 * i + 5]]) for i in range(40)]
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=False, collate_fn=collate_batch)
    model = TextClassificationModel(20, 8, 3)
    fill(torch, model)
    net = compile(model)
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    losses = []
    total_acc = total_count = 0
    for _epoch in range(4):
        for label, words, offsets in loader:
            optimizer.zero_grad()
            predicted = net(words, offsets)
            loss = criterion(predicted, label)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            total_acc += (predicted.argmax(1) == label).sum().item()
            total_count += label.size(0)
            losses.append(loss.item())
    return [*losses, total_acc / total_count]
