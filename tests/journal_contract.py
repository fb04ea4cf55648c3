"""What every journal does, wherever it is kept: the same tests for files and for ConfigMaps.

`new_place` is a fixture that makes a place for one journal; a place opens a store, each time a master begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elastic_runtime.errors import ElasticError
from elastic_runtime.master.journal import Journal, Row, Store

Place = Callable[[], Store]


class Watched:
    """A store that tells how it was written to; its pause and its room are the test's."""

    def __init__(self, store: Store, *, pause: float = 0.0, room: int = 1 << 30) -> None:
        self._store, self.pause, self.room = store, pause, room
        self.where, self.load, self.close = store.where, store.load, store.close
        self.writes: list[str] = []

    def append(self, rows: Sequence[Row]) -> None:
        self.writes.append("append")
        self._store.append(rows)

    def replace(self, rows: Sequence[Row]) -> None:
        self.writes.append("replace")
        self._store.replace(rows)


def write(store: Store, *records: Any, snapshot: Any = None) -> None:
    """What a master writes in one life, one commit a record, closed in order."""

    async def live() -> None:
        journal = Journal(Watched(store))
        if snapshot is not None:
            await journal.write_snapshot(snapshot)
        for record in records:
            journal.append(record)
            await journal.commit()
        await journal.close()

    asyncio.run(live())


def read(store: Store) -> tuple[Any, list[Any]]:
    """What the next master finds."""

    async def live() -> tuple[Any, list[Any]]:
        journal = Journal(store)
        snapshot, records = journal.replay()
        await journal.close()
        return snapshot, list(records)

    return asyncio.run(live())


class JournalContract:
    """The tests; a subclass has the fixture."""

    def test_records_come_back_in_order(self, new_place):
        place = new_place()
        records = [["Ask", "w", 1.5], {"text": "ü\n\0"}, [], None, 2**53, "x" * 100_000]
        write(place(), *records)
        assert read(place()) == (None, records)

    def test_a_new_journal_is_empty(self, new_place):
        assert read(new_place()()) == (None, [])

    def test_a_snapshot_replaces_what_was_before_it(self, new_place):
        place = new_place()
        write(place(), 1, 2)
        write(place(), 4, 5, snapshot={"sum": 3})
        write(place(), 6)
        assert read(place()) == ({"sum": 3}, [4, 5, 6])
        write(place(), snapshot={"sum": 18})
        assert read(place()) == ({"sum": 18}, [])

    def test_a_snapshot_takes_in_what_was_appended_but_not_yet_committed(self, new_place):
        place = new_place()

        async def live():
            journal = Journal(place())
            journal.append(1)
            waiting = asyncio.ensure_future(journal.commit())
            journal.append(2)
            snapshot = asyncio.ensure_future(journal.write_snapshot("one and two"))
            journal.append(3)
            await asyncio.gather(waiting, snapshot)
            journal.append(4)
            await journal.close()

        asyncio.run(live())
        assert read(place()) == ("one and two", [3, 4])

    def test_tasks_that_wait_together_share_a_write(self, new_place):
        place = new_place()

        async def live():
            journal = Journal(store := Watched(place()))

            async def report(number):
                journal.append(number)
                await journal.commit()

            await asyncio.gather(*map(report, range(500)))
            await journal.close()
            return store.writes

        assert asyncio.run(live()) == ["append"]
        assert read(place()) == (None, [*range(500)])

    def test_what_came_while_a_write_was_due_is_in_it(self, new_place):
        async def live(pause):
            journal = Journal(store := Watched(new_place()(), pause=pause))
            loop = asyncio.get_running_loop()
            begin = loop.time()

            async def report(number):
                journal.append(number)
                appended = loop.time() - begin
                await journal.commit()
                return appended

            await report(0)
            second = asyncio.ensure_future(report(1))
            for _ in range(10):
                await asyncio.sleep(0)  # its write is due by now, and waits
            _, last = await asyncio.gather(second, report(2))
            both = loop.time() - begin
            await journal.close()
            return store.writes, both, last

        for pause in (1.0, 4.0, 16.0, 64.0):
            writes, both, last = asyncio.run(live(pause))
            if last < pause:  # else the first write took so long that nothing was left of the pause
                break
        assert writes == ["append", "append"]
        assert pause <= both + 0.001

    def test_a_store_with_no_room_is_given_a_snapshot_instead_of_more(self, new_place):
        place, seen = new_place(), []

        async def live():
            journal = Journal(store := Watched(place(), room=20), state=lambda: sum(seen))
            for number in (1, 2, 10**30, 3):
                seen.append(number)
                journal.append(number)
                await journal.commit()
            await journal.close()
            return store.writes

        assert asyncio.run(live()) == ["append", "append", "replace", "append"]
        assert read(place()) == (10**30 + 3, [3])

    def test_an_error_reaches_everyone_who_waits_and_the_next_commit_tries_again(self, new_place):
        place = new_place()

        class Refusing(Watched):
            def append(self, rows):
                if not self.writes:
                    self.writes.append("refused")
                    raise ElasticError("no room")
                super().append(rows)

        async def live():
            journal = Journal(Refusing(place()))

            async def report(number):
                journal.append(number)
                await journal.commit()

            answers = await asyncio.gather(*map(report, range(3)), return_exceptions=True)
            assert [str(answer) for answer in answers] == ["no room"] * 3
            await report(3)
            await journal.close()

        asyncio.run(live())
        assert read(place()) == (None, [0, 1, 2, 3])

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.lists(st.sampled_from(["append", "commit", "snapshot", "die", "close"]), max_size=25))
    def test_whenever_it_dies_a_prefix_with_all_that_was_durable_is_there(self, new_place, moves):
        place = new_place()

        async def live():
            known: list[int] = []  # appended and not lost
            durable, journal = 0, None
            for move in [*moves, "die", "append"]:
                if journal is None:
                    store = place()
                    journal = Journal(Watched(store))
                    snapshot, records = journal.replay()
                    found = [*(snapshot or []), *records]
                    assert found == known[: len(found)]
                    assert len(found) >= durable
                    known, durable = found, len(found)
                if move == "append":
                    known.append(len(known))
                    journal.append(known[-1])
                elif move == "die":
                    store.close()
                    journal = None
                elif move == "snapshot":
                    await journal.write_snapshot(known)
                    durable = len(known)
                else:
                    await (journal.commit() if move == "commit" else journal.close())
                    durable, journal = len(known), journal if move == "commit" else None
            store.close()

        asyncio.run(live())
