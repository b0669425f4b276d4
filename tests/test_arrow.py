"""What has Arrow's C interface is taken as lists of the same records are, whatever its layout, its slices and its chunks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from load import lines
from support import SETS, WORDS

from neardup_db import AddReport, BitSampling, DuplicateKeyError, Index, MinHash, ParameterError, SimHash, TextRules

TEXTS = [
    "a b c d", "a b c d e", "", "日本語のテキストの例", "x y z", "x y z und ein längerer Text, der nirgends hineinpasst", "x y z",
    "one\0two three", "a b c", "😀 x y z", "and a text that is longer than twelve bytes", "?!",
]  # fmt: skip
KEYS = list(range(10, 10 + len(TEXTS)))
TABLE = pa.table({"id": pa.array(KEYS), "body": pa.array(TEXTS)})


def cast(kind: pa.DataType) -> pa.Table:
    return TABLE.set_column(1, "body", TABLE["body"].cast(kind))


def encoded(indices: pa.DataType, values: pa.DataType) -> pa.Table:
    """Texts by a dictionary with something before them that is not used."""
    words = pa.array(["unused", *dict.fromkeys(TEXTS)], values)
    places = [words.to_pylist().index(text) for text in TEXTS]
    return TABLE.set_column(1, "body", pa.DictionaryArray.from_arrays(pa.array(places, indices), words))


def sliced() -> pa.Array:
    """Structs with an offset, whose columns have offsets of their own."""
    bodies = pa.array(["before", "before", *TEXTS, "behind"])[1:]
    return pa.StructArray.from_arrays([pa.array([0, *KEYS, 0]), bodies], ["id", "body"])[1:-1]


class Given:
    """Data with one of the two methods alone."""

    def __init__(self, data: Any, method: str) -> None:
        setattr(type(self), method, lambda self, requested_schema=None: getattr(data, method)())


def only(data: Any, method: str) -> Any:
    return type("Only", (Given,), {})(data, method)


LAYOUTS: dict[str, Callable[[], Any]] = {
    "table": lambda: TABLE,
    "large strings": lambda: cast(pa.large_string()),
    "string views": lambda: cast(pa.string_view()),
    "dictionary, 8 bits": lambda: encoded(pa.int8(), pa.string()),
    "dictionary, 64 bits without sign": lambda: encoded(pa.uint64(), pa.large_string()),
    "dictionary of views": lambda: encoded(pa.uint16(), pa.string_view()),
    "reader": lambda: TABLE.to_reader(2),
    "record batch": lambda: TABLE.to_batches()[0],
    "array of structs": sliced,
    "array of structs alone": lambda: only(sliced(), "__arrow_c_array__"),
    "chunks of none and one": lambda: pa.concat_tables([TABLE[:0], TABLE[:1], TABLE[1:1], TABLE[1:5], TABLE[5:]]),
    "pandas": lambda: TABLE.to_pandas(),
    "pandas of Arrow": lambda: TABLE.to_pandas(types_mapper=pandas.ArrowDtype),
    "pandas of objects": lambda: pandas.DataFrame({"id": KEYS, "body": np.array(TEXTS, object)}),
    "pandas of categories": lambda: TABLE.to_pandas().astype({"body": "category"}),
    "polars": lambda: polars.DataFrame({"id": KEYS, "body": TEXTS}),
    "polars of categories": lambda: polars.DataFrame({"id": KEYS, "body": TEXTS}, schema_overrides={"body": polars.Categorical}),
    "polars in chunks": lambda: polars.concat([polars.from_arrow(TABLE[:3]), polars.from_arrow(TABLE[3:])], rechunk=False),
    "duckdb": lambda: duckdb.connect().from_arrow(TABLE),
}


def state(index: Index) -> Any:
    """All that an index answers about its documents."""
    documents = [(one.key, one.group, one.metadata, one.text) for one in index.get_many(list(index)) if one is not None]
    return documents, sorted(index.pairs(), key=str), index.clusters()


@cache
def as_list(store_text: bool) -> Any:
    """Report, state and answers of an index of the list."""
    with Index(":memory:", SETS, text=WORDS, store_text=store_text) as plain:
        return plain.add_many(zip(KEYS, TEXTS, strict=True)), state(plain), plain.query_many(TEXTS)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_read_as_a_list(layout: str) -> None:
    """The index of a table is that of the list of its rows, and answers to its texts as to the list of them."""
    for store_text in (False, True):
        with Index(":memory:", SETS, text=WORDS, store_text=store_text) as index:
            report = index.add_many(LAYOUTS[layout](), key="id", text="body")
            answers = index.query_many(LAYOUTS[layout](), text="body")
            assert (report, state(index), answers) == as_list(store_text)
            assert index.check().ok


@pytest.mark.parametrize("scheme", [MinHash(), SimHash()], ids=repr)
def test_arrays_of_strings_have_the_fingerprints_of_the_list(scheme: Any) -> None:
    """fingerprints and query_many take an array of strings as it is."""
    wanted = scheme.fingerprints(TEXTS)
    column = TABLE["body"]
    kinds = [column, column.combine_chunks(), column.cast(pa.string_view()), column.dictionary_encode(), *frames_of_texts()]
    with Index(":memory:", SETS, text=WORDS) as index:
        index.add_many(zip(KEYS, TEXTS, strict=True))
        for texts in kinds:
            assert np.array_equal(scheme.fingerprints(texts), wanted)
            assert index.query_many(texts) == index.query_many(TEXTS)
            assert index.query_many(texts[2:9][1:]) == index.query_many(TEXTS[3:9])
    rules = TextRules(tokens=str.split)
    assert np.array_equal(scheme.fingerprints(column, rules), scheme.fingerprints(TEXTS, rules))


def play(holds: Callable[[st.DataObject], None], examples: int) -> None:
    settings(deadline=None, max_examples=examples)(given(data=st.data())(holds))()


def test_random_arrays_have_the_fingerprints_of_the_list(small_limits: None, more_rounds: bool) -> None:
    """Any strings in any layout, chunks and slices: their fingerprints, and which are empty, are those of the list."""
    play(arrays_as_lists, 40 if more_rounds else 12)


def arrays_as_lists(data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.text("ab é日", max_size=20) | st.just("a text of more than twelve bytes"), max_size=12))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(texts)), max_size=3)))
    kind = data.draw(st.sampled_from([pa.string(), pa.large_string(), pa.string_view()]))
    chunks = []
    for start, end in pairwise([0, *cuts, len(texts)]):
        before, behind = data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))
        rows = [*["before"] * before, *texts[start:end], *[None] * behind]
        array = pa.array(rows, kind)
        if data.draw(st.booleans()):
            words = ["before", None, *dict.fromkeys(texts), "unused"]
            places = pa.array([words.index(row) for row in rows], data.draw(st.sampled_from([pa.int8(), pa.uint64()])))
            array = pa.DictionaryArray.from_arrays(places, pa.array(words, kind))
        chunks.append(array[before : before + end - start])
    scheme = data.draw(st.sampled_from([MinHash(), MinHash(slot_bits=32, num_perm=7, recall=0.1), SimHash(), BitSampling()]))
    wanted, wanted_empty = scheme.fingerprints(texts, WORDS, return_empty=True)
    assert [one is None for one in (scheme.fingerprint(text, WORDS) for text in texts)] == wanted_empty.tolist()
    for chunk, (start, end) in zip(chunks, pairwise([0, *cuts, len(texts)]), strict=True):
        made, empty = scheme.fingerprints(chunk, WORDS, return_empty=True)
        assert np.array_equal(made, wanted[start:end]) and np.array_equal(empty, wanted_empty[start:end])
    if len({chunk.type for chunk in chunks}) == 1:
        assert np.array_equal(scheme.fingerprints(pa.chunked_array(chunks), WORDS), wanted)


def test_views_into_several_buffers() -> None:
    """Strings of a view stand inside of it up to twelve bytes, longer ones in any of its buffers."""
    buffers = [pa.py_buffer(b"..one two three four"), pa.py_buffer(b"five six seven eight.")]
    views = [(13, 0, 2), (20, 1, 0), (18, 0, 2), (14, 1, 1)]
    wanted = [(buffers[which].to_pybytes()[place : place + size]).decode() for size, which, place in views]
    packed = b"".join(np.array([size, 0, which, place], "i4").tobytes() for size, which, place in views)
    for more in ([], ["", "short", "twelve bytes"]):
        inside = b"".join(np.int32(len(text)).tobytes() + text.encode().ljust(12, b"\0") for text in more)
        count = len(views) + len(more)
        array = pa.Array.from_buffers(pa.string_view(), count, [None, pa.py_buffer(packed + inside), *buffers])
        assert np.array_equal(MinHash().fingerprints(array), MinHash().fingerprints([*wanted, *more]))


def test_offsets_beyond_two_gigabytes() -> None:
    """Large strings are found where 32 bits do not reach."""
    texts = ["one two three", "", "four five six"]
    far = 2**31 + 5
    data = np.zeros(far + 100, np.uint8)  # pages that nobody touches take no memory
    data[far : far + 26] = np.frombuffer("".join(texts).encode(), np.uint8)
    ends = np.array([far, far + 13, far + 13, far + 26])
    array = pa.Array.from_buffers(pa.large_string(), 3, [None, pa.py_buffer(ends), pa.py_buffer(data)])
    assert np.array_equal(MinHash().fingerprints(array), MinHash().fingerprints(texts))


def test_no_python_for_a_row() -> None:
    """Fingerprints of many rows take no more lines of Python than those of a few, whatever the layout."""
    for kind in [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]:
        for scheme in [MinHash(), SimHash(), BitSampling()]:
            few, many = (pa.array(["short", "a text of more than twelve bytes"] * count, kind) for count in (5, 1000))
            scheme.fingerprints(few)
            assert lines(partial(scheme.fingerprints, many)) == lines(partial(scheme.fingerprints, few)), (kind, scheme)


def frames_of_texts() -> list[Any]:
    return [pandas.Series(TEXTS), polars.Series(TEXTS), polars.Series(TEXTS, dtype=polars.Categorical)]


def test_random_tables_are_read_as_lists(small_limits: None, more_rounds: bool) -> None:
    """Any rows, in any layout, cut into any chunks, with nulls left out: report and index are those of the list."""
    play(tables_as_lists, 35 if more_rounds else 9)


def tables_as_lists(data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.none() | st.text("ab é日", max_size=15), max_size=14))
    some_keys = st.none() | st.text("xyé", max_size=3)
    keys = data.draw(st.lists(some_keys, min_size=len(texts), max_size=len(texts)))
    groups = data.draw(st.lists(st.sampled_from([None, "g", "h"]), min_size=len(texts), max_size=len(texts)))
    kind = data.draw(st.sampled_from([pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int16(), pa.string())]))
    table = pa.table({"k": pa.array(keys, pa.string()), "g": pa.array(groups, pa.string()), "n": list(range(len(texts)))})
    table = table.append_column("t", pa.array(texts, kind))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(texts)), max_size=4)))
    pieces = [table[a:b] for a, b in pairwise([0, *cuts, len(texts)])]
    pieces = [piece.combine_chunks() if data.draw(st.booleans()) else piece for piece in pieces]
    options: dict[str, Any] = {
        "on_error": "skip",
        "if_exists": data.draw(st.sampled_from(["error", "ignore", "replace"])),
        "commit_every": data.draw(st.none() | st.integers(1, 4)),
    }
    named = {"group": "g"} if data.draw(st.booleans()) else {}
    named |= {"metadata": ["n"]} if data.draw(st.booleans()) else {}
    store_text = data.draw(st.booleans())
    rows = [{"key": key, "text": text} for key, text in zip(keys, texts, strict=True)]
    for number, row in enumerate(rows):
        row |= {"group": groups[number]} if "group" in named else {}
        row |= {"metadata": {"n": number}} if "metadata" in named else {}
    with (
        Index(":memory:", SETS, text=WORDS, store_text=store_text) as index,
        Index(":memory:", SETS, text=WORDS, store_text=store_text) as plain,
    ):
        report = index.add_many(pa.concat_tables(pieces), key="k", text="t", **named, **options)
        wanted = plain.add_many(rows, **options)
        assert counts(report) == counts(wanted)
        assert state(index) == state(plain)
        assert index.check().ok


def counts(report: AddReport) -> Any:
    problems = [one.record for one in report.problems]
    return report.added, report.replaced, report.ignored, report.skipped, report.matched, problems


# ---- nulls -------------------------------------------------------------------------------------------------------------


def table(**columns: Any) -> pa.Table:
    return pa.table(columns)


NULLS = {
    "text": (table(id=[1, 2, 3], body=["a b", "a b", None]), "record 2: text is null"),
    "text of a slice": (table(id=[0, 1, 2], body=["a b", "a b", None])[1:], "record 1: text is null"),
    "text of a view": (table(id=[1, 2], body=pa.array(["a b", None], pa.string_view())), "record 1: text is null"),
    "index of a dictionary": (table(id=[1, 2], body=pa.array(["a b", None]).dictionary_encode()), "record 1: text is null"),
    "value of a dictionary": (
        table(id=[1, 2], body=pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array([None, "a b"]))),
        "record 1: text is null",
    ),
    "dictionary of nothing": (
        table(id=[1], body=pa.DictionaryArray.from_arrays(pa.array([None], pa.int8()), pa.array([], pa.string()))),
        "record 0: text is null",
    ),
    "column of nulls": (table(id=[1], body=pa.array([None])), "record 0: text is null"),
    "key": (table(id=[1, None], body=["a b", "c d"]), "record 1: key is null"),
    "whole row": (pa.array([{"id": 0, "body": "x"}, {"id": 1, "body": "a b"}, None])[1:], "record 1: key is null"),
}  # fmt: skip


def test_nulls_are_wrong_records() -> None:
    """A null text or key is refused with the number of its record, as None is, and nothing is stored; or left out and counted."""
    for case in NULLS:
        data, message = NULLS[case]
        with Index(":memory:", SETS, text=WORDS) as index:
            with pytest.raises(ParameterError, match=message + ".*on_error='skip'"):
                index.add_many(data, key="id", text="body")
            assert len(index) == 0, case
            report = index.add_many(data, key="id", text="body", on_error="skip")
            assert (report.added, report.skipped) == (len(data) - 1, 1), case
            assert [f"record {one.record}: {one.reason}".startswith(message) for one in report.problems] == [True], case


def test_questions_have_no_nulls() -> None:
    """A null among questions, or among texts to fingerprint, is refused with its row."""
    texts = pa.chunked_array([["a"], ["b", None]])
    with Index(":memory:", SETS, text=WORDS) as index, pytest.raises(ParameterError, match="texts: row 2 is null"):
        index.query_many(texts)
    with pytest.raises(ParameterError, match="texts: row 2 is null"):
        MinHash().fingerprints(texts)


@pytest.mark.parametrize("empty", [TABLE[:0], TABLE[:0].to_pandas(), TABLE[:0].to_reader()], ids=lambda one: type(one).__name__)
def test_no_rows(empty: Any) -> None:
    """A table without rows adds nothing."""
    with Index(":memory:", SETS, text=WORDS) as index:
        assert index.add_many(empty, key="id", text="body").added == 0
        assert index.query_many(pa.array([], pa.string())) == []
    assert MinHash().fingerprints(pa.array([], pa.string_view())).shape == (0, 128)


# ---- keys, groups, metadata ----------------------------------------------------------------------------------------------


def test_keys() -> None:
    """Keys are those that `add` takes, of every type that has them."""
    for keys in [
        pa.array([-1, 2**63 - 1]),
        pa.array([1, 255], pa.uint8()),
        pa.array([b"\xff", b""]),
        pa.array(["1", "é"], pa.string_view()),
        pa.array(["a", "b"]).dictionary_encode(),
        pa.array([7, -7], pa.int16()).dictionary_encode(),
    ]:
        with Index(":memory:", SETS, text=WORDS) as index:
            index.add_many(table(id=keys, body=["a b", "a b"]), key="id", text="body")
            assert list(index) == keys.to_pylist()


def test_integers_of_every_width() -> None:
    """Keys of a column of integers are these integers, at both ends of what the type holds and a key may be."""
    for bits in [8, 16, 32, 64]:
        for sign in ["int", "uint"]:
            kind = np.iinfo(f"{sign}{bits}")
            ends = (
                [int(kind.min), 0, 5, min(int(kind.max), 2**63 - 1)] if sign == "int" else [0, 5, min(int(kind.max), 2**63 - 1)]
            )
            keys = pa.array(ends, f"{sign}{bits}")
            with Index(":memory:", SETS, text=WORDS) as index:
                index.add_many(table(id=keys, body=["a b"] * len(ends)), key="id", text="body")
                assert list(index) == ends


@pytest.mark.parametrize("length", [3, 2000])
def test_a_key_that_comes_twice(length: int) -> None:
    """It is refused with its row, and nothing is stored; so is a key that the index has."""
    with Index(":memory:", SETS, text=WORDS) as index:
        twice = table(id=[*range(length), 1], body=[f"a{i} b{i}" for i in range(length + 1)])
        with pytest.raises(DuplicateKeyError, match=f"record {length}: key 1 is already in the index"):
            index.add_many(twice, key="id", text="body")
        index.add(length - 1, "x y")
        with pytest.raises(DuplicateKeyError, match=f"record {length - 1}: key {length - 1} is already in the index"):
            index.add_many(twice[:length], key="id", text="body")
        assert list(index) == [length - 1]
        report = index.add_many(twice, key="id", text="body", on_error="skip")
        assert [one.record for one in report.problems] == [length - 1, length]


def test_keys_that_do_not_fit() -> None:
    """A number beyond 64 bits with a sign is refused with its record."""
    for number in (2**63, 2**64 - 1):
        keys = pa.array([1, number], pa.uint64())
        with Index(":memory:", SETS, text=WORDS) as index, pytest.raises(ParameterError, match=f"record 1: key={number} "):
            index.add_many(table(id=keys, body=["a", "b"]), key="id", text="body")


def test_metadata_and_groups() -> None:
    """Metadata is what Python has of the rows, each by the names of its columns; a null group is none."""
    metadata = {
        "lang": pa.array(["en", None, "de"]).dictionary_encode(), "tags": pa.array([["a", None], [], None]),
        "many": pa.array([[1], None, [2, 3]], pa.large_list(pa.int8())), "ok": [True, None, False], "score": [0.5, None, -1e300],
        "two": pa.array([[1, 2], [3, 4], None], pa.list_(pa.int32(), 2)), "half": pa.array(np.array([0.5, 1, 2], np.float16)),
        "who": pa.array([{"x": 1, "y": "é"}, {"x": None, "y": ""}, None]), "nothing": pa.nulls(3),
        "big": pa.array([2**64 - 1, 0, None], pa.uint64()),
    }  # fmt: skip
    whole = table(id=["a", "b", "c"], body=["x y"] * 3, g=["g", None, "g"], **metadata)
    for data in (whole, pa.concat_tables([whole, whole])[2:5].take([1, 2, 0]), pa.concat_tables([whole[:1], whole[1:]])):
        with Index(":memory:", SETS, text=WORDS) as index:
            index.add_many(data, key="id", text="body", group="g", metadata=list(metadata))
            documents = [(one.key, one.group, one.metadata) for one in index.get_many(list(index)) if one is not None]
            rows = data.to_pylist()
            assert documents == [(row["id"], row["g"], {name: row[name] for name in metadata}) for row in rows]
            assert len(index.clusters()) == 1


def test_metadata_that_json_does_not_hold() -> None:
    """A number that is none is a wrong record, as in a dictionary; a column of times is refused before anything is read."""
    data = polars.DataFrame({"id": [1, 2], "body": ["a", "b"], "x": [1.0, float("nan")]})
    with Index(":memory:", SETS, text=WORDS) as index:
        with pytest.raises(ParameterError, match="record 1: metadata cannot be written as JSON"):
            index.add_many(data, key="id", text="body", metadata=["x"])
        assert index.add_many(data, key="id", text="body", metadata=["x"], on_error="skip").skipped == 1
