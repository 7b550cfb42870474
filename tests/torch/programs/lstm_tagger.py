"""Tags of padded sentences: packed sequences through a bidirectional LSTM, padding ignored by the loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.torch.programs import Compile, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn = torch.nn
    from_rnn = nn.utils.rnn

    class LSTMTagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.word_embeddings = nn.Embedding(12, 8, padding_idx=0)
            self.lstm = nn.LSTM(8, 6, batch_first=True, bidirectional=True)
            self.hidden2tag = nn.Linear(12, 3)

        def forward(self, sentences: Any, lengths: Any) -> Any:
            embeds = self.word_embeddings(sentences)
            packed = from_rnn.pack_padded_sequence(embeds, lengths, batch_first=True, enforce_sorted=False)
            output, _ = self.lstm(packed)
            output, _ = from_rnn.pad_packed_sequence(output, batch_first=True)
            return torch.nn.functional.log_softmax(self.hidden2tag(output), dim=2)

    rng = np.random.default_rng(0)
    sentences = [torch.tensor(rng.integers(1, 12, n).tolist()) for n in (5, 3, 6, 2)]
    tags = [s % 3 for s in sentences]
    lengths = torch.tensor([len(s) for s in sentences])
    padded = from_rnn.pad_sequence(sentences, batch_first=True)
    padded_tags = from_rnn.pad_sequence(tags, batch_first=True, padding_value=-100)
    model = LSTMTagger()
    fill(torch, model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loss_function = nn.NLLLoss()
    losses = []
    for _ in range(20):
        model.zero_grad()
        tag_scores = model(padded, lengths)
        loss = loss_function(tag_scores.flatten(0, 1), padded_tags.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
