"""What every proxy says of well-known architectures: a score, or the reason why there is none.

    python -m zcbench.tools.zoo > docs/zoo.md

The architectures are those of torchvision and timm (`pip install zcbench[zoo]`), with drawn weights, ten classes and
four images of 64 x 64 pixels.
"""

from __future__ import annotations

import re
import string
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..progress import Progress
from ..proxies import PROXIES
from ..proxies.registry import Score, score_all

SIZE, CLASSES = 64, 10
#: Proxies that take a pass per image, or gradients of every image.
SLOW = (
    "fisher_trace",
    "gradsign",
    "gradsign.sum",
    "hnas",
    "hnas.as_released",
    "ntk_condition",
    "ntk_condition.eval",
    "ntk_trace",
)
#: What a cell shows for a status, or for a proxy that was left out.
CELLS = {"ok": "✓", "inf": "∞", "-inf": "-∞", "nan": "nan", "": "·", "error": "**error**"}
#: Parameters above which the slow proxies are left out.
LARGE = 6_000_000

_INTRO = """# Proxies on well-known architectures

What every proxy says of architectures of torchvision and timm, with drawn weights, {classes} classes and four images
of {size} x {size} pixels. `python -m zcbench.tools.zoo > docs/zoo.md` makes this page, and a test keeps some of its
columns.

✓ means that there is a finite score; ∞ or nan means that the definition gives that. A letter gives the reason why there
is none. A dot means that the proxy was left out, since it takes minutes on a network of more than {large} million
parameters. Columns have the numbers of the list.
"""


def libraries() -> tuple[Any, Any]:
    """Return `torchvision.models` and `timm`.

    Raises:
        ImportError: One of them is absent, or does not fit this torch.
    """
    try:
        import torchvision
    except RuntimeError:
        # The wheel of PyPI is built for CUDA. Beside torch for CPUs it lacks two operators, which no architecture uses.
        library: Any = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _KEPT.append(library)
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        import torchvision
    import timm
    import torchvision.models

    return torchvision.models, timm


#: Libraries of operators last as long as this list.
_KEPT: list[Any] = []


def architectures() -> dict[str, Callable[[], nn.Module]]:
    """Return functions that build the architectures, by library and name."""
    vision, timm = libraries()

    def of_vision(name: str, **options: Any) -> Callable[[], nn.Module]:
        return lambda: getattr(vision, name)(num_classes=CLASSES, **options)

    def of_timm(name: str, **options: Any) -> Callable[[], nn.Module]:
        return lambda: timm.create_model(name, num_classes=CLASSES, **options)

    return {
        "torchvision resnet18": of_vision("resnet18"),
        "timm resnet18": of_timm("resnet18"),
        "torchvision resnet50": of_vision("resnet50"),
        "torchvision densenet121": of_vision("densenet121"),
        "torchvision mobilenet_v2": of_vision("mobilenet_v2"),
        "torchvision mobilenet_v3_small": of_vision("mobilenet_v3_small"),
        "torchvision efficientnet_b0": of_vision("efficientnet_b0"),
        "timm efficientnet_b0": of_timm("efficientnet_b0"),
        "torchvision convnext_tiny": of_vision("convnext_tiny"),
        "timm convnext_atto": of_timm("convnext_atto"),
        "torchvision regnet_x_400mf": of_vision("regnet_x_400mf"),
        "timm regnetx_002": of_timm("regnetx_002"),
        "timm vit_tiny_patch16": of_timm("vit_tiny_patch16_224", img_size=SIZE),
        "torchvision swin_t": of_vision("swin_t"),
        "timm mixer_s32": of_timm("mixer_s32_224", img_size=SIZE),
        "timm edgenext_xx_small": of_timm("edgenext_xx_small"),
        "timm poolformer_s12": of_timm("poolformer_s12"),
        "timm resnest14d": of_timm("resnest14d"),
        "torchvision squeezenet1_1": of_vision("squeezenet1_1"),
        "torchvision shufflenet_v2_x0_5": of_vision("shufflenet_v2_x0_5"),
        "torchvision googlenet": of_vision("googlenet", aux_logits=False, init_weights=False),
        "timm ghostnet_050": of_timm("ghostnet_050"),
        "timm repvgg_a0": of_timm("repvgg_a0"),
    }


def build(factory: Callable[[], nn.Module]) -> nn.Module:
    """Build an architecture with weights of seed 0."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.default_generator.manual_seed(0)
        return factory()


def batch(images: int = 4) -> tuple[Tensor, Tensor]:
    """Return images and labels."""
    draw = torch.Generator().manual_seed(0)
    return torch.randn(images, 3, SIZE, SIZE, generator=draw), torch.arange(images) % CLASSES


def scores(net: nn.Module) -> dict[str, Score]:
    """Return the scores of an architecture; slow proxies are left out for large ones."""
    large = sum(parameter.numel() for parameter in net.parameters()) > LARGE
    chosen = [proxy for name, proxy in PROXIES.items() if not (large and (name in SLOW or name.startswith("vkdnw")))]
    if large:
        chosen.append(PROXIES["vkdnw_dim"])
    return {score.proxy: score for score in score_all(net, *batch(), chosen)}


def column(net: nn.Module) -> dict[str, str]:
    """Return for every proxy its status, or the reason why it is not applicable; empty if it was left out."""
    found = {
        name: score.message if score.status == "not_applicable" else score.status for name, score in scores(net).items()
    }
    return {name: found.get(name, "") for name in PROXIES}


def page(columns: Mapping[str, Mapping[str, str]]) -> str:
    """Return the page."""
    reasons = dict.fromkeys(general(text) for of in columns.values() for text in of.values() if text not in CELLS)
    names = (first + second for first in ("", *string.ascii_lowercase) for second in string.ascii_lowercase)
    letters = dict(zip(reasons, names, strict=False))
    lines = [_INTRO.format(classes=CLASSES, size=SIZE, large=LARGE // 1_000_000)]
    lines += [f"{place}. {name}" for place, name in enumerate(columns, start=1)]
    lines += ["", "| proxy | " + " | ".join(map(str, range(1, len(columns) + 1))) + " |"]
    lines += ["| --- |" + " :-: |" * len(columns)]
    for proxy in PROXIES:
        texts = [of[proxy] for of in columns.values()]
        cells = [CELLS[text] if text in CELLS else letters[general(text)] for text in texts]
        lines.append(f"| `{proxy}` | " + " | ".join(cells) + " |")
    lines += ["", "Reasons, with the operation of the first architecture that has them:", ""]
    first: dict[str, str] = {}
    for text in (text for of in columns.values() for text in of.values() if text not in CELLS):
        first.setdefault(general(text), text)
    lines += [f"- **{letters[reason]}**: {first[reason]}" for reason in reasons]
    return "\n".join(lines) + "\n"


#: Kinds of architectures, for a short overview: words of which a name of `architectures` has one.
KINDS = {
    "ReLU": ("resnet", "densenet", "regnet", "resnest", "squeezenet", "shufflenet", "googlenet", "repvgg"),
    "mobile": ("mobilenet", "efficientnet", "ghostnet"),
    "ConvNeXt": ("convnext",),
    "attention": ("vit", "swin", "edgenext"),
    "mixers": ("mixer", "poolformer"),
}


def read(text: str) -> dict[str, dict[str, str]]:
    """Return what the page says: for every proxy and architecture `✓`, `·` for left out, or why there is no score."""
    names = re.findall(r"^\d+\. (.+)$", text, re.MULTILINE)
    reasons = dict(re.findall(r"^- \*\*(\w+)\*\*: (.+)$", text, re.MULTILINE))
    rows = re.findall(r"^\| `([\w.]+)` \| (.+) \|$", text, re.MULTILINE)
    return {
        proxy: {name: reasons.get(cell, cell) for name, cell in zip(names, cells.split(" | "), strict=True)}
        for proxy, cells in rows
    }


def kind(architecture: str) -> str:
    """Return the kind of an architecture, by the name that `architectures` gives it."""
    name = architecture.partition(" ")[2]
    return next(kind for kind, words in KINDS.items() if name.startswith(words))


def general(reason: str) -> str:
    """Return a reason without the operations, the shapes and the numbers of one architecture."""
    return re.sub(r"\w+ in [\w.-]+|\([\d, ]+\)|\d+", "…", reason)


def main() -> None:
    """Print the page."""
    torch.set_num_threads(1)
    known = architectures()
    progress = Progress(f"scoring {len(known)} architectures", len(known))
    columns = {}
    for done, (name, factory) in enumerate(known.items(), start=1):
        columns[name] = column(build(factory))
        progress.update(done)
    progress.close()
    sys.stdout.write(page(columns))


if __name__ == "__main__":
    main()
