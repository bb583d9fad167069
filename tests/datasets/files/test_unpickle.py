from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from zcbench.datasets.files.unpickle import NUMPY, Bag, _frombuffer, unpickle
from zcbench.errors import DataFileError

PROTOCOLS = range(6)

PLAIN = {
    "text": "Kätzchen\n",
    "numbers": [0, -1, 255, 2**70, 1.5, float("inf")],
    "others": (None, True, False),
    "empty": [{}, [], (), ""],
    7: {"nested": [{"deep": (1, [2])}]},
}

ARRAYS = {
    "rows": np.arange(6, dtype=np.uint8).reshape(2, 3),
    "columns first": np.asfortranarray(np.arange(6, dtype=np.uint8).reshape(2, 3)),
    "strided": np.arange(20, dtype=np.uint8)[::3],
    "empty": np.zeros((0, 3072), dtype=np.uint8),
    "all bytes": np.arange(256, dtype=np.uint8),
}

# As cPickle of Python 2.7 writes {'pair': (1.5, None), 'text': u'café', 'labels': [3, 0], 'name': 'caf\xe9', 'big':
# 2**70} with protocols 0, 1 and 2.
PYTHON2_PLAIN = [
    b"(dp1\nS'pair'\np2\n(F1.5\nNtp3\nsS'text'\np4\nVcaf\xe9\np5\nsS'labels'\np6\n(lp7\nI3\naI0\nasS'name'\np8\n"
    b"S'caf\\xe9'\np9\nsS'big'\np10\nL1180591620717411303424L\ns.",
    b"}q\x01(U\x04pairq\x02(G?\xf8\0\0\0\0\0\0Ntq\x03U\x04textq\x04X\5\0\0\0caf\xc3\xa9q\x05U\x06labelsq\x06]q\x07"
    b"(K\3K\0eU\x04nameq\x08U\x04caf\xe9q\tU\x03bigq\nL1180591620717411303424L\nu.",
    b"\x80\2}q\x01(U\x04pairq\x02G?\xf8\0\0\0\0\0\0N\x86q\x03U\x04textq\x04X\5\0\0\0caf\xc3\xa9q\x05U\x06labelsq\x06]q\x07"
    b"(K\3K\0eU\x04nameq\x08U\x04caf\xe9q\tU\x03bigq\n\x8a\t\0\0\0\0\0\0\0\0@u.",
]


def python2_batch(pixels: np.ndarray[Any, Any], labels: list[int]) -> bytes:
    """The official CIFAR files, opcode by opcode: byte strings, `numpy.core`, flags that are numbers."""
    rows, columns = pixels.shape
    return (
        b"\x80\2}q\x01(U\x06labelsq\x04]q\x05("
        + b"".join(b"K" + bytes([label]) for label in labels)
        + b"eU\x04dataq\x06cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\0\x85U\x01b\x87Rq\t"
        + b"(K\1J"
        + struct.pack("<i", rows)
        + b"J"
        + struct.pack("<i", columns)
        + b"\x86cnumpy\ndtype\nq\nU\x02u1K\0K\1\x87Rq\x0b(K\3U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89T"
        + struct.pack("<i", pixels.size)
        + pixels.tobytes()
        + b"tbu."
    )


def written(folder: Path, content: bytes) -> Path:
    path = folder / "data_batch_1"
    path.write_bytes(content)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(DataFileError) as caught:
        unpickle(path, NUMPY)
    message = str(caught.value)
    assert str(path) in message
    assert len(message.splitlines()) == 1
    return message


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_plain_values_come_back(tmp_path: Path, protocol: int) -> None:
    assert unpickle(written(tmp_path, pickle.dumps(PLAIN, protocol)), {}) == PLAIN


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_arrays_come_back(tmp_path: Path, protocol: int, name: str) -> None:
    found = unpickle(written(tmp_path, pickle.dumps({"data": ARRAYS[name]}, protocol)), NUMPY)["data"]
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, ARRAYS[name])


@pytest.mark.parametrize("content", PYTHON2_PLAIN, ids=["protocol 0", "protocol 1", "protocol 2"])
def test_python_2_byte_strings_become_text(tmp_path: Path, content: bytes) -> None:
    expected = {"pair": (1.5, None), "text": "café", "labels": [3, 0], "name": "café", "big": 2**70}
    assert unpickle(written(tmp_path, content), {}) == expected


def test_python_2_arrays_come_back(tmp_path: Path) -> None:
    pixels = np.arange(512, dtype=np.uint8).reshape(2, 256)
    found = unpickle(written(tmp_path, python2_batch(pixels, [3, 9])), NUMPY)
    assert found["labels"] == [3, 9]
    np.testing.assert_array_equal(found["data"], pixels)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_arrays_of_float64_come_back(tmp_path: Path, protocol: int) -> None:
    mean = np.linspace(-1, 1, 768)
    found = unpickle(written(tmp_path, pickle.dumps({"mean": mean}, protocol)), NUMPY)["mean"]
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, mean)


@pytest.mark.parametrize("kind", [">f8", "<f4", "<i8", "<c16", "O", "S8", "<M8[s]", [("a", "<f8")]], ids=str)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_arrays_of_other_kinds_are_refused(tmp_path: Path, protocol: int, kind: Any) -> None:
    content = pickle.dumps({"mean": np.zeros(8, dtype=kind)}, protocol)
    assert "expected an array of uint8 or float64" in refusal(written(tmp_path, content))


@pytest.mark.parametrize("state", [b"N", b"K\5", b"U\4text", b")", b"(K\3t", b"(K\3U\1>NNNt"])
def test_byte_orders_that_are_none(tmp_path: Path, state: bytes) -> None:
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\1b\x87R(K\1K\1\x85cnumpy\ndtype\n"
    content = b"\x80\2" + array + b"U\2f8K\0K\1\x87R" + state + b"b\x89U\x08" + b"\0" * 8 + b"tb."
    assert "torn" in refusal(written(tmp_path, content))


@pytest.mark.parametrize("raw", [b"U\7" + b"\0" * 7, b"U\x09" + b"\0" * 9, b"]", b"N", b"K\1"])
def test_float64_of_other_lengths_are_refused(tmp_path: Path, raw: bytes) -> None:
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\1b\x87R(K\1K\1\x85cnumpy\ndtype\n"
    order = b"U\2f8K\0K\1\x87R(K\3U\1<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89"
    assert "torn" in refusal(written(tmp_path, b"\x80\2" + array + order + raw + b"tb."))


def test_allowed_stand_ins_get_the_attributes(tmp_path: Path) -> None:
    content = b"\x80\2cstranger.module\nRecord\n)\x81}U\x08accuracyG@W\0\0\0\0\0\0sb."
    found = unpickle(written(tmp_path, content), {("stranger.module", "Record"): Bag})
    assert type(found) is Bag
    assert found.accuracy == 92.0


@pytest.mark.parametrize("state", [b"K\5", b"U\4text", b"]K\1a"], ids=["number", "text", "list"])
def test_attributes_that_are_no_dictionary(tmp_path: Path, state: bytes) -> None:
    path = written(tmp_path, b"\x80\2cstranger.module\nRecord\n)\x81" + state + b"b.")
    with pytest.raises(DataFileError, match="torn"):
        unpickle(path, {("stranger.module", "Record"): Bag})


class Call:
    """Is pickled as the call of a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


def stack_global(module: str, name: str, argument: str) -> bytes:
    texts = [b"\x8c" + bytes([len(text.encode())]) + text.encode() for text in (module, name, argument)]
    return b"\x80\4" + texts[0] + texts[1] + b"\x93" + texts[2] + b"\x85R."


HOSTILE = {
    "reduce": ("system", lambda shell, _: pickle.dumps(Call(os.system, shell), 4)),
    "reduce, protocol 0": ("system", lambda shell, _: pickle.dumps(Call(os.system, shell), 0)),
    "eval": ("builtins.eval", lambda _, code: pickle.dumps(Call(eval, code), 4)),
    "eval, protocol 2": ("__builtin__.eval", lambda _, code: pickle.dumps(Call(eval, code), 2)),
    "inside an array": ("system", lambda shell, _: pickle.dumps(np.array([Call(os.system, shell)], dtype=object), 4)),
    "inside a dictionary": ("system", lambda shell, _: pickle.dumps({"data": [(Call(os.system, shell),)]}, 4)),
    "as a key": ("builtins.eval", lambda _, code: pickle.dumps({"data": 1, ("key", Call(eval, code)): 2}, 4)),
    "instance": ("os.system", lambda shell, _: b"(S" + repr(shell).encode() + b"\nios\nsystem\n."),
    "object": ("os.system", lambda shell, _: b"(cos\nsystem\nS" + repr(shell).encode() + b"\no."),
    "dotted name": ("os.path.os.system", lambda shell, _: stack_global("os", "path.os.system", shell)),
    "dotted module": ("os.path.os", lambda shell, _: stack_global("os.path", "os.system", shell)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pickles_run_nothing(tmp_path: Path, name: str) -> None:
    canary = tmp_path / "canary"
    function, make = HOSTILE[name]
    content = make(f"echo > '{canary}'", f"open({str(canary)!r}, 'w').close()")
    assert function in refusal(written(tmp_path, content))
    assert not canary.exists()
    # Were the pickle harmless, its refusal would prove nothing.
    pickle.loads(content)
    assert canary.exists()


@pytest.mark.parametrize("content", [b"Pcanary\n.", b"U\6canaryQ."], ids=["text", "binary"])
def test_persistent_ids_are_refused(tmp_path: Path, content: bytes) -> None:
    assert "persistent id" in refusal(written(tmp_path, content))


def test_extension_codes_are_refused(tmp_path: Path) -> None:
    refusal(written(tmp_path, b"\x80\2\x82\x01."))


@pytest.mark.parametrize("name", ["sys\ntem", "sys\r\x1b[2Jtem", "\u2028"], ids=ascii)
def test_names_of_globals_cannot_break_the_line(tmp_path: Path, name: str) -> None:
    message = refusal(written(tmp_path, stack_global("os", name, "true")))
    assert message.isprintable()


@pytest.mark.parametrize("kind", ["protocol 2", "protocol 4", "python 2"])
def test_truncated_at_every_length(tmp_path: Path, kind: str) -> None:
    batch = {"labels": [3, 9], "data": np.arange(64, dtype=np.uint8).reshape(2, 32)}
    whole = {
        "protocol 2": pickle.dumps({"labels": [3, 9], "names": ["a", "b"]}, 2),
        "protocol 4": pickle.dumps(batch, 4),
        "python 2": python2_batch(batch["data"], [3, 9]),
    }[kind]
    for length in range(len(whole)):
        assert "torn" in refusal(written(tmp_path, whole[:length]))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<!DOCTYPE html>\n<html><title>404 Not Found</title></html>\n",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 31035704\n",
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
        b"\0" * 1000,
        b"\x80\x7f.",
        b".",
        b"0.",
        b"\x80\4\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
    ],
    ids=["empty", "HTML", "LFS pointer", "gzip", "zeros", "protocol 127", "only stop", "pop nothing", "endless bytes"],
)
def test_files_that_are_no_pickle(tmp_path: Path, content: bytes) -> None:
    assert "torn or not a pickle" in refusal(written(tmp_path, content))


def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(tmp_path)


def test_absent_file(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(tmp_path / "absent")


# Flags that say "no references" make numpy take the file's bytes for the addresses of objects: printing one would run
# or crash on whatever lies there, so such an array must not be made at all.
FORGED = b"A" * 64
FORGED_ARRAY = (
    b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\1b\x87R(K\1K\x08\x85cnumpy\ndtype\n"
    b"U\2O8K\0K\1\x87R(K\3U\1|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89U" + bytes([len(FORGED)]) + FORGED + b"tb"
)


@pytest.mark.parametrize("content", [FORGED_ARRAY, b"]" + FORGED_ARRAY + b"a"], ids=["alone", "in a list"])
def test_arrays_of_forged_addresses_are_refused(tmp_path: Path, content: bytes) -> None:
    refusal(written(tmp_path, b"\x80\2" + content + b"."))


# The file calls `numpy.ndarray` with an object dtype over its own bytes, and stores an item there. A reader that has
# the real class in its place ends in a segmentation fault (fault D1).
CALLS_NDARRAY = b"\x80\5cnumpy\nndarray\n(K\4\x85U\1O\x96\x20\0\0\0\0\0\0\0" + b"A" * 32 + b"tR(K\0U\4itemu."
#: `_frombuffer` is on the stack, and BUILD gives it new defaults (fault D2).
BUILDS_A_FUNCTION = b"\x80\2cnumpy.core.numeric\n_frombuffer\n(N}U\x0c__defaults__)stb."


def deep(levels: int) -> bytes:
    """Return lists of lists: every level twice the one before."""
    return (
        b"\x80\2]"
        + b"q\0"
        + b"".join(b"](h" + bytes([n]) + b"h" + bytes([n]) + b"eq" + bytes([n + 1]) for n in range(levels))
    )


@pytest.mark.parametrize(
    "content",
    [
        CALLS_NDARRAY,
        BUILDS_A_FUNCTION,
        b"\x80\2cnumpy\ndtype\n(N}U\x06__init__Nstb.",
        b"\x80\2cnumpy.core.multiarray\n_reconstruct\nK\1K\2s.",
        b"\x80\4\x8c\5numpy\x8c\7ndarray\x93)\x81(K\1K\1\x85K\1\x89K\1tb.",
        b"\x80\2}((K\1tK\1\x86K\1s.",
        b"\x80\2}]K\1s.",
        b"\x80\4\x8fN\x90.",
        b"(lp0\n(dp1\na",
    ],
    ids=range(9),
)
def test_what_a_file_names_is_neither_called_nor_changed(tmp_path: Path, content: bytes) -> None:
    before = _frombuffer.__defaults__
    refusal(written(tmp_path, content))
    assert _frombuffer.__defaults__ is before


@pytest.mark.parametrize("put", [b"r\xff\xff\xff\x7f", b"p2147483647\n"], ids=["binary", "text"])
def test_a_place_far_away_takes_no_memory(tmp_path: Path, put: bytes) -> None:
    """Python's own reader makes room for all places before that one (fault D8b)."""
    assert unpickle(written(tmp_path, b"\x80\2]" + put + b"."), {}) == []


def test_arrays_are_no_larger_together_than_the_file_allows(tmp_path: Path) -> None:
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\1b\x87R(K\1M\x00\x10\x85h\1\x89h\0tb0"
    start = b"\x80\2T\x00\x10\0\0" + b"A" * 4096 + b"q\0cnumpy\ndtype\nU\2u1K\0K\1\x87Rq\1"
    assert unpickle(written(tmp_path, start + array + b"h\0."), NUMPY) == "A" * 4096
    assert "its arrays are larger than the file" in refusal(written(tmp_path, start + array * 100 + b"h\0."))


def test_hashes_of_nested_tuples_are_not_asked_for(tmp_path: Path) -> None:
    """A hash of 40 levels visits 2**40 tuples, and one of 200,000 nested tuples overflows the stack of C."""
    levels = b"".join(b"\x86q" + bytes([n]) + b"h" + bytes([n]) for n in range(40))
    assert "expected plain values as keys" in refusal(written(tmp_path, b"\x80\2}NN" + levels + b"\x86K\1s."))


def test_objects_of_twofold_lists_make_short_errors(tmp_path: Path) -> None:
    """The text of such a list has 2**60 brackets (fault D3)."""
    runs = unpickle(written(tmp_path, deep(60) + b"."), {})
    for _ in range(60):
        runs = runs[0]
    assert runs == []


FUZZ = """
import random, resource, sys
from pathlib import Path
from zcbench.datasets.files.unpickle import NUMPY, RECORDS, Bag, unpickle
from zcbench.errors import DataFileError

folder, count = Path(sys.argv[1]), int(sys.argv[2])
seeds = [path.read_bytes() for path in sorted(folder.glob("seed*"))]
opcodes = bytes(range(256))
draw = random.Random(0)
allowed = {**NUMPY, **RECORDS, ("a", "B"): Bag}
names = [f"c{module}\\n{name}\\n".encode() for module, name in allowed]
path = folder / "fuzzed"
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
read = 0
for number in range(count):
    if number % 10:
        content = bytearray(draw.choice(seeds))
        for _ in range(draw.randint(1, 8)):
            at = draw.randrange(len(content))
            new = draw.choice([draw.randbytes(1), draw.choice(names), b"", b"R", b"b"])
            content[at : at + draw.randint(0, 2)] = new
    else:
        steps = b"()]}lKNRbotuase0122\\x81\\x85\\x86\\x87\\x94h"
        parts = [draw.choice([draw.choice(names), bytes([draw.choice(steps)])]) for _ in range(60)]
        content = b"\\x80\\4" + b"".join(parts) + b"."
    path.write_bytes(content)
    try:
        unpickle(path, allowed)
        read += 1
    except DataFileError:
        pass
grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
assert grown < 64, grown
print(read)
"""


@pytest.mark.slow
def test_mutated_and_random_pickles_neither_crash_nor_grow(tmp_path: Path) -> None:
    batch = {"labels": [3, 9], "data": np.arange(64, dtype=np.uint8).reshape(2, 32), "mean": np.linspace(0, 1, 4)}
    for protocol in PROTOCOLS:
        (tmp_path / f"seed{protocol}").write_bytes(pickle.dumps(batch, protocol))
    (tmp_path / "seed python 2").write_bytes(python2_batch(batch["data"], [3, 9]))  # type: ignore[arg-type]
    command = [sys.executable, "-c", FUZZ, str(tmp_path), "22000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100  # some stay whole, so the others were refused for a reason
