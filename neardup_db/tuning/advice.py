"""Chooses the best trial and explains the choice."""

from __future__ import annotations

from collections.abc import Sequence

from .measure import SHORT_RULES, Subject
from .results import Border, Trial

USUAL = "words of 3"  # the default rules of an index
AS_GOOD = 0.75  # other rules are advised only if their worth exceeds that of the default rules by a third
FEW = 500  # texts; the advice on fewer is only a hint


DEFAULT = 0.8  # the default threshold of `MinHash` and `neardup dedup`


def advised(trials: Sequence[Trial], on: Subject) -> tuple[Trial | None, str]:
    sample, known = len(on.rows), len(on.known)
    usual = next(trial for trial in trials if trial.name == USUAL)
    fitting = [trial for trial in trials if trial.threshold is not None]
    if not fitting:
        return None, (
            "No rules tell near-duplicates from unlike texts here: copies keep no more after a small change than unlike texts "
            "have in common. Such texts are very short, or made from one template. Compare their fields, or try other text rules."
        )
    best = max(fitting, key=lambda trial: (trial.worth, trial.apart))
    if usual.threshold is not None and not known and usual.worth >= AS_GOOD * best.worth:
        best = usual
    short = next(trial for trial in trials if trial.name == SHORT_RULES)
    is_short = on.is_short and short.threshold is not None
    if is_short:
        best = short
    why = _known_pairs_text(best, usual, known) if known else _short(best) if is_short else _unknown(best, usual)
    parts = [f"Take {_call(best)}.", *why, *_price(best, sample)]
    if best.exact:
        parts.append(f"exact=True compares as measured here; with some {best.shingles:,} shingles a text it is not large.")
    if sample < FEW:
        parts.append(f"Of {sample:,} texts this is a hint only.")
    return best, " ".join(parts)


def _call(trial: Trial) -> str:
    return f"MinHash(threshold={trial.threshold}{', exact=True' if trial.exact else ''}) with text={trial.rules!r}"


def _unknown(best: Trial, usual: Trial) -> list[str]:
    border = best.border
    assert border is not None
    parts = [
        f"Under {best.name} nine in ten copies in which one word in twenty was changed keep a similarity of {best.edited:.2f}, "
        f"and 999 in 1,000 pairs of unlike texts stay below {best.unlike:.2f}."
    ]
    if not border.pairs:
        parts.append(f"No pair of the sample reaches {border.threshold}, between the two: there may be no near-duplicates.")
    elif best.is_valley:
        parts.append(f"{_pairs(border.pairs)} of the sample reach {border.threshold}, and few are near it.")
    else:
        parts.append(
            f"{_pairs(border.pairs)} of the sample reach {border.threshold}, but pairs are spread over all similarities, so no "
            "threshold is natural: review the pairs on either side, and choose a lower one if you regard pairs below it as "
            "duplicates."
        )
    if best is not usual:
        parts.append(f"Under {USUAL}, the usual rules, such copies keep {usual.edited:.2f}, and unlike texts {usual.unlike:.2f}.")
    return parts


def _short(best: Trial) -> list[str]:
    return [
        f"In texts of 5 to 49 words {best.name} at {best.threshold} find 86 to 89 % of the copies of real messages that were "
        f"edited once or twice; 0.7 finds 95 to 97 %. {USUAL.capitalize()}, the usual rules, find 40 to 45 % at 0.8. In lists "
        "of lines on one pattern, such as titles and definitions, no threshold tells copies from other entries: see the "
        "records that would be removed."
    ]


def _price(best: Trial, sample: int) -> list[str]:
    """The effect of deduplication at the advised threshold and, if it differs, at the default."""
    border = best.border
    assert border is not None
    if not border.removed:
        return [f"Deduplication would remove none of the {sample:,} texts compared."]
    parts = [
        f"Deduplication would remove {border.removed:,} of the {sample:,} texts compared, and its largest cluster has "
        f"{border.largest:,}."
    ]
    if best.threshold != DEFAULT:
        usual = next(one for one in best.borders if one.threshold == DEFAULT)
        parts.append(f"At {DEFAULT}, the default, it would remove {usual.removed:,}.{_lower_threshold_reason(best, usual)}")
    return parts


def _lower_threshold_reason(best: Trial, usual: Border) -> str:
    if best.threshold is None or best.threshold > DEFAULT or best.edited >= usual.threshold or best.name != USUAL:
        return ""
    return " The default finds copies with up to 3 % of their words changed; 0.7 finds 5 %, and 0.5 finds 10 %."


def _known_pairs_text(best: Trial, usual: Trial, known: int) -> list[str]:
    parts = [f"Of the rules tried {best.name} agree best with the {known:,} known pairs: {_shares(best)}."]
    if best is not usual:
        parts.append(f"Under {USUAL}, the usual rules, {usual.threshold} is best: {_shares(usual)}.")
    return parts


def _shares(trial: Trial) -> str:
    border = trial.border
    assert border is not None and border.recall is not None
    if border.precision is None:
        return f"no pair reaches {trial.threshold}"
    return f"{border.recall:.1%} of them reach {trial.threshold}, and {border.precision:.1%} of the pairs that do are known"


def _pairs(count: int) -> str:
    return f"{count:,} pair{'' if count == 1 else 's'}"
