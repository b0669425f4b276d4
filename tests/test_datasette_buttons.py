"""The buttons of the pages in Datasette write decisions, for whoever may."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pages import LOW, NEAR, PAGE, TEXT, get

from neardup_db import Index
from neardup_db.datasette import routes

WRITING = {"plugins": {"neardup-db": {"write": True}}}
OWN = {"Origin": "http://localhost", "Host": "localhost"}


def decide(file: Path, metadata: Any = WRITING, headers: Any = OWN, **sent: Any) -> Any:
    """The response to a button."""
    return get(file, f"{PAGE}/decide", data=sent, metadata=metadata, headers=headers)


@pytest.fixture
def cluster(tmp_path: Path) -> tuple[Path, str]:
    """A file with a cluster of three, and the address of its page."""
    file = tmp_path / "articles.db"
    with Index(file, LOW, store_text=True) as index:
        index.add_many([("-first", TEXT), ("near", NEAR), ("again", TEXT)])
        (number,) = index.connection.execute("SELECT cluster_id FROM neardup_document").fetchone()
    return file, f"{PAGE}/clusters/{number}"


def led(answer: Any) -> str:
    """Where a button leads."""
    assert answer.status_code == 303
    return str(answer.headers["location"])


def test_a_button_dismisses_a_pair_and_takes_it_back(cluster: tuple[Path, str]) -> None:
    """The page of the cluster has a button for each other document; after it the pair is dismissed, and the page says so."""
    file, address = cluster
    page = get(file, address, metadata=WRITING).text
    assert page.count('name="say" value="dismiss"') == 2 and 'name="b" value="2"' in page
    assert led(decide(file, a=1, b=2, say="dismiss")) == f"{address}?beside=1"
    with Index(file) as index:
        assert list(index.dismissed()) == [("-first", "near")]
        assert len(index.clusters()[0]) == 3 and index.check().ok
    page = get(file, f"{address}?beside=1", metadata=WRITING).text
    assert "Dismissed: not a duplicate of" in page and "Duplicates after all" in page
    led(decide(file, a=1, b=2, say="undismiss"))
    with Index(file) as index:
        assert list(index.dismissed()) == []


def test_the_last_pair_of_a_cluster_leads_to_the_index(tmp_path: Path) -> None:
    """A document that is in no cluster any more has no such page; numbers are keys too."""
    file = tmp_path / "articles.db"
    with Index(file, LOW) as index:
        index.add_many([(-5, TEXT), (7, TEXT)])
    assert led(decide(file, a=1, b=2)) == PAGE
    with Index(file) as index:
        assert index.clusters() == [] and list(index.dismissed()) == [(-5, 7)]


@pytest.mark.parametrize(
    ("metadata", "headers"),
    [
        (None, OWN),
        ({"plugins": {"neardup-db": {"write": False}}}, OWN),
        ({"plugins": {"neardup-db": {"write": {"id": "root"}}}}, OWN),
        ({**WRITING, "databases": {"articles": {"allow": False}}}, OWN),
        (WRITING, {"Host": "localhost"}),
        (WRITING, {"Host": "localhost", "Origin": "null"}),
        (WRITING, {"Host": "localhost", "Origin": "http://evil.example"}),
        (WRITING, {"Host": "localhost:8001", "Origin": "http://localhost:9999"}),
    ],
)
def test_who_may_not_write_writes_nothing(file: Path, metadata: Any, headers: dict[str, str]) -> None:
    """Without the setting, without permission, and from a page of another site the answer is 403, and there is no button."""
    before = file.read_bytes()
    assert decide(file, metadata, headers, a=1, b=2).status_code == 403
    assert file.read_bytes() == before
    if headers == OWN:
        assert 'name="say"' not in get(file, f"{PAGE}/clusters/2", metadata=metadata).text


@pytest.mark.parametrize(
    ("sent", "status"), [({"a": 1, "b": 99}, 404), ({}, 404), ({"a": "x", "b": 2}, 404), ({"a": 1, "b": 1}, 400)], ids=str
)
def test_wrong_forms_are_told(file: Path, sent: dict[str, Any], status: int) -> None:
    """A page says what is wrong, and nothing is written."""
    assert decide(file, **sent).status_code == status
    with Index(file) as index:
        assert list(index.dismissed()) == []


@pytest.mark.parametrize("address", ["search", "decide"])
def test_a_body_without_a_length_is_limited(file: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """A form that comes in chunks says nothing of its length: it is read up to the limit, and no further."""
    sent, most = 0, 100_000
    monkeypatch.setattr(routes, "MOST_BYTES", most)

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(100):
            sent += most // 10 + 1
            yield b"a=1&" * (most // 40 + 1)

    answer = get(file, f"{PAGE}/{address}", content=chunks(), headers=OWN, metadata=WRITING)
    assert (answer.status_code, "neardup query" in answer.text) == (413, True)
    assert sent < 2 * most


def test_keys_of_any_type_are_dismissed(tmp_path: Path) -> None:
    """Bytes, and keys of two types."""
    file = tmp_path / "articles.db"
    with Index(file, LOW) as index:
        index.add_many([(b"a", TEXT), ("b", TEXT), (1, TEXT)])
    for a, b in ((1, 2), (2, 3)):
        led(decide(file, a=a, b=b))
    with Index(file) as index:
        assert list(index.dismissed()) == [(b"a", "b"), ("b", 1)]


def test_a_button_takes_a_document_out_of_its_cluster(cluster: tuple[Path, str]) -> None:
    """The next page is that of the cluster, says what was done, and has a button that undoes it."""
    file, address = cluster
    number = address.rpartition("/")[2]
    page = get(file, address, metadata=WRITING).text
    assert page.count('name="say" value="apart"') == page.count('name="say" value="allow"') == 3
    after = led(decide(file, a=2, say="apart", cluster=number))
    assert after == f"{address}?done=apart&document=2"
    with Index(file) as index:
        assert list(index.dismissed()) == [("-first", "near"), ("near", "again")] and len(index.clusters()[0].keys) == 2
    page = get(file, after, metadata=WRITING).text
    assert "near</span> is no duplicate" in page and 'name="say" value="back"' in page
    assert "is no duplicate" not in get(file, f"{address}?done=apart&document=77", metadata=WRITING).text
    assert led(decide(file, a=2, say="back")) == f"{address}?done=back&document=2"
    with Index(file) as index:
        assert list(index.dismissed()) == [] and len(index.clusters()[0].keys) == 3


def test_a_button_allows_texts_like_a_document(cluster: tuple[Path, str]) -> None:
    """The cluster is gone then; the page of the index lists the allowed text, with a button that withdraws it."""
    file, address = cluster
    after = led(decide(file, a=1, say="allow", cluster=address.rpartition("/")[2]))
    assert after == f"{PAGE}?done=allow&document=1"
    page = get(file, after, metadata=WRITING).text
    assert "texts like this match nothing" in page and "Allowed texts" in page and 'name="say" value="withdraw"' in page
    assert 'name="say"' not in get(file, after).text
    led(decide(file, a=1, say="withdraw"))
    with Index(file) as index:
        assert index.allowed() == [] and len(index.clusters()) == 1 and index.check().ok
    for say in ("allow", "disallow"):
        led(decide(file, a=1, say=say))
    assert decide(file, a=1, say="sing").status_code == 403 and decide(file, a=99, say="allow").status_code == 404
