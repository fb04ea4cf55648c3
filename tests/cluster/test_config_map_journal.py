"""The journal in a ConfigMap of a real API server: kept there, fenced, and through the server's absence."""

from __future__ import annotations

import asyncio
import base64
import functools
import itertools
import logging
import random
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from kubernetes.client import V1ConfigMap, V1ObjectMeta, V1OwnerReference

from elastic_runtime.errors import ElasticError
from elastic_runtime.master.journal import Journal, check, replay
from elastic_runtime.master.ledger import Ask, Finished, GivenBack, Ledger, Source, decode, encode
from elastic_runtime.platform.kubernetes.api import Api, Away
from elastic_runtime.platform.kubernetes.config_map import CONFIG_MAP_BYTES, ConfigMapStore, rows_of
from elastic_runtime.platform.kubernetes.connection import Connection, configuration
from elastic_runtime.platform.overtaken import Overtaken
from tests.cluster.kit import faults
from tests.cluster.kit.cluster import PATIENCE_SECONDS
from tests.cluster.kit.namespace import Namespace
from tests.journal_contract import JournalContract, Watched, read, write

pytestmark = pytest.mark.timeout(900)  # each wait has its own, shorter limit
NAME = "elasticdl-j"


@pytest.fixture
def found(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("KUBECONFIG", str(namespace.cluster.kubeconfig))
    return configuration(force_kube_config_file=True)


@pytest.fixture
def api(namespace: Namespace, found: Any) -> Iterator[Api]:
    made = Api(Connection(found, patience=PATIENCE_SECONDS), namespace.name)
    yield made
    made.close()


@pytest.fixture
def anchor(api: Api) -> str:
    return make_anchor(api, NAME)


def make_anchor(api: Api, name: str) -> str:
    api.create_config_map(V1ConfigMap(metadata=V1ObjectMeta(name=name), data={"job.json": "{}"}))
    return name


def hurried(api: Api, name: str) -> Watched:
    return Watched(ConfigMapStore(api, name))


class TestConfigMapJournal(JournalContract):
    @pytest.fixture
    def new_place(self, api):
        numbers = itertools.count()
        return lambda: functools.partial(ConfigMapStore, api, make_anchor(api, f"j-{next(numbers)}"))


def test_what_is_beside_the_journal_stays(api, anchor):
    write(ConfigMapStore(api, anchor), 1, 2, 3, snapshot={"sum": 0})
    write(ConfigMapStore(api, anchor), snapshot={"sum": 6})
    there = api.get_config_map(anchor)
    assert there.data["job.json"] == "{}"
    others = [key for key in [*there.data, *there.binary_data] if not key.startswith("journal.")]
    assert others == ["job.json"]


def test_anybody_reads_it_without_taking_it_over(api, anchor):
    async def live():
        journal = Journal(ConfigMapStore(api, anchor))
        journal.append("one")
        await journal.commit()
        rows = rows_of(api.get_config_map(anchor))
        check(rows, anchor)
        snapshot, records = replay(rows)
        journal.append("two")
        await journal.close()
        return snapshot, list(records)

    assert asyncio.run(live()) == (None, ["one"])
    assert read(ConfigMapStore(api, anchor)) == (None, ["one", "two"])


def test_owners_that_come_and_go_are_no_other_writer(api, anchor):
    """The cluster itself strikes off owners that are gone, as long as there is another."""

    class Owner:
        def __init__(self, uid):
            self.uid = uid

        def reference(self):
            return V1OwnerReference(api_version="v1", kind="ConfigMap", name="owner", uid=self.uid)

    async def live():
        journal = Journal(hurried(api, anchor))
        for number in range(30):
            journal.append(number)
            await asyncio.gather(
                journal.commit(), asyncio.to_thread(api.add_owner, anchor, Owner(f"gone-{number}"))
            )
        await journal.close()

    there = api.create_config_map(V1ConfigMap(metadata=V1ObjectMeta(name="owner")))
    api.add_owner(anchor, Owner(there.metadata.uid))
    asyncio.run(live())
    assert read(ConfigMapStore(api, anchor)) == (None, [*range(30)])


def test_a_master_that_was_cut_off_is_refused_and_has_changed_nothing(api, anchor):
    """It writes all the time; its successor finds all it was told was durable, and nothing comes after."""

    async def live():
        zombie, told, alive = Journal(hurried(api, anchor)), [], asyncio.Event()

        async def write_for_ever():
            for number in itertools.count():
                zombie.append(number)
                await zombie.commit()
                told.append(number)
                if number == 5:
                    alive.set()

        writing = asyncio.ensure_future(write_for_ever())
        await alive.wait()
        successor = await asyncio.to_thread(Journal, ConfigMapStore(api, anchor))
        before, found = len(told), [*successor.replay()[1]]
        with pytest.raises(Overtaken, match=rf"another master has taken over: {socket.gethostname()}/"):
            await writing
        assert found == [*range(len(found))]
        assert len(found) >= len(told) >= before
        successor.append("mine")
        await successor.close()
        with pytest.raises(Overtaken):
            await zombie.close()
        return found

    found = asyncio.run(live())
    assert read(ConfigMapStore(api, anchor)) == (None, [*found, "mine"])


def test_a_journal_deleted_with_its_job_is_told(api, anchor):
    async def live():
        journal = Journal(ConfigMapStore(api, anchor))
        api.delete_config_map(anchor)
        journal.append(1)
        with pytest.raises(ElasticError, match=rf"{anchor}: the journal is gone: the job was deleted"):
            await journal.commit()

    asyncio.run(live())
    with pytest.raises(ElasticError, match="the journal is gone"):
        read(ConfigMapStore(api, anchor))


def test_damage_is_found_and_told(api, anchor):
    write(ConfigMapStore(api, anchor), 1, 2, 3)
    keys = sorted(api.get_config_map(anchor).binary_data)
    whole = api.get_config_map(anchor).binary_data[keys[2]]
    foreign = base64.b64encode(b"surely not compressed").decode()
    for damage in (None, foreign, api.get_config_map(anchor).binary_data[keys[3]]):
        api.patch_config_map(anchor, {"binaryData": {keys[2]: damage}})
        with pytest.raises(ElasticError, match=r"the journal is damaged: .*--restart"):
            read(ConfigMapStore(api, anchor))
    api.patch_config_map(anchor, {"binaryData": {keys[2]: whole}})
    assert read(ConfigMapStore(api, anchor)) == (None, [1, 2, 3])


def test_what_does_not_fit_is_told_with_the_remedy_and_the_rest_stays(api, anchor):
    noise = base64.b64encode(random.Random(1).randbytes(CONFIG_MAP_BYTES)).decode()

    async def live():
        journal = Journal(hurried(api, anchor))
        journal.append("fits")
        await journal.commit()
        with pytest.raises(
            ElasticError, match=r"does not fit: 1\d\d\d KiB of 1024 KiB .*--run_dir .*--volume"
        ):
            await journal.write_snapshot(noise)

    asyncio.run(live())
    assert read(ConfigMapStore(api, anchor)) == (None, ["fits"])


def test_a_snapshot_that_just_fits_is_taken_by_the_server(api, anchor):
    """Our sum and the server's are the same."""
    noise = base64.b64encode(random.Random(1).randbytes(CONFIG_MAP_BYTES - 16_000)).decode()
    write(ConfigMapStore(api, anchor), 1, 2, snapshot=noise)
    assert read(ConfigMapStore(api, anchor)) == (noise, [1, 2])


@asynccontextmanager
async def api_server_stopped(namespace: Namespace) -> AsyncIterator[None]:
    stopped = faults.api_server_stopped(namespace.cluster)
    await asyncio.to_thread(stopped.__enter__)
    try:
        yield
    finally:
        await asyncio.to_thread(stopped.__exit__, None, None, None)


def test_commits_wait_while_the_api_server_is_stopped_and_go_on_after(api, anchor, namespace):
    said = threading.Event()
    listener = logging.Handler()
    listener.emit = lambda record: said.set()
    logging.getLogger(Connection.__module__).addHandler(listener)

    async def live():
        journal = Journal(hurried(api, anchor))
        journal.append(0)
        await journal.commit()
        async with api_server_stopped(namespace):
            waiting = []
            for number in range(1, 6):
                journal.append(number)
                waiting.append(asyncio.ensure_future(journal.commit()))
            assert await asyncio.to_thread(said.wait, PATIENCE_SECONDS)
            assert not any(each.done() for each in waiting)
        await asyncio.gather(*waiting)
        await journal.close()

    try:
        asyncio.run(live())
    finally:
        logging.getLogger(Connection.__module__).removeHandler(listener)
    assert read(ConfigMapStore(api, anchor)) == (None, [*range(6)])


class Cutter:
    """A line to the API server that can be told to break when the next answer comes."""

    def __init__(self, host: str, port: int) -> None:
        self._server, self._listening = (host, port), socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.armed = threading.Event()
        self.cuts = 0
        threading.Thread(target=self._accept).start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, far = self._listening.accept()[0], socket.create_connection(self._server)
                threading.Thread(target=self._pump, args=(near, far, False)).start()
                threading.Thread(target=self._pump, args=(far, near, True)).start()

    def _pump(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if answers and self.armed.is_set():
                    self.armed.clear()
                    self.cuts += 1
                    break
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def cutter(namespace: Namespace, found: Any) -> Iterator[Cutter]:
    made = Cutter(namespace.cluster.site.control_plane, 6443)
    found.host, found.tls_server_name = f"https://127.0.0.1:{made.port}", "kubernetes"
    yield made
    made.close()


def test_a_write_whose_answer_was_lost_is_there_once(cutter, api, anchor):
    lots = random.Random(5)

    async def live():
        journal, known = Journal(hurried(api, anchor)), []
        for number in range(40):
            if lots.random() < 0.4:
                cutter.armed.set()
            known.append(number)
            journal.append(number)
            if lots.random() < 0.2:
                await journal.write_snapshot(known)
            else:
                await journal.commit()
            assert not cutter.armed.is_set()
        await journal.close()

    asyncio.run(live())
    assert cutter.cuts > 10
    snapshot, records = read(ConfigMapStore(api, anchor))
    assert [*snapshot, *records] == [*range(40)]


def test_a_write_that_was_given_up_though_it_arrived_is_part_of_the_next(api, anchor):
    lots = random.Random(6)

    class Forgetful:
        namespace = api.namespace
        get_config_map = api.get_config_map

        def patient(self, _):
            return self

        def patch_config_map(self, name, patch):
            answer = api.patch_config_map(name, patch)
            if isinstance(patch, list) and lots.random() < 0.4:
                raise Away("no answer")
            return answer

    async def live():
        journal, known, given_up = Journal(hurried(Forgetful(), anchor)), [], 0
        for number in range(40):
            known.append(number)
            journal.append(number)
            try:
                await (journal.write_snapshot(known) if lots.random() < 0.2 else journal.commit())
            except Away:
                given_up += 1
        while True:
            with suppress(Away):
                await journal.commit()
                return given_up

    assert asyncio.run(live()) > 5
    snapshot, records = read(ConfigMapStore(api, anchor))
    assert [*snapshot, *records] == [*range(40)]


def test_a_job_of_200_000_shards_fits_and_is_found_again(api, anchor):
    """In any order, with some given back, and no checkpoint that would let the ledger forget."""
    shards, sources = 200_000, [Source("records", 200_000)]
    options: dict[str, Any] = {"records_per_shard": 1, "seed": 3}
    ledger, store = Ledger(sources, **options), ConfigMapStore(api, anchor)
    sizes: list[int] = []

    async def live():
        journal = Journal(watched := Watched(store), state=ledger.state)
        for number in range(shards // 2):
            ask = Ask("w", number, serial=number + 1)
            lease = ledger.handle(ask)[0].lease
            event = (
                GivenBack("w", lease, 0, number)
                if number % 997 == 5
                else Finished("w", lease, number, number)
            )
            ledger.handle(event)
            for told in (ask, event):
                journal.append(encode(told))
            watched.room = store.room
            if number % 10_000 == 0 or number > shards // 2 - 20:
                await journal.commit()
                sizes.append(store.size)
        await journal.close()

    asyncio.run(live())
    assert max(sizes) < CONFIG_MAP_BYTES / 2
    snapshot, records = read(ConfigMapStore(api, anchor))
    assert 20 < len(records) < 40
    again = Ledger.restore(snapshot, sources, **options)
    for record in records:
        again.handle(decode(record))
    assert again.done_intervals(0) == ledger.done_intervals(0)
