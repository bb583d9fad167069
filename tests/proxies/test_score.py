from __future__ import annotations

from typing import Any

import pytest
import torch
import zcbench
from torch import Tensor, nn
from zcbench.errors import UnknownNameError

Batch = tuple[Tensor, Tensor]


def mlp(width: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(768, width), nn.ReLU(), nn.Linear(width, 10))


def test_score_gives_every_proxy_by_default(batch: Batch) -> None:
    scores = zcbench.score(mlp(4), *batch)
    assert list(scores) == list(zcbench.PROXIES)
    assert scores["params"].value == 768 * 4 + 4 + 50
    assert scores["zen"].status == "not_applicable"


def test_without_labels_the_loss_says_so(batch: Batch) -> None:
    scores = zcbench.score(mlp(4), batch[0], proxies=["snip", "naswot"])
    assert scores["snip"].status == "not_applicable"
    assert "labels" in scores["snip"].message
    assert scores["naswot"].status in {"ok", "-inf"}  # two of eight images may switch four ReLUs alike


def test_unknown_proxies_are_named(batch: Batch) -> None:
    with pytest.raises(UnknownNameError, match="did you mean snip"):
        zcbench.score(mlp(2), *batch, proxies=["snipp"])


def test_out_of_memory_is_a_status(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("planted")

    monkeypatch.setattr("zcbench.proxies.passes.forward.Running.run", full)
    scores = zcbench.score(mlp(2), *batch, proxies=["snip", "l2_norm"])
    assert scores["snip"].status == "out_of_memory"
    assert scores["l2_norm"].status == "ok"


class Named(nn.Module):
    """A classifier that returns its logits by name, beside a number, as those of Hugging Face do."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.form = form
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.head = nn.Linear(4, 10)

    def forward(self, x: Tensor) -> Any:
        logits = self.head(self.body(x).flatten(1))
        if self.form == "plain":
            return logits
        if self.form == "dict":
            return {"loss": None, "logits": logits}
        return type("Output", (), {"loss": None, "logits": logits})()


@pytest.mark.parametrize("form", ["dict", "object"])
def test_logits_by_name_are_logits(form: str, batch: Batch) -> None:
    given, plain = Named(form), Named("plain")
    plain.load_state_dict(given.state_dict())
    found, expected = zcbench.score(given, *batch), zcbench.score(plain, *batch)
    assert {k: (s.status, s.message) for k, s in found.items()} == {
        k: (s.status, s.message) for k, s in expected.items()
    }
    assert {k: repr(s.value) for k, s in found.items()} == {k: repr(s.value) for k, s in expected.items()}
    assert found["snip"].status == found["epe_nas"].status == "ok"


def test_other_outputs_say_what_to_do(batch: Batch) -> None:
    class Two(nn.Module):
        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"boxes": x}

    message = zcbench.score(Two(), *batch, proxies=["snip"])["snip"].message
    assert "it returns ['dict']: wrap it, or give them the name logits" in message


def test_labels_that_are_no_classes_say_what_to_do(batch: Batch) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(768, 2))
    message = zcbench.score(net, *batch, proxies=["snip"])["snip"].message
    assert "expected 0 to 1, the classes of the network, got 7: give images of its classes" in message
