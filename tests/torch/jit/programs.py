# ruff: noqa
"""Modules that PyTorch scripts or traces and saves as archives, with arguments; imported where PyTorch is installed."""

import enum
import json
import math
import warnings
import zipfile
from collections.abc import Callable
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union  # noqa: UP035

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.torch.jit.records import ARCHIVES, to_json


class Program(NamedTuple):
    """How a module is made, its arguments, whether it is traced, and other methods with their arguments."""

    make: Callable[[], Any]
    args: tuple[Any, ...]
    traced: bool = False
    methods: dict[str, tuple[Any, ...]] = {}


# --- layers -----------------------------------------------------------------------------------------------------------


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 8)
        self.b = nn.Linear(8, 3)

    def forward(self, x):
        return F.log_softmax(self.b(F.relu(self.a(x))), dim=1)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 4, 3, stride=2, groups=2),
            nn.GroupNorm(2, 4),
            nn.SiLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        return self.head(torch.flatten(self.features(x), 1))


class BasicBlock(nn.Module):
    expansion: int = 1

    def __init__(self, inplanes, planes, stride=1, downsample: Optional[nn.Module] = None):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    """The shape of torchvision's, with few channels."""

    def __init__(self):
        super().__init__()
        self.inplanes = 4
        self.conv1 = nn.Conv2d(3, 4, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(4, 2)
        self.layer2 = self._make_layer(8, 2, stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(8, 5)

    def _make_layer(self, planes, blocks, stride=1):
        down = None
        if stride != 1 or self.inplanes != planes:
            down = nn.Sequential(nn.Conv2d(self.inplanes, planes, 1, stride=stride, bias=False), nn.BatchNorm2d(planes))
        layers = [BasicBlock(self.inplanes, planes, stride, down)]
        self.inplanes = planes
        layers += [BasicBlock(planes, planes) for _ in range(1, blocks)]
        return nn.Sequential(*layers)

    def _forward_impl(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer2(self.layer1(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))

    def forward(self, x: Tensor) -> Tensor:
        return self._forward_impl(x)


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Conv1d(2, 4, 3, padding=2, dilation=2, padding_mode="circular")
        self.up = nn.ConvTranspose1d(4, 3, 4, stride=2, padding=1, output_padding=1)
        self.norm = nn.BatchNorm1d(3)
        self.three = nn.Conv3d(1, 2, 2)
        self.same = nn.Conv2d(2, 2, 3, padding="same")
        self.two = nn.ConvTranspose2d(2, 1, 3, bias=False)
        self.instance = nn.InstanceNorm1d(3, affine=True)

    def forward(self, x: Tensor, v: Tensor):
        y = self.instance(self.norm(self.up(self.one(x))))
        w = self.three(v)
        return y, self.two(self.same(w[:, :, 0])), w


class Normalisations(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LayerNorm([4, 6])
        self.rms = nn.RMSNorm(6)
        self.group = nn.GroupNorm(2, 4)
        self.local = nn.LocalResponseNorm(3)

    def forward(self, x: Tensor):
        return self.layer(x), self.rms(x), self.group(x), self.local(x), F.normalize(x, dim=-1)


class Activations(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            [
                nn.ReLU(), nn.GELU(), nn.GELU(approximate="tanh"), nn.SiLU(), nn.Sigmoid(), nn.Tanh(), nn.ELU(), nn.SELU(),
                nn.CELU(), nn.LeakyReLU(0.1), nn.PReLU(), nn.Softplus(), nn.Softsign(), nn.Hardswish(), nn.Hardsigmoid(),
                nn.Hardtanh(), nn.ReLU6(), nn.Mish(), nn.LogSigmoid(), nn.Tanhshrink(), nn.Softshrink(), nn.Hardshrink(),
                nn.Threshold(0.1, 20.0), nn.Softmax(-1), nn.LogSoftmax(-1), nn.GLU(), nn.Softmin(-1), nn.Identity(),
            ]
        )  # fmt: skip

    def forward(self, x: Tensor) -> List[Tensor]:
        results: List[Tensor] = []
        for layer in self.layers:
            results.append(layer(x))
        return results


class Poolings(nn.Module):
    def __init__(self):
        super().__init__()
        self.max = nn.MaxPool2d(3, stride=2, padding=1, return_indices=True)
        self.avg = nn.AvgPool2d(2, ceil_mode=True, count_include_pad=False)
        self.one = nn.MaxPool1d(2)
        self.adaptive = nn.AdaptiveMaxPool2d((2, 3))
        self.average = nn.AdaptiveAvgPool1d(2)
        self.lp = nn.LPPool2d(2.0, 2)
        self.pad = nn.ZeroPad2d(1)
        self.reflect = nn.ReflectionPad2d(1)
        self.replicate = nn.ReplicationPad1d(2)
        self.up = nn.Upsample(scale_factor=2.0, mode="bilinear", align_corners=False)
        self.shuffle = nn.PixelShuffle(2)

    def forward(self, x: Tensor):
        largest, where = self.max(x)
        flat = x.flatten(2)
        return (
            largest, where, self.avg(x), self.one(flat), self.adaptive(x), self.average(flat), self.lp(x),
            self.pad(x), self.reflect(x), self.replicate(flat), self.up(x), self.shuffle(x),
            F.interpolate(x, size=[3, 3], mode="nearest"),
        )  # fmt: skip


class Losses(nn.Module):
    def __init__(self):
        super().__init__()
        self.ce = nn.CrossEntropyLoss(label_smoothing=0.1)
        self.mse = nn.MSELoss()
        self.l1 = nn.SmoothL1Loss()
        self.bce = nn.BCEWithLogitsLoss()
        self.kl = nn.KLDivLoss(reduction="batchmean")
        self.huber = nn.HuberLoss()

    def forward(self, x: Tensor, y: Tensor, labels: Tensor):
        p = torch.sigmoid(y)
        return (
            self.ce(x, labels), self.mse(x, y), self.l1(x, y), self.bce(x, p), self.kl(F.log_softmax(x, 1), F.softmax(y, 1)),
            self.huber(x, y), F.nll_loss(F.log_softmax(x, 1), labels), F.binary_cross_entropy(torch.sigmoid(x), p),
        )  # fmt: skip


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 5, num_layers=2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(10, 3)
        self.rnn = nn.RNN(3, 3)
        self.cell = nn.LSTMCell(3, 4)

    def forward(self, x: Tensor):
        y, (h, c) = self.lstm(x)
        z, last = self.gru(y)
        w, _ = self.rnn(z)
        a, b = self.cell(w[0])
        return y, h, c, z, last, w, a, b


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor, mask: Optional[Tensor] = None):
        return self.attention(x, x, x, attn_mask=mask)


class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 4, padding_idx=0)
        self.bag = nn.EmbeddingBag(10, 4, mode="mean")
        self.bilinear = nn.Bilinear(4, 4, 3)

    def forward(self, ids: Tensor):
        x = self.table(ids).mean(1)
        return x, self.bag(ids), self.bilinear(x, x), F.one_hot(ids, 10), F.cosine_similarity(x, x + 1.0)


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(11, 8)
        self.position = nn.Parameter(torch.randn(1, 6, 8))
        self.norms = nn.ModuleList([nn.LayerNorm(8) for _ in range(2)])
        self.projections = nn.ModuleList([nn.Linear(8, 24) for _ in range(2)])
        self.outputs = nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])
        self.register_buffer("mask", torch.tril(torch.ones(6, 6)).view(1, 1, 6, 6))

    def forward(self, ids: Tensor) -> Tensor:
        b, t = ids.shape
        x = self.token(ids) + self.position[:, :t]
        for norm, projection, output in zip(self.norms, self.projections, self.outputs):
            q, k, v = projection(norm(x)).split(8, dim=2)
            q = q.view(b, t, 2, 4).transpose(1, 2)
            k = k.view(b, t, 2, 4).transpose(1, 2)
            v = v.view(b, t, 2, 4).transpose(1, 2)
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            scores = scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
            y = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(b, t, 8)
            x = x + output(y)
        return x @ self.token.weight.t()


class Sdpa(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


# --- control flow -----------------------------------------------------------------------------------------------------


class Branch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            y = x * 2
        else:
            y = x - 1
        return y


class Collatz(nn.Module):
    def forward(self, n: Tensor) -> Tuple[Tensor, Tensor]:
        steps = torch.zeros_like(n)
        while bool(n != 1):
            if bool(n % 2 == 0):
                n = torch.div(n, 2, rounding_mode="floor")
            else:
                n = 3 * n + 1
            steps = steps + 1
        return n, steps


class Newton(nn.Module):
    def forward(self, a: Tensor, limit: int) -> Tuple[Tensor, int]:
        x = a
        count = 0
        while (x * x - a).abs().max() > 1e-5 and count < limit:
            x = (x + a / x) / 2
            count += 1
        return x, count


class Loops(nn.Module):
    def forward(self, x: Tensor, n: int) -> Tensor:
        total = torch.zeros_like(x[0])
        for i in range(x.size(0)):
            if i % 2 == 1:
                continue
            total = total + x[i] * i
            if i > n:
                break
        for row in x:
            total += row
        for i in range(n, 0, -2):
            total = total - float(i)
        return total


class TensorLoop(nn.Module):
    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        for i in range(int(n)):
            x = x * 0.5 + i
        return x


class EarlyReturn(nn.Module):
    def forward(self, x: Tensor, flag: bool = True) -> Tensor:
        if not flag:
            return x
        for i in range(3):
            x = x + 1
            if bool(x.mean() > 2.0):
                return x * 10
        return -x


class Raises(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 2:
            raise ValueError(f"expected a matrix, not {x.dim()} dims")
        assert x.size(0) > 0, "no rows"
        return x.t()


class Checked(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if bool((x < 0).any()):
            raise ValueError("negative")
        return x.sqrt()


# --- Python values ----------------------------------------------------------------------------------------------------


class Lists(nn.Module):
    def forward(self, x: Tensor, sizes: List[int]):
        values: List[int] = [v * 2 for v in sizes]
        values.append(7)
        values.extend([3, 4])
        values.sort()
        values.reverse()
        values.insert(0, 9)
        last = values.pop()
        first = values[0]
        values[1] = -1
        part = values[1:3]
        both = part + [5] * 2
        outs: List[Tensor] = []
        for v in both:
            outs.append(x * v)
        return (
            torch.stack(outs),
            values,
            last,
            first,
            len(part),
            max(values),
            min(values),
            sum(values),
            9 in values,
            values.index(-1),
        )


class Dicts(nn.Module):
    def forward(self, xs: Dict[str, Tensor]) -> Tuple[Dict[str, Tensor], List[str], int]:
        result: Dict[str, Tensor] = {}
        for key, value in xs.items():
            result[key + "_out"] = value + 1
        if "a" in xs:
            result["a"] = xs["a"]
        extra = xs.get("missing")
        if extra is None:
            extra = torch.ones(1)
        result["extra"] = extra
        names = sorted(result.keys())
        counts: Dict[int, int] = {1: 2, 3: 4}
        counts[5] = counts.pop(1) + len(counts)
        total = 0
        for k in counts:
            total += k * counts[k]
        return result, names, total


class Strings(nn.Module):
    def forward(self, name: str, n: int) -> Tuple[str, List[str], int, bool, str]:
        text = "{}-{}".format(name.upper(), n)
        parts = text.split("-")
        joined = "+".join(parts)
        found = text.find("-")
        s = text.lower().strip().replace("-", "_") + str(n) + text[0] + text[1:3] + "%d items" % n
        return joined, parts, found, text.startswith("A") and not text.endswith("z"), s


class Numbers(nn.Module):
    def forward(self, a: int, b: float) -> Tuple[int, float, float, int, int, float, bool, int, float]:
        c = a // 3 + a % 3 - (-a) // 3
        d = a / 3 + b**2 + math.sqrt(b) + math.floor(b) + math.ceil(b) + abs(-b) + round(b)
        e = float(a) * math.exp(b) + math.log(b) + math.pi + math.pow(b, 2.0)
        bits = (a << 2) | (a & 1) ^ 3
        return c, d, e, bits, int(b), min(b, 1.5), a > 2 and b < 9.0 or a == 0, max(a, 2), float("inf")


class Point(NamedTuple):
    x: Tensor
    y: Optional[int]


class NamedTuples(nn.Module):
    def move(self, p: Point) -> Point:
        return Point(p.x + 1, p.y)

    def forward(self, x: Tensor) -> Tuple[Point, Tensor]:
        p = self.move(Point(x, 3))
        y = p.y
        if y is not None:
            return p, p.x * y
        return p, p[0]


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


class Enums(nn.Module):
    def __init__(self, colour: Colour):
        super().__init__()
        self.colour = colour

    def forward(self, x: Tensor) -> Tensor:
        if self.colour == Colour.RED:
            return x * self.colour.value
        return x - Colour.GREEN.value


@torch.jit.script
class Counter:
    def __init__(self, start: int):
        self.count = start
        self.seen: List[int] = []

    def add(self, n: int) -> int:
        self.count += n
        self.seen.append(n)
        return self.count

    def __len__(self) -> int:
        return len(self.seen)


class Classes(nn.Module):
    def forward(self, x: Tensor) -> Tuple[Tensor, int, List[int]]:
        counter = Counter(2)
        counter.add(3)
        counter.add(4)
        return x * counter.count, len(counter), counter.seen


@torch.jit.interface
class Step(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class Double(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


class AddBias(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(3))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias


class Interfaces(nn.Module):
    step: Step

    def __init__(self, step: nn.Module):
        super().__init__()
        self.step = step

    def forward(self, x: Tensor) -> Tensor:
        return self.step.forward(x)


class Optionals(nn.Module):
    def forward(self, x: Tensor, scale: Optional[float] = None, mask: Optional[Tensor] = None) -> Tensor:
        if scale is None:
            scale = 1.5
        if mask is not None:
            x = torch.where(mask, x, torch.zeros_like(x))
        return x * scale


class Unions(nn.Module):
    def forward(self, x: Union[int, Tensor]) -> Tensor:
        if isinstance(x, int):
            return torch.full((2,), x)
        else:
            return x + 1


class AnyValue(nn.Module):
    def forward(self, xs: List[Tensor]):
        if torch.jit.isinstance(xs, List[Tensor]):
            return xs[0]
        return torch.zeros(1)


def helper(x: Tensor, k: int = 2) -> Tensor:
    return x.topk(k)[0]


class Functions(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        f = helper(x) + helper(x, 3)[..., :2]
        return f.clamp(min=-1.0)


class ManyMethods(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode_layer = nn.Linear(3, 2)
        self.decode_layer = nn.Linear(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(self.encode(x), 1.0)

    @torch.jit.export
    def encode(self, x: Tensor) -> Tensor:
        return torch.tanh(self.encode_layer(x))

    @torch.jit.export
    def decode(self, z: Tensor, scale: float) -> Tensor:
        return self.decode_layer(z) * scale


class Submodules(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = nn.ModuleList([nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3)])
        self.named = nn.ModuleDict({"left": nn.Linear(3, 2), "right": nn.Linear(3, 2)})
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(1)), nn.Parameter(torch.full((1,), 2.0))])

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        for i, step in enumerate(self.steps):
            x = step(x) + i
        total = torch.zeros(x.size(0), 2)
        for name, layer in self.named.items():
            total = total + layer(x)
        for s in self.scales:
            total = total * s
        return x, total + self.steps[0](x).sum()


class InPlace(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        y[0] = 1.0
        y[:, 1:] += 2
        y[y > 2] = 0.5
        y[1, 0].zero_()
        y.view(-1)[3] = -3.0
        y.mul_(2).add_(1, alpha=2)
        y[:, [0, 2]] = y[:, [2, 0]]
        return y


class Indexing(nn.Module):
    def forward(self, x: Tensor, ids: Tensor):
        return (
            x[ids], x[:, -1], x[..., None], x[1:, ::2], x[x > 0], x[ids, 0], x.index_select(0, ids), x.gather(1, ids.unsqueeze(1)),
            x.narrow(0, 0, 1), x.unbind(0)[1], torch.chunk(x, 2, 1)[0], x.select(0, 1), torch.split(x, [1, 3], 1)[1], x[None, 0],
        )  # fmt: skip


class Shapes(nn.Module):
    def forward(self, x: Tensor):
        b, c = x.shape
        y = x.new_zeros(b, 2) + torch.arange(2, dtype=torch.float32)
        z = torch.cat([x, y], dim=1).to(torch.float64).reshape(-1, 1).expand(-1, 2).contiguous()
        w = torch.empty([2, 2], dtype=x.dtype, device=x.device).fill_(3.0)
        return (
            z,
            w,
            x.permute(1, 0),
            x.numel(),
            x.dim(),
            list(x.shape),
            x.dtype == torch.float32,
            x.is_floating_point(),
            z.type_as(x),
            x.size()[1:],
            torch.linspace(0, 1, 3),
            torch.eye(2),
        )


class Reductions(nn.Module):
    def forward(self, x: Tensor):
        largest, where = x.max(dim=1)
        values, order = torch.sort(x, dim=1, descending=True)
        return (
            largest, where, values, order, x.mean(), x.std(), x.var(dim=0, unbiased=False), x.sum([0, 1], keepdim=True),
            x.prod(), x.argmax(1), x.norm(), x.min(), x.cumsum(1), torch.logsumexp(x, [1]), x.median(), x.any(), x.amax(0),
            torch.einsum("ij,kj->ik", [x, x]), torch.topk(x, 2)[1], x.all(dim=0), torch.aminmax(x)[0],
        )  # fmt: skip


class Complex(nn.Module):
    def forward(self, x: Tensor):
        f = torch.fft.rfft(x)
        s = torch.stft(x, n_fft=4, hop_length=2, window=torch.hann_window(4), return_complex=True)
        return f.abs(), f.real, s.abs(), torch.fft.irfft(f, n=8)


class Linalg(nn.Module):
    def forward(self, a: Tensor, b: Tensor):
        return (
            torch.linalg.solve(a, b),
            torch.det(a),
            torch.inverse(a),
            torch.bmm(a[None], b[None]),
            torch.addmm(b, a, b, alpha=0.5),
            torch.linalg.norm(b),
            torch.triu(a),
        )


class TryRandom(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(x)


class Quantised(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 8)
        self.fc2 = nn.Linear(8, 3)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))


def quantised_dynamic():
    torch.backends.quantized.engine = "fbgemm" if "fbgemm" in torch.backends.quantized.supported_engines else "qnnpack"
    return torch.ao.quantization.quantize_dynamic(Quantised(), {nn.Linear}, dtype=torch.qint8)


class QuantisedStatic(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = torch.ao.quantization.QuantStub()
        self.conv = nn.Conv2d(1, 2, 3)
        self.relu = nn.ReLU()
        self.fc = nn.Linear(2 * 4 * 4, 3)
        self.dequant = torch.ao.quantization.DeQuantStub()

    def forward(self, x):
        x = self.relu(self.conv(self.quant(x)))
        return self.dequant(self.fc(x.reshape(x.shape[0], -1)))


def quantised_static():
    torch.backends.quantized.engine = "fbgemm" if "fbgemm" in torch.backends.quantized.supported_engines else "qnnpack"
    m = QuantisedStatic().eval()
    m.qconfig = torch.ao.quantization.get_default_qconfig(torch.backends.quantized.engine)
    torch.ao.quantization.prepare(m, inplace=True)
    m(torch.randn(4, 1, 6, 6))
    return torch.ao.quantization.convert(m)


# --- programs ---------------------------------------------------------------------------------------------------------


class Detection(nn.Module):
    """Boxes, scores, and the suppression of all but the best."""

    def iou(self, a: Tensor, b: Tensor) -> Tensor:
        area = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1])
        other = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
        lt = torch.max(a[:, None, :2], b[:, :2])
        rb = torch.min(a[:, None, 2:], b[:, 2:])
        wh = (rb - lt).clamp(min=0)
        inter = wh[:, :, 0] * wh[:, :, 1]
        return inter / (area[:, None] + other - inter)

    def forward(self, boxes: Tensor, scores: Tensor, threshold: float) -> Dict[str, Tensor]:
        order = torch.argsort(scores, descending=True)
        boxes, scores = boxes[order], scores[order]
        overlap = self.iou(boxes, boxes)
        keep: List[int] = []
        for i in range(boxes.size(0)):
            good = True
            for j in keep:
                if overlap[i, j] > threshold:
                    good = False
                    break
            if good:
                keep.append(i)
        index = torch.tensor(keep, dtype=torch.long)
        return {"boxes": boxes[index], "scores": scores[index], "kept": order[index]}


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(12, 4)
        self.lstm = nn.LSTM(4, 5, batch_first=True)
        self.tag = nn.Linear(5, 3)
        self.transitions = nn.Parameter(torch.randn(3, 3))

    def viterbi(self, scores: Tensor) -> List[int]:
        best = scores[0]
        back: List[Tensor] = []
        for t in range(1, scores.size(0)):
            value, where = (best.unsqueeze(1) + self.transitions).max(0)
            best = value + scores[t]
            back.append(where)
        tag = int(best.argmax())
        path = [tag]
        for i in range(len(back) - 1, -1, -1):
            tag = int(back[i][tag])
            path.insert(0, tag)
        return path

    def forward(self, ids: Tensor):
        y, _ = self.lstm(self.embedding(ids))
        scores = self.tag(y)
        return scores, [self.viterbi(s) for s in scores.unbind(0)]


class BeamSearch(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 5)
        self.cell = nn.GRUCell(5, 5)
        self.out = nn.Linear(5, 7)

    def forward(self, start: Tensor, width: int, steps: int) -> Tuple[Tensor, Tensor]:
        tokens = torch.zeros(width, 1, dtype=torch.long)
        scores = torch.full((width,), float("-inf"))
        scores[0] = 0.0
        h = start.expand(width, -1)
        for _ in range(steps):
            h = self.cell(self.embedding(tokens[:, -1]), h)
            logp = torch.log_softmax(self.out(h), 1) + scores.unsqueeze(1)
            scores, flat = logp.view(-1).topk(width)
            beam = torch.div(flat, 7, rounding_mode="floor")
            token = flat % 7
            tokens = torch.cat([tokens[beam], token.unsqueeze(1)], 1)
            h = h[beam]
        return tokens, scores


class Vad(nn.Module):
    """A speech detector that keeps its state between calls."""

    h: Optional[Tensor]

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 4, 8, stride=4)
        self.cell = nn.LSTMCell(4, 4)
        self.out = nn.Linear(4, 1)
        self.context = torch.zeros(0)
        self.h = None
        self.c = torch.zeros(1, 4)
        self.last_rate = 0
        self.register_buffer("calls", torch.zeros(1, dtype=torch.long))

    @torch.jit.export
    def reset(self, batch: int = 1) -> None:
        self.h = torch.zeros(batch, 4)
        self.c = torch.zeros(batch, 4)
        self.context = torch.zeros(0)
        self.last_rate = 0

    def forward(self, x: Tensor, rate: int) -> Tensor:
        if x.dim() == 1:
            x = x.unsqueeze(0)
        if rate not in [8, 16]:
            raise ValueError(f"rate {rate} is not supported")
        if self.last_rate != 0 and self.last_rate != rate:
            self.reset(x.size(0))
        if self.h is None:
            self.reset(x.size(0))
        if not len(self.context):
            self.context = torch.zeros(x.size(0), 4)
        h = self.h
        assert h is not None
        y = torch.relu(self.conv(torch.cat([self.context, x], 1).unsqueeze(1))).mean(2)
        h, c = self.cell(y, (h, self.c))
        self.h = h
        self.c = c
        self.context = x[:, -4:]
        self.last_rate = rate
        self.calls += 1
        return torch.sigmoid(self.out(h))


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(6, 4)
        self.decoder = nn.Linear(2, 6)

    def forward(self, x: Tensor, eps: Tensor) -> Tuple[Tensor, Tensor]:
        mu, logvar = self.encoder(x).chunk(2, dim=1)
        z = mu + eps * torch.exp(0.5 * logvar)
        y = torch.sigmoid(self.decoder(z))
        kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        return y, F.binary_cross_entropy(y, torch.sigmoid(x), reduction="sum") + kl


class ScriptedLstm(nn.Module):
    """Cells and loops over time, written out."""

    def __init__(self):
        super().__init__()
        self.weight_ih = nn.Parameter(torch.randn(16, 3) * 0.3)
        self.weight_hh = nn.Parameter(torch.randn(16, 4) * 0.3)
        self.bias = nn.Parameter(torch.randn(16) * 0.3)

    def step(self, x: Tensor, state: Tuple[Tensor, Tensor]) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        h, c = state
        gates = torch.mm(x, self.weight_ih.t()) + torch.mm(h, self.weight_hh.t()) + self.bias
        i, f, g, o = gates.chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, (h, c)

    def forward(self, x: Tensor) -> Tensor:
        zero = torch.zeros(x.size(1), 4)
        state = (zero, zero)
        outputs = torch.jit.annotate(List[Tensor], [])
        for t in range(x.size(0)):
            out, state = self.step(x[t], state)
            outputs += [out]
        return torch.stack(outputs)


class MixtureOfExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        weights = torch.softmax(self.gate(x), -1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            out = out + weights[:, i : i + 1] * expert(x)
        return out


class TransformerLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.middle = nn.Conv2d(4, 4, 3, padding=1)
        self.up = nn.ConvTranspose2d(4, 4, 2, stride=2)
        self.out = nn.Conv2d(5, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.middle(F.relu(self.down(x))))
        return self.out(torch.cat((self.up(y), x), dim=1))


class Spatial(nn.Module):
    def __init__(self):
        super().__init__()
        self.localise = nn.Linear(16, 6)

    def forward(self, x: Tensor) -> Tensor:
        theta = self.localise(x.flatten(1)).view(-1, 2, 3)
        return F.grid_sample(x, F.affine_grid(theta, x.size(), align_corners=False), align_corners=False)


class Attributes(nn.Module):
    """Attributes of every kind of value."""

    def __init__(self):
        super().__init__()
        self.sizes = [1, 2, 3]
        self.table = {"a": 1.5, "b": 2.5}
        self.pair = (1, "x")
        self.nothing: Optional[Tensor] = None
        self.flag = True
        self.tensors = [torch.ones(2), torch.arange(2.0)]
        self.register_buffer("hidden", torch.full((2,), 3.0), persistent=False)
        self.dtype = torch.float64

    def forward(self, x: Tensor) -> Tensor:
        total = x * self.sizes[1] + self.table["b"] + self.pair[0]
        if self.flag and self.nothing is None and self.pair[1] == "x":
            for t in self.tensors:
                total = total + t
        return (total + self.hidden).to(self.dtype)


class Fork(nn.Module):
    def work(self, x: Tensor) -> Tensor:
        return x * 2

    def forward(self, x: Tensor) -> Tensor:
        future = torch.jit.fork(helper, x, 2)
        y = x[:, :2] + 1
        return y + torch.jit.wait(future)


class Nested(nn.Module):
    def forward(self, x: Tensor) -> Tuple[List[List[Tensor]], Dict[str, List[int]], Tuple[Tensor, Tuple[int, str]]]:
        rows: List[List[Tensor]] = []
        for i in range(2):
            row: List[Tensor] = []
            for j in range(2):
                row.append(x[i, j])
            rows.append(row)
        empty: List[int] = []
        return rows, {"a": [1, 2], "b": empty}, (x, (2, "q"))


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


def r(*shape):
    return torch.randn(*shape)


PROGRAMS: dict[str, Program] = {
    "mlp": Program(Mlp, (r(5, 6),)),
    "mlp_traced": Program(Mlp, (r(5, 6),), traced=True),
    "conv_net": Program(ConvNet, (r(2, 2, 12, 12),)),
    "conv_net_traced": Program(ConvNet, (r(2, 2, 12, 12),), traced=True),
    "resnet": Program(ResNet, (r(1, 3, 32, 32),)),
    "resnet_traced": Program(ResNet, (r(1, 3, 32, 32),), traced=True),
    "convolutions": Program(Convolutions, (r(2, 2, 9), r(2, 1, 2, 4, 4))),
    "normalisations": Program(Normalisations, (r(2, 4, 6),)),
    "activations": Program(Activations, (r(3, 4),)),
    "poolings": Program(Poolings, (r(1, 4, 7, 8),)),
    "losses": Program(Losses, (r(4, 3), r(4, 3), torch.tensor([0, 2, 1, 1]))),
    "recurrent": Program(Recurrent, (r(2, 6, 4),)),
    "recurrent_traced": Program(Recurrent, (r(2, 6, 4),), traced=True),
    "attention": Program(Attention, (r(2, 5, 8),)),
    "attention_traced": Program(Attention, (r(2, 5, 8),), traced=True),
    "embeddings": Program(Embeddings, (torch.tensor([[1, 2, 3], [4, 0, 6]]),)),
    "gpt": Program(Gpt, (torch.tensor([[1, 2, 3, 4], [5, 6, 7, 10]]),)),
    "gpt_traced": Program(Gpt, (torch.tensor([[1, 2, 3, 4], [5, 6, 7, 10]]),), traced=True),
    "sdpa": Program(Sdpa, (r(2, 2, 4, 8), r(2, 2, 4, 8), r(2, 2, 4, 8))),
    "branch": Program(Branch, (r(3),)),
    "collatz": Program(Collatz, (torch.tensor(27),)),
    "newton": Program(Newton, (torch.tensor([2.0, 9.0]), 50)),
    "loops": Program(Loops, (r(12, 3), 7)),
    "tensor_loop": Program(TensorLoop, (r(3), torch.tensor(11))),
    "early_return": Program(EarlyReturn, (r(3),)),
    "raises": Program(Raises, (r(3, 2),)),
    "checked": Program(Checked, (r(3).abs(),)),
    "lists": Program(Lists, (r(2), [1, 2, 3])),
    "dicts": Program(Dicts, ({"a": r(2), "b": r(3)},)),
    "strings": Program(Strings, ("abc", 3)),
    "numbers": Program(Numbers, (7, 2.5)),
    "named_tuples": Program(NamedTuples, (r(2),)),
    "enums": Program(lambda: Enums(Colour.RED), (r(2),)),
    "classes": Program(Classes, (r(2),)),
    "interfaces": Program(lambda: nn.Sequential(Interfaces(Double()), Interfaces(AddBias())), (r(2, 3),)),
    "optionals": Program(Optionals, (r(2), None, torch.tensor([True, False]))),
    "unions": Program(Unions, (3,)),
    "any_value": Program(AnyValue, ([r(2)],)),
    "functions": Program(Functions, (r(2, 5),)),
    "many_methods": Program(ManyMethods, (r(2, 3),), methods={"encode": (r(2, 3),), "decode": (r(2, 2), 2.0)}),
    "submodules": Program(Submodules, (r(2, 3),)),
    "in_place": Program(InPlace, (r(3, 4),)),
    "indexing": Program(Indexing, (r(3, 4), torch.tensor([2, 0, 1]))),
    "shapes": Program(Shapes, (r(2, 3),)),
    "reductions": Program(Reductions, (r(3, 4),)),
    "complex": Program(Complex, (r(8),)),
    "linalg": Program(Linalg, (r(3, 3), r(3, 3))),
    "dropout": Program(TryRandom, (r(3),)),
    "quantised_dynamic": Program(quantised_dynamic, (r(4, 6),)),
    "quantised_static": Program(quantised_static, (r(2, 1, 6, 6),)),
    "detection": Program(Detection, (torch.tensor([[0.0, 0, 2, 2], [0.1, 0, 2, 2], [3, 3, 5, 5], [3, 3, 5, 4.9]]), torch.tensor([0.9, 0.8, 0.7, 0.95]), 0.5)),
    "tagger": Program(Tagger, (torch.tensor([[1, 2, 3, 4], [5, 6, 7, 10]]),)),
    "beam_search": Program(BeamSearch, (r(1, 5), 3, 4)),
    "vad": Program(Vad, (r(2, 32), 16), methods={"reset": (2,)}),
    "vae": Program(Vae, (r(3, 6), r(3, 2))),
    "scripted_lstm": Program(ScriptedLstm, (r(12, 2, 3),)),
    "mixture": Program(MixtureOfExperts, (r(3, 4),)),
    "transformer": Program(TransformerLayer, (r(2, 5, 8),)),
    "transformer_traced": Program(TransformerLayer, (r(2, 5, 8),), traced=True),
    "unet": Program(UNet, (r(1, 1, 8, 8),)),
    "spatial": Program(Spatial, (r(2, 1, 4, 4),)),
    "attributes": Program(Attributes, (r(2),)),
    "fork": Program(Fork, (r(2, 4),)),
    "nested": Program(Nested, (r(2, 2),)),
}  # fmt: skip


def made(name: str, *, train: bool = False) -> Any:
    """The scripted or traced module of a program."""
    torch.manual_seed(3)
    program = PROGRAMS[name]
    module = program.make().train(train)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(module, program.args) if program.traced else torch.jit.script(module)


# --- archives that the repository keeps -------------------------------------------------------------------------------

KEPT = (
    "mlp_traced", "conv_net", "newton", "scripted_lstm", "dicts", "named_tuples", "enums", "classes", "interfaces", "vad",
    "quantised_dynamic", "in_place",
)  # fmt: skip


def plain(value: Any) -> Any:
    """Tensors as arrays, in containers too."""
    if isinstance(value, Tensor):
        return value.detach().resolve_conj().clone().numpy()
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return tuple(map(plain, value))
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def write_kept() -> None:
    """Write the archives, without the tables of lines, and what PyTorch computes with them."""
    records = {}
    for name in KEPT:
        path = ARCHIVES / f"{name}.pt"
        module = made(name)
        module.save(str(path))
        records[name] = {
            "args": to_json(plain(PROGRAMS[name].args)),
            "result": to_json(plain(module(*PROGRAMS[name].args))),
        }
        with zipfile.ZipFile(path) as archive:
            members = [(info, archive.read(info)) for info in archive.infolist()]
        with zipfile.ZipFile(path, "w") as archive:
            for info, data in members:
                if not info.filename.endswith(".debug_pkl"):
                    kept = zipfile.ZipInfo(info.filename, (1980, 1, 1, 0, 0, 0))
                    kept.compress_type = info.compress_type
                    archive.writestr(kept, data)
    (ARCHIVES / "results.json").write_text(json.dumps(records, indent=None, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    write_kept()
