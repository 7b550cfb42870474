"""A language model of characters: an LSTM whose state is cut from its past, clipped gradients, steps by hand."""

from __future__ import annotations

from typing import Any

from tests.torch.programs import Compile, eagerly, fill, text


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn = torch.nn

    class RNNModel(nn.Module):
        def __init__(self, tokens: int, width: int, layers: int) -> None:
            super().__init__()
            self.tokens, self.width, self.layers = tokens, width, layers
            self.drop = nn.Dropout(0.0)
            self.encoder = nn.Embedding(tokens, width)
            self.rnn = nn.LSTM(width, width, layers, dropout=0.0)
            self.decoder = nn.Linear(width, tokens)
            self.decoder.weight = self.encoder.weight

        def forward(self, x: Any, hidden: Any) -> Any:
            output, hidden = self.rnn(self.drop(self.encoder(x)), hidden)
            decoded = self.decoder(self.drop(output)).view(-1, self.tokens)
            return torch.nn.functional.log_softmax(decoded, dim=1), hidden

        def init_hidden(self, batch: int) -> Any:
            weight = next(self.parameters())
            shape = (self.layers, batch, self.width)
            return weight.new_zeros(shape), weight.new_zeros(shape)

    def repackage_hidden(h: Any) -> Any:
        if isinstance(h, torch.Tensor):
            return h.detach()
        return tuple(repackage_hidden(v) for v in h)

    def batchify(data: Any, batch: int) -> Any:
        steps = data.size(0) // batch
        data = data.narrow(0, 0, steps * batch)
        return data.view(batch, -1).t().contiguous()

    corpus = batchify(torch.from_numpy(text(330)), 4)
    model = RNNModel(20, 16, 2)
    fill(torch, model)
    net = compile(model)
    criterion = nn.NLLLoss()
    lr, bptt, losses = 2.0, 4, []
    hidden = model.init_hidden(4)
    for i in range(0, corpus.size(0) - 1 - bptt, bptt):
        data, targets = corpus[i : i + bptt], corpus[i + 1 : i + 1 + bptt].view(-1)
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = net(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        losses.append(loss.item())
    return losses
