"""A page of every kind that opdb writes, from real runs."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from opdb.catalog import migrate
from opdb.catalog.store import Store
from opdb.catalog.targets.target import Target
from opdb.checks.coverage import Coverage
from opdb.checks.verdicts import check_program
from opdb.core import settings
from opdb.measure.conformance.report import report, site
from opdb.measure.conformance.run import run
from opdb.plugins.executorch.delegate.debug import OpRow, Report
from opdb.programs.torch.export import export
from opdb.spec.catalog import Catalog

KINDS = ("check", "chips", "changes", "conformance", "site", "op", "debug", "query")


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scores = self.query(x) @ self.key(x).transpose(-1, -2) / 8 + mask
        return self.out(torch.softmax(scores, -1) @ self.value(x))


class Layer(nn.Module):
    """Every third one has an operator that no spec maps."""

    def __init__(self, width: int, number: int) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.activation = torch.special.erfcx if number % 3 == 1 else nn.functional.gelu

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x), mask)
        return x + self.down(self.activation(self.up(self.mlp_norm(x))))


class Encoder(nn.Module):
    """``fmod`` is rejected: the specs have no types for it on HTP."""

    def __init__(self, layers: int, width: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, width)
        self.layers = nn.ModuleList(Layer(width, i) for i in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        mask = torch.fmod(x[..., :1], 3.0)
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


class Classifier(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.encoder, self.head = Encoder(layers), nn.Linear(64, 10)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(tokens))


def make(layers: int = 6) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The model for ``opdb check kinds.py:make``: 17 nodes per layer, and five more."""
    return Classifier(layers), (torch.zeros(1, 16, dtype=torch.int64),)


def coverage_of(layers: int) -> Coverage:
    return check_program(export(*make(layers)), Target("HTP", "SM8650"))


def coverages_of(layers: int) -> list[Coverage]:
    """On two chips and SDKs."""
    program = export(*make(layers))
    places = [(soc, sdk) for soc in ("SM8350", "SM8650") for sdk in ("2.47", "2.51")]
    return [check_program(program, Target("HTP", soc, sdk)) for soc, sdk in places]


def debugged(ops: int = 12) -> Report:
    """A report of ops with errors of every size, and long names like ExecuTorch's."""
    gaps = (1e-5, 5e-3, 0.3, None)
    rows = tuple(
        OpRow(
            0, i, f"aten__native_layer_norm_legit_no_training_default_{i}", "LayerNorm", ("aten.native_layer_norm.default",),
            f"/home/user/models/encoder_with_a_long_name.py:{40 + i}", "x = self.normalization(self.attention(x, mask))",
            f"encoder.layers.{i}.attention_norm", 0.5 + i / 3, 1000 * i, gaps[i % 4], "" if gaps[i % 4] is not None else "no value",
        )
        for i in range(ops)
    )  # fmt: skip
    return Report("forward", 3, 0.01, {0: "HTP"}, rows)


def write_pages(folder: Path, catalog: Catalog) -> dict[str, Path]:
    """The file of each of KINDS below ``folder``."""
    from opdb.catalog.query import Filters, ask
    from opdb.checks.differences import steps
    from opdb.checks.report import differences, several
    from opdb.checks.report.html import page
    from opdb.cli.options import Format
    from opdb.cli.output import print_rows
    from opdb.plugins.executorch.delegate.debug_page import page as debug_page

    url = f"sqlite:///{folder / 'opdb.db'}"
    migrate.upgrade(url)
    store = Store(url)
    store.sync(settings.specs_folder())
    run(catalog, store, ("LayerNorm", "Relu"), ("python", "c", "onnx.reference", "qnn-cpu"))
    texts = {f"site/{path}": text for path, text in site(catalog, store).items()}
    texts["check.html"] = page(coverage_of(6), "models/encoder.py:make")
    coverages, name = coverages_of(3), "models/encoder.py:make"
    texts["chips.html"] = several.page(coverages, name)
    texts["changes.html"] = "".join(
        differences.lines(steps(coverages), coverages, "html", name, "times: opdb cost")
    )
    texts["conformance.html"] = report(catalog, store, "html", with_gaps=True)
    texts["debug.html"] = debug_page(debugged(), "models/encoder.pte")
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    rows = ask(store, "support", Filters(op="LayerNorm", backend="CPU"))
    print_rows(rows, list(rows[0]), Format.html, "support of LayerNorm", folder / "query.html")
    places = {"site": "site/index.html", "op": "site/ops/LayerNorm.html"}
    return {kind: folder / places.get(kind, f"{kind}.html") for kind in KINDS}
