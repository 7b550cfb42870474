"""A small GPT: a registered mask, grouped weight decay, a warm-up and cosine schedule."""

from __future__ import annotations

import math
from typing import Any

from tests.torch.programs import Compile, eagerly, fill, text


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn, F = torch.nn, torch.nn.functional

    class CausalSelfAttention(nn.Module):
        def __init__(self, width: int, heads: int, block: int) -> None:
            super().__init__()
            self.c_attn = nn.Linear(width, 3 * width)
            self.c_proj = nn.Linear(width, width)
            self.register_buffer("bias", torch.tril(torch.ones(block, block)).view(1, 1, block, block))
            self.heads, self.width = heads, width

        def forward(self, x: Any) -> Any:
            b, t, c = x.size()
            q, k, v = self.c_attn(x).split(self.width, dim=2)
            k = k.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            q = q.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            v = v.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf"))
            y = F.softmax(att, dim=-1) @ v
            y = y.transpose(1, 2).contiguous().view(b, t, c)
            return self.c_proj(y)

    class Block(nn.Module):
        def __init__(self, width: int, heads: int, block: int) -> None:
            super().__init__()
            self.ln_1 = nn.LayerNorm(width)
            self.attn = CausalSelfAttention(width, heads, block)
            self.ln_2 = nn.LayerNorm(width)
            self.mlp = nn.ModuleDict({"fc": nn.Linear(width, 4 * width), "proj": nn.Linear(4 * width, width)})

        def forward(self, x: Any) -> Any:
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp.proj(F.gelu(self.mlp.fc(self.ln_2(x)), approximate="tanh"))

    class GPT(nn.Module):
        def __init__(self, vocabulary: int = 20, width: int = 16, layers: int = 2, block: int = 8) -> None:
            super().__init__()
            self.block = block
            self.wte = nn.Embedding(vocabulary, width)
            self.wpe = nn.Embedding(block, width)
            self.h = nn.ModuleList([Block(width, 2, block) for _ in range(layers)])
            self.ln_f = nn.LayerNorm(width)
            self.lm_head = nn.Linear(width, vocabulary, bias=False)
            self.wte.weight = self.lm_head.weight

        def forward(self, idx: Any, targets: Any = None) -> Any:
            pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
            x = self.wte(idx) + self.wpe(pos)
            for block in self.h:
                x = block(x)
            logits = self.lm_head(self.ln_f(x))
            if targets is None:
                return logits
            return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)

        @torch.no_grad()
        def generate(self, idx: Any, count: int) -> Any:
            for _ in range(count):
                logits = self(idx[:, -self.block :])[:, -1, :]
                values, _ = torch.topk(logits, 5)
                logits[logits < values[:, [-1]]] = -float("inf")
                idx = torch.cat((idx, F.softmax(logits, dim=-1).argmax(dim=-1, keepdim=True)), dim=1)
            return idx

    model = GPT()
    fill(torch, model)
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: (i + 1) / 4 if i < 3 else 0.1 + 0.45 * (1 + math.cos(math.pi * (i - 3) / 17))
    )
    net = compile(model)
    data = torch.from_numpy(text(400).astype("int64"))
    losses = []
    for step in range(20):
        ix = [(7 * step + 31 * i) % 390 for i in range(4)]
        x = torch.stack([data[i : i + 8] for i in ix])
        y = torch.stack([data[i + 1 : i + 9] for i in ix])
        y[0, :2] = -1
        loss = net(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    model.eval()
    return losses + [float(i) for i in model.generate(torch.zeros((1, 1), dtype=torch.long), 6)[0].tolist()]
