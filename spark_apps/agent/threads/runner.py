"""One topic's ownership in a process with threads: a lock, a worker for requests to Kafka, and answers to the reader.

The worker, a thread of the topic, sends its requests without holding the lock. So a silent broker delays neither the
status, nor ZooKeeper, nor another topic.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import TypeVar

from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.core.model import TopicNode, TopicStatus
from coordinator_tasks.core.ports import Clock, GroupOffsets
from coordinator_tasks.logs import within
from spark_apps.agent.ownership.first import FirstOffsets
from spark_apps.agent.ownership.planner import BatchPlanner
from spark_apps.agent.ownership.topic_ownership import TopicOwnership
from spark_apps.agent.ownership.work import Commit, CommitDone, Failed, Result, Work, perform
from spark_apps.agent.settings import Identity, Pacing, Terms, Timing
from spark_apps.agent.threads.callbacks import Callbacks
from spark_apps.delivery import Delivery, TransactionalSink
from spark_apps.delivery.hooks import Hooks
from spark_apps.records.agent_socket import LONGEST_WAIT_S, Attached, Latest
from spark_apps.records.batches import BatchOffset, Group, plan_tasks
from spark_apps.records.options import ISOLATION, SourceOptions

LONGEST_SLEEP_S = 0.5
JOIN_TIMEOUT_S = 5.0
V = TypeVar("V")

log = logging.getLogger(__name__)

Connect = Callable[[TopicNode], GroupOffsets]


class TopicRunner:
    """Implements `agent_socket.Planner`. `changed` is called, without the lock, when a release has been posted.

    `node` gives the group and the fetch settings. Its assignments count only when the agent hands the node to the
    ownership. `brokers` come from this consumer's settings and not from the node, because another account can write the
    node, and would get our login.
    """

    def __init__(
        self,
        topic: str,
        node: TopicNode,
        identity: Identity,
        clock: Clock,
        connect: Connect,
        changed: Callable[[], None],
        *,
        brokers: str,
        timing: Timing | None = None,
        pacing: Pacing | None = None,
        acquiring: bool = True,
    ) -> None:
        self.topic = topic
        self.group = node.group_id
        self.ownership = TopicOwnership(topic, identity, clock, timing, acquiring=acquiring)
        self.planner = BatchPlanner(self.ownership, clock, pacing)
        self.ownership.holdings.group = node.group_id
        self._node = node
        self._brokers = brokers
        self._clock = clock
        self._connect = connect
        self._changed = changed
        self._turn = threading.Condition()
        self._offsets: GroupOffsets | None = None
        self._sink: TransactionalSink | None = None
        self._callbacks: Callbacks | None = None
        self.readers = 0  # number of readers that have attached
        self._closed = False
        self._thread = threading.Thread(target=within(self._run, topic=topic), name=f"agent-{topic}", daemon=True)
        self._thread.start()

    @property
    def isolation(self) -> str:
        """Return Kafka's `isolation.level` of the topic; empty for the client's default."""
        return str(self._node.properties.get(ISOLATION, ""))

    def agree(
        self,
        delivery: Delivery,
        sink: TransactionalSink | None = None,
        hooks: Hooks | None = None,
        *,
        idle_s: float = inf,
        keeps_state: bool = False,
    ) -> None:
        """Set the topic's delivery and hooks, before any grant."""
        former, self._sink = self._sink, sink
        if former is not None and former is not sink:  # a restarted query sets the delivery again
            _close(former)
        if self._callbacks is not None:
            self._callbacks.close()
        if hooks is not None and hooks.any:
            self._callbacks = Callbacks(self.ownership, hooks, self._turn, self.edit)
        listening = hooks is not None and hooks.listener is not None
        claims, commit_first = delivery is Delivery.EXACTLY_ONCE, delivery is Delivery.AT_MOST_ONCE
        terms = Terms(claims, commit_first, listening, idle_s, keeps_state)
        self.edit(lambda ownership: ownership.agree(terms))

    def confirmed(self) -> frozenset[int]:
        """Wait until the batch may be delivered. Withdraw and return the partitions that must not be delivered."""
        gone = frozenset[int]()
        with self._turn:
            while True:
                waiting, lost = self.ownership.batches.unconfirmed()
                if lost:
                    self.ownership.batches.withdraw(lost)
                    gone |= lost
                if not waiting or self._closed:
                    return gone | waiting
                self._turn.wait(LONGEST_SLEEP_S)

    def edit(self, change: Callable[[TopicOwnership], V], *, wake: bool = True) -> V:
        """Read or change the ownership. Wakes all threads of the topic, unless `wake` is false."""
        with self._turn:
            before = dict(self.ownership.releasing.posted)
            result = change(self.ownership)
            posted = self.ownership.releasing.posted.items() - before.items()
            if wake:
                self._turn.notify_all()
        if posted:
            self._changed()
        return result

    def see(self, look: Callable[[TopicOwnership], V]) -> V:
        """Read the ownership. Wakes no thread."""
        with self._turn:
            return look(self.ownership)

    def status(self) -> TopicStatus:
        return self.see(TopicOwnership.status)

    def close(self) -> None:
        """End the worker. Nothing more is committed."""
        with self._turn:
            self._closed = True
            self._turn.notify_all()
        if self._callbacks is not None:
            self._callbacks.close()
        self._thread.join(JOIN_TIMEOUT_S)

    # The worker ------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closed:
            try:
                self._work()
            except Exception:  # without its worker, the topic would be silently unfenced
                log.exception("the agent's worker of topic %s failed; it goes on", self.topic)
                self._clock.sleep(LONGEST_SLEEP_S)

    def _work(self) -> None:
        offsets = self._connected()
        with self._turn:
            work = self.ownership.requests.work() if offsets is not None else None
            if offsets is None or work is None:
                if self._follows_group():
                    return
                pause = self.ownership.requests.next_at() - self._clock.monotonic()
                self._turn.wait(max(0.001, min(pause, LONGEST_SLEEP_S)))
                return
        result = self._perform(offsets, work)
        self.edit(lambda ownership: ownership.requests.answer(result))
        if self._callbacks is not None and isinstance(work, Commit) and isinstance(result, CommitDone):
            taken = {p: one.offset for p, one in work.offsets.items() if p not in result.failed}
            if taken:
                self._callbacks.committed(taken)

    def _follows_group(self) -> bool:
        """Switch requests to the accepted node's group if nothing is held; return whether the group has changed."""
        accepted = self.ownership.holdings.accepted
        if accepted is None or accepted.group_id == self.group or self.ownership.holdings.held:
            return False
        self.group = accepted.group_id
        self._node = replace(self._node, group_id=self.group)
        self._offsets = None
        self.ownership.grants.ask_in(self.group)
        return True

    def _perform(self, offsets: GroupOffsets, work: Work) -> Result:
        try:
            return perform(offsets, self.topic, work, self._sink)
        except Exception as error:  # any client may fail: an unanswered request would block the topic for ever
            log.exception("topic %s: a request to Kafka failed in an unexpected way", self.topic)
            return Failed(f"a request to Kafka failed in an unexpected way ({type(error).__name__}: {error})")

    def _connected(self) -> GroupOffsets | None:
        node, offsets = self._node, self._offsets
        if offsets is None:
            try:
                offsets = self._connect(node)
            except CoordinatorError as error:
                sentence = str(error)
                self.edit(lambda ownership: ownership.reports.add("kafka", sentence))
                self._clock.sleep(LONGEST_SLEEP_S)
            with self._turn:  # a reader with other settings may have attached meanwhile
                self._offsets = offsets if node is self._node else None
            if self._offsets is not None:
                self._warm_up(self._offsets)
        return self._offsets

    def _warm_up(self, offsets: GroupOffsets) -> None:
        """Connect ahead, so that no partition waits while the client finds the brokers and the group's coordinator."""
        with suppress(CoordinatorError):  # the first real request reports the error
            offsets.describe(self.topic)
            offsets.committed(self.topic, (0,))

    # The reader ------------------------------------------------------------------------------------------------------

    def attach(self, reader: str, options: SourceOptions) -> Attached:  # noqa: ARG002 - one reader at a time
        properties = self._node.properties
        with self._turn:
            self.planner.configure(options)
            self._read_as({**properties, **options.kafka})
        first = FirstOffsets(options.starting)
        # With the sink's positions, missing records stop the partition until a person seeks.
        fails = options.fail_on_data_loss or self.ownership.holdings.terms.claims
        self.edit(lambda ownership: ownership.open(first, fail_on_data_loss=fails))
        self.readers += 1
        kafka = {**properties, "group.id": self._node.group_id, "bootstrap.servers": self._brokers}
        return Attached(kafka, fails)

    def _read_as(self, kafka: Mapping[str, str]) -> None:
        """Read the log's ends as the executors do. With committed reads, the end lies before an open transaction."""
        level = kafka.get(ISOLATION)
        if level is not None and level != self._node.properties.get(ISOLATION):
            self._node = replace(self._node, properties={**self._node.properties, ISOLATION: level})
            self._offsets = None

    def initial(self, reader: str) -> BatchOffset:  # noqa: ARG002
        return self.planner.initial()

    def latest(self, reader: str, start: BatchOffset) -> Latest:  # noqa: ARG002
        deadline = self._clock.monotonic() + LONGEST_WAIT_S
        return self.edit(lambda _: Latest(self._offered(start, deadline) or start, self.planner.report()), wake=False)

    def _offered(self, start: BatchOffset, deadline: float) -> BatchOffset | None:
        """Return the next batch, or wait for it until the deadline; the lock is held."""
        while True:
            batch = self.planner.offer(start)
            self._turn.notify_all()
            now = self._clock.monotonic()
            if batch is not None or now >= deadline or self._closed:
                return batch
            self._turn.wait(max(0.001, self._pause(now, deadline)))

    def _pause(self, now: float, deadline: float) -> float:
        paced = self.planner.next_at - now
        return min(deadline - now, paced) if paced > 0 else deadline - now

    def tasks(self, end: BatchOffset) -> Sequence[Group]:
        return plan_tasks(end)

    def until_now(self, reader: str) -> None:  # noqa: ARG002
        with self._turn:
            self.ownership.batches.until_goal = True

    def is_over(self, reader: str) -> bool:  # noqa: ARG002
        with self._turn:
            return self._closed or self.over

    @property
    def over(self) -> bool:
        """Return whether the query was limited to existing records and has read all of them."""
        return self.ownership.batches.until_goal and self.ownership.batches.caught_up

    def detach(self, reader: str) -> None:
        """Do nothing: the consumer notices the query's end, and another reader may follow."""


def _close(sink: TransactionalSink) -> None:
    close = getattr(sink, "close", None)
    try:
        if close is not None:
            close()
    except BaseException:  # a site's sink may fail at its close: the query starts all the same
        log.exception("%s.close failed", type(sink).__name__)
