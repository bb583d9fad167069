from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from zcbench.datasets.download import get
from zcbench.datasets.files import Archive, DataFile, Source, Subset, check
from zcbench.errors import DataFileError

CONTENT = bytes(range(256)) * 4000


class Server:
    """Serves `CONTENT` and archives, and can be told to misbehave."""

    def __init__(self) -> None:
        self.served: dict[str, bytes] = {"/table.csv": CONTENT}
        self.ranges = True
        self.cut_at: int | None = None
        self.asked: list[str | None] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.headers.get("Range"))
                content = outer.served.get(self.path)
                if content is None:
                    self.send_error(404)
                    return
                start = int((self.headers.get("Range") or "bytes=0-")[6:-1]) if outer.ranges else 0
                self.send_response(206 if start else 200)
                if start:
                    self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
                self.send_header("Content-Length", str(len(content) - start))
                self.end_headers()
                self.wfile.write(content[start : outer.cut_at])

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    thread = threading.Thread(target=found.http.serve_forever, daemon=True)
    thread.start()
    yield found
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
    told: list[int] = []
    (path,) = get(table(server), tmp_path, progress=told.append)
    assert path.read_bytes() == CONTENT
    assert sum(told) == len(CONTENT)
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


def test_a_longer_answer_is_not_kept(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="more than"):
        get(table(server, CONTENT[:1000]), tmp_path)
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_a_file_that_differs_is_never_overwritten(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "tables" / "table.csv"
    path.parent.mkdir()
    path.write_bytes(b"mine")
    with pytest.raises(DataFileError, match="move it away"):
        get(table(server), tmp_path)
    assert path.read_bytes() == b"mine"


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
    content = packed({"../outside": b"x", "/etc/absolute": b"x", "data/batch": b"good", "data/other": b"x"})
    source = source_of(file_of(b"good", "data/batch"), archive=archive(server, content))
    (path,) = get(source, tmp_path / "folder")
    assert path.read_bytes() == b"good"
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [path]


@pytest.mark.parametrize(
    ("members", "links", "said"),
    [
        ({}, {"data/batch": "/etc/passwd"}, "lacks data/batch"),
        ({"data/batch": b"goodandmore"}, {}, "lacks data/batch"),
        ({"data/batch": b"evil"}, {}, "sha256"),
    ],
)
def test_hostile_archives_leave_nothing(
    server: Server, tmp_path: Path, members: dict[str, bytes], links: dict[str, str], said: str
) -> None:
    source = source_of(file_of(b"good", "data/batch"), archive=archive(server, packed(members, links)))
    with pytest.raises(DataFileError, match=said):
        get(source, tmp_path)
    assert not (tmp_path / "data" / "batch").exists()


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
    assert check(source, tmp_path, hashed=True) == [(path, "present")]
    with pytest.raises(DataFileError, match="move it away"):
        get(source, tmp_path)
    assert path.read_bytes() == b"part"
