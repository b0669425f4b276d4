"""The result of `neardup_db.tune` as a table and as a page with border pairs side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from ..show.charts import histogram
from ..show.difference import difference_html
from ..show.escape import escape, label_html
from ..show.style import fragment, page
from ..values import Key
from .results import Border, Example, Trial

CHANGES, LONGEST, COMPARED = 12, 300, 20_000  # differences shown for two texts, characters of each, characters compared of a text

HELP = (
    "Two texts are compared by the shingles that they share. Choose the rules under which the pairs that you call duplicates are "
    "above the threshold and the others below it."
)

HEADS = ("rules", "unlike", "edited", "threshold", "pairs", "removed", "largest", "shingles", "bytes", "µs")


@dataclass(frozen=True, slots=True)
class Tuning:
    """Suggested text rules and threshold, with reasons. `print` shows a table, `html()` returns a page.

    texts: the number of texts; empty: texts without tokens, which are ignored; sample: the number compared; words: the median
    number of words in a text; known: the number of truth pairs compared. trials: one for each set of rules; best: the recommended
    trial, None if no rules separate near-duplicates from unlike texts.
    """

    texts: int
    empty: int
    sample: int
    words: int
    known: int
    trials: tuple[Trial, ...]
    best: Trial | None
    advice: str

    def __str__(self) -> str:
        low = f"{self.trials[0].histogram[0][0]:.1f}" if self.trials else ""
        truth = self.known > 0
        head = f"{'rules':<15} {f'{low} to 1':<14} unlike edited threshold     pairs   removed  bytes    us"
        lines = [head + ("  recall precision" if truth else "")]
        for trial in self.trials:
            border = trial.border
            numbers = f"{'-':>9} {'-':>9} {'-':>9}"
            if border is not None:
                numbers = f"{border.threshold:>9.2f} {border.pairs:>9,} {border.removed:>9,}"
            line = f"{trial.name:<15} {trial.bars:<14} {trial.unlike:>6.2f} {trial.edited:>6.2f} {numbers} "
            line += f"{trial.size_bytes:>6,} {trial.microseconds:>5.0f}"
            if truth and border is not None:
                line += f" {_percent(border.recall, '-'):>7} {_percent(border.precision, '-'):>9}"
            lines.append(line)
        return "\n".join([*lines, "", self.advice])

    def html(self, title: str = "Text rules") -> str:
        """A page for human review, with the pairs just above and just below each threshold side by side."""
        return _page(self, title)

    def _repr_html_(self) -> str:
        return fragment(_table(self) + f"<p>{escape(self.advice)}</p>")


def _page(tuning: Tuning, title: str) -> str:
    best_first = sorted(tuning.trials, key=lambda trial: trial is not tuning.best)
    compare = cache(_difference)  # a pair may be on a border under several rules
    parts = [
        f'<h1 dir="auto">{label_html(title)}</h1>',
        f'<p class="nd-quiet">{_counts(tuning)}</p>',
        f'<p class="nd-advice">{escape(tuning.advice)}</p>',
        "<h2>Rules</h2>",
        _table(tuning),
        f'<p class="nd-note">{_legend(tuning)}</p>',
        *([] if tuning.best is None else _removed(tuning.best, tuning.sample, compare)),
        "<h2>Pairs on the border</h2>",
        f"<p>{HELP}</p>",
        *(_trial(trial, trial is tuning.best, compare) for trial in best_first),
    ]
    return page(title, "".join(parts))


Compare = Callable[[Key, Key, str, str], str]


def _counts(tuning: Tuning) -> str:
    empty = f", {tuning.empty:,} of them without a word" if tuning.empty else ""
    known = f" {tuning.known:,} known pairs are among them." if tuning.known else ""
    return (
        f"{tuning.texts:,} texts{empty}; {tuning.sample:,} are compared, with {tuning.words:,} words each (the median).{known} "
        "Similarities are exact."
    )


def _legend(tuning: Tuning) -> str:
    found = "agrees best with the known pairs" if tuning.known else "fits these texts best"
    return (
        "Unlike: 999 in 1,000 pairs of unlike texts are below it. Edited: nine in ten copies in which one word in twenty was "
        f"changed are at or above it. Threshold: what {found}. Pairs: those of the sample that reach it. "
        "Removed: texts of the sample that deduplication at the threshold would remove; largest: texts of the largest cluster, "
        "with the one that stays. Shingles: of a text, the median. "
        "Bytes and microseconds (µs): of a text in an index, and to add it."
    )


def _table(tuning: Tuning) -> str:
    heads = [*HEADS, "recall", "precision"] if tuning.known else HEADS
    head = "".join(f'<th scope="col"{"" if not place else _NUMBER}>{name}</th>' for place, name in enumerate(heads))
    rows = "".join(_row(trial, trial is tuning.best, tuning.known > 0) for trial in tuning.trials)
    return f'<div class="nd-scroll"><table class="nd-table"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


_NUMBER = ' class="nd-number"'


def _row(trial: Trial, is_best: bool, known: bool) -> str:
    border = trial.border
    counts = ["none fits", "", "", ""]
    if border is not None:
        counts = [f"{border.threshold:.2f}", f"{border.pairs:,}", f"{border.removed:,}", f"{border.largest:,}"]
    cells = [f"{trial.unlike:.2f}", f"{trial.edited:.2f}", *counts, f"{trial.shingles:,}", f"{trial.size_bytes:,}"]
    cells.append(f"{trial.microseconds:.0f}")
    if known:
        cells += ["", ""] if border is None else [_percent(border.recall), _percent(border.precision)]
    name = f"<strong>{escape(trial.name)}</strong> ←" if is_best else escape(trial.name)
    return f'<tr><th scope="row" class="nd-name">{name}</th>' + "".join(f"<td{_NUMBER}>{cell}</td>" for cell in cells) + "</tr>"


def _percent(share: float | None, none: str = "") -> str:
    return none if share is None else f"{share:.1%}"


def _removed(trial: Trial, sample: int, compare: Compare) -> Iterator[str]:
    border = trial.border
    if border is None or border.removed is None:
        return
    counts = f"{border.removed:,} of the {sample:,} texts; the largest cluster has {border.largest:,}"
    yield "<h2>What deduplication would remove</h2>"
    yield f"<p>Under {escape(trial.name)} at {border.threshold:.2f}: {counts}.</p>"
    if border.samples:
        yield "<p>Some of them, each as a change of the text that stays, the least similar first:</p>"
    for example in border.samples:
        badge = f'<span class="nd-badge">{example.similarity:.4f}</span>'
        yield f'<div><p class="nd-note">Similarity {badge}</p>{_compared(example, compare)}</div>'


def _trial(trial: Trial, is_best: bool, compare: Compare) -> str:
    note = f"Pairs below {trial.histogram[0][0]:.2g} are not counted."
    chart = histogram(trial.histogram, trial.threshold, note, of="pairs of texts")
    shown = [border for border in trial.borders if border.threshold == trial.threshold or round(border.threshold * 20) % 2 == 0]
    borders = "".join(_border(border, border.threshold == trial.threshold, compare) for border in shown)
    fits = "no threshold fits" if trial.threshold is None else f"threshold {trial.threshold:.2f}"
    return (
        f'<details class="nd-cluster"{" open" if is_best else ""}><summary><span class="nd-key">{escape(trial.name)}</span> '
        f'<span class="nd-badge">{fits}</span></summary><div class="nd-charts">{chart.figure()}</div>{borders}</details>'
    )


def _border(border: Border, is_open: bool, compare: Compare) -> str:
    counts = f"{border.pairs:,} {'pair reaches' if border.pairs == 1 else 'pairs reach'} it"
    if border.recall is not None:
        counts += f", {_percent(border.recall)} of the known pairs"
    if border.precision is not None:
        counts += f"; {_percent(border.precision)} of them are known"
    if border.removed is not None:
        counts += f"; {border.removed:,} removed"
    above = _examples_html("Just above", border.above, is_open, compare)
    below = _examples_html("Just below", border.below, is_open, compare)
    none = "" if border.above or border.below else '<p class="nd-note">There is no pair on either side.</p>'
    return (
        f'<details class="nd-member"{" open" if is_open else ""}><summary>Threshold {border.threshold:.2f} '
        f'<span class="nd-badge">{counts}</span></summary>{above}{below}{none}</details>'
    )


def _examples_html(name: str, examples: Sequence[Example], every: bool, compare: Compare) -> str:
    shown = "".join(
        f'<p class="nd-note">{name}: <span class="nd-badge">{example.similarity:.4f}</span></p>{_compared(example, compare)}'
        for example in examples[: None if every else 1]
    )
    return f"<div>{shown}</div>"


def _compared(example: Example, compare: Compare) -> str:
    return compare(example.key_a, example.key_b, example.text_a, example.text_b)


def _difference(key_a: Key, key_b: Key, text_a: str, text_b: str) -> str:
    a, b = (text if len(text) <= COMPARED else f"{text[:COMPARED]} […]" for text in (text_a, text_b))
    return difference_html(a, b, label_a=key_a, label_b=key_b, most=CHANGES, longest=LONGEST)
