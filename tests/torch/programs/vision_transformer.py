"""A vision transformer: patches by unfold, a token that is expanded, multi-head attention."""

from __future__ import annotations

from typing import Any

from tests.torch.programs import Compile, digits, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn = torch.nn

    class EncoderBlock(nn.Module):
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
            self.self_attention = nn.MultiheadAttention(width, heads, dropout=0.0, batch_first=True)
            self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

        def forward(self, input: Any) -> Any:
            x = self.ln_1(input)
            x, _ = self.self_attention(x, x, x, need_weights=False)
            x = x + input
            return x + self.mlp(self.ln_2(x))

    class VisionTransformer(nn.Module):
        def __init__(self, patch: int = 4, width: int = 16) -> None:
            super().__init__()
            self.patch = patch
            self.proj = nn.Linear(patch * patch, width)
            self.class_token = nn.Parameter(torch.zeros(1, 1, width))
            self.pos_embedding = nn.Parameter(torch.empty(1, 5, width).normal_(std=0.02))
            self.layers = nn.Sequential(*[EncoderBlock(width, 2) for _ in range(2)])
            self.head = nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            n, p = x.shape[0], self.patch
            x = x.unfold(2, p, p).unfold(3, p, p)
            x = x.reshape(n, -1, p * p)
            x = self.proj(x)
            x = torch.cat([self.class_token.expand(n, -1, -1), x], dim=1)
            x = self.layers(x + self.pos_embedding)
            return self.head(x[:, 0])

    images, labels = (torch.from_numpy(part) for part in digits(24))
    model = VisionTransformer()
    fill(torch, model)
    net = compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=20)
    criterion = nn.CrossEntropyLoss()
    losses = []
    for _ in range(20):
        loss = criterion(net(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return losses
