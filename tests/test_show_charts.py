"""Charts show the numbers that the file holds, by plain SQL of any client, and stay legible, safe and well-formed."""

from __future__ import annotations

import math
import random
import re
import sqlite3
import tracemalloc
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import apsw
import numpy as np
import pytest

from neardup_db import BinaryCode, BitSampling, BottomK, CorruptIndexError, Index, MinHash, ParameterError, SimHash
from neardup_db.show import charts, figures, theory
from neardup_db.show.style import CSS, page

STORY = "the ferry to the northern islands was cancelled on monday because of a storm that closed the harbour for two days"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Clusters of 5, 2 and 3 documents and 3 documents alone; one of the five has expired since, and one of the three."""
    path = tmp_path / "a.db"
    with Index(path, MinHash(), store_text=True) as index:
        for i in range(5):
            index.add(f"ferry-{i}", f"{STORY} {i if i > 2 else ''}")
        for name in ("x0", "x1", "y0", "y1", "y2"):
            index.add(name, " ".join(f"{name[0]}word{j}" for j in range(20)), metadata={"n": name})
        for i in range(3):
            index.add(i, " ".join(f"alone{i}{j}" for j in range(20)))
        for key in ("ferry-4", "y2"):
            index.update(key, expires_at=1_000_000_000)
    return path


def svgs(html: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(found) for found in re.findall(r"<svg.*?</svg>", html, re.S)]


@pytest.mark.parametrize("client", ["apsw", "sqlite3"])
def test_figures_are_those_of_the_file(path: Path, client: str) -> None:
    """Both clients read the same: documents, clusters by size, matches by similarity, without what has expired, and whatever an
    application makes of its own rows."""
    with Index(path, read_only=True) as index:
        documents, clusters = len(index), index.clusters()
    connection: Any = apsw.Connection(str(path)) if client == "apsw" else sqlite3.connect(path)
    matches = connection.execute("SELECT similarity FROM neardup_matches").fetchall()
    setattr(connection, "row_trace" if client == "apsw" else "row_factory", lambda cursor, row: {"row": row})
    found = figures.collect(connection)
    assert (found.documents, found.expired, documents) == (11, 2, 11)
    assert (found.clusters, found.duplicates) == (len(clusters), sum(len(one) - 1 for one in clusters)) == (3, 5)
    assert found.sizes == ((2, 3, 2), (4, 7, 1))
    assert sum(count for *_, count in found.similarities) == len(matches) > 4
    assert found.similarities[0][0] == 0.8 and found.similarities[-1][1:] == (1.0, sum(one >= 0.99 for (one,) in matches))
    assert sum(count for _, count in found.times) == 5
    assert (found.threshold, found.recall, found.scheme) == (0.8, 0.99, "minhash")
    assert (found.matches_note, found.clusters_note) == ("", "")
    largest = figures.largest(connection)
    assert [(one.size, one.representative) for one in largest] == [(4, "ferry-0"), (2, "x0"), (2, "y0")]
    assert figures.members(connection, "neardup", largest[0].cluster, limit=2) == ["ferry-0", "ferry-1"]
    connection.close()


def test_bars_of_the_histogram_hold_what_their_bounds_say() -> None:
    """A similarity on a bound belongs to the bar that it begins, 1.0 to the last, whatever the least one is."""
    for threshold, start in ((0.8, 0.8), (0.85, 0.8), (0.5, 0.5), (None, 0.9), (1.0, 0.9)):
        bars = figures._histogram({200: 1, 190: 2}, threshold)
        assert bars[0][0] == start and bars[-1][1] == 1.0 and len(bars) == 20
        assert [count for low, high, count in bars if low <= 0.95 < high] == [2] and bars[-1][2] == 1
    assert figures._histogram({3: 7}, 0.8)[0] == (0.0, 0.05, 7)


def test_large_files_are_sampled_and_the_chart_says_so(tmp_path: Path) -> None:
    """From a file of more than `most` ids evenly spread blocks are read; the estimate is near, the note names the share."""
    draw = random.Random(3)
    with Index(tmp_path / "a.db", BinaryCode(bits=64, max_distance=0)) as index:
        sizes = [draw.choice((1, 1, 1, 2, 3)) for _ in range(6000)] + [400]
        codes = [draw.getrandbits(64) for _ in sizes]
        records = [(i, j) for i, size in enumerate(sizes) for j in range(size)]
        draw.shuffle(records)
        index.add_codes([f"{i}-{j}" for i, j in records], [codes[i] for i, _ in records])
        exact = figures.collect(index.connection)
        found = figures.collect(index.connection, most=len(records) // 4 + 1)
        assert found.documents == exact.documents == len(records)
        assert found.matches_note == "Read from a sample: the matches of one document in 4."
        assert found.clusters_note == "Estimated from one cluster in 4."
        assert exact.clusters == sum(size > 1 for size in sizes) and abs(found.clusters - exact.clusters) < exact.clusters / 5
        read = sum(count for *_, count in found.similarities)
        assert abs(read * 4 - exact.matches) < exact.matches / 5
        assert figures.largest(index.connection, limit=1, most=100) == figures.largest(index.connection, limit=1)
        html = charts.grid(found)
        assert found.matches_note in html and found.clusters_note in html


@pytest.mark.parametrize("scheme", [MinHash(), MinHash(exact=True), BottomK(), SimHash(), BitSampling(), BinaryCode(bits=64)])
@pytest.mark.parametrize("filled", [False, True])
def test_charts_are_drawn_for_every_scheme_empty_or_not(scheme: object, filled: bool) -> None:
    """Every SVG is well-formed and has a role, a title, a description, text labels, and nothing outside its frame."""
    with Index(":memory:", scheme) as index:  # type: ignore[arg-type]
        if filled:
            for key in "abc":
                _ = index.add(key, STORY) if index.scheme.takes_text else index.add_code(key, 7)
        found = figures.collect(index.connection)
    html = charts.grid(found)
    assert html.count("<figure") == html.count("</figure>") == html.count("<figcaption>") == 4
    drawn = svgs(html)
    assert len(drawn) == 3 * filled + (found.scheme != "binarycode")
    for svg in drawn:
        assert svg.get("role") == "img" and svg.findtext(f"{SVG}title") and svg.findtext(f"{SVG}desc")
        assert len(svg.findall(f"{SVG}text")) >= 4
        width, height = (float(number) for number in svg.attrib["viewBox"].split()[2:])
        for bar in svg.findall(f"{SVG}rect"):
            assert float(bar.attrib["x"]) >= 0 and float(bar.attrib["x"]) + float(bar.attrib["width"]) <= width
            assert float(bar.attrib["y"]) >= 0 and float(bar.attrib["y"]) + float(bar.attrib["height"]) <= height
    assert "<script" not in html and "http" not in html.replace("http://www.w3.org/2000/svg", "")


def test_bars_are_as_high_as_their_counts() -> None:
    """Heights are in proportion; an empty bar has none, and every count is in the table too."""
    html = charts.histogram([(0.8, 0.9, 5), (0.9, 0.95, 0), (0.95, 1.0, 10)], 0.85).figure()
    heights = [float(bar.attrib["height"]) for bar in svgs(html)[0].findall(f"{SVG}rect")]
    assert heights[1] == 0 and heights[0] * 2 == pytest.approx(heights[2], abs=0.2)
    assert "<td>0.95 to 1</td><td>10</td>" in html and "threshold 0.85" in html
    assert "15 matches" in html and "half of them have 0.95 or more" in html


def test_counts_have_whole_numbers_beside_them() -> None:
    """One match is no half and half; millions are short, and long labels stay within the frame."""
    labels = [text.text for text in svgs(charts.histogram([(0.8, 0.9, 1), (0.9, 1.0, 0)]).figure())[0].findall(f"{SVG}text")]
    assert labels[:2] == ["0", "1"] and "0.5" not in labels
    [svg] = svgs(charts.timeline([(f"2026-01-0{day} 00:00:00", 1_500_000) for day in range(1, 8)], "day").figure())
    assert "1.5M" in [text.text for text in svg.findall(f"{SVG}text")]
    for text in svg.findall(f"{SVG}text"):
        reach = len(text.text or "") * charts.LETTER / (2 if text.attrib["text-anchor"] == "middle" else 1)
        assert text.attrib["text-anchor"] == "end" or reach <= float(text.attrib["x"]) <= charts.WIDTH - reach


def test_the_curve_tells_where_half_are_returned() -> None:
    """Between two points it is interpolated. An exact index has a step at its threshold, and no half."""
    assert "Jaccard similarity of 0.75" in charts.curve([(0.0, 0.0, 0.0), (0.5, 0.5, 0.0), (1.0, 1.0, 1.0)]).sentence
    assert "similarity of 1 " in charts.curve([(0.0, 0.0, 0.0), (1.0, 1.0, 0.4)]).sentence
    step = [(0.0, 0.0, 0.0), (0.8, 0.99, 0.0), (0.8, 0.99, 0.99), (1.0, 1.0, 1.0)]
    told = "99.0% of the pairs with a Jaccard similarity of just 0.8 are returned, below it none"
    assert told in charts.curve(step, 0.8).sentence


def bottom_k_chances(k: int, threshold: float, measure: str, similarity: float) -> tuple[float, float]:
    """By looking at one hash of the union after the other: those that both texts have, and where they stand in each."""
    prefix = k - next(count for count in range(k + 1) if count / k >= threshold) + 1

    @cache
    def chances(a: int, b: int, shared: int, estimate: int, met: bool) -> tuple[float, float]:
        if a >= k and b >= k:
            similar = estimate / k if measure == "estimate" else shared / (2 * k - shared)
            return float(met), float(met and similar >= threshold)
        in_estimate = a + b - shared < k
        after = [
            (similarity, chances(a + 1, b + 1, shared + (a < k and b < k), estimate + in_estimate, met or max(a, b) < prefix)),
            ((1 - similarity) / 2, chances(min(a + 1, k), b, shared, estimate, met) if a < k else None),
            ((1 - similarity) / 2, chances(a, min(b + 1, k), shared, estimate, met) if b < k else None),
        ]
        known = [(chance, one) for chance, one in after if one is not None]
        total = sum(chance for chance, _ in known)
        return tuple(sum(chance * one[i] for chance, one in known) / total for i in (0, 1))  # type: ignore[return-value]

    return chances(0, 0, 0, 0, False)


@pytest.mark.parametrize("k, threshold", [(1, 1.0), (5, 0.5), (8, 0.3), (9, 0.8), (9, 0.05), (10, 1.0)])
def test_the_curve_of_bottom_k_is_exact(k: int, threshold: float) -> None:
    """P(candidate) and P(returned) are those of going through the hashes one by one, within 1e-8."""
    for measure in ("fingerprint", "estimate"):
        chances = theory.chances_of({"scheme": "bottomk", "k": k, "threshold": threshold, "measure": measure})
        for similarity in (0.05, 0.3, 0.5, 0.8, 0.97):
            assert chances(similarity) == pytest.approx(bottom_k_chances(k, threshold, measure, similarity), abs=1e-8)
        assert chances(0.0) == (0.0, 0.0) and chances(1.0) == (1.0, 1.0)


@pytest.mark.parametrize(
    "slots, bands, rows, threshold", [(7, 2, 3, 0.5), (128, 12, 5, 0.8), (300, 3, 100, 0.97), (900, 900, 1, 0.02)]
)
def test_the_curve_of_minhash_is_exact(slots: int, bands: int, rows: int, threshold: float) -> None:
    """P(returned) is that of adding band to band, within 1e-8."""
    settings = {"scheme": "minhash", "num_perm": slots, "bands": bands, "rows": rows, "threshold": threshold}
    for similarity in (0.01, 0.3, 0.8, 0.97):
        band = theory.binomial(rows, similarity)
        band[rows] = 0.0
        unmet = theory.binomial(slots - bands * rows, similarity)
        for _ in range(bands):
            unmet = np.convolve(unmet, band)
        enough = [count / slots >= threshold for count in range(slots + 1)]
        returned = (theory.binomial(slots, similarity)[: len(unmet)] - unmet)[enough[: len(unmet)]].sum()
        returned += theory.binomial(slots, similarity)[len(unmet) :][enough[len(unmet) :]].sum()
        assert theory.chances_of(settings)(similarity) == pytest.approx((1 - (1 - similarity**rows) ** bands, returned), abs=1e-8)


@pytest.mark.parametrize(
    "settings",
    [
        {"scheme": "bottomk", "k": 65536, "threshold": 0.5},
        {"scheme": "bottomk", "k": 65536, "threshold": 0.01, "measure": "estimate"},
        {"scheme": "minhash", "num_perm": 65536, "bands": 13107, "rows": 5, "threshold": 0.5},
        {"scheme": "minhash", "num_perm": 65536, "bands": 3, "rows": 20000, "threshold": 0.9},
        {"scheme": "bitsampling", "bits": 4096, "max_distance": 1024, "plan": "chunks", "chunks": 256},
        {"scheme": "bitsampling", "bits": 4096, "max_distance": 63, "plan": "blocks", "blocks": 64},
        {"scheme": "simhash", "bits": 4096, "max_distance": 2000, "plan": "scan"},
    ],
)
def test_a_curve_takes_little_room_whatever_the_parameters(settings: dict[str, object]) -> None:
    """The largest parameters need less than 32 MB, and give probabilities that ascend with the similarity."""
    tracemalloc.start()
    points = figures.curve_points(settings)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32e6
    for one in (np.array(points)[:, 1], np.array(points)[:, 2]):
        assert one.min() >= 0.0 and one.max() <= 1.0 and one[-1] == pytest.approx(1.0, abs=1e-8) and np.diff(one).min() > -1e-8


def test_the_curve_of_a_large_bottom_k_is_steep_at_its_threshold() -> None:
    """With 65,536 hashes all or none are returned 0.01 beside it; at it both texts have room with the chance of two normal
    variables with a correlation of 1/3."""
    chances = theory.chances_of({"scheme": "bottomk", "k": 65536, "threshold": 0.5})
    assert chances(0.5) == (pytest.approx(1.0), pytest.approx(1 / 4 + math.asin(1 / 3) / math.tau, abs=0.002))
    assert chances(0.49)[1] < 1e-3 and chances(0.51)[1] > 1 - 1e-3


def test_the_timeline_takes_the_unit_that_fits() -> None:
    """At most sixty bars, without gaps, from a second to years."""
    for seconds, unit in (
        (0, "second"),
        (50, "second"),
        (61, "minute"),
        (7 * 3600, "10 minutes"),
        (40 * 86400, "day"),
        (2 * 10**9, "year"),
    ):
        with Index(":memory:", BinaryCode(bits=64)) as index:
            for key in range(3):
                index.add_code(key, 1)
            index.connection.execute(
                "UPDATE neardup_match SET found_at = ? * 1000 WHERE document_id = 3", (1_700_000_000 + seconds,)
            )
            index.connection.execute("UPDATE neardup_match SET found_at = 1700000000000 WHERE document_id = 2")
            found = figures.collect(index.connection)
        assert found.time_unit == unit and len(found.times) <= 65
        assert sum(count for _, count in found.times) == 2 and found.times[0][1] and found.times[-1][1]


def test_damaged_files_cannot_harm(path: Path) -> None:
    """A name that is none is refused, and so are settings that no index has; similarities and times that cannot be make no chart
    of a billion bars."""
    connection = sqlite3.connect(path)
    for name in ("", "x; DROP TABLE neardup_document", "é", "a" * 41):
        with pytest.raises(ParameterError, match="name="):
            figures.collect(connection, name)
    connection.execute("UPDATE neardup_match SET similarity = -1e300, found_at = -9223372036854775807 WHERE document_id = 2")
    connection.execute("UPDATE neardup_match SET similarity = 1e300, found_at = 9223372036854775807 WHERE document_id = 3")
    found = figures.collect(connection)
    assert len(found.times) <= 301 and len(found.similarities) == 20
    assert len(svgs(charts.grid(found))) == 4
    connection.execute("UPDATE neardup_setting SET value = 1000000000000 WHERE name = 'num_perm'")
    with pytest.raises(CorruptIndexError):
        figures.collect(connection)
    connection.close()


def test_a_page_needs_nothing_else() -> None:
    """The frame escapes its title, forbids scripts and everything from elsewhere, and tells its language and width."""
    html = page("<script>x</script>", "<p>text</p>")
    assert "<script" not in html and "default-src 'none'" in html and '<html lang="en">' in html
    assert 'name="viewport"' in html and "@import" not in CSS and "url(" not in CSS


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(a: str, b: str) -> float:
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_enough_in_light_and_dark() -> None:
    """4.5 to 1 for text and 3 to 1 for lines, by the formula of WCAG 2."""
    found = re.findall(r"--nd-([a-z-]+): (#[0-9a-f]{6});", CSS)
    half = len(found) // 2
    assert half == 10
    for names in (dict(found[:half]), dict(found[half:])):
        for ground in (names["page"], names["card"]):
            assert min(contrast(names[name], ground) for name in ("text", "quiet", "link")) >= 4.5
            assert min(contrast(colour, ground) for colour in (charts.BLUE, charts.ORANGE)) >= 3
        assert contrast(names["del-text"], names["del"]) >= 4.5 and contrast(names["ins-text"], names["ins"]) >= 4.5
