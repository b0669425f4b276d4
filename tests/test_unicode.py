"""The Unicode part of the C core against the files of the Unicode Character Database and against unicodedata2.

The files are those of Debian's package unicode-data 15.0.0. They are read here by a parser of its own, from the derived files
where there are some, so that a mistake of the generator of the tables is not repeated.
"""

from __future__ import annotations

import itertools
import random
import shutil
import subprocess
import sys
from array import array
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import unicodedata2
from hypothesis import given, settings
from hypothesis import strategies as st
from text_oracle import break_letters, graphemes, ignorables
from ucd import read_lines, read_property, read_set, to_text, ucd_folder

from neardup_db.native import ffi, lib, tokenize, tokens_of

SOURCES = Path(__file__).resolve().parents[1] / "csrc" / "text"
CODE_POINTS = range(0x110000)
FORMS = {"NFC": lib.ND_NORMALIZE_NFC, "NFKC": lib.ND_NORMALIZE_NFKC, "NFD": lib.ND_NORMALIZE_NFD, "NFKD": lib.ND_NORMALIZE_NFKD}


# ---- the database, read independently ---------------------------------------------------------------------------------


@cache
def combining_classes() -> dict[int, int]:
    """Those that are not 0."""
    values = read_property("extracted/DerivedCombiningClass.txt")
    return {code_point: int(value) for code_point, value in values.items() if value != "0"}


@cache
def decompositions(compatible: bool) -> dict[int, str]:
    """Full decompositions by UnicodeData.txt, Hangul not included."""
    steps = {}
    for fields in read_lines("UnicodeData.txt"):
        if fields[5] and (compatible or not fields[5].startswith("<")):
            steps[int(fields[0], 16)] = to_text(fields[5].rpartition(">")[2])
    full = dict(steps)
    while True:
        further = {code: "".join(steps.get(ord(part), part) for part in text) for code, text in full.items()}
        if further == full:
            return full
        full = further


def hangul_decomposition(code_point: int) -> str:
    """By section 3.12 of the standard."""
    lead, rest = divmod(code_point - 0xAC00, 21 * 28)
    vowel, trail = divmod(rest, 28)
    return chr(0x1100 + lead) + chr(0x1161 + vowel) + (chr(0x11A7 + trail) if trail else "")


# ---- the functions under test, on Python values --------------------------------------------------------------------------


def encode(text: str | Sequence[int]) -> bytes:
    """Code points as C has them."""
    return text.encode(f"utf-32-{sys.byteorder[0]}e", "surrogatepass") if isinstance(text, str) else array("I", text).tobytes()


def normalize_into(form: int, code_points: bytes, capacity: int) -> tuple[int, int, bytes, bool]:
    """Status, count, output and whether what follows the capacity was left alone."""
    beyond = b"\xcd\xab\xcd\xab" * 8
    out = bytearray(4 * capacity) + beyond
    needed = ffi.new("size_t *")
    source, target = ffi.from_buffer("uint32_t[]", code_points), ffi.from_buffer("uint32_t[]", out)
    status = lib.nd_unicode_normalize(form, source, len(code_points) // 4, target, capacity, needed)
    return status, needed[0], bytes(out[: 4 * min(needed[0], capacity)]), out[4 * capacity :] == beyond


def normalize(form: str, text: str | Sequence[int]) -> bytes:
    """The normal form; room is made as the function asks for it."""
    code_points = encode(text)
    count = len(code_points) // 4
    status, needed, result, clean = normalize_into(FORMS[form], code_points, count)
    if status == lib.ND_ERROR_CAPACITY:
        assert needed > count
        status, needed, result, clean = normalize_into(FORMS[form], code_points, needed)
    assert status == lib.ND_OK
    assert clean
    assert 4 * needed == len(result)
    return result


def mapping_differences(got: dict[int, str], expected: dict[int, str]) -> list[str]:
    """The first differences, readable."""
    different = [code for code in got.keys() | expected.keys() if got.get(code) != expected.get(code)]
    return [f"U+{code:04X}: {got.get(code)!r} instead of {expected.get(code)!r}" for code in sorted(different)[:10]]


@cache
def properties() -> list[int]:
    return list(map(lib.nd_unicode_properties, CODE_POINTS))


def differences(got: Sequence[int], expected: Sequence[int]) -> list[str]:
    assert len(got) == len(expected) == len(CODE_POINTS)
    found = [] if got == expected else [code for code in CODE_POINTS if got[code] != expected[code]]
    return [f"U+{code:04X}: {got[code]} instead of {expected[code]}" for code in found[:10]]


# ---- properties of every code point ------------------------------------------------------------------------------------


def test_version_is_that_of_the_database() -> None:
    """The tables come from release 15.0.0, which is also the oracle's."""
    assert ffi.string(lib.nd_unicode_version()) == b"15.0.0"
    assert unicodedata2.unidata_version == "15.0.0"


def test_generated_tables_are_up_to_date(tmp_path: Path) -> None:
    """The generator, run again, gives the checked-in files to the byte."""
    folder = tmp_path / "text"
    folder.mkdir()
    shutil.copyfile(SOURCES / "generate_unicode.py", folder / "generate_unicode.py")
    for name in ("neardup_abi.h", "neardup_testing.h"):
        shutil.copyfile(SOURCES.parent / name, tmp_path / name)
    subprocess.run([sys.executable, folder / "generate_unicode.py", "--ucd", ucd_folder()], check=True)
    for name in ("unicode_data.c", "unicode_data.h"):
        assert (folder / name).read_bytes() == (SOURCES / name).read_bytes()


def expected_flags() -> list[int]:
    categories = read_property("extracted/DerivedGeneralCategory.txt")
    classes = combining_classes()
    flags = [0] * len(CODE_POINTS)
    of_category = {"L": lib.ND_CP_LETTER, "N": lib.ND_CP_NUMBER, "M": lib.ND_CP_MARK}
    for code, category in categories.items():
        if category[0] in of_category:
            flags[code] |= of_category[category[0]]
        if category == "Mn" and (10 <= classes.get(code, 0) <= 36 or classes.get(code, 0) >= 200):
            flags[code] |= lib.ND_CP_ACCENT
    long_names = {short: name for kind, short, name, *_ in read_lines("PropertyValueAliases.txt") if kind == "sc"}
    unspaced = {"Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar"}
    extensions = read_property("ScriptExtensions.txt")
    for code, script in read_property("Scripts.txt").items():
        scripts = {long_names[short] for short in extensions[code].split()} if code in extensions else {script}
        if scripts & unspaced:
            flags[code] |= lib.ND_CP_UNSPACED
    pictographs = read_set("emoji/emoji-data.txt", "Extended_Pictographic") | read_set("PropList.txt", "Regional_Indicator")
    for code in pictographs:
        flags[code] |= lib.ND_CP_PICTOGRAPH
    for code in read_set("DerivedCoreProperties.txt", "Default_Ignorable_Code_Point"):
        flags[code] |= lib.ND_CP_IGNORABLE
    return flags


def test_flags_of_every_code_point() -> None:
    """Letters, numbers, marks, scripts without spaces, pictographs, ignorables and accents are those of the database."""
    assert differences([value & 255 for value in properties()], expected_flags()) == []


def break_name(value: str) -> str:
    """ND_GCB_ name of a value of Grapheme_Cluster_Break."""
    return {"SpacingMark": "SPACING_MARK"}.get(value, value.upper())


def expected_breaks() -> list[int]:
    values = read_property("auxiliary/GraphemeBreakProperty.txt")
    numbers = {value: getattr(lib, f"ND_GCB_{break_name(value)}") for value in {"Other", *values.values()}}
    return [numbers[values.get(code, "Other")] for code in CODE_POINTS]


def test_grapheme_break_of_every_code_point() -> None:
    """Grapheme_Cluster_Break is that of the database."""
    assert differences([value >> 8 & 255 for value in properties()], expected_breaks()) == []


def test_combining_class_of_every_code_point() -> None:
    """Canonical_Combining_Class is that of the database."""
    classes = combining_classes()
    expected = [classes.get(code, 0) for code in CODE_POINTS]
    assert differences([value >> 16 for value in properties()], expected) == []


# ---- mappings of every code point ----------------------------------------------------------------------------------------


def mappings(function: Any, choice: int) -> dict[int, str]:
    """Those that change something."""
    out = ffi.new("uint32_t[18]")
    found = {}
    for code in CODE_POINTS:
        count = function(choice, code, out)
        if count != 1 or out[0] != code:
            found[code] = "".join(map(chr, out[0:count]))
    return found


def test_lower_case_of_every_code_point() -> None:
    """Lower case is UnicodeData.txt with the unconditional entries of SpecialCasing.txt: no context, no locale."""
    expected = {int(fields[0], 16): to_text(fields[13]) for fields in read_lines("UnicodeData.txt") if fields[13]}
    for code, lower, _title, _upper, *conditions in read_lines("SpecialCasing.txt"):
        if conditions == [""]:
            expected[int(code, 16)] = to_text(lower)
    expected = {code: text for code, text in expected.items() if text != chr(code)}
    assert expected[0x130] == "i\u0307"
    assert expected[0x3A3] == "σ"
    assert mapping_differences(mappings(lib.nd_unicode_case, lib.ND_CASE_LOWER), expected) == []


def test_folding_of_every_code_point() -> None:
    """Case folding is CaseFolding.txt, status C and F."""
    lines = read_lines("CaseFolding.txt")
    expected = {int(code, 16): to_text(target) for code, status, target, *_ in lines if status in ("C", "F")}
    assert expected[0xDF] == "ss"
    assert expected[0xFB03] == "ffi"
    assert mapping_differences(mappings(lib.nd_unicode_case, lib.ND_CASE_FOLD), expected) == []


@pytest.mark.parametrize("compatible", [False, True])
def test_decomposition_of_every_code_point(compatible: bool) -> None:
    """Full decompositions are UnicodeData.txt followed to the end, and Hangul by rule."""
    expected = decompositions(compatible) | {code: hangul_decomposition(code) for code in range(0xAC00, 0xD7A4)}
    assert mapping_differences(mappings(lib.nd_unicode_decompose, compatible), expected) == []


@cache
def canonical_steps() -> dict[int, str]:
    """One-step canonical decompositions as they are written in the file."""
    lines = read_lines("UnicodeData.txt")
    return {int(fields[0], 16): fields[5] for fields in lines if fields[5] and not fields[5].startswith("<")}


def test_compositions_are_exactly_the_primary_composites() -> None:
    """Of all pairs of a first and a second part only those of a composite that is not excluded compose, and to it."""
    excluded = {int(code, 16) for code, *_ in read_lines("CompositionExclusions.txt")}
    classes = combining_classes()
    pairs = {}
    for code, text in canonical_steps().items():
        parts = tuple(int(part, 16) for part in text.split())
        if len(parts) == 2 and code not in excluded and not classes.get(code, 0) and not classes.get(parts[0], 0):
            pairs[parts] = code
    firsts = sorted({int(text.split()[0], 16) for text in canonical_steps().values()})
    seconds = sorted({int(text.split()[1], 16) for text in canonical_steps().values() if " " in text})
    assert {pair: lib.nd_unicode_compose(*pair) for pair in pairs} == pairs
    wrong = [
        (hex(first), hex(second))
        for first in firsts
        for second in seconds
        if lib.nd_unicode_compose(first, second) != pairs.get((first, second), 0)
    ]
    assert wrong == []
    assert len(pairs) == 941


def test_values_above_the_last_code_point() -> None:
    """A value above U+10FFFF has no property, maps to itself and passes every normal form."""
    out = ffi.new("uint32_t[18]")
    for code in (0x110000, 0x110041, 0x1FFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF):
        assert lib.nd_unicode_properties(code) == 0, hex(code)
        for function in (lib.nd_unicode_case, lib.nd_unicode_decompose):
            for choice in (0, 1, 2):
                assert (function(choice, code, out), out[0]) == (1, code)
        assert lib.nd_unicode_compose(code, 0x301) == lib.nd_unicode_compose(0x41, code) == 0, hex(code)
        for form in FORMS:
            assert normalize(form, [0x65, code, 0x301, 0x327, code]) == encode([0x65, code, 0x327, 0x301, code])


# ---- normal forms --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_normal_form_of_every_code_point(form: str) -> None:
    """Every code point, surrogates and unassigned ones included, has the normal form that unicodedata2 gives."""
    for start in range(0, len(CODE_POINTS), 0x4000):
        text = "\n".join(map(chr, range(start, start + 0x4000)))
        got, expected = normalize(form, text), unicodedata2.normalize(form, text)
        if got != encode(expected):
            lines = zip("".join(map(chr, array("I", got))).split("\n"), expected.split("\n"), strict=True)
            assert [line for line in lines if line[0] != line[1]] == [], f"from U+{start:04X}"


def test_normalization_test_file() -> None:
    """The conformance test of the database, every line and every relation that it demands."""
    lines = [fields[:5] for fields in read_lines("NormalizationTest.txt.bz2") if not fields[0].startswith("@")]
    assert len(lines) > 19_000
    columns = ["\n".join(map(to_text, column)) for column in zip(*lines, strict=True)]  # nothing is composed across a line
    _, nfc, nfd, nfkc, nfkd = map(encode, columns)
    for number, text in enumerate(columns):
        assert (normalize("NFC", text), normalize("NFD", text)) == ((nfc, nfd) if number < 3 else (nfkc, nfkd))
        assert (normalize("NFKC", text), normalize("NFKD", text)) == (nfkc, nfkd)


@cache
def interesting() -> dict[str, list[str]]:
    """Characters with which normalisation can go wrong, by kind."""
    steps = canonical_steps()
    seconds = {text.split()[1] for text in steps.values() if " " in text}
    firsts = {text.split()[0] for text in steps.values() if " " in text}
    return {
        "marks": [*map(chr, combining_classes())],
        "common marks": list("\u0300\u0301\u0302\u0304\u0306\u0307\u0308\u030a\u031b\u0323\u0327\u0328\u0345\u0f71\u0f72\u3099"),
        "jamo": [chr(code) for code in (0x1100, 0x1112, 0x1113, 0x1160, 0x1161, 0x1175, 0x1176, 0x11A7, 0x11A8, 0x11C2, 0x11C3)],
        "syllables": list("\uac00\uac01\uac1b\uac1c\ud788\ud7a3"),
        "excluded": [chr(int(fields[0], 16)) for fields in read_lines("CompositionExclusions.txt")],
        "singletons": [chr(code) for code, text in steps.items() if " " not in text],
        "composites": [chr(code) for code, text in steps.items() if " " in text],
        "firsts": sorted(map(to_text, firsts)),
        "seconds": sorted(map(to_text, seconds)),
        "compatible": [chr(code) for code in decompositions(True) if code not in steps],
        "plain": list("aez \n\0漢あя\ud800\udfff\U0010ffff\ufffd"),
    }


@st.composite
def difficult_texts(draw: st.DrawFn, max_size: int = 60) -> str:
    character = st.one_of([st.sampled_from(kind) for kind in interesting().values()])
    return "".join(draw(st.lists(character, max_size=max_size)))


def test_normal_forms_of_difficult_texts(more_rounds: bool) -> None:
    """Any sequence of marks, jamo, exclusions, singletons and compatibility characters normalises as in unicodedata2."""

    @settings(max_examples=660 if more_rounds else 30, deadline=None)
    @given(data=st.data())
    def holds(data: st.DataObject) -> None:
        text = data.draw(difficult_texts())
        for form in FORMS:
            assert normalize(form, text) == encode(unicodedata2.normalize(form, text))

    holds()


def test_capacity_is_respected(more_rounds: bool) -> None:
    """With any capacity the result is right or ND_ERROR_CAPACITY with a count that is enough; nothing is written beyond."""

    @settings(max_examples=350 if more_rounds else 20, deadline=None)
    @given(data=st.data())
    def holds(data: st.DataObject) -> None:
        text = data.draw(difficult_texts(max_size=20))
        form = data.draw(st.sampled_from(sorted(FORMS)))
        capacity = data.draw(st.integers(0, 40))
        expected = encode(unicodedata2.normalize(form, text))
        status, count, result, clean = normalize_into(FORMS[form], encode(text), capacity)
        assert clean
        if status == lib.ND_OK:
            assert (4 * count, result) == (len(expected), expected)
        else:
            assert status == lib.ND_ERROR_CAPACITY
            assert count > capacity
            if form in ("NFD", "NFKD"):
                assert 4 * count == len(expected)
            assert normalize_into(FORMS[form], encode(text), count) == (lib.ND_OK, len(expected) // 4, expected, True)

    holds()


def test_runs_of_marks_of_any_length() -> None:
    """A run of marks of mixed classes is sorted stably by class, short or 100,000 long, after a letter or at the start.

    unicodedata2 needs quadratic time for such a run, so it is given the run in order; the order itself comes from sorted().
    """
    kinds = interesting()
    every = kinds["marks"] + 50 * kinds["common marks"] + 20 * ["\u0344", "\u0f73", "\u0f81"]
    for count in (1, 2, 31, 32, 33, 34, 64, 65, 100_000):
        marks = random.Random(count).choices(every, k=count)
        ordered = "".join(sorted("".join(unicodedata2.normalize("NFD", mark) for mark in marks), key=unicodedata2.combining))
        around = [("", "")] if count > 100 else itertools.product(("", "e", "क", "각", "ﷺ"), ("", "e", "\u1161"))
        for before, after in around:
            for form in FORMS:
                expected = unicodedata2.normalize(form, before + ordered + after)
                assert normalize(form, before + "".join(marks) + after) == encode(expected), (count, before, form)


# ---- grapheme clusters -----------------------------------------------------------------------------------------------------


@cache
def cluster_rules() -> Any:
    """Text rules whose tokens are the grapheme clusters of a text that is left as it is."""
    spec = ffi.new("nd_rules_spec *", {"tokens": lib.ND_TOKENS_CHARS, "nonword": lib.ND_NONWORD_KEEP, "shingle": 1})
    out = ffi.new("nd_rules **")
    assert lib.nd_rules_new(spec, out) == lib.ND_OK
    return ffi.gc(out[0], lib.nd_rules_free)


def clusters(text: str) -> list[str]:
    """The tokens of a text without default-ignorable code points, which the rules would drop."""
    assert ignorables().keys().isdisjoint(map(ord, text))
    return [token.decode() for token in tokens_of(tokenize(cluster_rules(), text.encode()))]


def test_grapheme_break_test_file() -> None:
    """The conformance test of the database, every line without a default-ignorable code point."""
    count = 0
    for (line,) in read_lines("auxiliary/GraphemeBreakTest.txt"):
        expected = [to_text(piece.replace("×", " ")) for piece in line.strip("÷ ").split("÷")]
        if ignorables().keys().isdisjoint(map(ord, "".join(expected))):
            assert clusters("".join(expected)) == expected, line
            count += 1
    assert count == 405


@cache
def break_kinds() -> list[list[str]]:
    """A few characters of each class."""
    kinds: dict[str, list[str]] = {"o": list("a漢\u0378\ud7a4")}
    for code, letter in break_letters().items():
        if code not in ignorables() and len(kinds.setdefault(letter, [])) < 8:
            kinds[letter].append(chr(code))
    return list(kinds.values())


@st.composite
def difficult_graphemes(draw: st.DrawFn) -> str:
    character = st.one_of([st.sampled_from(kind) for kind in break_kinds()])
    return "".join(draw(st.lists(character, max_size=24)))


def test_grapheme_clusters_of_difficult_texts(more_rounds: bool) -> None:
    """Any sequence of classes is cut as the regular expression of UAX #29 cuts it."""

    @settings(max_examples=1100 if more_rounds else 50, deadline=None)
    @given(text=difficult_graphemes())
    def holds(text: str) -> None:
        assert clusters(text) == graphemes(text)

    holds()
