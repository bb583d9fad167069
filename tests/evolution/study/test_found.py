import dataclasses
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
import zcbench
from zcbench.datasets.tasks import TASKS
from zcbench.errors import ProgramError
from zcbench.evolution.study import found as module
from zcbench.evolution.study.found import Found, read, register
from zcbench.proxies import AGGREGATES, PROXIES
from zcbench.proxies.registry import score_all
from zcbench.spaces import SPACES

KNOWN = Path(module.__file__).parent / "known"
BATCH = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0)), torch.arange(4)


@pytest.fixture(autouse=True)
def forget():
    """Remove the programs that a test registers."""
    before = dict(PROXIES._items), dict(AGGREGATES._items)
    yield
    PROXIES._items, AGGREGATES._items = before


@pytest.mark.parametrize("index", [6111, 1462, 9000, 100, 15623])  # the last has no convolution in its cells
@pytest.mark.parametrize("name", ["eznas_a", "eznas_b"])
def test_the_programs_of_the_paper_equal_the_built_in_proxies(name, index):
    space = SPACES["nb201"](None)
    net = space.build(space.architecture(index), TASKS["cifar10"], 0)
    card = read(KNOWN / f"{name}.json").proxy()
    x = BATCH[0][:1] if name == "eznas_b" else BATCH[0]
    theirs, ours = score_all(net, x, None, [PROXIES[name], card])
    assert ours.status == theirs.status == "ok"
    assert ours.value == (theirs.value if name == "eznas_a" else pytest.approx(theirs.value, rel=1e-6))
    assert (card.direction, card.batch_size) == (PROXIES[name].direction, PROXIES[name].batch_size)


def test_a_program_runs_only_the_passes_that_it_reads():
    assert read(KNOWN / "eznas_a.json").proxy().passes == PROXIES["eznas_a"].passes == (1, 1)
    assert Found(name="p", program="mean(T4_P)").proxy().passes == (2, 0)
    assert Found(name="p", program="add(mean(T1G_D), mean(T1G_N))").proxy().passes == (2, 2)


def test_a_file_comes_back_as_it_was(tmp_path):
    found = Found(
        name="mine-1",
        program="frobenius(T3G_N)",
        direction="lower",
        collection="flow",
        to_scalar="l2",
        recipe={"seed": 3},
    )
    found.write(tmp_path / "a" / "mine.json")
    assert read(tmp_path / "a" / "mine.json") == found


def test_a_registered_program_is_a_proxy_like_any_other(tmp_path):
    Found(name="mine", program="frobenius(T3)").write(tmp_path / "mine.json")
    assert register(tmp_path / "mine.json") == register(tmp_path / "mine.json") == "mine"
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3),
        torch.nn.BatchNorm2d(4),
        *(torch.nn.ReLU(), torch.nn.Conv2d(4, 4, 3), torch.nn.BatchNorm2d(4)),
        *(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(4, 4)),
    )
    score = zcbench.score(net, *BATCH, proxies=["mine"])["mine"]
    assert score.status == "ok"
    assert score.value == pytest.approx((2 / (4 * 9) * 4 * 4 * 9) ** 0.5, rel=0.3)  # Kaiming weights, one triple
    assert pickle.loads(pickle.dumps(PROXIES["mine"])) == PROXIES["mine"]  # for workers that are spawned
    bare = zcbench.score(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 4)), *BATCH, proxies=["mine"])
    assert bare["mine"].status == "not_applicable"


def test_an_aggregate_is_registered_as_one(tmp_path):
    Found(name="both", program="mul(params, naswot)", over="ranks").write(tmp_path / "both.json")
    assert register(tmp_path / "both.json") == "both"
    assert AGGREGATES["both"].members == ("params", "naswot")
    got = AGGREGATES["both"].score({"params": np.array([1.0, 2.0]), "naswot": np.array([5.0, 4.0])})
    np.testing.assert_allclose(got, [0.5, 0.5])


def test_a_name_that_is_taken_is_refused(tmp_path):
    Found(name="params", program="mean(T3)").write(tmp_path / "p.json")
    with pytest.raises(ProgramError, match="another proxy is called params"):
        register(tmp_path / "p.json")


GOOD = dataclasses.asdict(Found(name="mine", program="mean(T3)")) | {"format": 1}


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("{", "expected a file that `zcbench evolve` wrote"),
        ("[]", "expected a file"),
        ("[" * 100_000, "expected a file"),
        ("", "expected a file"),
        (GOOD | {"format": 2}, "format is not 1"),
        (GOOD | {"program": "mean(T9)"}, "T9"),
        (GOOD | {"program": "det(mean(T3))"}, "scalar"),
        (GOOD | {"program": 3}, "as text"),
        (GOOD | {"program": "relu(" * 10_000 + "T3" + ")" * 10_000}, "higher than the limit"),
        (GOOD | {"direction": "up"}, "direction"),
        (GOOD | {"collection": "all"}, "collection"),
        (GOOD | {"name": "../x"}, "name"),
        (GOOD | {"batch_size": 0}, "batch_size"),
        (GOOD | {"batch_size": True}, "batch_size"),
        (GOOD | {"surprise": 1}, "surprise"),
        ({"format": 1, "name": "mine"}, "program"),
    ],
)
def test_a_file_that_is_none_is_named(tmp_path, fault, words):
    path = tmp_path / "p.json"
    path.write_text(fault if isinstance(fault, str) else json.dumps(fault))
    with pytest.raises(ProgramError, match=words) as caught:
        read(path)
    assert "p.json" in str(caught.value)
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(ProgramError, match=r"absent\.json"):
        register(tmp_path / "absent.json")
