"""Translation by an encoder, attention and a decoder, step by step: outputs written into rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.torch.programs import Compile, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn, F = torch.nn, torch.nn.functional

    class EncoderRNN(nn.Module):
        def __init__(self, tokens: int, hidden: int) -> None:
            super().__init__()
            self.embedding = nn.Embedding(tokens, hidden)
            self.gru = nn.GRU(hidden, hidden, batch_first=True)

        def forward(self, input: Any) -> Any:
            return self.gru(self.embedding(input))

    class BahdanauAttention(nn.Module):
        def __init__(self, hidden: int) -> None:
            super().__init__()
            self.Wa, self.Ua, self.Va = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, 1)

        def forward(self, query: Any, keys: Any) -> Any:
            scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys)))
            weights = F.softmax(scores.squeeze(2).unsqueeze(1), dim=-1)
            return torch.bmm(weights, keys), weights

    class AttnDecoderRNN(nn.Module):
        def __init__(self, hidden: int, tokens: int) -> None:
            super().__init__()
            self.embedding = nn.Embedding(tokens, hidden)
            self.attention = BahdanauAttention(hidden)
            self.gru = nn.GRU(2 * hidden, hidden, batch_first=True)
            self.out = nn.Linear(hidden, tokens)
            self.tokens = tokens

        def forward(self, encoder_outputs: Any, encoder_hidden: Any, target: Any) -> Any:
            batch, length = target.shape
            outputs = torch.zeros(length, batch, self.tokens)
            decoder_input = torch.empty(batch, 1, dtype=torch.long).fill_(0)
            hidden = encoder_hidden
            for i in range(length):
                embedded = self.embedding(decoder_input)
                context, _ = self.attention(hidden.permute(1, 0, 2), encoder_outputs)
                output, hidden = self.gru(torch.cat((embedded, context), dim=2), hidden)
                outputs[i] = self.out(output).squeeze(1)
                decoder_input = target[:, i].unsqueeze(1)
            return F.log_softmax(outputs.transpose(0, 1), dim=-1)

    rng = np.random.default_rng(0)
    source = torch.from_numpy(rng.integers(1, 8, (8, 4)))
    target = source.flip(1)
    encoder, decoder = EncoderRNN(8, 12), AttnDecoderRNN(12, 8)
    fill(torch, encoder, 1)
    fill(torch, decoder, 2)
    encode, decode = compile(encoder), compile(decoder)
    encoder_optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-2)
    decoder_optimizer = torch.optim.Adam(decoder.parameters(), lr=1e-2)
    criterion = nn.NLLLoss()
    losses = []
    for _ in range(20):
        encoder_optimizer.zero_grad()
        decoder_optimizer.zero_grad()
        encoder_outputs, encoder_hidden = encode(source)
        outputs = decode(encoder_outputs, encoder_hidden, target)
        loss = criterion(outputs.reshape(-1, outputs.size(-1)), target.reshape(-1))
        loss.backward()
        encoder_optimizer.step()
        decoder_optimizer.step()
        losses.append(loss.item())
    return losses
