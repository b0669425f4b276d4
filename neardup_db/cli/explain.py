"""`neardup explain`: how a query runs, or why two documents match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from ..index import Index
from ..show.explanation import shared_rows_text, still_connected, verdict
from ..values import MatchExplanation, flat_rows
from . import common, indexes
from .common import Results
from .difference import changes
from .inputs.files import STDOUT
from .output import aligned, as_json_value, count_text, escaped
from .outputs import check_output, write_page

MOST = 12  # the maximum number of differences, of shingles, and of shared candidate rows, printed


@common.index_command()
@click.argument("subject", metavar="TEXT | KEY KEY", nargs=-1, required=True)
@click.option("--threshold", type=float, help="With TEXT: minimum similarity, at or above the index's threshold.")
@common.measure_option
@click.option("--text-a", type=common.existing_file, help="File with the first document's text, if the index stores no texts.")
@click.option("--text-b", type=common.existing_file, help="File with the second document's text.")
@common.html_options
@common.key_type_option
@click.option("--group", metavar="NAME", help="With TEXT: the group to search, as in neardup query.")
def explain(index: Index, subject: tuple[str, ...], html: Path | None, force: bool, key_type: str, **options: Any) -> Results:
    """With TEXT (or - for standard input): the query plan, the rows that each step reads and the time it takes. With two KEYs:
    the verdict and similarity, the candidate rows and shingles in both, and the words that differ. --html shows both texts.

    \b
    neardup explain articles.db "some text"
    neardup explain articles.db a1 a2
    neardup explain articles.db a1 a2 --html why.html
    neardup explain articles.db a1 a2 --text-a one.txt --text-b two.txt
    """
    if len(subject) > 2:
        raise click.UsageError("Give either TEXT, in quotation marks, or two KEYs")
    threshold, measure, group, *files = (options[name] for name in ("threshold", "measure", "group", "text_a", "text_b"))
    if len(subject) == 2 and (threshold, measure, group) != (None, None, None):
        raise click.UsageError("--threshold, --measure and --group go with TEXT, not with two KEYs")
    if len(subject) == 1 and any((*files, html)):
        raise click.UsageError("--text-a, --text-b and --html go with two KEYs, not with TEXT")
    if html == STDOUT and common.is_json():
        raise click.UsageError("--json and --html - both write to standard output; name a file for the page")
    if len(subject) == 1:
        asked = indexes.group_or_none(index, group, "give --group NAME")
        text = common.read_content(subject[0], None)
        query = as_json_value(index.explain(text, threshold=threshold, measure=measure, group=asked))
        yield query, aligned(flat_rows(query))
        return
    if html is not None:
        check_output(html, force, indexes.index_files())
    first, second = (common.parse_key(key, key_type) for key in subject)
    text_a, text_b = (None if path is None else path.read_bytes() for path in files)
    match = index.explain_match(first, second, text_a=text_a, text_b=text_b)
    if html is not None:
        write_page(html, match.html())
    yield {**as_json_value(match), "jaccard": match.jaccard}, _match_lines(match) if html is None else ()


def _match_lines(match: MatchExplanation) -> Iterator[str]:
    key_a, key_b = escaped(match.key_a), escaped(match.key_b)
    yield f"{key_a} and {key_b}    {verdict(match)}"
    rows = [
        ("connected", still_connected(match)),
        ("similarity", f"{match.similarity:.4f}"),
        ("distance", "" if match.distance is None else f"{match.distance} bits"),
        ("true Jaccard", "" if match.jaccard is None else f"{match.jaccard:.4f}"),
        ("scheme", match.scheme),
        ("met", shared_rows_text(match)),
    ]
    if match.met:
        numbered = any(table for table, _ in match.met)
        places = [f"{table}: {escaped(key)}" if numbered else escaped(key) for table, key in match.met[:MOST]]
        more = [f"... {len(match.met) - MOST:,} more"] if len(match.met) > MOST else []
        rows.append(("table: key" if numbered else "places", ", ".join(places + more)))
    yield from aligned(row for row in rows if row[1])
    if match.passages is not None and match.text_a is not None:
        found = [f"{passage.tokens} tokens  {match.text_a[passage.start : passage.end]}" for passage in match.passages]
        yield from _list_lines(count_text(len(found), "common passage"), found)
    elif match.text_a is not None and match.text_b is not None:
        yield from _list_lines(f"[-only in {key_a}-] {{+only in {key_b}+}}", changes(match.text_a, match.text_b, MOST - 1))
    if match.passages is None and match.shared is not None and match.only_a is not None and match.only_b is not None:
        yield from ("", f"{count_text(len(match.shared), 'shingle')} in both")
        yield from _list_lines(f"{count_text(len(match.only_a), 'shingle')} only in {key_a}", match.only_a)
        yield from _list_lines(f"{count_text(len(match.only_b), 'shingle')} only in {key_b}", match.only_b)


def _list_lines(title: str, lines: Sequence[str]) -> Iterator[str]:
    yield from ("", title, *(f"  {escaped(line)}" for line in lines[:MOST]))
    if len(lines) > MOST:
        yield f"  ... and {len(lines) - MOST:,} more"
