from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from zcbench.datasets import DATASETS
from zcbench.datasets.generated import Noise
from zcbench.datasets.tasks import Task
from zcbench.errors import ConfigError, ResultsError
from zcbench.evolution.data import bank as module
from zcbench.evolution.data.bank import Bank, Handle, Networks
from zcbench.evolution.data.statistics import TERMINALS, VERSION, Statistics, collect, needs
from zcbench.proxies.probe import Probe
from zcbench.spaces import SPACES, Space
from zcbench.spaces.space import Truth


class Stacks(Space):
    """A space of stacks of ReLU-Conv-BatchNorm; the index is the depth, and the architecture names the sort."""

    name = "stacks"
    paper = ""
    truths: Mapping[str, Mapping[str, str]] = {}
    size = 20
    sort = "plain"

    def architecture(self, index: int) -> str:
        return f"{self.sort} {self.check_index(index)}"

    def index(self, architecture: str) -> int:
        return int(architecture.split()[1])

    def network(self, architecture: str, task: Task) -> nn.Module:
        sort, depth = architecture.split()
        if sort == "deadly":
            os.kill(os.getpid(), signal.SIGKILL)
        if sort == "broken":
            raise RuntimeError("no such\nkernel")
        if sort == "slow":
            time.sleep(0.2)
        body = [m for i in range(int(depth)) for m in (nn.ReLU(), nn.Conv2d(4, 4, 1 + 2 * (i % 2)), nn.BatchNorm2d(4))]
        head = [
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4, task.num_classes),
            *([Nan()] if sort == "nan" else []),
        ]
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), *body, *head)

    def read_truth(self, task: str, which: str) -> Truth:
        raise NotImplementedError


class Nan(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / 0


def stacks(sort: str = "plain") -> Stacks:
    space = Stacks()
    space.sort = sort
    return space


IMAGES = Noise(task=Task("tiny", 5, 20))
NETWORKS: Networks = [(stacks(), depth) for depth in (1, 4, 2)]
FOUR = [(stacks(), depth) for depth in (1, 2, 3, 4)]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def expected(depth: int, batch_size: int = 1, seed: int = 0) -> Statistics:
    net = stacks().build(f"plain {depth}", IMAGES.task, seed)
    return collect(Probe(net, IMAGES.probe_batch(batch_size, seed).x, seed=seed, plan=needs()))


def same(first: Statistics, second: Statistics) -> bool:
    return (
        first.instances == second.instances
        and [g.places for g in first.groups] == [g.places for g in second.groups]
        and all(
            set(a.tensors) == set(b.tensors) == set(TERMINALS)
            and all(torch.equal(a.tensors[t], b.tensors[t]) for t in TERMINALS)
            for a, b in zip(first.groups, second.groups, strict=True)
        )
    )


@pytest.fixture
def built(tmp_path: Path) -> Handle:
    """Return a handle of statistics that another process has written and that are not loaded yet."""
    (handle,) = Bank(tmp_path / "bank").build(NETWORKS[:1], IMAGES)
    module._CHECKED.clear()
    return handle


def test_what_is_loaded_is_what_was_collected(tmp_path: Path) -> None:
    bank = Bank(tmp_path / "new" / "bank")
    handles = bank.build(NETWORKS, IMAGES, 2, 3)
    assert [handle.failure for handle in handles] == [""] * 3
    for handle, (_, depth) in zip(handles, NETWORKS, strict=True):
        statistics = handle.load()
        assert statistics.instances == depth
        assert same(statistics, expected(depth, 2, 3))
        assert all(t.is_contiguous() for group in statistics.groups for t in group.tensors.values())
    assert bank.build(NETWORKS, IMAGES, 2, 3) == handles


def test_files_are_safetensors_that_say_what_they_are(built: Handle) -> None:
    tensors = load_file(built.path)
    (group,) = built.load().groups
    assert {f"{name}/0": True for name in TERMINALS} == {
        n: torch.equal(t, group.tensors[n[:-2]]) for n, t in tensors.items()
    }
    recipe = json.loads(built.recipe)
    assert recipe == {
        "space": "stacks",
        "architecture": "plain 1",
        "dataset": "noise-tiny",
        "batch_hash": IMAGES.probe_batch(1, 0).hash,
        "batch_size": 1,
        "seed": 0,
        "collection": "rcb",
        "dtype": "float32",
        "version": VERSION,
        "torch": torch.__version__,
    }
    assert [path.name for path in built.path.parent.iterdir()] == [built.path.name]


def test_handles_are_small_and_travel(built: Handle) -> None:
    sent = pickle.dumps(built)
    assert len(sent) < 1000
    assert same(pickle.loads(sent).load(), expected(1))


def test_nothing_is_computed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bank = Bank(tmp_path)
    bank.build(NETWORKS[:2], IMAGES)
    before = files(tmp_path)
    ran: list[str] = []
    run = module._Job.run
    monkeypatch.setattr(module._Job, "run", lambda job: (ran.append(json.loads(job.recipe)["architecture"]), run(job)))
    handles = bank.build([*NETWORKS, *NETWORKS], IMAGES)
    assert ran == ["plain 2"]
    assert handles[:3] == handles[3:]
    assert files(tmp_path).items() > before.items()


def test_every_part_of_the_recipe_has_files_of_its_own(tmp_path: Path) -> None:
    network, other = NETWORKS[:1], Noise(task=Task("other", 5, 20))
    handles = [
        *Bank(tmp_path).build(network, IMAGES),
        *Bank(tmp_path).build(network, IMAGES, batch_size=2),
        *Bank(tmp_path).build(network, IMAGES, seed=1),
        *Bank(tmp_path).build(network, other),
        *Bank(tmp_path, "flow").build(network, IMAGES),
        *Bank(tmp_path, dtype="bfloat16").build(network, IMAGES),
    ]
    assert len({handle.path for handle in handles}) == len(list(tmp_path.iterdir())) == 6
    shapes = [handle.load().groups[0].tensors["T1_D"].shape for handle in handles]
    assert [shape[1] for shape in shapes] == [1, 2, 1, 1, 1, 1]


def test_bfloat16_rounds_and_takes_half_the_room(tmp_path: Path) -> None:
    (single,) = Bank(tmp_path).build(NETWORKS[1:2], IMAGES)
    (half,) = Bank(tmp_path, dtype="bfloat16").build(NETWORKS[1:2], IMAGES)
    assert half.path.stat().st_size < 0.6 * single.path.stat().st_size
    for exact, rounded in zip(single.load().groups, half.load().groups, strict=True):
        assert exact.places == rounded.places
        for terminal in TERMINALS:
            assert rounded.tensors[terminal].dtype == torch.bfloat16
            assert torch.equal(rounded.tensors[terminal], exact.tensors[terminal].bfloat16())


def test_the_number_of_workers_does_not_matter(tmp_path: Path) -> None:
    folders = [tmp_path / str(workers) for workers in (1, 2, 3)]
    handles = [Bank(f).build(FOUR, IMAGES, workers=d) for f, d in zip(folders, (1, 2, 3), strict=True)]
    first, *others = map(files, folders)
    assert len(first) == 4
    assert others == [first, first]
    assert [h.path.name for h in handles[0]] == [h.path.name for h in handles[2]]


def test_a_spawned_worker_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space, images = SPACES["nb_macro"](None), DATASETS["noise-cifar10"](None)
    networks = [(space, 0), (space, 1)]
    Bank(tmp_path / "here").build(networks, images)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    handles = Bank(tmp_path / "spawned").build(networks, images, workers=2)
    assert all(handle.path.is_file() for handle in handles)
    assert len(files(tmp_path / "here")) == 2
    assert files(tmp_path / "here") == files(tmp_path / "spawned")


def test_threads_are_as_before(tmp_path: Path) -> None:
    try:
        torch.set_num_threads(2)
        Bank(tmp_path).build(NETWORKS[:1], IMAGES)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("sort", "depth", "failure"),
    [
        ("plain", 0, "the network has no ReLU-Conv-BatchNorm triple"),
        ("broken", 1, "RuntimeError: no such kernel"),
        ("nan", 1, "an infinity in the output on data"),
    ],
)
def test_failures_are_recorded_and_not_tried_again(
    tmp_path: Path, sort: str, depth: int, failure: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    networks = [NETWORKS[0], (stacks(sort), depth), NETWORKS[1]]
    handles = Bank(tmp_path).build(networks, IMAGES, workers=workers)
    assert [handle.failure for handle in handles] == ["", failure, ""]
    assert handles[2].load().instances == 4
    with pytest.raises(ResultsError, match=rf"^no statistics \({failure}\): delete \S+\.json to try again$"):
        handles[1].load()
    record = json.loads(handles[1].path.read_text())
    assert record["recipe"] == json.loads(handles[1].recipe)
    monkeypatch.setattr(module, "_run", lambda *_: pytest.fail("it is tried again"))
    assert Bank(tmp_path).build(networks, IMAGES) == handles


def test_a_failure_is_tried_again_when_its_record_goes(tmp_path: Path) -> None:
    network = [(stacks("broken"), 1)]
    (handle,) = Bank(tmp_path).build(network, IMAGES)
    handle.path.unlink()
    assert Bank(tmp_path).build(network, IMAGES) == [handle]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"recipe": {}, "failure": "x"}', b"\xff", b"[" * 100_000]
)
def test_torn_records_are_named(tmp_path: Path, content: bytes) -> None:
    network = [(stacks("broken"), 1)]
    (handle,) = Bank(tmp_path).build(network, IMAGES)
    handle.path.write_bytes(content)
    with pytest.raises(ResultsError, match=rf"{handle.path} are unusable .*: delete the file and build it again$"):
        Bank(tmp_path).build(network, IMAGES)


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def header_of(content: bytes) -> tuple[dict[str, dict[str, object]], bytes]:
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def with_header(header: Mapping[str, object], data: bytes) -> bytes:
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def changed(**changes: object) -> Callable[[bytes], bytes]:
    """Return a function that changes the header entry of one tensor."""

    def change(content: bytes) -> bytes:
        header, data = header_of(content)
        header["T1_D/0"] |= changes
        return with_header(header, data)

    return change


def without_tensor(content: bytes) -> bytes:
    header, data = header_of(content)
    del header["T3/0"]
    return with_header(header, data)


def bare(content: bytes) -> bytes:
    header, data = header_of(content)
    del header["__metadata__"]
    return with_header(header, data)


FAULTS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "seven bytes": lambda content: content[:7],
    "header alone": lambda content: content[: 8 + int.from_bytes(content[:8], "little")],
    "half": cut,
    "last byte missing": lambda content: content[:-1],
    "a byte more": lambda content: content + b"\0",
    "no header": lambda content: b"\0" * 8 + content,
    "endless header": lambda content: b"\xff" * 8 + content[8:],
    "header of another kind": lambda content: b"\x02" + b"\0" * 7 + b"[]",
    "nested": lambda content: (100_000).to_bytes(8, "little") + b"[" * 100_000,
    "text": lambda content: b"these are no statistics, but a text that somebody left here",
    "parquet": lambda content: b"PAR1" + content[4:],
    "no metadata": bare,
    "a tensor missing": without_tensor,
    "dtype": changed(dtype="BF16"),
    "unknown dtype": changed(dtype="C64"),
    "shape": changed(shape=[2, 2, 2]),
    "no shape": changed(shape=None),
    "beyond the end": changed(data_offsets=[0, 10**9]),
    "backwards": changed(data_offsets=[64, 0]),
    "words": changed(data_offsets=["a", "b"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_torn_and_foreign_files_are_refused_by_name(built: Handle, fault: str) -> None:
    built.path.write_bytes(FAULTS[fault](built.path.read_bytes()))
    for use in (built.load, lambda: Bank(built.path.parent).build(NETWORKS[:1], IMAGES)):
        with pytest.raises(ResultsError) as caught:
            use()
        assert str(caught.value).startswith(f"statistics {built.path} are unusable (")
        assert str(caught.value).endswith("): delete the file and build it again")
        assert len(str(caught.value)) < len(str(built.path)) + 250
    built.path.unlink()
    Bank(built.path.parent).build(NETWORKS[:1], IMAGES)
    assert same(built.load(), expected(1))


def test_any_flipped_bit_is_found(built: Handle) -> None:
    content = built.path.read_bytes()
    length = 8 + int.from_bytes(content[:8], "little")
    # Positions throughout the header and throughout the tensors.
    places = [*range(0, length, 2), *range(length, len(content), len(content) // 100), len(content) - 1]
    unharmed = 0
    for count, place in enumerate(places):
        torn = bytearray(content)
        torn[place] ^= 1 << count % 8
        built.path.write_bytes(torn)
        module._CHECKED.clear()
        try:
            found = built.load()
        except ResultsError as error:
            assert str(built.path) in str(error)  # noqa: PT017
        else:
            assert same(found, expected(1))
            unharmed += 1
    # Other white space at the end of the header.
    assert unharmed <= 2
    assert len(places) > 200


@pytest.mark.parametrize("workers", [1, 2])
def test_what_this_process_has_written_is_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    handles = Bank(tmp_path).build(NETWORKS, IMAGES, workers=workers)
    with monkeypatch.context() as patch:
        patch.setattr(module, "_checksum", lambda *_: pytest.fail("compared"))
        assert [handle.load().instances for handle in handles] == [1, 4, 2]
    content = bytearray(handles[0].path.read_bytes())
    content[-1] ^= 1
    handles[0].path.write_bytes(content)
    os.utime(handles[0].path, ns=(0, 0))  # as if another process had written it at another time
    with pytest.raises(ResultsError, match="checksum differs"):
        handles[0].load()


def test_the_checksum_is_compared_once_a_process(built: Handle, monkeypatch: pytest.MonkeyPatch) -> None:
    built.load()
    monkeypatch.setattr(module, "_checksum", lambda *_: pytest.fail("compared again"))
    assert built.load().instances == 1
    with pytest.raises(ResultsError, match="No such file"):
        dataclasses.replace(built, path=built.path.with_name("gone")).load()


def test_a_file_of_another_network_is_refused(tmp_path: Path) -> None:
    first, second, _ = Bank(tmp_path).build(NETWORKS, IMAGES)
    second.path.write_bytes(first.path.read_bytes())
    with pytest.raises(ResultsError, match=rf"{second.path} are unusable \(it has another recipe\)"):
        second.load()


def test_writing_to_a_tensor_does_not_reach_the_file(built: Handle) -> None:
    before = built.path.read_bytes()
    built.path.chmod(0o444)
    built.load().groups[0].tensors["T1_D"].zero_()
    assert built.path.read_bytes() == before
    assert same(built.load(), expected(1))


def resident_kib() -> dict[str, int]:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {name: int(status[name].split()[0]) for name in ("RssAnon", "RssFile")}


def _read(handle: Handle, whole: bool) -> tuple[dict[str, int], dict[str, int], dict[str, int], float]:
    torch.set_num_threads(1)
    handle.load()
    before = resident_kib()
    statistics = handle.load()
    mapped = resident_kib()
    total = 0.0
    for group in statistics.groups:
        for terminal in TERMINALS if whole else ("T1G_D",):
            total += float(group.tensors[terminal].sum())
    return before, mapped, resident_kib(), total


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_only_what_is_read_becomes_resident_and_processes_share_it(tmp_path: Path) -> None:
    (handle,) = Bank(tmp_path).build([(stacks(), 4)], Noise(task=Task("large", 5, 64)), 16)
    size = handle.path.stat().st_size / 1024
    assert size > 50_000
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        parts = pool.starmap(_read, [(handle, False), (handle, True)], chunksize=1)
    (before, mapped, some, _), (start, _, every, total) = parts
    # Mapping needs almost no memory. One terminal of 22 needs its share, and pages of 64 KiB to 2 MiB around it. The
    # memory belongs to the file and is not a copy.
    assert mapped["RssFile"] - before["RssFile"] < size / 10
    assert size / 40 < some["RssFile"] - before["RssFile"] < size / 2
    assert every["RssFile"] - start["RssFile"] > 0.9 * size
    assert every["RssAnon"] - start["RssAnon"] < size / 10
    assert total == _read(handle, True)[3]


def test_a_worker_that_dies_is_reported_and_the_rest_is_kept(tmp_path: Path) -> None:
    networks = [*FOUR[:2], (stacks("deadly"), 1)]
    with pytest.raises(ResultsError, match=r"a worker died (.*memory ran out.*); finished networks and"):
        Bank(tmp_path).build(networks, IMAGES, workers=2)
    assert [h.load().instances for h in Bank(tmp_path).build(FOUR[:2], IMAGES)] == [1, 2]


SLOW = [(stacks("slow"), depth) for depth in range(1, 20)]


def _build(folder: Path) -> None:
    Bank(folder).build(SLOW, IMAGES, workers=2)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_build_goes_on_from_where_it_was(tmp_path: Path, how: signal.Signals) -> None:
    process = multiprocessing.get_context("fork").Process(target=_build, args=(tmp_path,))
    process.start()
    assert process.pid
    wait_until(lambda: len(list(tmp_path.glob("*.safetensors"))) >= 3)
    workers = children(process.pid)
    os.kill(process.pid, how)
    process.join(30)
    assert len(workers) == 2
    wait_until(lambda: not any(map(running, workers)))
    finished = {path.name: path.read_bytes() for path in tmp_path.glob("*.safetensors")}
    assert 3 <= len(finished) < len(SLOW)
    handles = Bank(tmp_path).build(SLOW[:6], IMAGES, workers=2)
    assert [handle.load().instances for handle in handles] == [1, 2, 3, 4, 5, 6]
    for name, content in finished.items():
        assert (tmp_path / name).read_bytes() == content
    Bank(tmp_path / "anew").build(SLOW[:6], IMAGES)
    assert {h.path.name: h.path.read_bytes() for h in handles} == files(tmp_path / "anew")


def test_what_is_asked_for_is_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="batch_sizes: expected 1 to"):
        Bank(tmp_path).build(NETWORKS, IMAGES, batch_size=0)
    with pytest.raises(ConfigError, match="dtype: expected float32 or bfloat16, got 'float16'"):
        Bank(tmp_path, dtype="float16")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="collection: expected rcb, cbr, flow, layers, got 'all'"):
        Bank(tmp_path, "all")  # type: ignore[arg-type]
    assert Bank(tmp_path).build([], IMAGES) == []
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(ResultsError, match=r"statistics: cannot write to \S+file/bank \(.*\): choose another folder"):
        Bank(tmp_path / "file" / "bank").build(NETWORKS, IMAGES)
