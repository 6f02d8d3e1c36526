"""A decoder of Qwen2-0.5B's sizes with random weights, its caches in buffers.

24 layers, 896 wide, 14 heads over 2 of keys and values, vocabulary 151,936, cache 512.

    opdb check benchmarks/decoder.py:whole --soc SM8650                    # seconds, memory
    python benchmarks/decoder.py                                           # two layers, 16 steps, float and 16a8w, against PyTorch

The second, with a vocabulary of 4,096, runs `opdb compile` of one token at a time and `opdb run --steps` 16 times, and prints the largest
error of the logits over their largest value, and how often the token with the highest logit is the same.  Then it prints the sizes of
prefill (16 tokens) and decode with the whole vocabulary, each alone and in one context.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

HIDDEN, HEADS, SHARED, INNER, WORDS, CACHE = 896, 14, 2, 4864, 151_936, 512
#: The emulation computes the product with all words in 80 s, and two layers in 20 s.
EMULATED_WORDS = 4096
SIZE = HIDDEN // HEADS
STEPS, SAMPLES = 16, 32
Made = tuple[nn.Module, tuple[Tensor, ...]]


def linear(into: int, out: int, bias: bool = False) -> nn.Linear:
    made = nn.utils.skip_init(nn.Linear, into, out, bias=bias)
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.02)
    return made


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(HIDDEN))

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, (HIDDEN,), self.weight, 1e-6)


def rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    left, right = x.chunk(2, -1)
    return x * cosine + torch.cat([-right, left], -1) * sine


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = Norm(), Norm()
        self.query = linear(HIDDEN, HIDDEN, True)
        self.key, self.value = linear(HIDDEN, SHARED * SIZE, True), linear(HIDDEN, SHARED * SIZE, True)
        self.out = linear(HIDDEN, HIDDEN)
        self.gate, self.up, self.down = linear(HIDDEN, INNER), linear(HIDDEN, INNER), linear(INNER, HIDDEN)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, SHARED, CACHE, SIZE))

    def forward(self, x: Tensor, position: Tensor, cosine: Tensor, sine: Tensor, mask: Tensor) -> Tensor:
        count, y = x.shape[1], self.before(x)
        query = rotated(self.query(y).view(1, count, HEADS, SIZE).transpose(1, 2), cosine, sine)
        key = rotated(self.key(y).view(1, count, SHARED, SIZE).transpose(1, 2), cosine, sine)
        value = self.value(y).view(1, count, SHARED, SIZE).transpose(1, 2)
        self.keys.index_copy_(2, position, key)
        self.values.index_copy_(2, position, value)
        keys, values = (t.repeat_interleave(HEADS // SHARED, 1) for t in (self.keys, self.values))
        weights = torch.softmax(query @ keys.transpose(2, 3) * SIZE**-0.5 + mask, -1)
        x = x + self.out((weights @ values).transpose(1, 2).reshape(1, count, HIDDEN))
        y = self.between(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self, layers: int, words: int) -> None:
        super().__init__()
        self.words = nn.utils.skip_init(nn.Embedding, words, HIDDEN)
        nn.init.normal_(self.words.weight, std=0.5)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.norm = Norm()
        angles = torch.outer(torch.arange(CACHE), 1e6 ** -(torch.arange(0, SIZE, 2) / SIZE)).repeat(1, 2)
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())
        self.register_buffer("places", torch.arange(CACHE))

    def forward(self, tokens: Tensor, position: Tensor) -> Tensor:
        """Takes ``tokens`` [1, n] at ``position`` [n]; returns the logits after the last one."""
        x = self.words(tokens)
        cosine, sine = self.cosine[position], self.sine[position]
        mask = torch.where(self.places <= position[:, None], 0.0, -100.0)
        for layer in self.layers:
            x = layer(x, position, cosine, sine, mask)
        return functional.linear(self.norm(x[:, -1]), self.words.weight)


def made(layers: int, count: int, words: int = WORDS) -> Made:
    torch.manual_seed(0)
    return Decoder(layers, words).eval(), (torch.zeros(1, count, dtype=torch.int32), torch.arange(count))


def whole() -> Made:
    return made(24, 1)


def decode() -> Made:
    return made(2, 1)


def prefill() -> Made:
    return made(2, STEPS)


def emulated() -> Made:
    return made(2, 1, EMULATED_WORDS)


def opdb(*arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "opdb", *map(str, arguments)], capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return done.stdout


def main() -> None:
    here, on = f"{__file__}:emulated", ("--soc", "SM8650", "--execution", "emulator")
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, EMULATED_WORDS, (SAMPLES, 1, 1)).astype(np.int32)
    places = np.arange(SAMPLES, dtype=np.int32)[:, None]
    module, _ = emulated()
    with torch.no_grad():
        wanted = np.stack([
            module(torch.from_numpy(t), torch.from_numpy(p).long()).numpy()
            for t, p in zip(tokens[:STEPS], places[:STEPS], strict=True)
        ])  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        data, steps = Path(folder, "data.npz"), Path(folder, "steps.npz")
        np.savez(data, tokens=tokens, position=places)
        np.savez(steps, tokens=tokens[:STEPS], position=places[:STEPS])
        for name, how in (("float", ()), ("16a8w", ("--quantize", "16a8w", "--data", data))):
            file, out = Path(folder, f"{name}.bin"), Path(folder, "out.npz")
            started = time.monotonic()
            opdb("compile", here, *on, *how, "-o", file)
            compiled = time.monotonic() - started
            opdb(
                "run",
                file,
                "--inputs",
                steps,
                "--steps",
                STEPS,
                "--real",
                "--outputs",
                out,
                "--timeout",
                3000,
            )
            got = next(v for v in np.load(out).values() if v.shape == wanted.shape)
            off = [float(np.abs(g - w).max() / np.abs(w).max()) for g, w in zip(got, wanted, strict=True)]
            same = int((got.argmax(-1) == wanted.argmax(-1)).sum())
            size = file.stat().st_size / 1e6
            print(
                f"{name}: {size:.0f} MB in {compiled:.0f} s; largest error {max(off):.1e}, same token {same} of {STEPS}",
                flush=True,
            )
        sizes = []
        one, many = f"{__file__}:decode", f"{__file__}:prefill"
        for models in ((one,), (many,), (one, "--with", many)):
            opdb("compile", *models, "--soc", "SM8650", "-o", Path(folder, "x.bin"))
            sizes.append(Path(folder, "x.bin").stat().st_size / 1e6)
        print("decode {:.0f} MB, prefill {:.0f} MB, both in one context {:.0f} MB".format(*sizes))


if __name__ == "__main__":
    main()
