"""The journal through cuts, kills, a full disk and a second master."""

import asyncio
import contextlib
import functools
import itertools
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys

import pytest

from elastic_runtime.errors import ElasticError
from elastic_runtime.master.journal import FileStore, Journal, discard, read_only, replay
from elastic_runtime.platform.no_room import NoRoom
from tests.journal_contract import JournalContract


def write(path, *records, snapshot=None):
    """What a master writes in one life, one commit a record, closed in order."""

    async def live():
        journal = Journal(path)
        if snapshot is not None:
            await journal.write_snapshot(snapshot)
        for record in records:
            journal.append(record)
            await journal.commit()
        await journal.close()

    asyncio.run(live())


def read(path):
    """What the next master finds."""

    async def live():
        journal = Journal(path)
        snapshot, records = journal.replay()
        found = snapshot, list(records)
        await journal.close()
        return found

    return asyncio.run(live())


def copied(source, folder):
    """The files of a journal whose owner lives, as a kill at this moment would leave them."""
    folder.mkdir()
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{source}{suffix}", folder / f"journal{suffix}")
    return folder / "journal"


class TestFileJournal(JournalContract):
    @pytest.fixture
    def new_place(self, tmp_path):
        numbers = itertools.count()
        return lambda: functools.partial(FileStore, tmp_path / f"job-{next(numbers)}" / "journal")


def test_what_a_master_left_is_read_without_being_taken_over(tmp_path):
    write(tmp_path / "journal", 1, 2)
    assert read_only(tmp_path / "journal") == (None, [1, 2])
    write(tmp_path / "journal", 4, snapshot={"sum": 3})
    assert read_only(tmp_path / "journal") == ({"sum": 3}, [4])


def test_a_second_master_is_told_who_has_the_journal(tmp_path):
    async def live():
        journal = Journal(tmp_path / "journal")
        with pytest.raises(ElasticError, match=rf"another master .* process {os.getpid()} on"):
            Journal(tmp_path / "journal")
        journal.append("still mine")
        await journal.close()

    asyncio.run(live())
    assert read(tmp_path / "journal") == (None, ["still mine"])


def test_closing_leaves_one_file(tmp_path):
    write(tmp_path / "journal", 1, 2, 3)
    assert os.listdir(tmp_path) == ["journal"]
    discard(tmp_path / "journal")
    assert os.listdir(tmp_path) == []


def test_cut_at_any_byte_after_any_event_gives_a_prefix_with_all_that_was_durable(tmp_path):
    """At each event the log's length is noted: a cut at or beyond it must keep that event."""
    lengths = []

    async def live():
        journal = Journal(tmp_path / "journal")
        for number in range(6):
            journal.append(["event", number])
            await journal.commit()
            lengths.append((tmp_path / "journal-wal").stat().st_size)
        whole = copied(tmp_path / "journal", tmp_path / "copy")
        await journal.close()
        return whole

    whole = asyncio.run(live())
    log = (tmp_path / "copy" / "journal-wal").read_bytes()
    every = [["event", number] for number in range(6)]
    cut = tmp_path / "copy" / "journal-wal"
    for size in range(len(log), -1, -1):
        if size % 512 and min(abs(size - length) for length in [0, *lengths]) > 40:
            continue  # inside a page one cut is like another; around each commit every byte is tried
        cut.write_bytes(log[:size])
        snapshot, records = read_only(whole)
        assert (snapshot, records) == (None, every[: len(records)])
        assert len(records) >= sum(length <= size for length in lengths)


def test_cut_and_continued_it_holds_the_prefix_and_what_came_after(tmp_path):
    async def live():
        journal = Journal(tmp_path / "journal")
        for number in range(5):
            journal.append(number)
            await journal.commit()
        path = copied(tmp_path / "journal", tmp_path / "copy")
        await journal.close()
        return path

    path = asyncio.run(live())
    log = path.with_name("journal-wal")
    log.write_bytes(log.read_bytes()[:-1])
    write(path, "after")
    assert read(path) == (None, [0, 1, 2, 3, "after"])


def test_reading_a_dead_masters_journal_changes_nothing(tmp_path):
    async def live():
        journal = Journal(tmp_path / "journal")
        journal.append(1)
        await journal.commit()
        path = copied(tmp_path / "journal", tmp_path / "dead")
        await journal.close()
        return path

    path = asyncio.run(live())
    before = {file: (tmp_path / "dead" / file).read_bytes() for file in os.listdir(tmp_path / "dead")}
    assert read_only(path) == (None, [1])
    assert before == {file: (tmp_path / "dead" / file).read_bytes() for file in os.listdir(tmp_path / "dead")}


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM entry WHERE seq = 1",
        "DELETE FROM entry WHERE seq = 3",
        "UPDATE entry SET body = '7' WHERE seq = 3",
        "UPDATE entry SET kind = 1 WHERE seq = 3",
        "UPDATE entry SET seq = 9 WHERE seq = 5",
        "UPDATE entry SET chain = chain + 1 WHERE seq = 5",
        "PRAGMA user_version = 7",
    ],
)
@pytest.mark.parametrize("reader", [read, read_only])
def test_a_changed_entry_is_found_and_told_with_the_remedy(tmp_path, sql, reader):
    path = tmp_path / "journal"
    write(path, 1, 2, 3, 4, 5)
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute(sql)
    connection.close()
    with pytest.raises(ElasticError, match=r"journal: .*--restart"):
        reader(path)


@pytest.mark.parametrize("reader", [read, read_only])
def test_any_damage_to_the_file_itself_is_an_error_or_harmless(tmp_path, reader):
    path = tmp_path / "journal"
    records = [["event", number, "x" * 50] for number in range(20)]
    write(path, *records)
    content = path.read_bytes()
    for at in range(0, len(content), 17):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
        with contextlib.suppress(ElasticError):
            assert reader(path) == (None, records)


@pytest.mark.parametrize("content", [b"", b"not a journal, surely" * 100])
def test_a_file_that_is_no_journal_is_refused_when_it_holds_anything(tmp_path, content):
    (tmp_path / "journal").write_bytes(content)
    if content:
        with pytest.raises(ElasticError, match="damaged"):
            read(tmp_path / "journal")
    else:
        assert read(tmp_path / "journal") == (None, [])


def test_an_emptied_file_with_a_log_is_not_taken_for_a_new_journal(tmp_path):
    (tmp_path / "journal").write_bytes(b"")
    (tmp_path / "journal-wal").write_bytes(b"x" * 100)
    for reader in (read, read_only):
        with pytest.raises(ElasticError, match="damaged"):
            reader(tmp_path / "journal")


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ElasticError, match="cannot be read"):
        Journal(tmp_path / "file" / "journal")


def test_reading_a_journal_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ElasticError, match="there is no journal"):
        read_only(tmp_path / "journal")


FULL_DISK = """
import asyncio, pathlib, resource, sys
from elastic_runtime.errors import ElasticError
from elastic_runtime.master.journal import Journal

async def live(path):
    journal = Journal(path)
    journal.append("durable")
    await journal.commit()
    soft = pathlib.Path(f"{path}-wal").stat().st_size + 10_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, resource.RLIM_INFINITY))
    async def report(number):
        journal.append(str(number) * 9000)
        await journal.commit()
    answers = await asyncio.gather(*map(report, range(3)), return_exceptions=True)
    assert all(isinstance(answer, ElasticError) for answer in answers), answers
    print(answers[0])
    if sys.argv[2] == "room again":
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        await journal.close()

asyncio.run(live(pathlib.Path(sys.argv[1])))
"""


@pytest.mark.parametrize("then", ["room again", "killed"])
def test_a_full_disk_reaches_everyone_who_waits_and_nothing_is_half_written(tmp_path, then):
    path = tmp_path / "journal"
    child = subprocess.run(
        [sys.executable, "-c", FULL_DISK, path, then], capture_output=True, text=True, check=True, timeout=240
    )
    assert "the journal cannot be written" in child.stdout
    assert str(path) in child.stdout
    later = [str(number) * 9000 for number in range(3)]
    assert read(path) == (None, ["durable", *(later if then == "room again" else [])])


WRITER = """
import asyncio, pathlib, sys
from elastic_runtime.master.journal import Journal

async def live(path):
    journal = Journal(path)
    snapshot, records = journal.replay()
    count = (snapshot or 0) + sum(1 for _ in records)
    async def reports():
        nonlocal count
        while True:
            count += 1
            mine = count
            journal.append(mine)
            if mine % 97 == 0:
                await journal.write_snapshot(mine)
            else:
                await journal.commit()
            sys.stdout.write(f"{mine}\\n")
            sys.stdout.flush()
    await asyncio.gather(*(reports() for _ in range(4)))

asyncio.run(live(pathlib.Path(sys.argv[1])))
"""


def test_killed_at_any_moment_it_has_all_it_was_told_was_durable(tmp_path):
    """The writer tells each durable number; it is killed after ever more of them, and the next goes on."""
    path = tmp_path / "journal"
    told = 0
    for life in range(8):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True)
        for _ in range(1 + 41 * life):
            told = max(told, int(writer.stdout.readline()))
        writer.send_signal(signal.SIGKILL)
        told = max([told, *(int(line) for line in writer.stdout.read().split("\n")[:-1])])
        writer.wait()
        writer.stdout.close()
        snapshot, records = read_only(path)
        assert records == list(range((snapshot or 0) + 1, (snapshot or 0) + 1 + len(records)))
        assert (snapshot or 0) + len(records) >= told
    assert json.loads(json.dumps(read(path))) == [snapshot, records]


class Small:
    """A place for 100 characters of rows and snapshot together, which reckons with more."""

    where, pause, room = "a small place", 0.0, 1 << 30

    def __init__(self):
        self.rows = []

    def load(self):
        return []

    def append(self, rows):
        self._keep([*self.rows, *rows])

    def replace(self, rows):
        self._keep([*rows])

    def _keep(self, rows):
        if sum(len(body) for _, _, body, _ in rows) > 100:
            raise NoRoom("it does not fit")
        self.rows = rows

    def close(self):
        pass


def test_rows_that_do_not_fit_make_room_by_a_snapshot_and_only_one_that_does_not_fit_is_an_error():
    store, state = Small(), []

    async def live():
        journal = Journal(store, state=lambda: sum(state))
        for number in range(500):
            state.append(number)
            journal.append(number)
            await journal.commit()
        assert replayed(store.rows) == sum(state)
        await journal.close()
        with pytest.raises(NoRoom):
            await Journal(Small(), state=lambda: 0).write_snapshot("x" * 200)

    asyncio.run(live())


def replayed(rows):
    snapshot, records = replay(rows)
    return (snapshot or 0) + sum(records)
