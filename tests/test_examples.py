"""The files of docs/examples do what they say, with the libraries that they are for: `-m examples`."""

from __future__ import annotations

import importlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from interpreter import interpreter, programs

from neardup_db import Index

DOCS = Path(__file__).resolve().parents[1] / "docs"
EXAMPLES = DOCS / "examples"
TODAY = datetime.now(timezone.utc).date()

APPLICATIONS = ("with_sqlalchemy", "with_django")
"""Examples of docs/reference/applications.md."""

OFFLINE = {"HF_HUB_OFFLINE": "1", "RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}
"""Variables with which the libraries ask nothing of the network."""


def run(*command: object, folder: Path, status: int = 0) -> str:
    """Standard output of a program."""
    words, env = [str(part) for part in command], {**os.environ, **OFFLINE}
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done.stdout


def rows(count: int, seed: int = 1) -> list[dict[str, str]]:
    """Records of families of near-duplicates: two of one family differ in their last word, those of two share no word. Each
    thirtieth has no word at all."""
    rng, made = random.Random(seed), []
    for number in range(count):
        family = rng.randrange(count // 3)
        text = " ".join([*(f"f{family}w{i}" for i in range(59)), f"own{number}"])
        made.append({"id": f"{seed}-{number:05}", "text": "!!!" if number % 30 == 7 else text})
    return made


def family(row: dict[str, str]) -> str:
    """The same for near-duplicates; records without a word are like nothing."""
    return row["text"].split()[0] if row["text"] != "!!!" else row["id"]


def firsts(records: list[dict[str, str]]) -> list[str]:
    """The ids of the first of each family."""
    found: dict[str, str] = {}
    for row in records:
        found.setdefault(family(row), row["id"])
    return list(found.values())


@pytest.fixture
def example(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of an example, imported."""
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module(request.param)


# ---- a daily crawl -----------------------------------------------------------------------------------------------------------


def day_file(folder: Path, ago: int, records: list[dict[str, str]]) -> Path:
    """The file of a day, so many days ago."""
    path = folder / f"{TODAY - timedelta(days=ago)}.jsonl"
    path.write_text("".join(json.dumps({"url": row["id"], "text": row["text"]}) + "\n" for row in records), "utf-8")
    return path


def crawled(index: Path) -> list[tuple[Any, ...]]:
    """All that a crawl stored."""
    with Index(index, read_only=True) as opened:
        assert opened.check().ok
        sql = "SELECT key, metadata, expires_at, fingerprint_id FROM neardup_document ORDER BY id"
        return opened.connection.execute(sql).fetchall()


def test_a_daily_crawl_of_the_sample(tmp_path: Path) -> None:
    """The script shows itself: each line is new or a near-duplicate, and a day that is run again says the same."""
    days = [json.loads(line) for line in run(*interpreter(), EXAMPLES / "daily_crawl.py", folder=tmp_path).splitlines()]
    assert [day["read"] for day in days] == [121] * 4
    assert all(day["new"] + day["near_duplicates"] == 121 and 0 < day["near_duplicates"] < 60 for day in days)
    assert days[2] == days[3]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("example", ["daily_crawl"], indirect=True)
def test_days_that_share_urls_and_texts(example: Any, tmp_path: Path) -> None:
    """The first of each family of all days stays, on its day; a URL of an earlier day, or of an earlier line, is no new one."""
    first, second = rows(300), rows(300, seed=2)
    second[10], second[20] = first[0], {**second[0], "text": "another text with the address of the first"}
    kept: dict[str, str] = {}
    for ago, records in ((1, first), (0, second)):
        path = day_file(tmp_path, ago, records)
        counts = example.keep_new(str(tmp_path / "crawl.db"), path)
        new, like = [], []
        for number, row in enumerate(records):
            if row["id"] in kept.values():
                continue
            if family(row) in kept:
                like.append(row["id"])
            else:
                kept[family(row)] = row["id"]
                new.append(number)
        same = sum(row["id"] in kept.values() for number, row in enumerate(records) if number not in new)
        written = path.with_suffix(".unique.jsonl").read_text("utf-8").splitlines(keepends=True)
        lines = path.read_text("utf-8").splitlines(keepends=True)
        assert written == [lines[number] for number in new]
        near = len(records) - len(new) - same
        refused = [json.loads(line) for line in path.with_suffix(".refused.jsonl").read_text("utf-8").splitlines()]
        assert [row["url"] for row in refused] == like
        assert all(row["like"] in kept.values() and row["similarity"] >= 0.8 for row in refused)
        assert counts == {
            "day": path.stem, "read": 300, "new": len(new), "same_url": same, "near_duplicates": near, "expired": 0,
        }  # fmt: skip
    assert same == 2


@pytest.mark.parametrize("example", ["daily_crawl"], indirect=True)
def test_what_is_older_than_the_window_is_gone(example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that comes again after 30 days is new again, and its first copy is removed; a day that old is refused."""
    records = rows(60)
    example.keep_new(str(tmp_path / "crawl.db"), day_file(tmp_path, 0, records))
    now, now_ns = time.time() + 31 * 86400, time.time_ns() + 31 * 86400 * 10**9
    monkeypatch.setattr(time, "time", lambda: now)
    monkeypatch.setattr(time, "time_ns", lambda: now_ns)
    again = [{**row, "id": f"again-{row['id']}"} for row in records]
    counts = example.keep_new(str(tmp_path / "crawl.db"), day_file(tmp_path, -31, again))
    assert counts["new"] == counts["expired"] == len(firsts(records))
    assert [key for key, *_ in crawled(tmp_path / "crawl.db")] == [f"again-{key}" for key in firsts(records)]
    with pytest.raises(SystemExit, match="more than 30 days ago"):
        example.keep_new(str(tmp_path / "crawl.db"), day_file(tmp_path, 0, records))


DIE = """
import os, signal, sys
from functools import reduce
from pathlib import Path
sys.path.insert(0, sys.argv.pop(1))
import daily_crawl

owner, _, name = sys.argv[1].rpartition(".")
where = reduce(getattr, owner.split("."), daily_crawl)
real, calls = getattr(where, name), iter(range(int(sys.argv[2])))
def dying(*args, **kwargs):
    if next(calls, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **kwargs)
setattr(where, name, dying)
daily_crawl.keep_new(sys.argv[3], Path(sys.argv[4]))
"""
"""Runs a day and kills itself when a function of the script is called for the so-manieth time."""

DEATHS = {
    "before the first record": ("json.loads", 0),
    "in the middle of the records": ("json.loads", 150),
    "before the commit": ("json.loads", 299),
    "after the commit": ("Index.get_many", 0),
    "while the lines are written": ("json.loads", 400),
    "before the refused ones are in place": ("os.replace", 0),
    "before they are on the disk": ("os.fsync", 1),
    "before they are in place": ("os.replace", 1),
    "before what is old goes": ("Index.expire", 0),
}


def second_day(example: Any, index: Path, path: Path) -> tuple[Any, ...]:
    """A day that is run twice: its counts, its output, what is stored, and the lines that are refused."""
    counts = example.keep_new(str(index), path)
    refused = path.with_suffix(".refused.jsonl").read_text("utf-8").splitlines()
    end = counts, path.with_suffix(".unique.jsonl").read_bytes(), crawled(index), [json.loads(line)["url"] for line in refused]
    assert example.keep_new(str(index), path) == counts
    assert sorted(one.name for one in path.parent.glob("*.part")) == []
    return end


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The module of the example, an index after a first day, and what a second day comes to that nothing kills."""
    folder = tmp_path_factory.mktemp("days")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        example = importlib.import_module("daily_crawl")
        example.keep_new(str(folder / "first.db"), day_file(folder, 1, rows(90)))
        shutil.copy(folder / "first.db", folder / "crawl.db")
        yield example, folder / "first.db", second_day(example, folder / "crawl.db", day_file(folder, 0, rows(300)))


@pytest.mark.parametrize("place", DEATHS)
def test_a_day_that_was_killed_is_run_again(days: Any, place: str, tmp_path: Path) -> None:
    """Killed anywhere, a day has its whole output or none; run again, counts, output and index are those of one that was not, and
    the same lines are refused."""
    example, first, whole = days
    index, path = Path(shutil.copy(first, tmp_path / "crawl.db")), day_file(tmp_path, 0, rows(300))
    run(*interpreter(), "-c", DIE, EXAMPLES, *DEATHS[place], index, path, folder=tmp_path, status=-signal.SIGKILL)
    unique = path.with_suffix(".unique.jsonl")
    assert not unique.exists() or unique.read_bytes() == whole[1]
    end = second_day(example, index, path)
    assert end[:2] + end[3:] == whole[:2] + whole[3:]
    assert [(key, metadata, number) for key, metadata, _, number in end[2]] == [
        (key, data, number) for key, data, _, number in whole[2]
    ]


def test_the_daily_crawl_of_the_shell(tmp_path: Path) -> None:
    """The script of the page keeps the first of each family of two days; run again for a day, it writes the same."""
    page = (DOCS / "how-to" / "daily-crawl.md").read_text("utf-8")
    (script,) = re.findall(r"```sh title=\"keep_new.sh\"\n(.*?)```", page, re.DOTALL)
    (tmp_path / "keep_new.sh").write_text(script, "utf-8")
    path = programs(tmp_path / "programs")
    records = rows(300)
    for day, some in (("monday", records[:150]), ("tuesday", records[150:]), ("tuesday", records[150:])):
        text = "".join(json.dumps({"url": row["id"], "text": row["text"], "day": day}) + "\n" for row in some)
        (tmp_path / f"{day}.jsonl").write_text(text, "utf-8")
        run("bash", "-c", f"PATH={shlex.quote(str(path))}:$PATH bash keep_new.sh {day}", folder=tmp_path)
    written = [(tmp_path / f"{day}.new.jsonl").read_text("utf-8").splitlines() for day in ("monday", "tuesday")]
    first, second = ([json.loads(line)["url"] for line in one] for one in written)
    assert first + second == firsts(records)
    assert first == firsts(records[:150])


# ---- several processes -------------------------------------------------------------------------------------------------------


def test_a_parallel_build_of_the_sample(tmp_path: Path) -> None:
    """The script shows itself: all documents are there, in clusters, and nothing is left behind."""
    told = json.loads(run(sys.executable, EXAMPLES / "parallel_build.py", folder=tmp_path))
    assert told["documents"] > 300 and told["clusters"] > 20
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("example", ["parallel_build"], indirect=True)
def test_several_processes_build_what_one_builds(example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents in the same order, the same pairs and clusters; a path that is taken stays as it is."""
    records = rows(300)
    files = []
    for number in range(5):
        files.append(tmp_path / f"{number}.jsonl")
        files[-1].write_text("".join(json.dumps(row) + "\n" for row in records[60 * number : 60 * number + 60]), "utf-8")
    example.build(tmp_path / "several.db", files, 3)
    with Index(tmp_path / "several.db") as index, Index(tmp_path / "one.db", example.SCHEME, text=example.RULES) as one:
        one.add_many(example.lines(files))
        assert list(index) == list(one) == [row["id"] for row in records]
        assert set(index.pairs()) == set(one.pairs()) and index.clusters() == one.clusters() != []
        assert index.check().ok
    before = (tmp_path / "several.db").read_bytes()
    monkeypatch.setattr(example, "ProcessPoolExecutor", lambda count, _: ThreadPoolExecutor(count))
    with pytest.raises(FileExistsError):
        example.build(tmp_path / "several.db", files, 3)
    assert (tmp_path / "several.db").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"several.db", "one.db", *(path.name for path in files)}


# ---- the libraries -----------------------------------------------------------------------------------------------------------

SAID = {
    "with_datasets": {"rows": 363, "drop": 303, "drop_in_parallel": 295, "drop_contaminated": 313},
    "with_dask": {"rows": 363, "drop": 295},
    "with_ray": {"rows": 363, "drop": 295},
}
"""What the scripts say of the sample."""

TESTED_APART = {"existing_table", "fastapi_service", "pictures", "review"}
"""Files that other test files run."""


def test_a_stream_of_messages(tmp_path: Path) -> None:
    """What three have said within the hour is held back in every channel; an answer comes at once, and another run goes on."""
    script = [*interpreter(), str(EXAMPLES / "moderation_stream.py")]
    shown = [json.loads(line) for line in run(*script, folder=tmp_path).splitlines()]
    assert [answer["do"] for answer in shown] == ["pass"] * 3 + ["hold"] * 2 + ["pass"]
    assert [answer["alike"] for answer in shown] == [0, 1, 2, 3, 4, 0]
    for turn in range(2):
        with subprocess.Popen(
            [*script, "seen.db"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path, text=True, bufsize=1
        ) as program:
            assert program.stdin is not None and program.stdout is not None
            for number in range(2):
                message = {"id": f"{turn}-{number}", "channel": f"room {number}", "text": "Cheap watches, only today!"}
                program.stdin.write(json.dumps(message) + "\n")
                program.stdin.flush()
                answer = json.loads(program.stdout.readline())
                assert (answer["id"], answer["alike"]) == (message["id"], 2 * turn + number)
            program.stdin.close()
            assert program.wait() == 0
    with Index(tmp_path / "seen.db") as index:
        assert len(index) == 4 and index.window == timedelta(hours=24) and index.check().ok


@pytest.mark.examples
@pytest.mark.parametrize("name", SAID)
def test_an_example_runs_as_it_stands(name: str, tmp_path: Path) -> None:
    """`python docs/examples/NAME.py` says how many documents of the sample are left."""
    assert json.loads(run(sys.executable, EXAMPLES / f"{name}.py", folder=tmp_path).splitlines()[-1]) == SAID[name]


def test_every_example_is_run() -> None:
    """No file of the folder is left out here, and a page links to each."""
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == {"daily_crawl", "moderation_stream", "parallel_build", "with_datatrove", *SAID, *TESTED_APART, *APPLICATIONS}
    linked = (re.findall(r"\]\((?:\.\./)*examples/(\w+)\.py\)", page.read_text("utf-8")) for page in DOCS.rglob("*.md"))
    assert {name for names_of_page in linked for name in names_of_page} == names


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for what `datasets` keeps, which it looks up when it is imported."""
    folder = tmp_path_factory.mktemp("datasets")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**OFFLINE, "HF_HOME": str(folder), "HF_DATASETS_CACHE": str(folder)}.items():
            patch.setenv(name, value)
        import datasets

        datasets.disable_progress_bars()
        yield folder


def loaded(records: list[dict[str, str]], folder: Path) -> Any:
    """Records as a dataset on the disk, whose steps `datasets` keeps in its cache."""
    import datasets

    path = folder / f"{time.time_ns()}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in records), "utf-8")
    return datasets.load_dataset("json", data_files=str(path), split="train")


@pytest.mark.examples
@pytest.mark.parametrize("example", ["with_datasets"], indirect=True)
def test_a_dataset_without_near_duplicates(cache: Path, example: Any, tmp_path: Path) -> None:
    """One process and several keep the first row of each family, with its columns, however many there are."""
    records = rows(400)
    dataset = loaded([{**row, "source": f"s{i}"} for i, row in enumerate(records)], cache)
    made = [example.drop(dataset)]
    made += [example.drop_in_parallel(dataset, str(tmp_path / f"{count}.db"), count) for count in (1, 2, 3)]
    for one in made:
        assert one["id"][:] == firsts(records)
        assert one.column_names == ["id", "text", "source"]
        assert one["source"][:] == [f"s{i}" for i, row in enumerate(records) if row["id"] in set(firsts(records))]


@pytest.mark.examples
@pytest.mark.parametrize("example", ["with_datasets"], indirect=True)
def test_a_dataset_against_an_index_that_grows(cache: Path, example: Any, tmp_path: Path) -> None:
    """Rows that are like something in the file go, in one process or several, also when the file has grown since."""
    records, path = rows(200), tmp_path / "test_set.db"
    dataset, seen = loaded(records, cache), set()
    for number in range(2):
        with Index(path, example.SCHEME) as index:
            for row in records[number * 10 : number * 10 + 5]:
                index.add(f"test {row['id']}", row["text"])
                seen |= {family(row)} if row["text"] != "!!!" else set()
        clean = [row for row in records if family(row) not in seen]
        for processes in (None, 2, 3):
            assert example.drop_contaminated(dataset, str(path), processes).to_list() == clean


@pytest.mark.examples
@pytest.mark.parametrize("example", ["with_datasets"], indirect=True)
def test_datasets_knows_a_step_again(cache: Path, example: Any) -> None:
    """The hash of a function with a scheme and rules in it does not change when these were used, so its result is reused."""
    import dill
    from datasets.fingerprint import Hasher

    before = Hasher.hash(example.fingerprints), Hasher.hash((example.SCHEME, example.RULES))
    dataset = loaded(rows(30), cache).with_format("arrow")
    first, second = (dataset.map(example.fingerprints, batched=True, remove_columns=dataset.column_names) for _ in range(2))
    assert first.cache_files == second.cache_files != []
    assert (Hasher.hash(example.fingerprints), Hasher.hash((example.SCHEME, example.RULES))) == before
    assert dill.loads(dill.dumps((example.SCHEME, example.RULES))) == (example.SCHEME, example.RULES)


def written(folder: Path) -> list[str]:
    """The ids in the files of a folder, in the order of the files."""
    return [json.loads(line)["id"] for path in sorted(folder.iterdir()) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.examples
def test_the_datatrove_example_runs_as_it_stands(tmp_path: Path) -> None:
    """Of the sample one document of each cluster is left at least, and none is lost."""
    said = json.loads(run(sys.executable, EXAMPLES / "with_datatrove.py", folder=tmp_path).splitlines()[-1])
    assert said["out"] + said["dropped"] == 363
    assert 295 <= said["out"] < 330


@pytest.mark.examples
@pytest.mark.parametrize(("tasks", "workers"), [(1, 1), (4, 1), (4, 4)])
@pytest.mark.parametrize("example", ["with_datatrove"], indirect=True)
def test_a_datatrove_block_of_many_tasks(example: Any, tasks: int, workers: int, tmp_path: Path) -> None:
    """One of each family stays, whichever task writes it; in turns it is the first. A task that is run again writes the same."""
    records = rows(1200)
    (tmp_path / "in").mkdir()
    for part in range(4):
        lines = (json.dumps(row) + "\n" for row in records[part * 300 : part * 300 + 300])
        (tmp_path / "in" / f"{part}.jsonl").write_text("".join(lines), "utf-8")
    example.run(str(tmp_path), tasks, workers)
    out, dropped = written(tmp_path / "out"), written(tmp_path / "dropped")
    of = {row["id"]: family(row) for row in records}
    assert sorted(of[key] for key in out) == sorted(set(of.values()))
    assert sorted(out + dropped) == sorted(of)
    if workers == 1:
        assert out == firsts(records)
    last = f"{tasks - 1:05}"
    (tmp_path / "logs" / "completions" / last).unlink()
    (tmp_path / "out" / f"{last}.jsonl").unlink()
    example.run(str(tmp_path), tasks, workers)
    assert written(tmp_path / "out") == out
    with Index(tmp_path / "seen.db", read_only=True) as index:
        assert index.check().ok
        assert sorted(index) == sorted(out)


@pytest.mark.examples
@pytest.mark.parametrize(("partitions", "scheduler"), [(1, "threads"), (40, "threads"), (3, "processes")])
@pytest.mark.parametrize("example", ["with_dask"], indirect=True)
def test_a_dask_frame_without_near_duplicates(example: Any, partitions: int, scheduler: str, tmp_path: Path) -> None:
    """The first row of each family stays, however the frame is cut, and where its parts are computed."""
    import dask

    records = rows(300)
    frame = example.dd.from_pandas(pd.DataFrame(records), npartitions=partitions, sort=False)
    (tmp_path / "parts").mkdir()
    with dask.config.set(scheduler=scheduler):
        left = example.drop(frame, str(tmp_path / "parts"), str(tmp_path / "index.db"))
        assert list(left["id"].compute()) == firsts(records)


@pytest.mark.examples
@pytest.mark.parametrize("example", ["with_ray"], indirect=True)
def test_a_ray_dataset_without_near_duplicates(example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest id of each family stays, however many blocks there are."""
    for name, value in OFFLINE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)  # workers import from the folder they are started in, and are to import what is installed
    ray, records = example.ray, rows(300)
    random.Random(3).shuffle(records)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": str(EXAMPLES)}})
    try:
        for blocks in (1, 5):
            dataset = ray.data.from_arrow(pa.Table.from_pylist(records)).repartition(blocks)
            left = example.drop(dataset, str(tmp_path / f"parts-{blocks}"), str(tmp_path / f"{blocks}.db"))
            kept = firsts(sorted(records, key=lambda row: row["id"]))
            assert sorted(row["id"] for row in left.take_all()) == sorted(kept)
    finally:
        ray.shutdown()
