"""A student taught by a teacher: divergences of softened outputs, a frozen model."""

from __future__ import annotations

from typing import Any

from tests.torch.programs import Compile, digits, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn, F = torch.nn, torch.nn.functional

    def perceptron(hidden: int) -> Any:
        return nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), nn.Hardswish(), nn.Linear(hidden, 10))

    teacher, student = perceptron(32), perceptron(8)
    fill(torch, teacher, 1)
    fill(torch, student, 2)
    inputs, labels = (torch.from_numpy(part) for part in digits(32))
    for p in teacher.parameters():
        p.requires_grad = False
    teacher.eval()
    net = compile(student)
    temperature = 2.0
    optimizer = torch.optim.Adamax(student.parameters(), lr=2e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
    losses = []
    for _ in range(20):
        with torch.no_grad():
            teacher_logits = teacher(inputs)
        student_logits = net(inputs)
        soft = F.kl_div(
            F.log_softmax(student_logits / temperature, dim=1),
            F.softmax(teacher_logits / temperature, dim=1),
            reduction="batchmean",
        )
        loss = 0.3 * soft * temperature**2 + 0.7 * F.cross_entropy(student_logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return losses
