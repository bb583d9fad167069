from __future__ import annotations

import io
import random
import stat
import tarfile
import warnings
import zipfile
from pathlib import Path

import pytest
from zcbench.datasets.files.registry import DataFile
from zcbench.datasets.files.unpack import unpack
from zcbench.errors import AbsentFileError, DataFileError

GOOD = b"[" + b"1, " * 40 + b"2]"
FORMS = ["zip", "zip stored", "tar", "tar.gz", "tar.bz2", "tar.xz"]


def packed(folder: Path, members: dict[str, bytes], form: str = "zip") -> Path:
    """Write an archive; members whose names end with a slash are folders."""
    path = folder / "archive"
    if form.startswith("zip"):
        method = zipfile.ZIP_STORED if form.endswith("stored") else zipfile.ZIP_DEFLATED
        with zipfile.ZipFile(path, "w", method) as archive:
            for name, content in members.items():
                archive.writestr(zipfile.ZipInfo(name), content, method)
        return path
    mode = {"tar": "w", "tar.gz": "w:gz", "tar.bz2": "w:bz2", "tar.xz": "w:xz"}[form]
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if name.endswith("/"):
                info.type = tarfile.DIRTYPE
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def taken(
    path: Path,
    folder: Path,
    names: tuple[str, ...] = ("data/good.json",),
    *,
    form: str = "zip",
    size: int | None = None,
) -> dict[str, bytes]:
    """Unpack files and return what was written, which has to be nothing but their parts."""
    wanted = [(folder / "out" / name, DataFile(name, None, size)) for name in names]
    found = unpack(path, wanted, zipped=form.startswith("zip"), complete=False)
    written = {str(p.relative_to(folder / "out")): p.read_bytes() for p in (folder / "out").rglob("*") if p.is_file()}
    assert {f"{file.path}.part" for _, file in found} == set(written)
    return written


def refusal(path: Path, folder: Path, *, form: str = "zip", size: int | None = None) -> str:
    with pytest.raises(DataFileError) as caught:
        taken(path, folder, form=form, size=size)
    message = str(caught.value)
    assert str(path) in message
    assert len(message.splitlines()) == 1
    assert len(message) < len(str(path)) + 400
    assert {p for p in folder.rglob("*") if p.is_file()} <= {path, folder / "out" / "data" / "good.json.part"}
    return message


@pytest.mark.parametrize("form", FORMS)
def test_files_come_out_as_they_went_in(tmp_path: Path, form: str) -> None:
    members = {"data/": b"", "data/good.json": GOOD, "data/other.json": b"x", "README": b"x", "data/two.json": b""}
    path = packed(tmp_path, members, form)
    names = ("data/good.json", "data/two.json")
    assert taken(path, tmp_path, names, form=form) == {"data/good.json.part": GOOD, "data/two.json.part": b""}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["good.json", "other/folder/good.json", "./data/good.json", "data//good.json"])
def test_the_only_member_of_its_name_is_the_file(tmp_path: Path, name: str, form: str) -> None:
    path = packed(tmp_path, {name: GOOD, "__MACOSX/data/._good.json": b"x", "bad/not-good.json": b"x"}, form)
    assert taken(path, tmp_path, form=form) == {"data/good.json.part": GOOD}


def test_its_own_path_goes_before_its_name(tmp_path: Path) -> None:
    path = packed(tmp_path, {"old/good.json": b"x", "data/good.json": GOOD})
    assert taken(path, tmp_path) == {"data/good.json.part": GOOD}


@pytest.mark.parametrize("form", ["zip", "tar.gz"])
def test_two_members_that_could_be_the_file(tmp_path: Path, form: str) -> None:
    path = packed(tmp_path, {"old/good.json": b"x", "new/good.json": GOOD}, form)
    assert "it has 2 members that could be data/good.json" in refusal(path, tmp_path, form=form)


def test_a_file_that_stands_there_twice(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    with zipfile.ZipFile(path, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile's own, of the duplicate name
        archive.writestr("data/good.json", GOOD)
        archive.writestr("data/good.json", b"evil")
    assert "it has 2 members that could be data/good.json" in refusal(path, tmp_path)
    with tarfile.open(path, "w") as tar:
        for content in (GOOD, b"evil"):
            info = tarfile.TarInfo("data/good.json")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    assert "it has 2 members that could be data/good.json" in refusal(path, tmp_path, form="tar")


@pytest.mark.parametrize("form", ["zip", "tar"])
@pytest.mark.parametrize(
    "name",
    [
        "../good.json",
        "data/../../good.json",
        "/etc/passwd",
        "C:/good.json",
        "c:good.json",
        "..\\good.json",
        "a\\b",
        "..",
    ],
)
def test_paths_outside_the_folder_are_refused(tmp_path: Path, name: str, form: str) -> None:
    path = packed(tmp_path, {"data/good.json": GOOD, name: b"evil"}, form)
    assert f"its member {name} is a path outside the folder" in refusal(path, tmp_path, form=form)


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE],
)
@pytest.mark.parametrize("name", ["data/good.json", "data/other"])
def test_links_and_devices_of_a_tar_are_refused(tmp_path: Path, name: str, kind: bytes) -> None:
    path = tmp_path / "archive"
    with tarfile.open(path, "w") as tar:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, "/etc/passwd"
        tar.addfile(info)
        if name != "data/good.json":
            info = tarfile.TarInfo("data/good.json")
            info.size = len(GOOD)
            tar.addfile(info, io.BytesIO(GOOD))
    assert f"its member {name} is a link or a device" in refusal(path, tmp_path, form="tar")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK])
def test_links_and_devices_of_a_zip_are_refused(tmp_path: Path, kind: int) -> None:
    path = tmp_path / "archive"
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("data/good.json")
        info.external_attr = (kind | 0o644) << 16
        archive.writestr(info, "/etc/passwd")
    assert "its member data/good.json is a link or a device" in refusal(path, tmp_path)


def test_a_zip_under_a_password_is_refused(tmp_path: Path) -> None:
    path = packed(tmp_path, {"data/good.json": GOOD})
    content = bytearray(path.read_bytes())
    content[6] |= 1  # the flag of the local header
    content[content.index(b"PK\x01\x02") + 8] |= 1  # and of the directory
    path.write_bytes(content)
    assert "its member data/good.json is encrypted" in refusal(path, tmp_path)


@pytest.mark.parametrize("form", ["zip", "tar.gz", "tar.xz"])
def test_bombs_are_refused(tmp_path: Path, form: str) -> None:
    path = packed(tmp_path, {"data/good.json": bytes(10_000_000)}, form)
    assert "would unpack to 10,000,000 or more" in refusal(path, tmp_path, form=form)


def test_a_bomb_that_denies_its_size_is_refused(tmp_path: Path) -> None:
    path = packed(tmp_path, {"data/good.json": bytes(100_000)})
    content = bytearray(path.read_bytes())
    directory = content.index(b"PK\x01\x02")
    for place in (22, directory + 24):  # the unpacked size in the local header and in the directory
        content[place : place + 4] = (1000).to_bytes(4, "little")
    path.write_bytes(content)
    assert "torn or no archive (Bad CRC-32" in refusal(path, tmp_path)
    assert (tmp_path / "out" / "data" / "good.json.part").stat().st_size <= 1000


def test_zips_inside_one_another_are_refused(tmp_path: Path) -> None:
    """Members that share their bytes blow up to a square of the size; the sum of sizes bounds them."""
    path = packed(tmp_path, {f"data/{number}.json": bytes(9000) for number in range(200)})
    content = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
    first = content[: infos[1].header_offset]
    entries, place = bytearray(), content.index(b"PK\x01\x02")
    for info in infos:
        entry = bytearray(content[place : place + 46 + len(info.filename)])
        entry[42:46] = (0).to_bytes(4, "little")
        entries += entry
        place += len(entry)
    end = bytearray(content[place:])
    end[16:20] = len(first).to_bytes(4, "little")
    path.write_bytes(first + entries + end)
    assert "would unpack to 1,800,000 or more" in refusal(path, tmp_path)


@pytest.mark.parametrize("form", FORMS)
def test_a_file_of_another_size_is_refused(tmp_path: Path, form: str) -> None:
    path = packed(tmp_path, {"data/good.json": GOOD}, form)
    assert f"has {len(GOOD)} bytes, expected 7" in refusal(path, tmp_path, form=form, size=7)
    assert taken(path, tmp_path, form=form, size=len(GOOD)) == {"data/good.json.part": GOOD}


@pytest.mark.parametrize("form", ["zip", "tar"])
def test_a_folder_in_the_place_of_a_file(tmp_path: Path, form: str) -> None:
    path = packed(tmp_path, {"data/good.json/": b""}, form)
    refusal(path, tmp_path, form=form)


@pytest.mark.parametrize("form", FORMS)
def test_what_an_archive_lacks_is_named(tmp_path: Path, form: str) -> None:
    path = packed(tmp_path, {"data/other.json": GOOD, "README": b"x"}, form)
    with pytest.raises(AbsentFileError, match=r"lacks data/good.json; it has data/other.json, README"):
        taken(path, tmp_path, form=form)
    names = ("data/good.json", "data/other.json")
    assert set(taken(path, tmp_path, names, form=form)) == {"data/other.json.part"}
    wanted = [(tmp_path / name, DataFile(name, None, None)) for name in names]
    with pytest.raises(AbsentFileError, match=r"lacks data/good.json; it has"):
        unpack(path, wanted, zipped=form.startswith("zip"), complete=True)


@pytest.mark.parametrize("form", FORMS)
def test_an_empty_archive(tmp_path: Path, form: str) -> None:
    path = packed(tmp_path, {}, form)
    with pytest.raises(AbsentFileError, match="it has nothing"):
        taken(path, tmp_path, form=form)


@pytest.mark.parametrize("form", ["zip", "tar"])
@pytest.mark.parametrize(
    "content", [b"", b"<!DOCTYPE html><html></html>", b"\0" * 5000, b"PK", b"\x1f\x8b\x08", b"BZh9"]
)
def test_what_is_no_archive(tmp_path: Path, content: bytes, form: str) -> None:
    path = tmp_path / "archive"
    path.write_bytes(content)
    message = refusal(path, tmp_path, form=form)
    # A tar may end with zeros and have no other sign.
    assert "is torn or no archive" in message or (
        form == "tar" and not content.strip(b"\0") and "has nothing" in message
    )


def outcome(path: Path, folder: Path, form: str) -> bytes | str:
    """Return what was unpacked, or the line that says why nothing was."""
    try:
        return taken(path, folder, form=form)["data/good.json.part"]
    except DataFileError as error:
        return str(error)


@pytest.mark.parametrize("form", FORMS)
def test_torn_at_every_length(tmp_path: Path, form: str) -> None:
    content = random.Random(0).randbytes(600)
    path = packed(tmp_path, {"data/good.json": content}, form)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7 if len(whole) < 2000 else 97):
        path.write_bytes(whole[:length])
        found = outcome(path, tmp_path, form)
        # A tar whose end mark is gone may still have all of its members.
        assert found == content if isinstance(found, bytes) else "is torn or no archive" in found
        assert isinstance(found, str) or form.startswith("tar")


@pytest.mark.parametrize("form", FORMS)
def test_other_bytes_anywhere_are_refused_or_harmless(tmp_path: Path, form: str) -> None:
    content = random.Random(0).randbytes(300)
    path = packed(tmp_path, {"data/good.json": content}, form)
    whole = path.read_bytes()
    dice = random.Random(1)
    for _ in range(150):
        changed = bytearray(whole)
        for _ in range(dice.randint(1, 3)):
            changed[dice.randrange(len(changed))] = dice.randrange(256)
        path.write_bytes(changed)
        found = outcome(path, tmp_path, form)
        # A zip has checksums of its members; a tar is only opened where its own is known.
        assert found == content or form.startswith("tar") or (isinstance(found, str) and len(found.splitlines()) == 1)


def test_a_disk_that_is_full_is_no_fault_of_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = packed(tmp_path, {"data/good.json": GOOD})

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(OSError, match="No space left"):
        taken(path, tmp_path)
