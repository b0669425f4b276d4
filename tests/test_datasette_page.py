"""Promise: the pages in Datasette show what the file holds, to whom may see it, as text and never as markup."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import apsw
import pytest
from datasette.utils.sqlite import sqlite3
from pages import LOW, NEAR, OTHER, PAGE, SCRIPT, TEXT, get, make
from support import split

from neardup_db import BinaryCode, Index, ParameterError, SimHash, TextRules
from neardup_db.datasette import contents, foreign
from neardup_db.show.report import report_page


def search(path: Path, text: str = TEXT, **sent: str) -> Any:
    """The response to a search form."""
    return get(path, f"{PAGE}/search", data={"text": text, **sent})


def keys_of(page: Any) -> list[str]:
    """The keys of a page's documents, in order."""
    return re.findall(r'<h3 id="document-\d+"><span class="nd-key">(.*?)</span>', page.text)


def marked(html: str) -> tuple[list[str], list[str]]:
    """What a page marks as removed and as added."""
    removed, added = (re.findall(f"<{tag}>(.*?)</{tag}>", html) for tag in ("del", "ins"))
    return [word.strip() for word in removed], [word.strip() for word in added]


def test_datasette_finds_the_plugin(file: Path) -> None:
    """Installing the package is enough: its entry point makes Datasette load the pages, and link them."""
    plugins, home, database = get(file, "/-/plugins.json", "/", "/articles")
    assert "neardup-db" in [one["name"] for one in plugins.json()]
    assert 'href="/-/neardup"' in home.text
    assert 'href="/-/neardup"' in database.text


def test_every_index_of_every_database_is_listed(tmp_path: Path, file: Path) -> None:
    """Two databases, one with two indexes: three lines, each with the address of its page; none for a database without."""
    with Index(file, LOW, name="second", attach=True):
        pass
    other = make(tmp_path / "other.db")
    sqlite3.connect(tmp_path / "plain.db").execute("CREATE TABLE t (x)")
    html = get([file, other, tmp_path / "plain.db"], "/-/neardup").text
    found = re.findall(r'<a href="(/-/neardup/[^"]+)">', html)
    assert found == ["/-/neardup/articles/neardup", "/-/neardup/articles/second", "/-/neardup/other/neardup"]
    assert get([file, other], found[1]).status_code == 200


def test_a_page_of_an_index_has_figures_charts_clusters_and_search(file: Path) -> None:
    """Counts, four charts, the clusters with their sizes and a labelled search box."""
    html = get(file, PAGE).text
    figures = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", html))
    assert figures == {"documents": "4", "clusters": "1", "duplicates": "2", "recorded matches": "2"}
    assert html.count("<svg") == 4
    assert re.findall(r'<td class="nd-number">3</td><td><a href="(.*?)">first</a>', html) == [f"{PAGE}/clusters/2"]
    assert '<label for="text">' in html
    assert 'id="text"' in html


def test_clusters_come_by_size_and_as_many_as_wanted(tmp_path: Path) -> None:
    """The largest first; the rest is one link away."""
    path = tmp_path / "articles.db"
    with Index(path, BinaryCode(bits=64, max_distance=2)) as index:
        for cluster in range(30):
            for copy in range(2 + cluster % 5):
                index.add_code(f"{cluster}-{copy}", (cluster + 1) * 0x9E3779B97F4A7C15 % 2**64)
    html = get(path, PAGE).text
    sizes = re.findall(r'<td class="nd-number">(\d+)</td>', html)
    assert sizes == ["6"] * 6 + ["5"] * 6 + ["4"] * 6 + ["3"] * 2
    assert "?clusters=100#" in html
    assert len(re.findall(r'<td class="nd-number">', get(path, f"{PAGE}?clusters=100").text)) == 30


def test_a_cluster_marks_exactly_what_differs(file: Path) -> None:
    """The two words that were changed are marked, on both sides, and no other; similarities are the index's own."""
    html = get(file, f"{PAGE}/clusters/2").text
    near = html[html.index('id="document-2"') : html.index('id="document-3"')]
    assert marked(near) == (["northern", "storm"], ["southern", "strike"])
    with Index(file) as index:
        similarity = index.explain_match("first", "near").similarity
    assert f"similarity {similarity:.4g}" in near


def test_another_document_can_stand_beside(file: Path) -> None:
    """`beside` compares all others with that document; one of another cluster is refused."""
    html = get(file, f"{PAGE}/clusters/2?beside=2").text
    first = html[html.index('id="document-1"') : html.index('id="document-3"')]
    assert marked(first) == (["southern", "strike"], ["northern", "storm"])
    assert get(file, f"{PAGE}/clusters/2?beside=4").status_code == 404


def test_a_large_cluster_comes_in_pages(tmp_path: Path) -> None:
    """45 documents: three pages, every one of them once, the first compared with on each."""
    path = tmp_path / "articles.db"
    with Index(path, LOW, store_text=True) as index, index.transaction():
        for number in range(45):
            index.add(f"k{number:02}", f"{TEXT} {number}")
    pages = get(path, *(f"{PAGE}/clusters/2?from={first}" for first in (0, 20, 40)))
    assert [keys_of(page) for page in pages] == [
        [f"k{number:02}" for number in range(start, end)] for start, end in ((1, 20), (20, 40), (40, 45))
    ]  # k00 stands above them
    assert "?from=20" in pages[0].text
    assert "?from=40" not in pages[2].text


def test_search_finds_what_the_index_finds(file: Path) -> None:
    """Keys, their order and scores are those of index.query, with what differs from the text that was asked for."""
    page = search(file, NEAR)
    with Index(file) as index:
        expected = index.query(NEAR)
    assert keys_of(page) == ["near", "first"]
    scores = [float(one) for one in re.findall(r"similarity ([0-9.]+)", page.text)]
    assert scores == [float(f"{match.similarity:.4g}") for match in expected]
    first = page.text[page.text.index('id="document-1"') :]
    assert marked(first) == (["southern", "strike"], ["northern", "storm"])


def test_search_by_code(tmp_path: Path) -> None:
    """Codes of the application are asked for in hexadecimal; one that is none comes back with the reason."""
    path = tmp_path / "articles.db"
    with Index(path, BinaryCode(bits=64, max_distance=5)) as index:
        index.add_code("cat", 0x9F172786E71F1E00)
        index.add_code("cat", 2**64 - 1, part="<turned>")
    found = search(path, "9f17 2786 e71f 1e03")
    assert "similarity 0.9688, distance 2" in found.text and "part " not in found.text
    turned = search(path, "ff" * 8)
    assert "1 near-duplicate," in turned.text and "part &lt;turned&gt;" in turned.text
    wrong = search(path, "xyz!")
    assert wrong.status_code == 400
    assert "give an even number of hex digits" in wrong.text


def test_keys_of_every_type(tmp_path: Path) -> None:
    """Texts, numbers and bytes as keys are found and shown, each as what it is."""
    path = tmp_path / "articles.db"
    with Index(path, LOW, store_text=True) as index:
        for key in ("1", 1, b"\xff\x00", "x'ff00'"):
            index.add(key, TEXT)
    shown = ["1", "1", "x&#x27;ff00&#x27;", "x&#x27;ff00&#x27;"]
    found, cluster = search(path), get(path, f"{PAGE}/clusters/2")
    for page in (found, cluster):
        assert re.findall(r'<h3 id="document-\d+"[^>]*>(?:<span class="nd-key">)?(.*?)<', page.text) == shown


def test_search_options(tmp_path: Path) -> None:
    """Threshold, number, group and containment are those of index.query; what cannot be asked says why, and keeps the text."""
    path = tmp_path / "articles.db"
    with Index(path, LOW, store_text=True) as index:
        index.add("a", TEXT)
        index.add("b", NEAR)
        index.add("long", f"{OTHER} {TEXT} {OTHER} {OTHER.upper()[::-1]}")
        index.add("grouped", TEXT, group="g & <g>")

    assert keys_of(search(path)) == ["a", "b"]
    assert keys_of(search(path, limit="1")) == keys_of(search(path, threshold="0.9")) == ["a"]
    assert keys_of(search(path, group="1")) == ["grouped"]
    assert keys_of(search(path, measure="containment", threshold="0.9")) == ["a", "long"]
    for sent, reason in (
        ({"threshold": "0.1"}, "threshold=0.1 is below 0.4"),
        ({"threshold": "<i>"}, "threshold=&#x27;&lt;i&gt;&#x27;: give a number"),
        ({"limit": "-1"}, "limit=&#x27;-1&#x27; is not a whole number"),
        ({"group": "77"}, "group=77 is not a group"),
    ):
        response = search(path, TEXT, **sent)
        assert response.status_code == 400
        assert reason in response.text
        assert TEXT in response.text


def test_markup_in_a_document_stays_text(file: Path) -> None:
    """Key, text, metadata and question appear escaped, and the answer forbids every script."""
    pages = [get(file, PAGE), get(file, f"{PAGE}/clusters/2"), search(file, SCRIPT)]
    for page in pages:
        body = page.text[page.text.index("<body") :]
        assert "<script" not in body
        assert "<img" not in body
        assert "<b>" not in body
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src" not in policy
        assert "unsafe" not in policy
    assert "&lt;script&gt;" in pages[1].text
    assert "&lt;script&gt;" in pages[2].text


@pytest.mark.parametrize(
    "metadata",
    [
        {"databases": {"articles": {"allow": {"id": "root"}}}},
        {"databases": {"articles": {"tables": {"neardup_document": {"allow": False}}}}},
        {"allow": {"id": "root"}},
    ],
    ids=["database", "table", "instance"],
)
def test_what_is_private_stays_private(file: Path, metadata: Any) -> None:
    """Whoever may not see the database, or the table of documents, sees none of the pages, nor that there is an index."""
    listed, *pages = get(file, "/-/neardup", PAGE, f"{PAGE}/clusters/2", f"{PAGE}/clusters/77", metadata=metadata)
    assert "neardup/articles" not in listed.text
    pages.append(get(file, f"{PAGE}/search", data={"text": TEXT}, metadata=metadata))
    for page in pages:
        assert page.status_code == 403
        assert "ferry" not in page.text


def test_unknown_things_are_not_found(file: Path) -> None:
    """Unknown database, index, cluster and number: 404, and what was unknown."""
    addresses = ["/-/neardup/nothing/neardup", "/-/neardup/articles/nothing", f"{PAGE}/clusters/77", f"{PAGE}/clusters/{2**63}"]
    reasons = ["No database of this name", "no index named &#x27;nothing&#x27;", "no cluster 77", "No cluster has the number"]
    for page, reason in zip(get(file, *addresses), reasons, strict=True):
        assert page.status_code == 404
        assert reason in page.text
    below = ["/-/neardup/articles", f"{PAGE}/x", f"{PAGE}/clusters", f"{PAGE}/clusters/x", f"{PAGE}/search/x", "/-/neardup/a/b/c"]
    for page in get(file, *below, f"{PAGE}/clusters/{10**19 - 1}", "/-/neardup/~ff/neardup"):
        assert page.status_code == 404 and "Near-duplicates" in page.text


def test_an_index_without_texts(tmp_path: Path) -> None:
    """Keys and similarities are shown, and it is said why no words are."""
    path = make(tmp_path / "articles.db", store_text=False)
    cluster, found = get(path, f"{PAGE}/clusters/2"), search(path)
    assert "keeps no texts" in cluster.text
    assert "similarity 0." in cluster.text
    assert "does not keep texts" in found.text
    assert not marked(cluster.text)[0]


def test_an_empty_index(tmp_path: Path) -> None:
    """No document yet: it is said so, search answers that there is nothing, and the charts are sentences."""
    path = tmp_path / "articles.db"
    Index(path, LOW).close()
    assert "This index is empty" in get(path, PAGE).text
    assert "No near-duplicate" in search(path).text


def test_an_index_that_records_no_matches(tmp_path: Path) -> None:
    """It is said why there are no clusters; search works."""
    path = make(tmp_path / "articles.db", record_matches=False)
    assert "does not record matches" in get(path, PAGE).text
    assert "3 near-duplicates" in search(path).text


def test_an_index_with_a_callable(tmp_path: Path) -> None:
    """Figures and clusters are shown; in the place of the search stands which function is missing."""
    path = make(tmp_path / "articles.db", text=TextRules(tokens=split))
    index, cluster = get(path, PAGE, f"{PAGE}/clusters/2")
    found = search(path)
    for page in (index, found):
        assert page.status_code == 200
        assert "cannot be searched from here" in page.text
        assert "support:split" in page.text
    assert "<del>northern" in cluster.text


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("UPDATE neardup_setting SET value = 'nonsense' WHERE name = 'scheme'", "nonsense"),
        ("UPDATE neardup_setting SET value = 99 WHERE name = 'schema_version'", "install a newer"),
        ("DELETE FROM neardup_setting", "scheme"),
        ("DROP TABLE neardup_match", "no such table"),
    ],
)
def test_damaged_settings(file: Path, damage: str, reason: str) -> None:
    """What is damaged is named, on a page of its own; the list of indexes still works."""
    connection = sqlite3.connect(file)
    connection.execute(damage)
    connection.commit()
    connection.close()
    page = get(file, PAGE)
    assert page.status_code == 500
    assert "This index cannot be read" in page.text
    assert reason in page.text
    assert get(file, "/-/neardup").status_code == 200


def test_a_view_that_never_ends(file: Path) -> None:
    """A stranger's file in which a table is an endless view: the page ends at the time limit, and says so."""
    connection = sqlite3.connect(file)
    connection.execute("DROP VIEW neardup_matches")
    connection.execute("DROP TABLE neardup_match")
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS document_id FROM n"
    connection.execute(f"CREATE VIEW neardup_match AS {endless}")
    connection.close()
    page = get(file, PAGE, metadata={"plugins": {"neardup-db": {"time_limit_s": 0.2}}})
    assert page.status_code == 500
    assert "longer than the time limit" in page.text


def test_only_datasettes_sqlite_opens_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No page opens the file through our own SQLite library: closing it would drop the locks of Datasette's."""

    class Refused(apsw.Connection):
        def __init__(self, *args: Any, **options: Any) -> None:
            raise AssertionError("a second SQLite library")

    monkeypatch.setattr(apsw, "Connection", Refused)
    assert [page.status_code for page in get(file, PAGE, f"{PAGE}/clusters/2")] == [200, 200]
    assert "3 near-duplicates" in search(file).text


def test_a_damaged_database_among_others(tmp_path: Path, file: Path) -> None:
    """The list names the one that cannot be read, to whom may see it, and still has the others."""
    damaged = make(tmp_path / "damaged.db")
    content = bytearray(damaged.read_bytes())
    content[100:300] = b"\xff" * 200
    damaged.write_bytes(content)
    page = get([damaged, file], "/-/neardup")
    assert page.status_code == 200
    assert PAGE in page.text
    assert "damaged: SQLite: " in page.text
    private = get([damaged, file], "/-/neardup", metadata={"databases": {"damaged": {"allow": {"id": "root"}}}})
    assert PAGE in private.text and "damaged: SQLite: " not in private.text


def test_very_long_texts_are_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a very long text the beginning is shown; what is too long to be compared is said to be."""
    monkeypatch.setattr(contents, "LONGEST_COMPARED", 100_000)
    path = tmp_path / "articles.db"
    with Index(path, LOW, store_text=True) as index:
        for key in ("a", "b"):
            index.add(key, " ".join(f"{number:06}" for number in range(21_500)))
        index.add("c", TEXT)
        index.add("d", NEAR)
    cluster = get(path, f"{PAGE}/clusters/2").text
    assert "too long to compare" in cluster
    assert len(cluster) < 100_000
    assert marked(get(path, f"{PAGE}/clusters/4").text)[0]


def test_without_the_sql_functions_all_but_the_search_works(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the extension cannot be loaded, the search pages say why and what to install; figures and clusters are shown."""

    def refuse(connection: Any) -> None:
        raise ParameterError("no extension loading here")

    monkeypatch.setattr(foreign, "load", refuse)
    page, form, cluster = get(file, PAGE, f"{PAGE}/search", f"{PAGE}/clusters/2")
    assert [answer.status_code for answer in (page, form, cluster)] == [200, 200, 200]
    for answer in (page, form):
        assert "no extension loading here" in answer.text and "pip install pysqlite3" in answer.text
        assert "<form" not in answer.text
    assert "<dt>documents</dt><dd>4</dd>" in page.text
    assert marked(cluster.text)[0]
    assert "pip install pysqlite3" in search(file).text


def test_scalars_can_be_used_in_datasettes_sql(file: Path) -> None:
    """The functions that queries need are there in Datasette's own SQL, too."""
    rows = get(file, "/articles.json?sql=select+neardup_hamming(1,2)+as+n&_shape=array").json()
    assert rows == [{"n": 2}]


def test_simhash_shows_distances(tmp_path: Path) -> None:
    """A scheme of distances shows them beside the similarity."""
    path = make(tmp_path / "articles.db", scheme=SimHash(max_distance=20))
    assert "distance 0" in search(path).text


def test_expired_documents_are_on_no_page(tmp_path: Path) -> None:
    """A document whose time is over is not named before it is removed either: not as a member, a match or an answer."""
    path = tmp_path / "articles.db"
    with Index(path, LOW, store_text=True) as index:
        for key in ("secret", "first", "second"):
            index.add(key, TEXT, expires_at=4_000_000_000)
        index.update("secret", expires_at=1_000_000_000)
        report = report_page(index, "A report")
    cluster = get(path, f"{PAGE}/clusters/2")
    assert "first" in cluster.text and "second" in cluster.text
    pages = [cluster, get(path, PAGE), search(path)]
    assert [page.status_code for page in pages] == [200, 200, 200]
    assert not [page.text for page in pages if "secret" in page.text]
    assert "first" in report and "secret" not in report


def test_names_of_a_stranger_never_reach_sql(tmp_path: Path) -> None:
    """A table whose name is no index's is not taken for one."""
    connection = sqlite3.connect(tmp_path / "index.db")
    for table in ('x" ; DROP TABLE y; --', "good"):
        for part in ("setting", "fingerprint"):
            quoted = f"{table}_{part}".replace('"', '""')
            connection.execute(f'CREATE TABLE "{quoted}" (name, value)')
    assert foreign.index_names(connection) == ["good"]
