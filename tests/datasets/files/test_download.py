from __future__ import annotations

import contextlib
import hashlib
import io
import random
import re
import shutil
import subprocess
import tarfile
import threading
import urllib.request
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from zcbench.datasets.files.checks import Found, Status, check, recorded, status
from zcbench.datasets.files.download import _receive, _Redirects, get
from zcbench.datasets.files.registry import Archive, DataFile, Source, Subset
from zcbench.errors import DataFileError

CONTENT = bytes(range(256)) * 4000


class Server:
    """Serves `CONTENT` and archives, and can be told to misbehave."""

    def __init__(self) -> None:
        self.served: dict[str, bytes] = {"/table.csv": CONTENT}
        self.ranges = True
        self.cut_at: int | None = None
        self.asked: list[str | None] = []
        #: A status to answer with, and headers to send besides or in the place of its own; None leaves one out.
        self.status: int | None = None
        self.headers: dict[str, str | None] = {}
        #: Seconds to wait where the bytes are cut.
        self.stalled_s = 0.0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.headers.get("Range"))
                content = outer.served.get(self.path)
                if content is None:
                    self.send_error(404)
                    return
                start = int((self.headers.get("Range") or "bytes=0-")[6:-1]) if outer.ranges else 0
                if start >= len(content) > 0:
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{len(content)}")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                headers: dict[str, str | None] = {"Content-Length": str(len(content) - start)}
                if start:
                    headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
                self.send_response(outer.status or (206 if start else 200))
                for name, value in (headers | outer.headers).items():
                    if value is not None:
                        self.send_header(name, value)
                self.end_headers()
                with contextlib.suppress(ConnectionError):
                    self.wfile.write(content[start : outer.cut_at])
                    outer.free.wait(outer.stalled_s)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.free = threading.Event()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def behave(self) -> None:
        """Do from now on what a server should."""
        self.ranges, self.cut_at, self.status, self.headers, self.stalled_s = True, None, None, {}, 0.0
        self.served["/table.csv"] = CONTENT
        self.free.set()


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    thread = threading.Thread(target=found.http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield found
    found.behave()
    found.http.shutdown()
    found.http.server_close()
    thread.join()


def file_of(content: bytes, path: str = "tables/table.csv", url: str | None = None) -> DataFile:
    return DataFile(path, hashlib.sha256(content).hexdigest(), len(content), url)


def source_of(*files: DataFile, archive: Archive | None = None) -> Source:
    return Source("table", "a table", "MIT", files, "by hand", archive=archive)


def table(server: Server, content: bytes = CONTENT) -> Source:
    return source_of(file_of(content, url=f"{server.url}/table.csv"))


def test_a_file_arrives_whole_and_nothing_else(server: Server, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    (path,) = get(table(server), tmp_path, progress=lambda *numbers: told.append(numbers))
    assert path.read_bytes() == CONTENT
    assert sum(more for more, _ in told) == len(CONTENT)
    assert {total for _, total in told} == {len(CONTENT)}
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [path]


def test_a_good_file_is_not_asked_for_again(server: Server, tmp_path: Path) -> None:
    get(table(server), tmp_path)
    assert get(table(server), tmp_path) == []
    assert len(server.asked) == 1


@pytest.mark.parametrize("ranges", [True, False])
def test_a_cut_download_goes_on(server: Server, tmp_path: Path, ranges: bool) -> None:
    server.cut_at = 100_000
    with pytest.raises(DataFileError, match="run the same command to go on"):
        get(table(server), tmp_path)
    assert not (tmp_path / "tables" / "table.csv").exists()
    server.cut_at, server.ranges = None, ranges
    (path,) = get(table(server), tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.asked == [None, "bytes=100000-"]


def test_another_content_is_not_kept(server: Server, tmp_path: Path) -> None:
    other = CONTENT[:-1] + b"?"
    with pytest.raises(DataFileError, match="sha256"):
        get(table(server, other), tmp_path)
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def refusal(source: Source, folder: Path) -> str:
    """Return the one line that says why nothing came."""
    with pytest.raises(DataFileError) as caught:
        get(source, folder)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert not any((folder / file.path).exists() for file in source.files)
    return message


# What a server does wrong, what is said of it, and how much of the 1,024,000 bytes is kept where 100,000 had come.
FAULTS: dict[str, tuple[dict[str, Any], str, int, int]] = {
    "gone": ({"served": {}}, "the server says 404 Not Found", 0, 100_000),
    "broken": ({"status": 500}, "the server says 500 Internal Server Error", 0, 100_000),
    "busy": ({"status": 503, "headers": {"Retry-After": "9"}}, "the server says 503", 0, 100_000),
    "breaks off": ({"cut_at": 300_000}, "run the same command to go on", 300_000, 300_000),
    "says nothing": ({"cut_at": 0, "stalled_s": 9.0}, "timed out", 0, 100_000),
    "stalls": ({"cut_at": 300_000, "stalled_s": 9.0}, "timed out", 300_000, 300_000),
    "a page": (
        {"served": {"/table.csv": b"<html>log in</html>"}, "headers": {"Content-Type": "text/html"}, "ranges": False},
        "offers an HTML page of 19 bytes, expected 1,024,000: it is another file",
        0,
        100_000,
    ),
    "a page of unknown length": (
        {"served": {"/table.csv": b"<html></html>"}, "headers": {"Content-Length": None}, "ranges": False},
        "sent an HTML page of 13 bytes, expected 1,024,000",
        0,
        0,
    ),
    "a page that says so": (
        {"headers": {"Content-Type": "text/html; charset=utf-8", "Content-Length": None}, "cut_at": 13},
        "offers an HTML page of",
        0,
        100_000,
    ),
    "announces less": (
        {"headers": {"Content-Length": "1000"}, "ranges": False},
        "offers a file of 1,000 bytes, expected 1,024,000",
        0,
        100_000,
    ),
    "announces more": (
        {"served": {"/table.csv": CONTENT + b"more"}},
        "offers a file of 1,024,004 bytes, expected 1,024,000: it is another file",
        0,
        100_000,
    ),
    "sends more": (
        {"served": {"/table.csv": CONTENT + b"more"}, "headers": {"Content-Length": None}, "ranges": False},
        "sent more than 1,024,000 bytes",
        0,
        0,
    ),
    "sends other bytes": ({"served": {"/table.csv": CONTENT[::-1]}}, "has sha256", 0, 0),
    "answers another part": (
        {"status": 206, "headers": {"Content-Range": "bytes 7-1023999/1024000"}},
        "does not go on where",
        0,
        0,
    ),
    "answers no part": ({"status": 206, "headers": {"Content-Range": "pages 1-2"}}, "does not go on where", 0, 0),
    "a part of another file": (
        {"status": 206, "headers": {"Content-Range": "bytes 100000-199999/200000"}},
        "offers a file of 200,000 bytes, expected 1,024,000",
        0,
        100_000,
    ),
    "a shorter file": (
        {"served": {"/table.csv": CONTENT[:90_000]}},
        "does not go on where",
        0,
        0,
    ),
    "leads to a file": (
        {"status": 302, "headers": {"Location": "file:///etc/passwd"}},
        "'file:///etc/passwd' is not allowed",
        0,
        100_000,
    ),
    "leads to ftp": (
        {"status": 301, "headers": {"Location": "ftp://127.0.0.1/table.csv"}},
        "it leads to ftp://127.0.0.1/table.csv, expected an https address",
        0,
        100_000,
    ),
    "leads in circles": ({"status": 302, "headers": {"Location": "/table.csv"}}, "infinite loop", 0, 100_000),
    "leads nowhere": ({"status": 302}, "302", 0, 100_000),
}


# These show where a download goes on.
RESUMED = {"a part of another file", "a shorter file"}


@pytest.mark.parametrize(
    ("name", "resumed"),
    [(name, resumed) for name in FAULTS for resumed in (False, True) if resumed or name not in RESUMED],
)
def test_faults_of_a_server_are_named_and_the_next_try_recovers(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, resumed: bool
) -> None:
    monkeypatch.setattr("zcbench.datasets.files.download._TIMEOUT_S", 0.5)
    changes, said, kept, kept_resumed = FAULTS[name]
    part = tmp_path / "tables" / "table.csv.part"
    if resumed:
        part.parent.mkdir()
        part.write_bytes(CONTENT[:100_000])
    for field, value in changes.items():
        setattr(server, field, value.copy() if isinstance(value, dict) else value)
    assert said in refusal(table(server), tmp_path)
    assert (part.stat().st_size if part.exists() else 0) == (kept_resumed if resumed else kept)
    server.behave()
    (path,) = get(table(server), tmp_path)
    assert path.read_bytes() == CONTENT
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [path]


def test_a_redirect_within_the_web_is_followed(server: Server, tmp_path: Path) -> None:
    server.served["/moved.csv"] = b""
    server.headers = {"Location": f"{server.url}/table.csv"}
    server.status = 302

    class Asked(list[str | None]):
        def append(self, request: str | None) -> None:
            if len(self) == 1:
                server.status, server.headers = None, {}
            super().append(request)

    server.asked = Asked()
    (path,) = get(source_of(file_of(CONTENT, url=f"{server.url}/moved.csv")), tmp_path)
    assert path.read_bytes() == CONTENT
    assert len(server.asked) == 2


def test_https_does_not_lead_to_http() -> None:
    request = urllib.request.Request("https://example.test/a")
    with pytest.raises(DataFileError, match=r"it leads to http://example.test/a, expected an https address"):
        _Redirects().redirect_request(request, io.BytesIO(), 302, "Found", HTTPMessage(), "http://example.test/a")
    followed = _Redirects().redirect_request(request, io.BytesIO(), 302, "", HTTPMessage(), "https://example.test/b")
    assert followed is not None
    assert followed.full_url == "https://example.test/b"


def test_a_part_that_is_whole_is_not_asked_for(server: Server, tmp_path: Path) -> None:
    part = tmp_path / "tables" / "table.csv.part"
    part.parent.mkdir()
    part.write_bytes(CONTENT)
    (path,) = get(table(server), tmp_path)
    assert path.read_bytes() == CONTENT
    assert not server.asked


def test_a_part_that_is_too_long_is_begun_anew(server: Server, tmp_path: Path) -> None:
    part = tmp_path / "tables" / "table.csv.part"
    part.parent.mkdir()
    part.write_bytes(CONTENT + b"more")
    (path,) = get(table(server), tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.asked == [None]


def test_two_that_download_at_the_same_time_do_no_harm(server: Server, tmp_path: Path) -> None:
    """One goes on from what the other has so far, while the other still writes."""
    part = tmp_path / "tables" / "table.csv.part"

    def second(more: int, _: int) -> None:
        if part.exists() and 0 < part.stat().st_size < len(CONTENT) and len(server.asked) == 1:
            _receive(f"{server.url}/table.csv", part, part.stat().st_size, len(CONTENT), None)

    (path,) = get(table(server), tmp_path, progress=second)
    assert len(server.asked) == 2
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("name", ["mkdir", "open", "replace"])
def test_a_folder_that_cannot_be_written(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, name, refuse)
    assert re.search(r"cannot (write|verify) .*\(Permission denied\)", refusal(table(server), tmp_path))


def test_a_data_folder_that_is_a_file(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "cannot write" in refusal(table(server), tmp_path / "file")


def test_the_reason_of_a_server_stays_on_the_line(server: Server, tmp_path: Path) -> None:
    server.status, server.headers = 302, {"Location": "file:///" + "a" * 5000}
    assert len(refusal(table(server), tmp_path)) < 400


@pytest.mark.parametrize(
    ("content", "said"), [(b"mine", "truncated: 4 of 1,024,000"), (CONTENT[::-1], "sha256"), (b"<html>", "HTML page")]
)
def test_a_file_that_differs_is_never_overwritten(server: Server, tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "tables" / "table.csv"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=rf"{said}.*: move it away first"):
        get(table(server), tmp_path)
    assert path.read_bytes() == content
    assert not server.asked


def test_what_cannot_be_downloaded_says_where_it_belongs(tmp_path: Path) -> None:
    source = source_of(file_of(b"good"))
    path = tmp_path / "tables" / "table.csv"
    message = refusal(source, tmp_path)
    assert message == f"table cannot be downloaded by zcbench: by hand; {path} is absent"
    path.parent.mkdir()
    path.write_bytes(b"good")
    assert get(source, tmp_path) == []
    path.write_bytes(b"evil")
    with pytest.raises(DataFileError, match="move it away"):
        get(source, tmp_path)


def test_what_the_server_says_is_named(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="404"):
        get(source_of(file_of(CONTENT, url=f"{server.url}/gone.csv")), tmp_path)
    with pytest.raises(DataFileError, match="cannot download"):
        get(source_of(file_of(CONTENT, url="http://127.0.0.1:1/table.csv")), tmp_path)
    with pytest.raises(DataFileError, match="http or https"):
        get(source_of(file_of(CONTENT, url="file:///etc/passwd")), tmp_path)
    with pytest.raises(DataFileError, match="by hand"):
        get(source_of(file_of(CONTENT)), tmp_path)


def packed(members: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    return buffer.getvalue()


def archive(server: Server, content: bytes) -> Archive:
    server.served["/a.tar.gz"] = content
    return Archive(f"{server.url}/a.tar.gz", hashlib.md5(content).hexdigest(), "md5", len(content))


def test_only_the_wanted_members_are_unpacked(server: Server, tmp_path: Path) -> None:
    content = packed({"data/readme": b"x", "data/batch": b"good", "other": b"x"})
    source = source_of(file_of(b"good", "data/batch"), archive=archive(server, content))
    (path,) = get(source, tmp_path / "folder")
    assert path.read_bytes() == b"good"
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [path]


@pytest.mark.parametrize(
    ("members", "links", "said"),
    [
        ({}, {"data/batch": "/etc/passwd"}, "its member data/batch is a link or a device"),
        ({"data/batch": b"good", "../outside": b"x"}, {}, r"its member \.\./outside is a path outside the folder"),
        ({"data/batch": b"goodandmore"}, {}, "has 11 bytes, expected 4"),
        ({"data/batch": b"evil"}, {}, "sha256"),
        ({"data/other": b"good"}, {}, "lacks data/batch; it has data/other"),
    ],
)
def test_hostile_archives_leave_nothing(
    server: Server, tmp_path: Path, members: dict[str, bytes], links: dict[str, str], said: str
) -> None:
    source = source_of(file_of(b"good", "data/batch"), archive=archive(server, packed(members, links)))
    with pytest.raises(DataFileError, match=said):
        get(source, tmp_path)
    assert {p.name for p in tmp_path.rglob("*") if p.is_file()} <= {"a.tar.gz.part"}


def test_an_archive_with_another_digest_is_not_opened(server: Server, tmp_path: Path) -> None:
    right = archive(server, packed({"data/batch": b"good"}))
    wrong = Archive(right.url, "0" * 32, "md5", right.bytes)
    with pytest.raises(DataFileError, match="md5"):
        get(source_of(file_of(b"good", "data/batch"), archive=wrong), tmp_path)
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_a_member_is_verified_by_md5_where_that_is_all_there_is(server: Server, tmp_path: Path) -> None:
    file = DataFile("data/batch", None, None, md5=hashlib.md5(b"good").hexdigest())
    (path,) = get(source_of(file, archive=archive(server, packed({"data/batch": b"good"}))), tmp_path / "one")
    assert path.read_bytes() == b"good"
    with pytest.raises(DataFileError, match="has md5"):
        get(source_of(file, archive=archive(server, packed({"data/batch": b"evil"}))), tmp_path / "two")
    assert not (tmp_path / "two" / "data" / "batch").exists()


def test_a_known_subset_is_in_the_way_of_the_official_file(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "tables" / "table.csv"
    path.parent.mkdir()
    path.write_bytes(b"part")
    subsets = (Subset(hashlib.sha256(b"part").hexdigest(), 4),)
    source = source_of(replace(file_of(CONTENT, url=f"{server.url}/table.csv"), subsets=subsets))
    assert check(source, tmp_path, hashed=True) == [Found(path, "present")]
    with pytest.raises(DataFileError, match="move it away"):
        get(source, tmp_path)
    assert path.read_bytes() == b"part"


# An archive whose owner states neither size nor checksum, and its files likewise.
NAMES = ("sweeps/A.json", "sweeps/A_in.json", "sweeps/B.json")


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def sweeps(server: Server, members: dict[str, bytes] | bytes) -> Source:
    server.served["/sweeps.zip"] = members if isinstance(members, bytes) else zipped(members)
    files = tuple(DataFile(name, None, None) for name in NAMES)
    return source_of(*files, archive=Archive(f"{server.url}/sweeps.zip"))


SWEEPS = {name: f"[{number}]".encode() * 9 for number, name in enumerate(NAMES)}


def test_an_archive_without_checksum_is_recorded(server: Server, tmp_path: Path) -> None:
    source = sweeps(server, SWEEPS)
    told: list[str] = []
    steps: list[tuple[int, int]] = []
    new = get(source, tmp_path, tell=told.append, progress=lambda *numbers: steps.append(numbers))
    assert new == [tmp_path / name for name in NAMES]
    assert {path.name: path.read_bytes() for path in new} == {name[7:]: text for name, text in SWEEPS.items()}
    packed = server.served["/sweeps.zip"]
    digest = hashlib.sha256(packed).hexdigest()
    assert (sum(more for more, _ in steps), steps[0][1]) == (len(packed), len(packed))
    assert len(told) == 1
    assert f"the owner of {server.url}/sweeps.zip states no checksum" in told[0]
    assert digest in told[0]
    sums = tmp_path / "sweeps" / "SHA256SUMS"
    assert sums.read_text() == f"# {server.url}/sweeps.zip sha256 {digest} {len(packed)} bytes\n" + "".join(
        f"{hashlib.sha256(SWEEPS[name]).hexdigest()}  {name[7:]}\n" for name in NAMES
    )
    assert {p for p in tmp_path.rglob("*") if p.is_file()} == {*new, sums}
    assert {each.state for each in check(source, tmp_path, hashed=True)} == {"present"}
    new[0].write_bytes(b"[7]" * 9)
    assert [each.state for each in check(source, tmp_path, hashed=True)] == ["differs", "present", "present"]


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs sha256sum")
def test_what_is_recorded_can_be_checked_without_zcbench(server: Server, tmp_path: Path) -> None:
    get(sweeps(server, SWEEPS), tmp_path)
    command = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    assert subprocess.run(command, cwd=tmp_path / "sweeps", check=False, capture_output=True).returncode == 0
    (tmp_path / "sweeps" / "B.json").write_bytes(b"[]")
    assert subprocess.run(command, cwd=tmp_path / "sweeps", check=False, capture_output=True).returncode == 1


def test_the_files_of_an_archive_may_lie_in_another_folder(server: Server, tmp_path: Path) -> None:
    source = sweeps(server, {f"elsewhere/{name}": content for name, content in SWEEPS.items()})
    assert get(source, tmp_path) == [tmp_path / name for name in NAMES]


def test_what_an_archive_without_checksum_lacks_is_told(server: Server, tmp_path: Path) -> None:
    source = sweeps(server, {"sweeps/A.json": b"[1]", "sweeps/new.json": b"[2]"})
    told: list[str] = []
    assert get(source, tmp_path, tell=told.append) == [tmp_path / "sweeps/A.json"]
    assert told[1] == f"{server.url}/sweeps.zip lacks sweeps/A_in.json, sweeps/B.json"
    assert status(source, tmp_path, check(source, tmp_path, hashed=True)) == Status("partial", "1 of 3 files")


def test_a_file_that_got_lost_is_fetched_again_beside_the_others(server: Server, tmp_path: Path) -> None:
    source = sweeps(server, SWEEPS)
    get(source, tmp_path)
    before = recorded(tmp_path / "sweeps")
    (tmp_path / "sweeps" / "B.json").unlink()
    assert get(source, tmp_path) == [tmp_path / "sweeps" / "B.json"]
    assert recorded(tmp_path / "sweeps") == before


def test_an_archive_that_has_none_of_the_files_is_kept_and_looked_into_again(server: Server, tmp_path: Path) -> None:
    source = sweeps(server, {"README": b"nothing"})
    for _ in range(2):
        assert "lacks sweeps/A.json, sweeps/A_in.json, sweeps/B.json; it has README" in refusal(source, tmp_path)
    assert server.asked == [None, f"bytes={len(server.served['/sweeps.zip'])}-"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"<html></html>", "is torn or no archive"),
        (b"PK", "is torn or no archive"),
        (zipped(SWEEPS)[:-30], "is torn or no archive"),
        (zipped(SWEEPS).replace(b"sweeps/B.json", b"../../../json"), "is a path outside the folder"),
        (zipped({"sweeps/A.json": bytes(1_000_000)}), "would unpack to 1,000,000 or more"),
        (zipped({"a/A.json": b"[1]", "b/A.json": b"[2]"}), "2 members that could be sweeps/A.json"),
    ],
    ids=["page", "two bytes", "torn", "outside", "bomb", "ambiguous"],
)
def test_hostile_archives_without_checksum_leave_nothing(
    server: Server, tmp_path: Path, content: bytes, said: str
) -> None:
    message = refusal(sweeps(server, content), tmp_path)
    assert said in message
    assert f"nothing of {server.url}/sweeps.zip was kept" in message
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]
    source = sweeps(server, SWEEPS)
    assert get(source, tmp_path) == [tmp_path / name for name in NAMES]


def test_a_member_with_other_bytes_leaves_nothing(server: Server, tmp_path: Path) -> None:
    """The first member is whole and the second is not, by its own checksum."""
    content = bytearray(zipped({name: random.Random(name).randbytes(500) for name in NAMES}))
    content[content.index(b"sweeps/A_in.json") + 100] ^= 1
    assert "A_in.json" in refusal(sweeps(server, bytes(content)), tmp_path)
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_a_cut_archive_of_unknown_size_goes_on(server: Server, tmp_path: Path) -> None:
    source = sweeps(server, {name: random.Random(name).randbytes(50_000) for name in NAMES})
    server.cut_at = 60_000
    assert "60,000 of" in refusal(source, tmp_path)
    server.behave()
    assert get(source, tmp_path) == [tmp_path / name for name in NAMES]
    assert server.asked == [None, "bytes=60000-"]


@pytest.mark.parametrize(
    ("length", "said"),
    [(None, "a file of unknown size, expected up to 8,589,934,592"), (str(1 << 40), "of 1,099,511,627,776 bytes")],
)
def test_an_archive_of_unknown_size_has_to_announce_a_reasonable_one(
    server: Server, tmp_path: Path, length: str | None, said: str
) -> None:
    source = sweeps(server, SWEEPS)
    server.headers = {"Content-Length": length}
    assert said in refusal(source, tmp_path)
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]
    server.behave()
    assert get(source, tmp_path) == [tmp_path / name for name in NAMES]


def test_a_shorter_archive_of_unknown_size_is_begun_anew(server: Server, tmp_path: Path) -> None:
    source = sweeps(server, SWEEPS)
    (tmp_path / "sweeps.zip.part").write_bytes(bytes(100_000))
    assert "does not go on where" in refusal(source, tmp_path)
    assert get(source, tmp_path) == [tmp_path / name for name in NAMES]
