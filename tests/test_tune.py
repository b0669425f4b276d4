"""Choosing text rules: the sample, what is measured on it, the advice, and the command."""

from __future__ import annotations

import json
import random
import re
import warnings
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from commands import refused, run
from support import jaccard, shared

import neardup_db
from neardup_db import MinHash, TextRules, Tuning, demo, limits
from neardup_db.cli.wording import in_command_terms
from neardup_db.compute import shingles
from neardup_db.store.ingest.short_texts import TokenCounts
from neardup_db.tuning import RULES
from neardup_db.tuning.measure import GRID, LOWEST, SHOWN, edited, sets_of
from neardup_db.tuning.sample import Sample

ROOT = Path(__file__).resolve().parents[1]
WORDS = ["".join(random.Random(number).choices("abcdefghijklmnopqrstuvwxyz", k=6)) for number in range(2000)]


def text_of(rng: random.Random, count: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(count))


def families(count: int, words: int = 30, seed: int = 1) -> list[tuple[int, str]]:
    """Texts in twos: each second one is the text before with its last word replaced."""
    rng, made = random.Random(seed), []
    for number in range(0, count, 2):
        text = text_of(rng, words)
        made += [(number, text), (number + 1, text.rsplit(" ", 1)[0] + " changed")]
    return made


def short_texts(name: str) -> tuple[list[str], list[tuple[int, int]]]:
    """A set of short texts that people labelled, and its pairs that say the same."""
    texts, says, base, inside = [], [], 0, False
    for number, line in enumerate((ROOT / "benchmarks/short_texts.txt").read_text("utf-8").splitlines()):
        if line.startswith("["):
            inside = line == f"[{name}]"
        elif inside and line and not line.startswith("#"):
            if not line.startswith(("= ", "! ")):
                base = number
            texts.append(re.sub("^[=!] ", "", line))
            says.append(number if line.startswith("! ") else base)
    return texts, [(a, b) for a, b in combinations(range(len(texts)), 2) if says[a] == says[b]]


@pytest.fixture(scope="module")
def tuned() -> Tuning:
    """The rules for the beginnings of chapters of the bundled sample."""
    return neardup_db.tune([" ".join(text.split()[:200]) for _, text in list(demo.documents())[:50]])


# ---- the sample --------------------------------------------------------------------------------------------------------


def sampled(texts: Any, size: int, seed: int = 1, wanted: Any = ()) -> list[int]:
    """The keys of a sample."""
    sample = Sample(size, seed, dict(wanted))
    for key, text in texts:
        sample.add(key, text)
    rows = sample.rows()
    assert sample.count == len(texts)
    return [row.key for row in rows]  # type: ignore[misc]


def test_few_texts_are_all_taken() -> None:
    """Up to its size a sample is all texts with a word, in their order, copies too."""
    texts = [*families(100), *((200 + number, "the same again") for number in range(80)), (300, "!!!")]
    assert sampled(texts, 500) == [key for key, _ in texts[:-1]]


def test_near_duplicates_stay_together() -> None:
    """In a tenth of the texts most have their twin; by chance a tenth would."""
    keys = set(sampled(families(4000), 400))
    together = sum(key ^ 1 in keys for key in keys)
    assert len(keys) == 400 and together > 300


def test_long_and_short_texts_have_the_same_chance() -> None:
    """Though a long text has a smaller smallest hash."""
    rng = random.Random(2)
    keys = sampled([(number, text_of(rng, 200 if number % 2 else 8)) for number in range(3000)], 600)
    assert 240 < sum(key % 2 for key in keys) < 360


def test_of_very_many_copies_some_are_taken() -> None:
    """A thousand equal texts among three thousand neither fill a sample nor are missing in it."""
    others, equal = families(2000), [(5000 + number, "one text of all") for number in range(1000)]
    texts = [one for pair in zip(others[:1000], equal, strict=True) for one in pair]
    for seed in range(5):
        keys = sampled([*texts, *others[1000:]], 300, seed)
        assert len(keys) == 300 and 50 < sum(key >= 5000 for key in keys) < 160


def test_a_sample_follows_its_seed() -> None:
    """The same seed gives the same sample, another one another, however the texts are cut into batches."""
    texts = families(1000)
    first = sampled(texts, 100, 1)
    assert first == sampled(texts, 100, 1) and first != sampled(texts, 100, 2)


def test_long_texts_make_a_sample_smaller(small_limits: None) -> None:
    """The number of texts times their length is bounded, and two texts are always taken."""
    rng = random.Random(3)
    texts = [(number, text_of(rng, 100)) for number in range(50)]
    keys = sampled(texts, 40)
    size = sum(len(text) for key, text in texts if key in keys)
    assert 2 <= len(keys) < 40 and len(keys) * size <= limits.TUNED_WORK and size <= limits.TUNED_BYTES
    assert len(sampled([(number, text_of(rng, 2000)) for number in range(5)], 40)) == 2


def test_wanted_texts_come_first() -> None:
    """Those that are asked for are in the sample, the pairs with the lowest ranks where not all fit."""
    texts = families(1000)
    wanted = {900: -2, 7: -2, 500: -1, 501: -1}
    assert set(wanted) <= set(sampled(texts, 10, wanted=wanted.items()))
    assert set(sampled(texts, 2, wanted=wanted.items())) == {900, 7}


# ---- what is measured ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("with_truth", "tiny"), [(False, False), (True, True)])
def test_pairs_are_those_of_brute_force(with_truth: bool, tiny: bool, request: pytest.FixtureRequest) -> None:
    """Bars, counts, recall and precision of all rules are those of comparing each text with each other one."""
    if tiny:
        request.getfixturevalue("small_limits")
        request.getfixturevalue("monkeypatch").setattr(limits, "TUNED_WORK", 10**9)
        request.getfixturevalue("monkeypatch").setattr(limits, "TUNED_BYTES", 10**9)
    rng = random.Random(7)
    texts = [text_of(rng, rng.randrange(1, 12)) for _ in range(15)]
    texts += [" ".join(rng.sample(text.split(), len(text.split()) - 1) or ["x"]) for text in texts] + texts[:2]
    truth = [(rng.randrange(10), rng.randrange(15, 32)) for _ in range(12)] if with_truth else None
    result = neardup_db.tune(texts, truth=truth)
    for trial in result.trials:
        sets = [set(shingles(text, trial.rules)) for text in texts]
        similar = {(a, b): jaccard(sets[a], sets[b]) for a, b in combinations(range(len(texts)), 2)}
        known = [similar[pair] for pair in set(truth or ())]
        assert sum(count for _, _, count in trial.histogram) == sum(one >= LOWEST for one in similar.values())
        assert [border.threshold for border in trial.borders] == list(GRID)
        for border in trial.borders:
            reach = sum(one >= border.threshold for one in similar.values())
            found = sum(one >= border.threshold for one in known)
            assert border.pairs == reach
            assert border.recall == (found / len(known) if known else None)
            assert border.precision == (found / reach if known and reach else None)
            for example in (*border.above, *border.below):
                assert example.similarity == similar[example.key_a, example.key_b]  # type: ignore[index]
                assert (example.text_a, example.text_b) == (texts[example.key_a], texts[example.key_b])  # type: ignore[index]
            above = sorted(one for one in similar.values() if one >= border.threshold)
            below = sorted(one for one in similar.values() if LOWEST <= one < border.threshold)
            assert [one.similarity for one in border.above[:1]] == above[:1]
            assert [one.similarity for one in border.below[:1]] == below[-1:]


def test_removed_records_are_those_of_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of plain Python, however the pairs are cut: in order, a record stays unless it matches one that stays.

    Thresholds with a pair just above them are left out: tables may miss one in a hundred there."""
    monkeypatch.setattr(limits, "PAIRS_WANTED", 20)
    rng, texts = random.Random(3), []
    for _ in range(40):
        words = text_of(rng, 20).split()
        for _ in range(rng.randrange(1, 5)):
            texts.append(" ".join(words))
            words[rng.randrange(20)] = rng.choice(WORDS)
    compared = 0
    for trial in neardup_db.tune(texts).trials:
        sets = [set(shingles(text, trial.rules)) for text in texts]
        common = shared(sets)
        similar = {
            (a, b): common[a, b] / (len(sets[a]) + len(sets[b]) - common[a, b]) for a, b in combinations(range(len(texts)), 2)
        }
        for border in trial.borders:
            if border.threshold < 0.5 and border.threshold != trial.threshold:
                assert (border.removed, border.largest, border.samples) == (None, None, ())
            elif not any(border.threshold <= one < border.threshold + 0.04 for one in similar.values()):
                removed = greedy(len(texts), similar, border.threshold)
                assert border.removed == len(removed)
                assert border.largest == 1 + max(Counter(removed.values()).values(), default=0)
                for example in border.samples:
                    assert removed[example.key_b] == example.key_a  # type: ignore[index]
                    assert example.similarity == similar[example.key_a, example.key_b]  # type: ignore[index]
                    assert (example.text_a, example.text_b) == (texts[example.key_a], texts[example.key_b])  # type: ignore[index]
                assert len(border.samples) == min(5, len(removed))
                compared += bool(removed)
    assert compared > 20


def greedy(count: int, similar: dict[tuple[int, int], float], threshold: float) -> dict[int, int]:
    """Of each record that goes the most similar one that stays, the earliest of several."""
    removed: dict[int, int] = {}
    for row in range(count):
        staying = [(similar[other, row], -other) for other in range(row) if other not in removed]
        best, other = max(staying, default=(0.0, 0))
        if best >= threshold:
            removed[row] = -other
    return removed


def test_examples_are_of_different_texts(tuned: Tuning) -> None:
    """Three pairs on a side at most, the nearest first, no text twice on a side."""
    for border in (border for trial in tuned.trials for border in trial.borders):
        for side in (border.above, border.below):
            keys = [key for example in side for key in (example.key_a, example.key_b)]
            assert len(side) <= SHOWN and len(set(keys)) == len(keys)
        distances = [example.similarity - border.threshold for example in border.above]
        assert distances == sorted(distances) and all(distance >= 0 for distance in distances)
        assert all(example.similarity < border.threshold for example in border.below)


def test_sets_are_whole() -> None:
    """Every shingle counts, of a text with a hundred thousand of them too."""
    text = " ".join(f"w{number}" for number in range(100_000))
    assert list(map(len, sets_of([text, "", "one two"], TextRules.words(shingle=1)))) == [100_000, 0, 2]


@pytest.mark.parametrize("words", [1, 5, 9, 10, 19, 29, 31, 100])
def test_edited_copies(words: int) -> None:
    """One word in twenty differs, one at least; of fewer than ten words, and without spaces, one letter in twenty."""
    rng = random.Random(words)
    for _ in range(20):
        text, other = text_of(rng, words), text_of(rng, 50)
        copy = edited(text, other, rng)
        if words >= 10:
            a, b, parts = text.split(), copy.split(), words
            assert len(a) == len(b)
            assert sum(x != y for x, y in zip(a, b, strict=True)) == max(1, round(parts / 20))
        else:
            assert copy != text and abs(len(copy) - len(text)) <= max(1, round(len(text) / 20))
    chinese = "我們昨天坐火車去海邊看見很多人在沙灘上曬太陽然後去吃了魚和冰淇淋"
    copy = edited(chinese, "別的一些文字", rng)
    assert copy != chinese and len(copy) - len(chinese) <= 2


def test_unlike_texts_and_copies_are_apart(tuned: Tuning) -> None:
    """Of real prose edited copies are above unlike texts under every rule, longer shingles lower both, an index is small."""
    for trial in tuned.trials:
        assert 0 < trial.unlike < trial.edited < 1
        assert 100 < trial.size_bytes < 5000 and trial.microseconds > 0 and len(trial.bars) == len(trial.histogram)
    for kind in ("words", "characters"):
        of_kind = [trial for trial in tuned.trials if trial.name.startswith(kind)]
        assert [trial.unlike for trial in of_kind] == sorted((trial.unlike for trial in of_kind), reverse=True)
        assert [trial.edited for trial in of_kind] == sorted((trial.edited for trial in of_kind), reverse=True)


# ---- the advice --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["posts", "products", "headlines", "names"])
def test_short_texts_are_advised_rules_that_return_no_unlike_texts(name: str) -> None:
    """Without the labels the advice is characters of 3, at 0.8 except for names, and all it finds is labelled the same."""
    texts, same = short_texts(name)
    result = neardup_db.tune(texts)
    assert result.best is not None and result.best.name == "characters of 3"
    best = result.best
    assert best.threshold == (0.65 if name == "names" else 0.8)
    sets = [set(shingles(text, best.rules)) for text in texts]
    every = combinations(range(len(texts)), 2)
    found = [(a, b) for a, b in every if jaccard(sets[a], sets[b]) >= (best.threshold or 0)]
    right = len({*found} & {*same})
    assert right / len(same) > 0.45 and right / len(found) == 1
    assert f"threshold={best.threshold}" in result.advice and "exact=True" in result.advice and "a hint only" in result.advice


def test_pages_warning_and_tune_advise_the_same_for_short_texts() -> None:
    """README, docs/reference/texts.md, the warning (in Python and the shell) and tune name the same rules and threshold."""
    best = neardup_db.tune(short_texts("posts")[0]).best
    assert best is not None and (best.rules, best.threshold) == (TextRules.chars(shingle=3), 0.8)
    call = "TextRules.chars(shingle=3)"
    readme = (ROOT / "README.md").read_text("utf-8")
    assert re.search(r"under 50 words \| `MinHash\(threshold=0\.8, exact=True\)` \| `" + re.escape(call), readme)
    assert f"MinHash(exact=True), text={call})" in readme and MinHash().threshold == 0.8
    page = (ROOT / "docs/reference/texts.md").read_text("utf-8")
    assert f"- **Tweets, messages, headlines, titles: `{call}` and the usual threshold, 0.8.**" in page
    assert f"MinHash(threshold=0.8, exact=True), text={call}" in page
    counts = TokenCounts()
    counts.count_batch([5] * 20, TextRules())
    warning = counts.warning(3)
    assert warning is not None and f"take {call} and a threshold of 0.8" in warning
    assert "give --tokens chars --shingle 3 --threshold 0.8" in in_command_terms(warning)


WORDS_CHANGED = {0.01: 0.94, 0.02: 0.89, 0.03: 0.84, 0.05: 0.75, 0.10: 0.58}
"""Typical similarity of texts of 200 words by the share of words changed, as README and docs/reference/texts.md give it."""


def test_how_many_words_may_differ() -> None:
    """The table of docs/reference/texts.md holds for the bundled sample, under the default rules."""
    rng, page = random.Random(11), (ROOT / "docs/reference/texts.md").read_text("utf-8")
    originals = [words for _, text in list(demo.documents())[:80] if len(words := text.split()[:200]) == 200]
    sets = [set(shingles(" ".join(words), TextRules())) for words in originals]
    assert len(sets) > 50
    for share, usual in WORDS_CHANGED.items():
        found = []
        for words, whole in zip(originals, sets, strict=True):
            copy = list(words)
            for place in rng.sample(range(200), round(share * 200)):
                copy[place] = rng.choice(WORDS)
            found.append(jaccard(whole, set(shingles(" ".join(copy), TextRules()))))
        assert abs(sorted(found)[len(found) // 2] - usual) < 0.02
        recall = {threshold: sum(one >= threshold for one in found) / len(found) for threshold in (0.8, 0.7, 0.5)}
        assert recall[0.5] > 0.95 and (recall[0.7] > 0.95) == (share <= 0.05) and (recall[0.8] > 0.95) == (share <= 0.03)
        assert recall[0.8] < 0.1 or share <= 0.03
        assert f"| 200 | {share * 100:.0f} % | {usual:.2f} |" in page


def test_prose_is_advised_the_usual_rules(tuned: Tuning) -> None:
    """Long texts keep the rules of every index, unless others are worth a third more."""
    assert tuned.best is not None and tuned.best.name in ("words of 2", "words of 3")
    usual = tuned.trials[2]
    assert tuned.best is usual or tuned.best.worth > usual.worth * 4 / 3


def test_a_truth_is_found_again() -> None:
    """Where the known pairs are those of some rules and threshold, these are advised, with full recall and precision."""
    texts = list(demo.documents())[:40]
    rules = RULES["words of 2"]
    sets = {key: set(shingles(text, rules)) for key, text in texts}
    truth = [(a, b) for a, b in combinations(sets, 2) if jaccard(sets[a], sets[b]) >= 0.6]
    result = neardup_db.tune(texts, truth=truth)
    assert result.known == len(truth) > 10 and result.best is not None
    border = result.best.border
    assert border is not None and (border.recall, border.precision) == (1.0, 1.0)
    named = next(trial for trial in result.trials if trial.name == "words of 2")
    assert named.border is not None and named.border.precision == 1.0 and named.border.recall == 1.0
    assert "known pairs" in result.advice and "recall" in str(result)


def test_a_truth_of_more_texts_than_the_sample() -> None:
    """Its texts come first, and all its pairs among the texts of the sample count."""
    texts = families(1000)
    result = neardup_db.tune(texts, truth=[(number, number + 1) for number in range(0, 1000, 2)], sample=100)
    assert result.sample == 100 and 25 <= result.known <= 50
    assert result.best is not None and result.best.border is not None
    assert (result.best.border.recall, result.best.border.precision) == (1.0, 1.0)


def test_texts_that_no_rules_tell_apart(tmp_path: Path) -> None:
    """Where unlike texts are as alike as edited copies, it is said, and nothing is advised; the command ends with 1."""
    texts = [f"Order {number} left" for number in range(100, 160)]
    result = neardup_db.tune(texts)
    assert result.best is None and result.advice.startswith("No rules tell")
    assert "No rules" in result.html()
    (tmp_path / "orders.txt").write_text("\n".join(texts), "utf-8")
    done = run("tune", tmp_path / "orders.txt")
    assert done.exit_code == 1 and "No rules tell near-duplicates" in done.stdout


def test_texts_without_near_duplicates() -> None:
    """A threshold between copies and unlike texts is given all the same, and it is said that no pair reaches it."""
    rng = random.Random(5)
    result = neardup_db.tune(text_of(rng, 60) for _ in range(60))
    assert result.best is not None and result.best.border is not None and result.best.border.pairs == 0
    assert "there may be no near-duplicates" in result.advice


# ---- arguments ---------------------------------------------------------------------------------------------------------


def test_the_same_texts_give_the_same_result() -> None:
    """All but what was timed; keys are numbers unless given; str, bytes and pairs do."""
    texts = families(30)
    first, second = neardup_db.tune(text for _, text in texts), neardup_db.tune([[key, text.encode()] for key, text in texts])  # type: ignore[misc]
    assert first.advice == second.advice and first.best is not None
    assert [trial.borders for trial in first.trials] == [trial.borders for trial in second.trials]


def test_empty_texts_are_counted() -> None:
    """They are left out of the sample, and no warning of short texts is given. Words are those of the rules, in any script."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = neardup_db.tune(["", "!!!", *(text for _, text in families(40, words=6))])
    assert (result.texts, result.empty, result.sample, result.words) == (42, 2, 40, 6)
    assert neardup_db.tune(["我們昨天坐火車去海邊", "我們昨天坐火車去山上"]).words == 10


def test_progress_is_told() -> None:
    """With the number of texts read, each thousand."""
    told: list[int] = []
    neardup_db.tune([text for _, text in families(2500, words=5)], sample=20, progress=told.append)
    assert told == [1000, 2000]


# ---- what a person sees ------------------------------------------------------------------------------------------------


def test_the_table_and_the_page(tuned: Tuning) -> None:
    """Every rule has its line and its part of the page, which runs nothing."""
    told = str(tuned)
    assert all(name in told for name in RULES) and tuned.advice in told and "recall" not in told
    html = tuned.html("For my <texts>")
    assert "<script" not in html and "For my &lt;texts&gt;" in html
    assert html.count('<details class="nd-cluster"') == len(RULES) and html.count('<details class="nd-cluster" open>') == 1
    assert html.count("<svg") == len(RULES) and "<del>" in html
    assert "<table" in tuned._repr_html_() and "<svg" not in tuned._repr_html_()


def test_texts_and_keys_are_never_markup() -> None:
    """What texts and keys hold is shown, not run."""
    hostile = "<script>alert(1)</script> & <img src=x>"
    texts = [(f"{hostile}{key}", f"{text} {hostile}") for key, text in families(20, words=8)]
    html = neardup_db.tune(texts).html(hostile)
    assert "<script" not in html and "<img" not in html and "&lt;script&gt;" in html


@pytest.fixture
def posts(tmp_path: Path) -> Path:
    texts, _ = short_texts("posts")
    path = tmp_path / "posts.jsonl"
    path.write_text("".join(json.dumps({"id": f"p{number}", "text": text}) + "\n" for number, text in enumerate(texts)), "utf-8")
    return path


def test_the_command(posts: Path, tmp_path: Path) -> None:
    """Prints the table, the advice, and pairs with what differs in them; --html writes the page, once."""
    page = tmp_path / "rules.html"
    done = run("tune", posts, "--html", page)
    assert done.exit_code == 0 and f"wrote {page}" in done.stderr
    assert "characters of 7" in done.stdout and "Take MinHash(threshold=" in done.stdout and "[-quit-] {+call+}" in done.stdout
    assert "Pairs under characters of 3:" in done.stdout
    assert re.search(r"under characters of 3 at 0\.80 would remove \d+ of 82 texts; the largest cluster has \d", done.stdout)
    assert "  removed  0.8" in done.stdout and "What deduplication would remove" in page.read_text("utf-8")
    options = re.search("Options of neardup dedup: (.*); of neardup add the same and --exact", done.stdout)
    assert options is not None and run("dedup", posts, "-o", tmp_path / "unique.jsonl", *options[1].split()).exit_code == 0
    assert "Text rules for " in page.read_text("utf-8")
    assert "exists already" in refused("tune", posts, "--html", page)
    assert "is the input" in refused("tune", posts, "--html", posts, "--force")
    assert "name a file for the page" in refused("tune", posts, "--html", "-", "--json")
    few = tmp_path / "few.jsonl"
    few.write_text("".join(posts.read_text("utf-8").splitlines(keepends=True)[:9]), "utf-8")
    assert run("tune", few, "--html", "-").stdout.startswith("<!doctype html>")


def test_the_command_for_machines(posts: Path, tmp_path: Path) -> None:
    """--json has all figures and the keys of the pairs, no text; --truth gives recall and precision."""
    _, same = short_texts("posts")
    truth = tmp_path / "truth.csv"
    truth.write_text("id_a,id_b\n" + "".join(f"p{a},p{b}\n" for a, b in same), "utf-8")
    told = json.loads(run("tune", posts, "--json", "--truth", truth).stdout)
    assert (told["texts"], told["sample"], told["known"], len(told["trials"])) == (82, 82, len(same), len(RULES))
    trial = next(one for one in told["trials"] if one["name"] == told["best"])
    border = next(one for one in trial["borders"] if one["threshold"] == trial["threshold"])
    assert border["recall"] > 0.95 and border["precision"] > 0.95 and trial["rules"]["tokens"] == "chars"
    assert set(border["above"][0]) == {"key_a", "key_b", "similarity"}
    assert border["removed"] > 20 and border["largest"] >= 2
    assert [set(one) for one in border["samples"]] == [{"key_a", "key_b", "similarity"}] * 5


@pytest.mark.parametrize(("kind", "first_id"), [("jsonl", 0), ("csv", 0), ("jsonl", "p0"), ("tsv", None)])
def test_a_truth_as_dedup_writes_it(kind: str, first_id: int | str | None, tmp_path: Path) -> None:
    """What `dedup --pairs` wrote is a truth, whether the ids are integers, text, or file and line."""
    path, truth = tmp_path / "posts.jsonl", tmp_path / f"pairs.{kind}"
    texts = short_texts("posts")[0][:40]
    ids = [{} if first_id is None else {"id": n if first_id == 0 else f"p{n}"} for n in range(len(texts))]
    path.write_text("".join(json.dumps({**one, "text": text}) + "\n" for one, text in zip(ids, texts, strict=True)), "utf-8")
    assert run("dedup", path, "-o", tmp_path / "unique.jsonl", "--pairs", truth, "--threshold", 0.6).exit_code == 0
    written = len(truth.read_text("utf-8").splitlines()) - (kind != "jsonl")
    told = json.loads(run("tune", path, "--json", "--truth", truth).stdout)
    assert told["known"] == written > 5
