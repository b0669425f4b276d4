"""Arrow tables that are refused, producers that fail, and broken arrays."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
from support import SETS, WORDS
from test_arrow import KEYS, TABLE, TEXTS, table

from neardup_db import Index, MinHash, NearDupError, ParameterError

# ---- what is refused -----------------------------------------------------------------------------------------------------

TIMES = pa.array([0], pa.timestamp("us", "UTC"))
RUNS = pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array(["a b"]))


class OnDevice:
    """What has no other method, such as frames in the memory of a graphics card."""

    def __arrow_c_device_array__(self, requested_schema: object | None = None, **kwargs: object) -> object: ...


WIDE = table(id=[1], body=["a"], n=[1], b=[b"a"], t=TIMES, f=[1.0], d=pa.array([1]).dictionary_encode(), l=pa.array([[TIMES[0]]]))
WIDE = WIDE.append_column("day", pa.array([date(2026, 1, 1)]))
REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "objects of all kinds": (
        pandas.DataFrame({"id": [1, 2], "body": ["a", "b"], "x": ["a", 1]}),
        {"key": "id", "text": "body"},
        r"records cannot be exported to Arrow \(.*\): give the columns that are needed alone",
    ),
    "no names": (TABLE, {}, r"the columns 'id', 'body': say which .* add_many\(table, key='id', text='body'\)"),
    "pandas without names": (TABLE.to_pandas(), {}, "the columns 'id', 'body': say which"),
    "no text": (TABLE, {"key": "id"}, "say which hold the keys and the texts"),
    "no such column": (TABLE, {"key": "id", "text": "txt"}, "text='txt' is no column of records, which has 'id', 'body'"),
    "no name": (TABLE, {"key": 0, "text": "body"}, "key=0 is no column"),
    "no such metadata": (TABLE, {"key": "id", "text": "body", "metadata": ["x"]}, "metadata='x' is no column"),
    "one name as metadata": (TABLE, {"key": "id", "text": "body", "metadata": "id"}, "metadata='id': give a list"),
    "two columns of one name": (
        pa.Table.from_arrays([pa.array([1]), pa.array(["a"]), pa.array(["b"])], ["id", "body", "body"]),
        {"key": "id", "text": "body"},
        "text='body' are several columns",
    ),
    "numbers": (WIDE, {"key": "id", "text": "n"}, "text='n' is a column of int64: give one of strings, or cast it"),
    "binary": (WIDE, {"key": "id", "text": "b"}, "text='b' is a column of binary: give one of strings"),
    "dictionary of numbers": (WIDE, {"key": "id", "text": "d"}, "text='d' is a column of dictionary<values=int64"),
    "keys with fractions": (WIDE, {"key": "f", "text": "body"}, "key='f' is a column of double: give one of strings, integers"),
    "keys that are times": (WIDE, {"key": "t", "text": "body"}, "key='t' is a column of timestamp"),
    "groups that are lists": (WIDE, {"key": "id", "text": "body", "group": "l"}, "group='l' is a column of list"),
    "times": (WIDE, {"key": "id", "text": "body", "metadata": ["t"]}, "metadata='t' is a column of timestamp.*: .* cast it"),
    "dates": (WIDE, {"key": "id", "text": "body", "metadata": ["day"]}, "metadata='day' is a column of date.*: .* cast it"),
    "runs": (table(id=[1, 2], body=RUNS), {"key": "id", "text": "body"}, "a column of run_end_encoded.*: .* cast it"),
    "fixed binary": (table(id=[1], body=pa.array([b"a"], pa.binary(1))), {"key": "id", "text": "body"}, "of fixed_size_binary"),
    "bytes that are no UTF-8": (table(id=[1], body=[b"\xff"]), {"key": "id", "text": "body"}, "a column of binary: give one of"),
    "a device's memory": (OnDevice(), {"key": "id", "text": "body"}, "device memory only: copy it to main memory"),
    "lists of times": (WIDE, {"key": "id", "text": "body", "metadata": ["l"]}, "metadata='l' is a column of list"),
    "array": (TABLE["body"], {"key": "id", "text": "body"}, "records is an array of string: give a table"),
    "lazy frame": (polars.LazyFrame({"a": [1]}), {"key": "a", "text": "a"}, "records is a polars.LazyFrame, .* collect"),
    "names and pairs": ([(1, "a")], {"key": "id", "text": "body"}, "record 0: record=.* leave them out for pairs"),
}


def test_what_is_refused() -> None:
    """What cannot be meant is refused with the remedy, and nothing is stored."""
    with Index(":memory:", SETS, text=WORDS) as index:
        for case, (data, options, message) in REFUSED.items():
            with pytest.raises(ParameterError, match=message):
                index.add_many(data, **options)
            assert len(index) == 0, case


def test_questions_that_are_refused() -> None:
    """A table of questions needs the name of its column, an array none, and neither may hold anything but strings."""
    with Index(":memory:", SETS, text=WORDS) as index:
        for data, options, message in (
            (TABLE, {}, r"texts is a table with the columns 'id', 'body': say which .* query_many\(table, text='body'\)"),
            (TABLE, {"text": "id"}, "text='id' is a column of int64"),
            (TABLE["body"], {"text": "body"}, "text='body': texts is an array of string, not a table"),
            (TABLE["id"], {}, "texts is an array of int64: give one of strings"),
            (["a"], {"text": "body"}, "text='body' names a column of a data frame, and texts is none"),
            (polars.LazyFrame({"a": [1]}), {"text": "a"}, "texts is a polars.LazyFrame"),
            (RUNS, {}, "texts is an array of run_end_encoded.*: .* cast it"),
            (OnDevice(), {}, "device memory only"),
        ):
            with pytest.raises(ParameterError, match=message):
                index.query_many(data, **options)
    with pytest.raises(ParameterError, match=r"the columns 'id', 'body': give one of them"):
        MinHash().fingerprints(TABLE)
    with pytest.raises(ParameterError, match="device memory only"):
        MinHash().fingerprints(OnDevice())


# ---- producers -----------------------------------------------------------------------------------------------------------


def failing(rows: int) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        yield TABLE[:rows].to_batches()[0]
        raise ValueError("the disk is on fire")

    return pa.RecordBatchReader.from_batches(TABLE.schema, batches())


def test_a_producer_that_fails(small_limits: None) -> None:
    """Its message is kept; nothing is stored, or with commit_every what was committed before."""
    for commit_every, stored in ((None, 0), (2, 4)):
        with Index(":memory:", SETS, text=WORDS) as index:
            with pytest.raises(NearDupError, match="its producer failed: .*the disk is on fire"):
                index.add_many(failing(5), key="id", text="body", commit_every=commit_every)
            assert len(index) == stored and index.check().ok
            assert index.add("next", "a b c") is not None


def test_a_stream_is_read_once() -> None:
    """A stream that was released is refused."""
    capsule = TABLE.__arrow_c_stream__()
    once = type("Once", (), {"__arrow_c_stream__": lambda self, requested_schema=None: capsule})()
    with Index(":memory:", SETS, text=WORDS) as index:
        assert index.add_many(once, key="id", text="body").added == len(TABLE)
        with pytest.raises(ParameterError, match="records was read already"):
            index.add_many(once, key="id", text="body")


def test_rows_of_a_database_driver() -> None:
    """What has columns and no types of them is no data frame, but an iterable of rows."""

    class Result(list[tuple[int, str]]):
        def columns(self) -> None: ...

    with Index(":memory:", SETS, text=WORDS) as index:
        assert index.add_many(Result(zip(KEYS, TEXTS, strict=True))).added == len(TEXTS)


def test_what_is_no_capsule() -> None:
    """A capsule of another name is not opened."""
    wrong = type("Wrong", (), {"__arrow_c_stream__": lambda self: TABLE.schema.__arrow_c_schema__()})()
    with Index(":memory:", SETS, text=WORDS) as index, pytest.raises(ValueError, match="PyCapsule"):
        index.add_many(wrong, key="id", text="body")


def test_nothing_is_kept(small_limits: None) -> None:
    """What the producer allocated is released when it was read, after an error too."""
    with Index(":memory:", SETS, text=WORDS) as index:
        gc.collect()
        before = pa.total_allocated_bytes()
        for number in range(3):
            batch = pa.table({"id": [number, number + 10], "body": [f"a {number} " * 50, "b " * 100]})
            index.add_many(batch, key="id", text="body")
            index.query_many(batch, text="body")
            with pytest.raises(ParameterError):
                index.add_many(batch, key="id", text="id")
            with pytest.raises(NearDupError):
                index.add_many(batch, key="id", text="body")
        del batch
        gc.collect()
        assert pa.total_allocated_bytes() == before


def test_a_producer_may_use_the_index(small_limits: None) -> None:
    """What makes the batches finds the rows of those before."""
    seen = []

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in TABLE.to_batches(2):
            seen.append(len(index))
            yield batch

    with Index(":memory:", SETS, text=WORDS) as index:
        index.add_many(pa.RecordBatchReader.from_batches(TABLE.schema, batches()), key="id", text="body")
        assert seen == list(range(0, len(TABLE), 2)) and list(index) == KEYS


def buffer(values: list[int], kind: str) -> pa.Buffer:
    return pa.py_buffer(np.array(values, kind).tobytes())


BROKEN: dict[str, Callable[[], pa.Array]] = {
    "index beyond the dictionary": lambda: pa.DictionaryArray.from_arrays(pa.array([0, 5]), pa.array(["a"]), safe=False),
    "index below 0": lambda: pa.DictionaryArray.from_arrays(pa.array([0, -1]), pa.array(["a"]), safe=False),
    "ends before begins": lambda: pa.Array.from_buffers(pa.string(), 2, [None, buffer([0, 3, 1], "i4"), pa.py_buffer(b"abc")]),
    "view of no buffer": lambda: pa.Array.from_buffers(
        pa.string_view(), 2, [None, buffer([20, 0, 1, 0, 0, 0, 0, 0], "i4"), pa.py_buffer(b"a" * 40)]
    ),
    "view beyond its buffer": lambda: pa.Array.from_buffers(
        pa.string_view(), 2, [None, buffer([20, 0, 0, 21, 0, 0, 0, 0], "i4"), pa.py_buffer(b"a" * 40)]
    ),
    "view of a negative size": lambda: pa.Array.from_buffers(
        pa.string_view(), 2, [None, buffer([-1, 0, 0, 0, 0, 0, 0, 0], "i4"), pa.py_buffer(b"a" * 40)]
    ),
}


def test_broken_arrays_are_refused() -> None:
    """Places outside of the buffers are an error and are not read, as far as a consumer can know."""
    with Index(":memory:", SETS, text=WORDS) as index:
        for broken in BROKEN.values():
            with pytest.raises(NearDupError, match="the producer's column"):
                index.query_many(broken())


def test_what_is_no_utf_8_is_read_as_bytes_are() -> None:
    """Bytes that are no UTF-8 in a column of strings count as they do in bytes."""
    broken = pa.Array.from_buffers(pa.string(), 1, [None, buffer([0, 7], "i4"), pa.py_buffer(b"a b\xff c ")])
    assert np.array_equal(MinHash().fingerprints(broken), MinHash().fingerprints([b"a b\xff c "]))
    with Index(":memory:", SETS, text=WORDS, store_text=True) as index:
        index.add_many(pa.table({"id": [1], "body": broken}), key="id", text="body")
        assert index.get(1).text == "a b\ufffd c "


def test_a_struct_without_fields() -> None:
    """Each row has an empty one."""
    table = pa.table({"id": ["a", "b"], "body": ["one two three", "four five six"], "m": pa.array([{}, {}], pa.struct([]))})
    with Index(":memory:", MinHash()) as index:
        index.add_many(table, key="id", text="body", metadata=["m"])
        assert index.get("b").metadata == {"m": {}}
