"""Writes unicode_data.h and unicode_data.c from the files of the Unicode Character Database.

    python csrc/text/generate_unicode.py [--ucd /usr/share/unicode]

The files are those of Debian's package unicode-data. The result is checked in, so that a build needs neither them nor Python, and
so that a fingerprint never depends on the Unicode version of the system.

Tables: three tries from a code point to a small number (properties, case mappings, decompositions) and one sorted list of the
pairs that compose. A trie has two stages: stage 1 gives the block of a code point, stage 2 holds the distinct blocks one after
another; the block size is the one that makes the trie smallest. Code points from the trie's limit on have the value 0.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
CODE_POINTS = 0x110000
HANGUL = range(0xAC00, 0xD7A4)
LINE_LENGTH = 130
UNSPACED_SCRIPTS = {"Hani", "Hira", "Kana", "Thai", "Laoo", "Khmr", "Mymr"}
UNSPACED_SCRIPT_NAMES = {"Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar"}

# Where the parts of a property record are: eight bits of ND_CP_* flags come first.
BREAK_SHIFT = 8
CLASS_SHIFT = 12
CHECK_SHIFT = 19  # + ND_NORMALIZE_*: the quick check of that form is not "yes"
SECOND_BIT = 24  # can be the second code point of a canonical composition, Hangul vowels and finals included


# ---- reading --------------------------------------------------------------------------------------------------------


class Database:
    """The files of one release, read line by line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.releases: dict[str, str] = {}

    def lines(self, name: str) -> Iterator[list[str]]:
        """The fields of every line that has some, comments taken off; the release in the first line is kept."""
        text = (self.folder / name).read_text(encoding="utf-8")
        found = re.match(r"# [A-Za-z]+-([0-9.]+)\.txt", text)
        if found:
            self.releases[name] = found[1]
        for line in text.splitlines():
            content = line.split("#", 1)[0].strip()
            if content:
                yield [part.strip() for part in content.split(";")]

    def ranges(self, name: str) -> Iterator[tuple[range, list[str]]]:
        """The lines whose first field is a code point or a range of them."""
        for first, *rest in self.lines(name):
            low, _, high = first.partition("..")
            yield range(int(low, 16), int(high or low, 16) + 1), rest

    def release(self) -> str:
        """The one release that all files read so far belong to."""
        releases = set(self.releases.values())
        if len(releases) != 1:
            raise ValueError(f"the files are of different releases: {self.releases}")
        return releases.pop()


def sequence(field_text: str) -> tuple[int, ...]:
    """Code points written in hexadecimal."""
    return tuple(int(part, 16) for part in field_text.split())


@dataclass
class Characters:
    """What UnicodeData.txt says of every code point, ranges filled in."""

    category: list[str] = field(default_factory=lambda: ["Cn"] * CODE_POINTS)
    combining_class: list[int] = field(default_factory=lambda: [0] * CODE_POINTS)
    canonical: dict[int, tuple[int, ...]] = field(default_factory=dict)
    compatible: dict[int, tuple[int, ...]] = field(default_factory=dict)
    lower: dict[int, tuple[int, ...]] = field(default_factory=dict)


def read_characters(database: Database) -> Characters:
    """UnicodeData.txt: general category, combining class, one-step decompositions, simple lower case."""
    result = Characters()
    range_start = 0
    for row in database.lines("UnicodeData.txt"):
        code, name, category, combining = int(row[0], 16), row[1], row[2], int(row[3])
        if name.endswith(", First>"):
            range_start = code
            continue
        for code_point in range(range_start if name.endswith(", Last>") else code, code + 1):
            result.category[code_point] = category
            result.combining_class[code_point] = combining
        if row[5].startswith("<"):
            result.compatible[code] = sequence(row[5].split(">", 1)[1])
        elif row[5]:
            result.canonical[code] = sequence(row[5])
        if row[13]:
            result.lower[code] = sequence(row[13])
    return result


# ---- properties -----------------------------------------------------------------------------------------------------


def read_constants(prefix: str) -> dict[str, int]:
    """The numbers that the headers give to the names with this prefix."""
    text = "".join((HERE.parent / name).read_text(encoding="utf-8") for name in ("neardup_abi.h", "neardup_testing.h"))
    return {name: int(value) for name, value in re.findall(rf"#define {prefix}(\w+) (\d+)", text)}


def read_flags(database: Database, characters: Characters) -> list[int]:
    """ND_CP_* of every code point."""
    bit = read_constants("ND_CP_")
    major = {"L": bit["LETTER"], "N": bit["NUMBER"], "M": bit["MARK"]}
    flags = [major.get(category[0], 0) for category in characters.category]
    for code_point, combining in enumerate(characters.combining_class):
        if characters.category[code_point] == "Mn" and (10 <= combining <= 36 or combining >= 200):
            flags[code_point] |= bit["ACCENT"]
    unspaced: dict[int, bool] = {}
    for covered, (script,) in database.ranges("Scripts.txt"):
        unspaced.update(dict.fromkeys(covered, script in UNSPACED_SCRIPT_NAMES))
    for covered, (scripts,) in database.ranges("ScriptExtensions.txt"):
        unspaced.update(dict.fromkeys(covered, not UNSPACED_SCRIPTS.isdisjoint(scripts.split())))
    marked = [(code_point, "UNSPACED") for code_point, yes in unspaced.items() if yes]
    for file, value, name in (
        ("emoji/emoji-data.txt", "Extended_Pictographic", "PICTOGRAPH"),
        ("auxiliary/GraphemeBreakProperty.txt", "Regional_Indicator", "PICTOGRAPH"),
        ("DerivedCoreProperties.txt", "Default_Ignorable_Code_Point", "IGNORABLE"),
    ):
        marked += [(code_point, name) for covered, row in database.ranges(file) if row[0] == value for code_point in covered]
    for code_point, name in marked:
        flags[code_point] |= bit[name]
    return flags


def read_breaks(database: Database) -> list[int]:
    """ND_GCB_* of every code point."""
    number = read_constants("ND_GCB_")
    breaks = [number["OTHER"]] * CODE_POINTS
    for covered, (value,) in database.ranges("auxiliary/GraphemeBreakProperty.txt"):
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", value).upper()
        for code_point in covered:
            breaks[code_point] = number[name]
    return breaks


def read_records(database: Database, characters: Characters, seconds: set[int]) -> list[int]:
    """One number for each code point with everything but mappings in it; see BREAK_SHIFT and its neighbours."""
    flags = read_flags(database, characters)
    breaks = read_breaks(database)
    records = [
        flag | value << BREAK_SHIFT | combining << CLASS_SHIFT
        for flag, value, combining in zip(flags, breaks, characters.combining_class, strict=True)
    ]
    forms = read_constants("ND_NORMALIZE_")
    maybe: dict[str, set[int]] = {"NFC": set(), "NFKC": set()}
    for covered, row in database.ranges("DerivedNormalizationProps.txt"):
        form, found, kind = row[0].partition("_QC")
        if not found or kind:
            continue
        for code_point in covered:
            records[code_point] |= 1 << (CHECK_SHIFT + forms[form])
            if row[1] == "M":
                maybe[form].add(code_point)
    if not maybe["NFC"] == maybe["NFKC"] == seconds:
        raise ValueError("the code points that may compose with an earlier one are not those whose quick check is maybe")
    for code_point in seconds:
        records[code_point] |= 1 << SECOND_BIT
    return records


# ---- mappings -------------------------------------------------------------------------------------------------------


def read_case(database: Database, characters: Characters) -> tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]]:
    """Full lower case without context or locale, and full case folding; only code points that change."""
    lower = dict(characters.lower)
    for code, target, _title, _upper, *conditions in database.lines("SpecialCasing.txt"):
        if not any(conditions):
            lower[int(code, 16)] = sequence(target)
    folding: dict[int, tuple[int, ...]] = {}
    for covered, (status, target, *_) in database.ranges("CaseFolding.txt"):
        if status in "CF":
            folding[covered[0]] = sequence(target)
    return {code: to for code, to in lower.items() if to != (code,)}, folding


def expand(code_point: int, mappings: Sequence[dict[int, tuple[int, ...]]]) -> tuple[int, ...]:
    """Full decomposition: mappings applied until none fits. It is in canonical order; check_boundaries makes sure."""
    for mapping in mappings:
        if code_point in mapping:
            return tuple(part for target in mapping[code_point] for part in expand(target, mappings))
    return (code_point,)


def read_compositions(database: Database, characters: Characters) -> list[tuple[int, int, int]]:
    """(first, second, composite), sorted: the canonical pairs that are not excluded from composition. Without Hangul."""
    excluded: set[int] = set()
    for covered, row in database.ranges("DerivedNormalizationProps.txt"):
        if row[0] == "Full_Composition_Exclusion":
            excluded.update(covered)
    pairs = [(target, code) for code, target in characters.canonical.items() if code not in excluded]
    if any(len(target) != 2 for target, _ in pairs):
        raise ValueError("a canonical decomposition that is not excluded from composition is no pair")
    return sorted((target[0], target[1], code) for target, code in pairs)


def check_boundaries(
    form: str, records: Sequence[int], classes_of: list[int], decompositions: dict[int, tuple[int, ...]]
) -> None:
    """What nd_unicode_is_stable promises: before a code point of class 0 whose quick check is "yes" is a boundary."""
    check_bit = CHECK_SHIFT + read_constants("ND_NORMALIZE_")[form]
    for code_point, target in decompositions.items():
        classes = [classes_of[part] for part in target]
        if any(later and later < earlier for earlier, later in zip(classes, classes[1:], strict=False)):
            raise ValueError(f"the decomposition of U+{code_point:04X} is not in canonical order")
        stable = not records[code_point] & (0xFF << CLASS_SHIFT | 1 << check_bit)
        if stable and (classes[0] or records[target[0]] >> SECOND_BIT & 1):
            raise ValueError(f"U+{code_point:04X} passes the quick check but may change what is before it")


# ---- writing --------------------------------------------------------------------------------------------------------


def width_of(values: Iterable[int]) -> int:
    """Bits of the smallest unsigned type that holds all values."""
    largest = max(values)
    return 8 if largest < 1 << 8 else 16 if largest < 1 << 16 else 32


def write_array(name: str, c_type: str, values: Sequence[str]) -> str:
    """A definition with as many values to a line as fit."""
    lines, line = [], "   "
    for value in values:
        if len(line) + len(value) + 2 > LINE_LENGTH:
            lines.append(line)
            line = "   "
        line += f" {value},"
    return f"const {c_type} {name}[{len(values)}] = {{\n" + "\n".join([*lines, line]) + "\n};\n"


@dataclass(frozen=True)
class Trie:
    """Two stages; the value of a code point is stage2[stage1[code point >> shift] << shift | its low shift bits]."""

    shift: int
    stage1: list[int]
    stage2: list[int]

    @property
    def size_bytes(self) -> int:
        return len(self.stage1) * width_of(self.stage1) // 8 + len(self.stage2) * width_of(self.stage2) // 8


def build_trie(values: Sequence[int]) -> Trie:
    """The smallest trie of any block size from 16 to 256."""
    end = max(code_point for code_point, value in enumerate(values) if value) + 1
    tries = []
    for shift in range(4, 9):
        blocks: dict[tuple[int, ...], int] = {}
        size = 1 << shift
        stage1 = [blocks.setdefault(tuple(values[start : start + size]), len(blocks)) for start in range(0, end, size)]
        tries.append(Trie(shift, stage1, [value for block in blocks for value in block]))
    return min(tries, key=lambda trie: trie.size_bytes)


@dataclass
class Output:
    """The two files as they grow."""

    header: list[str] = field(default_factory=list)
    source: list[str] = field(default_factory=list)
    size_bytes: int = 0

    def add_array(self, comment: str, name: str, c_type: str, item_bytes: int, values: Sequence[str]) -> None:
        self.header.append(f"/* {comment} */\nextern const {c_type} {name}[{len(values)}];\n")
        self.source.append(write_array(name, c_type, values))
        self.size_bytes += item_bytes * len(values)

    def add_numbers(self, comment: str, name: str, values: Sequence[int], style: str = "d") -> None:
        width = width_of(values)
        self.add_array(comment, name, f"uint{width}_t", width // 8, [format(value, style) for value in values])

    def add_trie(self, comment: str, name: str, trie: Trie) -> None:
        macro = name.upper()
        self.header.append(f"#define {macro}_SHIFT {trie.shift}\n#define {macro}_LIMIT 0x{len(trie.stage1) << trie.shift:X}u")
        self.add_numbers(f"{comment}: number of the block of a code point", f"{name}_stage1", trie.stage1)
        self.add_numbers(f"{comment}: blocks", f"{name}_stage2", trie.stage2)


def add_properties(output: Output, records: Sequence[int]) -> None:
    """The trie of property records, each distinct record once; record 0 is 0."""
    distinct: dict[int, int] = {0: 0}
    indexes = [distinct.setdefault(record, len(distinct)) for record in records]
    output.add_trie("Properties", "nd_property", build_trie(indexes))
    output.add_array("Distinct property records", "nd_property_record", "uint32_t", 4, [f"0x{record:X}" for record in distinct])


def add_case(output: Output, lower: dict[int, tuple[int, ...]], folding: dict[int, tuple[int, ...]]) -> None:
    """Case mappings: a record has, for lower case and for folding, a difference or the place of a longer sequence."""
    sequences: list[int] = [0]
    places: dict[tuple[int, ...], int] = {}
    distinct: dict[str, int] = {"{{0, 0}, {0, 0}}": 0}
    indexes = [0] * CODE_POINTS
    for code_point in sorted(lower.keys() | folding.keys()):
        deltas, at = [], []
        for target in (lower.get(code_point, (code_point,)), folding.get(code_point, (code_point,))):
            if len(target) > 1 and target not in places:
                places[target] = len(sequences)
                sequences += [len(target), *target]
            deltas.append(target[0] - code_point if len(target) == 1 else 0)
            at.append(places.get(target, 0))
        record = f"{{{{{deltas[0]}, {deltas[1]}}}, {{{at[0]}, {at[1]}}}}}"
        indexes[code_point] = distinct.setdefault(record, len(distinct))
    output.add_trie("Case", "nd_case", build_trie(indexes))
    output.add_array("Distinct case records", "nd_case_records", "nd_case_record", 12, list(distinct))
    output.add_numbers("Mappings to several code points: their count, then they", "nd_case_sequence", sequences)


def utf16(code_points: Iterable[int]) -> list[int]:
    """Code points above U+FFFF as two units."""
    units: list[int] = []
    for code_point in code_points:
        if code_point > 0xFFFF:
            units += [0xD800 + (code_point - 0x10000 >> 10), 0xDC00 + (code_point & 0x3FF)]
        else:
            units.append(code_point)
    return units


def add_decompositions(output: Output, canonical: dict[int, tuple[int, ...]], compatible: dict[int, tuple[int, ...]]) -> None:
    """Full decompositions: lengths in units, then the canonical units, then the compatible ones where they differ."""
    data: list[int] = [0]
    places: dict[tuple[int, ...], int] = {}
    indexes = [0] * CODE_POINTS
    for code_point in sorted(canonical.keys() | compatible.keys()):
        first = utf16(canonical.get(code_point, ()))
        second = utf16(compatible.get(code_point, ()))
        entry = (len(first) | len(second) << 8, *first, *second) if second != first else (len(first), *first)
        if entry not in places:
            places[entry] = len(data)
            data += entry
        indexes[code_point] = places[entry]
    output.add_trie("Decompositions", "nd_decomposition", build_trie(indexes))
    comment = "A decomposition: canonical units | compatible units << 8 (0 = as canonical), then the units in UTF-16"
    output.add_numbers(comment, "nd_decomposition_data", data)


TYPES = """
/* Of the mappings to lower case [0] and to folded case [1]: what is added to the code point, or, where sequence is not 0, the
 * place in nd_case_sequence. */
typedef struct nd_case_record {
    int32_t delta[2];
    uint16_t sequence[2];
} nd_case_record;

typedef struct nd_composition {
    uint32_t first;
    uint32_t second;
    uint32_t composite;
} nd_composition;
"""


def generate(folder: Path) -> dict[str, str]:
    """The text of both files, by name."""
    database = Database(folder)
    characters = read_characters(database)
    compositions = read_compositions(database, characters)
    seconds = {second for _, second, _ in compositions} | set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    records = read_records(database, characters, seconds)
    lower, folding = read_case(database, characters)
    canonical = {code: expand(code, [characters.canonical]) for code in characters.canonical}
    both = [characters.canonical, characters.compatible]
    compatible = {code: expand(code, both) for mapping in both for code in mapping}
    check_boundaries("NFC", records, characters.combining_class, canonical)
    check_boundaries("NFKC", records, characters.combining_class, compatible)
    if any(code in HANGUL for code in compatible):
        raise ValueError("Hangul syllables are expected to be decomposed by rule")

    output = Output()
    add_properties(output, records)
    add_case(output, lower, folding)
    add_decompositions(output, canonical, compatible)
    rows = [f"{{0x{first:X}, 0x{second:X}, 0x{composite:X}}}" for first, second, composite in compositions]
    output.add_array("Canonical compositions, ascending by first and second", "nd_compositions", "nd_composition", 12, rows)

    release = database.release()
    top = (
        f"generated by generate_unicode.py from the Unicode Character Database {release}; do not edit.\n"
        " * Data: copyright 1991-2022 Unicode, Inc., terms of use https://www.unicode.org/terms_of_use.html"
    )
    numbers = {
        "RECORD_BREAK_SHIFT": BREAK_SHIFT,
        "RECORD_CLASS_SHIFT": CLASS_SHIFT,
        "RECORD_CHECK_SHIFT": CHECK_SHIFT,
        "RECORD_SECOND_BIT": SECOND_BIT,
        "COMPOSITION_COUNT": len(compositions),
    }
    defines = "".join(f"#define ND_{name} {value}\n" for name, value in numbers.items())
    header = (
        f"/* unicode_data.h: {top}\n * {output.size_bytes:,} bytes of tables, read through unicode.h alone. */\n"
        "#ifndef ND_UNICODE_DATA_H\n#define ND_UNICODE_DATA_H\n\n#include <stdint.h>\n\n"
        f'#define ND_UNICODE_VERSION "{release}"\n{defines}{TYPES}\n' + "\n".join(output.header) + "\n#endif\n"
    )
    source = f'/* unicode_data.c: {top} */\n\n#include "text/unicode_data.h"\n\n' + "\n".join(output.source)
    return {"unicode_data.h": header, "unicode_data.c": source}


def main() -> None:
    parser = argparse.ArgumentParser(description="Write unicode_data.h and unicode_data.c from the Unicode Character Database.")
    parser.add_argument("--ucd", type=Path, default=Path("/usr/share/unicode"), help="folder with UnicodeData.txt (%(default)s)")
    for name, text in generate(parser.parse_args().ucd).items():
        (HERE / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
