"""What charts show of an index: `neardup report` as HTML or SVG, `neardup curve` on the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..show.charts import charts
from ..show.report import figures_of, report_page
from ..show.theory import chances_of
from ..text import TextRules
from . import common, indexes
from .common import Results
from .outputs import check_output, write_page

BAR = 40


@common.command(has_json=False)
@common.index_argument
@click.option("-o", "--output", type=common.page, help="The HTML file to write; - is standard output.")
@click.option("--svg", type=click.Path(path_type=Path, file_okay=False), help="Write each chart as an SVG into this folder.")
@click.option("--clusters", type=common.Count(0), default=20, help="Show this many of the largest clusters.")
@click.option("--members", type=common.Count(2), default=10, help="Show this many documents of each.")
@click.option("--title", help="Title of the report.  [default: the name of the file]")
@click.option("--force", is_flag=True, help="Replace outputs that exist.")
@common.name_option
def report(index_path: Path, output: Path | None, svg: Path | None, force: bool, name: str, **options: Any) -> None:
    """The report has key figures, charts (similarity of matches, cluster sizes, duplicates over time, recall), and the largest
    clusters, with stored texts side by side with the earliest one. The file needs no other file and runs no script. --svg omits
    charts without data.

    \b
    neardup report articles.db -o report.html
    neardup report articles.db --svg charts
    """
    if output is None and svg is None:
        raise click.UsageError("Give -o FILE, --svg FOLDER or both")
    with indexes.open_index(index_path, name) as index:
        drawings: dict[Path, str] = {}
        if svg is not None:
            svg.mkdir(parents=True, exist_ok=True)
            found = charts(figures_of(index))
            drawings = {svg / f"{chart_name}.svg": chart.file() for chart_name, chart in found.items() if chart.drawing}
        for path in (output, *drawings):
            if path is not None:
                check_output(path, force, indexes.index_files())
        if output is not None:
            title = options["title"] or index_path.name
            write_page(output, report_page(index, title, options["clusters"], options["members"]))
        for path, drawing in drawings.items():
            write_page(path, drawing)


@common.command()
@click.argument("index_path", metavar="[INDEX]", required=False, type=common.path)
@common.name_option
@common.scheme_options
@click.option("--from", "low", type=common.NumberRange(0, 1), default=0.4, help="First similarity.")
@click.option("--step", type=common.above_0, default=0.05, help="Step between similarities.")
def curve(index_path: Path | None, name: str, low: float, step: float, **options: Any) -> Results:
    """For each Jaccard similarity, prints the share of pairs that become candidates, and the share returned after verification.
    Without INDEX the curve is for the given scheme and parameters. With --json each line is one point.

    \b
    neardup curve articles.db
    neardup curve --scheme simhash --max-distance 7
    """
    scheme = common.scheme_of(options)
    if (index_path is None) == (scheme is None):
        raise click.UsageError("Give either INDEX, or --scheme and its parameters")
    if index_path is not None:
        with indexes.open_index(index_path, name) as index:
            scheme = index.scheme
    elif scheme is not None:
        scheme = scheme.for_index(TextRules())
    assert scheme is not None
    chances = chances_of(scheme.settings())
    yield None, (repr(scheme), "   J   candidate  returned  █ returned  ░ candidate only")
    for similarity in [round(low + i * step, 6) for i in range(int((1.0 - low) / step + 1e-9) + 1)]:
        candidate, returned = chances(similarity)
        full = round(returned * BAR)
        bar = "█" * full + "░" * max(round(candidate * BAR) - full, 0)
        line = f"{similarity:5.2f}   {candidate:8.4f}  {returned:8.4f}  {bar}".rstrip()
        yield {"jaccard": similarity, "candidate": candidate, "returned": returned}, line
