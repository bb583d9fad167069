from __future__ import annotations

import io
import json

import pytest
from zcbench.spaces.nds import records as reader
from zcbench.spaces.nds.records import records


def test_records_are_in_memory_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Watched(io.StringIO):
        asked = 0

        def read(self, size: int | None = -1) -> str:
            assert size is not None
            assert 0 < size < 20_000
            self.asked += 1
            return super().read(size)

    monkeypatch.setattr(reader, "_PIECE", 1_000)
    items = [{"number": i, "list": [0.5] * (i % 7) * 100, "text": '}]"\\'} for i in range(200)]
    for content in (json.dumps(items), json.dumps(items, indent=1), json.dumps({"a": items})):
        stream = Watched(content)
        found = records(stream)
        assert next(found)[1] == items[0]
        assert stream.asked == 1
        assert [value for _, value in found] == items[1:]
        assert stream.asked > 100


@pytest.mark.parametrize("piece", [1, 2, 3, 7])
def test_pieces_may_end_anywhere(monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(reader, "_PIECE", piece)
    text = ' { "top" : [ {"a": [1.5, "]}"]} , {} ] , "mid":[]}\n'
    assert list(records(io.StringIO(text))) == [("top", {"a": [1.5, "]}"]}), ("top", {})]
    for end in range(len(text) - 2):
        with pytest.raises(ValueError, match=r"expected|Expecting|Unterminated|Invalid"):
            list(records(io.StringIO(text[:end])))
    with pytest.raises(ValueError, match=r"expected its end, got \{"):
        list(records(io.StringIO(text + text)))
