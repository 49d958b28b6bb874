"""PyTorch: a residual network and a small transformer train on ``cuda``, eager and compiled, with the CPU's losses.

The argument ``--eager`` leaves out ``torch.compile``.
"""

import copy
import sys

import torch
from torch import nn
from torch.nn import functional as F

STEPS = 3


class Block(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.first = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)])
        self.shortcut = None
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        out = self.norms[1](self.second(F.relu(self.norms[0](self.first(x)))))
        return F.relu(out + (x if self.shortcut is None else self.shortcut(x)))


class ResNet18(nn.Module):
    """The network of eighteen layers, a quarter as wide."""

    def __init__(self, width=16, classes=10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.pool = nn.MaxPool2d(3, 2, 1)
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        blocks = []
        for stage in range(4):
            stride = 1 if stage == 0 else 2
            blocks += [Block(widths[stage], widths[stage + 1], stride), Block(widths[stage + 1], widths[stage + 1], 1)]
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(widths[4], classes)

    def forward(self, x):
        return self.head(F.adaptive_avg_pool2d(self.blocks(self.pool(self.stem(x))), 1).flatten(1))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.inside, self.outside = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.net = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.inside(self.norms[0](x)).split(width, 2)
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.outside(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.net(self.norms[1](x))


class Gpt(nn.Module):
    def __init__(self, words=64, length=16, width=32, heads=4, layers=2):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*[Attention(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.layers(self.words(tokens) + self.places(places))))


def losses(model, batches, device, compiled=False, half=False):
    """The losses of a few steps of training."""
    model = copy.deepcopy(model).to(device)
    run = torch.compile(model) if compiled else model
    # Adam's first steps amplify rounding, since they only see the signs of gradients.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    if not half:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler(device, enabled=half)
    found = []
    for inputs, targets in batches:
        with torch.autocast(device, dtype=torch.float16, enabled=half):
            result = run(inputs.to(device))
            loss = F.cross_entropy(result.flatten(0, -2), targets.to(device).flatten())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        found.append(loss.item())
    return torch.tensor(found)


def main():
    torch.manual_seed(3)
    images = [(torch.randn(4, 3, 64, 64), torch.randint(0, 10, (4,))) for _ in range(STEPS)]
    texts = [torch.randint(0, 64, (4, 17)) for _ in range(STEPS)]
    texts = [(text[:, :-1], text[:, 1:]) for text in texts]
    for name, model, batches in (("ResNet-18", ResNet18(), images), ("GPT", Gpt(), texts)):
        expected = losses(model, batches, "cpu")
        torch.testing.assert_close(losses(model, batches, "cuda"), expected, rtol=1e-4, atol=1e-4)
        mixed = losses(model, batches, "cuda", half=True)
        torch.testing.assert_close(mixed, losses(model, batches, "cpu", half=True), rtol=2e-2, atol=2e-2)
        print(name, "eager and in mixed precision:", expected.tolist(), flush=True)
        if "--eager" not in sys.argv:
            compiled = losses(model, batches, "cuda", compiled=True)
            torch.testing.assert_close(compiled, expected, rtol=1e-3, atol=1e-3)
            print(name, "compiled", flush=True)
    print("PASS torch", torch.__version__, "training")


if __name__ == "__main__":
    main()
