"""A job on its way into the cluster, and the client's eye on it until it ends.

The client makes what the master needs and the master's pod; from then on the job lives by itself. Whoever
follows it also replaces a master that was lost with its node, evicted or deleted: pods and journal wait for
the next. If all the job's pods were deleted, the user wanted it gone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.platform.exits import Verdict
from elastic_runtime.platform.kubernetes import belongings, journal_place, labels, making, patience, state
from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.platform.kubernetes.container import own_container
from elastic_runtime.platform.kubernetes.errors import AlreadyThere, ApiError, Away, Expired, NotThere
from elastic_runtime.platform.kubernetes.objects import SPEC_KEY, Blueprint, command_of, owner_of, pod_of
from elastic_runtime.platform.kubernetes.patience import Patience, given_up
from elastic_runtime.platform.kubernetes.removal import see_off
from elastic_runtime.platform.kubernetes.stream import Stream
from elastic_runtime.platform.pods import BEGIN_ANEW, ExitCause, Phase, Role, pod_name
from elastic_runtime.spec.arguments import parse
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.spec.volumes import place_on_volume

log = logging.getLogger(__name__)

VERDICTS = (0, 1, 2, 130)
"""Exit codes with which a master says how the job ended; whatever else ended it, the job goes on."""
DELETING_SECONDS = 3.0
"""How long after one of a job's pods the next is deleted, at most, by whoever deletes all of them."""
LOST_IN_A_ROW = 3
"""Masters that may die of themselves (lack of memory, kill -9) one after the other."""
GONE_SECONDS = 60.0
AGAIN_SECONDS = 1.0
_DISTURBED = (ExitCause.PREEMPTED, ExitCause.NODE_LOST, ExitCause.DRAINED)

_MASTER = ("python", "-m", "elastic_runtime.master")

Say = Callable[[str], None]


def master_command(spec: JobSpec) -> tuple[str, ...]:
    """What the master's pod runs."""
    return (*_MASTER, *spec.to_args("master"))


def by_hand(blueprint: Blueprint) -> list[Any]:
    """What a user applies who has the job begin without the client: all but the pods that the master makes.

    The config map and the master's pod are enough. In the place of the others the master makes its own.
    """
    servers = range(blueprint.spec.num_ps_pods or 0)
    return [
        blueprint.anchor(),
        blueprint.secret(belongings.PLACEHOLDER),
        blueprint.master_service(),
        *(blueprint.ps_service(index) for index in servers),
        blueprint.master_pod(master_command(blueprint.spec), by_hand=True),
    ]


def await_end(api: Api, job: str, *, seconds: float) -> bool:
    """Wait until the job's master has ended; false if it has not within this time."""
    until, name = time.monotonic() + seconds, pod_name(job, Role.MASTER)
    while (pod := api.get_pod(name)) is not None and state.phase(pod) is not Phase.ENDED:
        left = until - time.monotonic()
        if left <= 0:
            return False
        events = api.watch_pods(labels.master_of(job), pod.metadata.resource_version)
        with contextlib.suppress(Expired), _for_at_most(left, events):
            any(kind == "DELETED" or state.phase(seen) is Phase.ENDED for kind, seen in events)
    return True


def remove(api: Api, job: str) -> int:
    """Delete everything that carries the job's label, and wait until it is gone, its nodes there or not.

    Returns how much that was.
    """
    pods = api.list_pods(labels.all_of(job)).items
    count = api.delete_all(labels.all_of(job))
    see_off(api, pods)
    return max(count, len(pods))


class Submission:
    """One job's objects that the client makes."""

    def __init__(self, api: Api, blueprint: Blueprint, *, restart: bool = False) -> None:
        self._api, self._blueprint, self._restart = api, blueprint, restart
        self._wish = {BEGIN_ANEW: uuid.uuid4().hex} if restart else {}
        self._spec = blueprint.spec
        self._master = pod_name(self._spec.job_name, Role.MASTER)

    def submit(self) -> bool:
        """Make everything, the master's pod last; or only that, to go on with a job whose master is gone.

        False if the job has succeeded already.
        """
        if self._restart:
            remove(self._api, self._spec.job_name)
        there = self._api.get_pod(self._master)
        anchor = self._api.get_config_map(self._blueprint.name)
        if there is not None:
            self._refuse_living(there)
        if anchor is not None:
            before = JobSpec.from_json(anchor.data[SPEC_KEY])
            self._same_work(before)
            journal_place.refuse_another(self._spec, anchor)
            self._leave_checkpoints(before)
        elif there is not None and state.verdict(there).exit_code == 0:
            self._same_work(parse("master", command_of(there)[len(_MASTER) :]).spec)
            return False
        if there is not None:
            self._remove_master(there)
        try:
            if anchor is not None:
                belongings.renew_anchor(self._api, self._blueprint)
            self.start_master()
        except ApiError as refusal:
            if anchor is None and not isinstance(refusal, Away):
                self._forget()
            raise
        return True

    def start_master(self) -> None:
        """The master's pod, and what it needs that is not there yet."""
        api, blueprint = self._api, self._blueprint
        owner = owner_of(belongings.anchor(api, blueprint))
        if api.get_secret(blueprint.name) is None:
            belongings.new_token(api, blueprint, owner)
        belongings.own_service(api, blueprint.master_service(owner))
        with contextlib.suppress(AlreadyThere):  # made by a request whose answer was lost
            api.create_pod(blueprint.master_pod(master_command(self._spec), variables=self._wish))
        for pod in api.list_pods(blueprint.selector).items:
            api.add_owner(blueprint.name, owner_of(pod))

    def await_running(self, say: Say) -> None:
        """Say what the master waits for until it runs."""
        while verdict := (watch := self._watch(say)).to_the_end(only_begin=True):
            if verdict.exit_code == 0:
                return
            if verdict.cause is not ExitCause.NODE_LOST:
                raise self._failed(f"the master has ended: {verdict.detail}")
            self._replace_master(watch.uid, verdict, say)

    def follow(self, say: Say) -> int:
        """Show what the master says until the job ends; its exit code. A lost master is replaced."""
        self._api = self._api.patient(math.inf)  # the job outlives an API server, so do we
        lost_in_a_row = 0
        while True:
            watch = self._watch(say)
            verdict = watch.to_the_end()
            assert verdict is not None
            if verdict.exit_code in VERDICTS and verdict.cause is not ExitCause.OUT_OF_MEMORY:
                return verdict.exit_code
            if verdict.cause is ExitCause.NEVER_STARTED:
                raise self._failed(f"the master cannot be started: {verdict.detail}")
            if verdict.detail == state.DELETED and self._others_go():
                say(f"job {self._spec.job_name} was deleted")
                return 1
            lost_in_a_row = 0 if verdict.cause in _DISTURBED else lost_in_a_row + 1
            if lost_in_a_row > LOST_IN_A_ROW:
                raise self._failed(f"the master dies again and again: {verdict.detail}")
            self._replace_master(watch.uid, verdict, say)

    def _watch(self, say: Say) -> _Watch:
        return _Watch(self._api, self._blueprint, say)

    def _forget(self) -> None:
        """Of a job whose master was refused nothing stays that a corrected command would run into."""
        with contextlib.suppress(ApiError):  # the refusal is what is told
            if self._api.get_pod(self._master) is None:
                self._api.delete_config_map(self._blueprint.name)
                self._api.delete_secret(self._blueprint.name)
                self._api.delete_service(self._master)

    def _refuse_living(self, pod: Any) -> None:
        job, phase = self._spec.job_name, state.phase(pod)
        if phase is not Phase.ENDED and not pod.metadata.deletion_timestamp:
            raise InputError(
                f"a job of this name is there already, its master is {phase}",
                where=f"{self._spec.namespace}/{job}",
                remedy=f"follow it with `elasticdl job logs {job} --namespace={self._spec.namespace} -f`; or "
                "give another --job_name, or --restart to begin anew",
            )

    def _failed(self, what: str) -> ElasticError:
        return ElasticError(what, where=self._master, remedy=_clean(self._spec))

    def _same_work(self, before: JobSpec) -> None:
        if changes := before.differences(self._spec):
            raise InputError(
                f"job {self._spec.job_name!r} was begun with other options: {', '.join(changes)}",
                where=self._spec.namespace,
                remedy="give the same ones, or --restart to begin anew, or another --job_name",
            )

    def _leave_checkpoints(self, before: JobSpec) -> None:
        """They are where they were unless somebody says otherwise: a run folder moves without them."""
        given, there = self._spec, before.checkpoint_dir
        place, is_said = place_on_volume(there, before.volumes), "checkpoint_dir" in given.model_fields_set
        if place and not is_said and place == place_on_volume(there, given.volumes):
            self._spec = given.model_copy(update={"checkpoint_dir": there})
            self._blueprint = dataclasses.replace(self._blueprint, spec=self._spec)

    def _replace_master(self, uid: str, lost: Verdict, say: Say) -> None:
        """Only while its journal is there, which goes when a job has succeeded: else all is trained again.

        Whoever follows the job, too, may have been quicker: their master is not that of this `uid`.
        """
        if self._api.get_config_map(self._blueprint.name) is None:
            result = f", and what is in {self._spec.output}" if self._spec.output else ""
            raise ElasticError(
                f"the master is lost ({lost.detail}), and what it kept is gone: "
                "the job has succeeded, or was deleted",
                where=self._master,
                remedy=f"look at the last lines above{result}; the same command begins the job anew",
            )
        say(f"the master is lost ({lost.detail}): another one goes on")
        if (left := self._api.get_pod(self._master)) is not None:
            if left.metadata.uid != uid:
                return
            self._remove_master(left)
        self.start_master()

    def _remove_master(self, pod: Any) -> None:
        """Its object only: it has ended, or its node is lost. What it owns shall not go with it."""
        with contextlib.suppress(NotThere):
            self._api.patch_config_map(self._blueprint.name, {"metadata": {"ownerReferences": None}})
        self._api.delete_pod(self._master, grace=0, uid=pod.metadata.uid)
        self._api.await_gone(self._master, uid=pod.metadata.uid, seconds=GONE_SECONDS)

    def _others_go(self) -> bool:
        """Whether the job's other pods are deleted, too, or have ended; one goes after the other."""
        while True:
            listing = self._api.list_pods(self._blueprint.selector)
            others = [pod for pod in listing.items if not _is_master(pod)]
            living = {pod.metadata.uid for pod in others if _lives(pod)}
            if not living:
                return True
            if not any(pod.metadata.deletion_timestamp for pod in others):
                return False
            events = self._api.watch_pods(self._blueprint.selector, listing.metadata.resource_version)
            with contextlib.suppress(Expired), _for_at_most(DELETING_SECONDS, events):
                if not any(_goes(kind, pod, living) for kind, pod in events):
                    return False


class _Watch:
    """One master's pod, from wherever it is to its end."""

    def __init__(self, api: Api, blueprint: Blueprint, say: Say) -> None:
        self._api, self._blueprint, self._say = api, blueprint, say
        self.uid = ""
        """Of the pod, once it was seen."""
        self._waited_for = ""
        self._patience = Patience()
        self._making = making.Making(making.SLOW_SECONDS)
        self._said_of_making: set[str] = set()
        self._printer: threading.Thread | None = None
        self._lines: Stream[str] | None = None
        self._over = threading.Event()
        self._left = False

    def to_the_end(self, *, only_begin: bool = False) -> Verdict | None:
        """Say what it waits for, then what it writes; how it ended. With `only_begin`, None once it runs."""
        last: Any = None
        try:
            for deleted, pod in self._changes():
                last = pod
                if deleted:
                    return state.verdict(pod, deleted=True)
                if state.phase(pod) is Phase.ENDED:
                    self._print(pod)
                    self._over.set()
                    self._printed()
                    return state.verdict(pod)
                if state.node_is_lost(pod):
                    return state.verdict(pod)
                if self._patience.left(pod, time.monotonic()) <= 0:
                    return given_up(pod)
                if only_begin and state.phase(pod) is Phase.RUNNING:
                    return None
                self._tell(pod)
        finally:
            self._left = True
            self._over.set()
            if self._lines is not None:
                self._lines.stop()
        assert last is not None
        return state.verdict(last)

    def _tell(self, pod: Any) -> None:
        is_slow = self._making.left(pod, time.monotonic()) <= 0
        if state.phase(pod) is Phase.RUNNING:
            self._print(pod)
        elif (waits := state.waits_for(pod)) != self._waited_for:
            self._waited_for = waits
            self._say(f"the master's pod waits: {waits}" if waits else "the master's pod is being started")
        elif is_slow:
            self._tell_of_making(pod)

    def _tell_of_making(self, pod: Any) -> None:
        """Each thing once: a node tries again and again, and says so each time."""
        does = making.what_its_node_does(self._api, pod)
        if making.gist(does) not in self._said_of_making:
            self._said_of_making.add(making.gist(does))
            self._say(f"the master's pod waits: {does}")

    def _print(self, pod: Any) -> None:
        """Its log from the beginning, in a thread: a lost node would hold it for ever."""
        if self._printer is None:
            self._printer = threading.Thread(
                target=self._print_all,
                args=(pod.metadata.name, own_container(pod).name),
                name="log",
                daemon=True,
            )
            self._printer.start()

    def _print_all(self, name: str, container: str) -> None:
        """Each line once, though the connection may break; the last look comes after the pod's end.

        After a pod that was given up there is none: the next pod of this name has another watch.
        """
        printed, last = 0, False
        while not last and not self._left:
            last = self._over.is_set()
            self._lines = self._api.pod_log(name, container=container, follow=True)
            if self._left:  # there was nothing to stop yet
                self._lines.stop()
            with contextlib.suppress(ApiError):  # it is gone, and the watch tells
                for number, line in enumerate(self._lines):
                    if number >= printed:
                        self._say(line)
                        printed = number + 1
            self._over.wait(AGAIN_SECONDS)

    def _printed(self) -> None:
        if self._printer is not None:
            self._printer.join(GONE_SECONDS)

    def _changes(self) -> Iterator[tuple[bool, Any]]:
        """The pod as it is, then each change, until it is deleted; now and then again, as time passes."""
        job = self._blueprint.spec.job_name
        name, selector = pod_name(job, Role.MASTER), labels.master_of(job)
        pod: Any = None
        while True:
            listing = self._api.list_pods(selector)
            if not listing.items and pod is None:
                remedy = _clean(self._blueprint.spec)
                raise ElasticError("the master's pod is gone", where=name, remedy=remedy)
            found = listing.items[0] if listing.items else None
            gone = pod is not None and (found is None or found.metadata.uid != pod.metadata.uid)
            pod = pod if gone else found
            self.uid = pod.metadata.uid
            yield gone, pod
            events = self._api.watch_pods(selector, listing.metadata.resource_version)
            again = min(patience.IMAGE_SECONDS, patience.SILENT_SECONDS) / 2
            if state.phase(pod) is Phase.PENDING and not self._said_of_making:
                again = min(again, making.SLOW_SECONDS)
            with contextlib.suppress(Expired), _for_at_most(again, events):
                for kind, pod in events:
                    if kind != "BOOKMARK":
                        yield kind == "DELETED", pod


@contextlib.contextmanager
def _for_at_most(seconds: float, events: Stream[Any]) -> Iterator[None]:
    """Stop the stream after this time, or when the block ends."""
    timer = threading.Timer(seconds, events.stop)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        events.stop()


def _clean(spec: JobSpec) -> str:
    return (
        f"`elasticdl job clean {spec.job_name} --namespace={spec.namespace}` removes what is left of the job"
    )


def _lives(pod: Any) -> bool:
    return state.phase(pod) is not Phase.ENDED and not pod.metadata.deletion_timestamp


def _goes(kind: str, pod: Any, living: set[str]) -> bool:
    return kind != "BOOKMARK" and pod.metadata.uid in living and (kind == "DELETED" or not _lives(pod))


def _is_master(pod: Any) -> bool:
    return pod_of(pod).role is Role.MASTER
