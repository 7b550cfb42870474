"""A language model with nn.TransformerEncoder: positions written into slices of a buffer, a causal mask."""

from __future__ import annotations

import math
from typing import Any

from tests.torch.programs import Compile, eagerly, fill, text


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn, F = torch.nn, torch.nn.functional

    class PositionalEncoding(nn.Module):
        def __init__(self, width: int, longest: int = 64) -> None:
            super().__init__()
            self.dropout = nn.Dropout(p=0.0)
            pe = torch.zeros(longest, width)
            position = torch.arange(0, longest, dtype=torch.float).unsqueeze(1)
            div_term = torch.exp(torch.arange(0, width, 2).float() * (-math.log(10000.0) / width))
            pe[:, 0::2] = torch.sin(position * div_term)
            pe[:, 1::2] = torch.cos(position * div_term)
            pe = pe.unsqueeze(0).transpose(0, 1)
            self.register_buffer("pe", pe)

        def forward(self, x: Any) -> Any:
            x = x + self.pe[: x.size(0), :]
            return self.dropout(x)

    class TransformerModel(nn.Module):
        def __init__(self, tokens: int, width: int, heads: int) -> None:
            super().__init__()
            self.input_emb = nn.Embedding(tokens, width)
            self.pos_encoder = PositionalEncoding(width)
            layer = nn.TransformerEncoderLayer(width, heads, 32, dropout=0.0)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.decoder = nn.Linear(width, tokens)
            self.width = width

        def _mask(self, size: int) -> Any:
            return torch.log(torch.tril(torch.ones(size, size)))

        def forward(self, src: Any) -> Any:
            mask = self._mask(len(src)).to(src.device)
            src = self.pos_encoder(self.input_emb(src) * math.sqrt(self.width))
            output = self.encoder(src, mask=mask)
            return F.log_softmax(self.decoder(output), dim=-1)

    model = TransformerModel(20, 16, 2)
    fill(torch, model)
    net = compile(model)
    data = torch.from_numpy(text(4 * 41)).view(4, -1).t().contiguous()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    losses = []
    for i in range(20):
        x, y = data[2 * i : 2 * i + 8], data[2 * i + 1 : 2 * i + 9].reshape(-1)
        x = x[: y.size(0) // 4]
        optimizer.zero_grad(set_to_none=True)
        loss = F.nll_loss(net(x).view(-1, 20), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        losses.append(loss.item())
    return losses
