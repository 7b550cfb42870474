"""Style transfer: Gram matrices of features, the picture is the parameter, clamped in place, L-BFGS."""

from __future__ import annotations

from typing import Any

from tests.torch.programs import Compile, digits, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn, F, optim = torch.nn, torch.nn.functional, torch.optim

    def gram_matrix(input: Any) -> Any:
        a, b, c, d = input.size()
        features = input.view(a * b, c * d)
        return torch.mm(features, features.t()).div(a * b * c * d)

    class Normalization(nn.Module):
        def __init__(self, mean: Any, std: Any) -> None:
            super().__init__()
            self.mean = mean.clone().detach().view(-1, 1, 1)
            self.std = std.clone().detach().view(-1, 1, 1)

        def forward(self, img: Any) -> Any:
            return (img - self.mean) / self.std

    pictures = torch.from_numpy(digits(2)[0])
    content, style = pictures[:1], pictures[1:]
    cnn = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(inplace=False), nn.Conv2d(4, 6, 3, padding=1))
    fill(torch, cnn)
    cnn.eval()
    cnn.requires_grad_(False)
    normalization = Normalization(torch.tensor([0.4]), torch.tensor([0.2]))

    def features(x: Any) -> Any:
        x = normalization(x)
        outputs = []
        for layer in cnn.children():
            x = layer(x)
            if isinstance(layer, nn.Conv2d):
                outputs.append(x)
        return outputs

    features = compile(features)
    targets = [gram_matrix(f).detach() for f in features(style)]
    content_target = features(content)[-1].detach()
    input_img = content.clone()
    input_img.requires_grad_(True)
    optimizer = optim.LBFGS([input_img], lr=0.5, max_iter=4)
    losses: list[float] = []
    step = [0]
    while step[0] <= 20:

        def closure() -> Any:
            with torch.no_grad():
                input_img.clamp_(0, 1)
            optimizer.zero_grad()
            found = features(input_img)
            style_score = sum(F.mse_loss(gram_matrix(f), g) for f, g in zip(found, targets, strict=True)) * 1000
            content_score = F.mse_loss(found[-1], content_target)
            loss = style_score + content_score
            loss.backward()
            step[0] += 1
            losses.append(loss.item())
            return loss

        optimizer.step(closure)
    with torch.no_grad():
        input_img.clamp_(0, 1)
    return [*losses[:20], input_img.mean().item()]
