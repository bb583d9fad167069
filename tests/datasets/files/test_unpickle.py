from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from zcbench.datasets.files.unpickle import NUMPY, Bag, unpickle
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
