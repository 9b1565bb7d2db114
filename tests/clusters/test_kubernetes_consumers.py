"""The recipe for consumers as a StatefulSet, on real pods: what keeps its partitions, and what gives them away first."""

import threading
import time
import urllib.error
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator_tasks.core.model import Ending, MoveKind
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.nodes import directives
from coordinator_tasks.wiring import open_coordinator
from tests.clusters.consumer_pods import PODS, POLL_S, ConsumerPods
from tests.clusters.kubernetes_node import Cluster
from tests.clusters.shop import TOKEN
from tests.integration.agent_site import Site, Traffic
from tests.integration.real_site import QUICK, Managed
from tests.sasl_kafka import SaslKafka

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(3600)]
Property = Callable[[str, object], None]
PARTITIONS, COUNT = 6, 3
PER_SECOND = 20.0
GRACE = replace(QUICK, rejoin_grace_s=60.0)
"""The documented setting."""


@pytest.fixture
def pods(cluster: Cluster, broker: SaslKafka, keeper: EmbeddedZooKeeper, tmp_path: Path) -> Iterator[ConsumerPods]:
    """Three of them, which share the topic."""
    site = Site(keeper.connect_string, broker.bootstrap_servers, PARTITIONS)
    site.settings = replace(site.settings, status_token=TOKEN)
    managed = Managed(site)
    made = ConsumerPods(cluster, broker, managed, tmp_path)
    try:
        with managed.looping(policy=GRACE):
            made.apply()
            made.scale(COUNT)
            made.stable(made.names(COUNT))
            yield made
    finally:
        made.end()
        managed.close()


@contextmanager
def judged(pods: ConsumerPods) -> Iterator[None]:
    """Records are produced meanwhile; in the end every one is in the sinks, by its owner."""
    traffic = Traffic(pods.managed.site, PER_SECOND)
    try:
        pods.grown("everybody reads")
        yield
    finally:
        sent = traffic.close()
    pods.judge(sent)


def expect_restart(pods: ConsumerPods, consumer: str) -> None:
    """`coordinator expect-restart CONSUMER --within 10`."""
    with open_coordinator(pods.managed.site.settings) as c:
        directives.expect_restart(c, consumer, 600.0, moves=False, by="test", why="a new image")


def measured(pods: ConsumerPods, seen: int, moved: set[int]) -> dict[int, list[int]]:
    """Partition → each pause of it that the history has from then on, in milliseconds; 0 = nothing waited."""

    def found() -> dict[int, list[int]]:
        every: dict[int, list[int]] = {}
        for record in pods.since(seen):
            for pause in record.pauses.measured if record.pauses is not None else ():
                every.setdefault(pause.partition, []).append(round(1000 * (pause.wait_s or 0.0)))
        return every

    pods.wait_for(lambda: found().keys() >= moved, "every pause is measured")
    return found()


def text(found: Mapping[int, float]) -> str:
    return ", ".join(f"{seconds:.1f}" for _, seconds in sorted(found.items()))


def test_a_pod_that_is_back_with_its_id_keeps_its_partitions(pods: ConsumerPods, record_property: Property) -> None:
    names = pods.names(COUNT)
    before, seen = pods.stable(names), len(pods.managed.history())
    dead, announced, _ = names
    with judged(pods):
        first, uid, begun_at = pods.incarnation(dead), pods.uid(dead), time.time()
        pods.kill(dead)
        record_property("container_back_s", round(pods.back(dead, first, names), 1))
        assert (pods.uid(dead), pods.restarts(dead)) == (uid, 1), "the same pod, a new container"
        known = pods.claim(dead).ended.get(first)
        assert known in (Ending.REAPED, Ending.REFUSED), "nobody had to isolate it"
        pods.grown("the new container reads")
        silences = pods.silences([p for p, owner in before.items() if owner == dead], begun_at)
        record_property("container_silences_s", text(silences))

        first, uid, begun_at = pods.incarnation(announced), pods.uid(announced), time.time()
        expect_restart(pods, announced)
        pods.delete(announced)
        assert pods.claim(announced).ended[first] is Ending.LEFT, "the hook has let it leave"
        record_property("pod_back_s", round(pods.back(announced, first, names), 1))
        assert pods.uid(announced) not in ("", uid), "another pod"
        pods.grown("the new pod reads")
        silences = pods.silences([p for p, owner in before.items() if owner == announced], begun_at)
        record_property("pod_silences_s", text(silences))

    assert pods.moved(pods.since(seen)) == []
    assert pods.stable(names) == before


def follow_the_end(pods: ConsumerPods, consumer: str, ended_at: list[float]) -> threading.Thread:
    """Note when the last process of its container is gone."""

    def follow() -> None:
        while pods.processes(consumer):
            time.sleep(POLL_S)
        ended_at.append(time.time())

    thread = threading.Thread(target=follow)
    thread.start()
    return thread


def test_scale_in_and_a_rollout_drain_each_pod_first(pods: ConsumerPods, record_property: Property) -> None:
    names = pods.names(COUNT)
    *others, last = names
    with judged(pods):
        # Scale-in.
        mine = {p for p, owner in pods.stable(names).items() if owner == last}
        seen, incarnation, ended_at = len(pods.managed.history()), pods.incarnation(last), list[float]()
        following, begun = follow_the_end(pods, last, ended_at), time.monotonic()
        pods.scale(COUNT - 1)
        owners = pods.stable(others)
        following.join()
        pods.wait_for(lambda: pods.pod(last) is None, "the pod is gone")
        record_property("scaled_in_s", round(time.monotonic() - begun, 1))
        moved = pods.moved(pods.since(seen))
        assert {(m.partition, m.giver, m.kind) for m in moved} == {(p, last, MoveKind.HANDOFF) for p in mine}
        assert {owners[p] for p in mine} <= set(others)
        assert pods.claim(last).ended[incarnation] is Ending.LEFT
        pods.managed.see_releases()
        released = [r for r in pods.managed.ledger.releases.values() if r.release.by == last]
        assert {r.partition for r in released} >= mine
        assert ended_at[0] > max(r.written_at for r in released), "it ends when it has given everything away"
        pods.grown("the others read everything")
        record_property("scale_in_pauses_ms", measured(pods, seen, mine))

        # Scale-out, and what everybody has then.
        pods.scale(COUNT)
        pods.stable(names)
        pods.grown("all of them read")

        # A rollout.
        seen, incarnations = len(pods.managed.history()), {name: pods.incarnation(name) for name in names}
        record_property("rollout_s", round(pods.rollout(), 1))
        pods.stable(names)
        pods.grown("the new pods read")
        for name, number in incarnations.items():
            assert pods.claim(name).ended[number] is Ending.LEFT
            assert pods.incarnation(name) != number
        moves = pods.moved(pods.since(seen))
        assert {move.kind for move in moves} == {MoveKind.HANDOFF}
        record_property("rollout_moves", f"{len(moves)} of {PARTITIONS} partitions")
        record_property("rollout_pauses_ms", measured(pods, seen, {move.partition for move in moves}))


def test_an_evicted_pod_leaves_first_and_only_one_at_a_time(pods: ConsumerPods) -> None:
    names = pods.names(COUNT)
    evicted, refused, _ = names

    def allowed() -> int:
        budget = pods.cluster.ask(f"/apis/policy/v1/namespaces/default/poddisruptionbudgets/{pods.name}")
        return int(budget.get("status", {}).get("disruptionsAllowed", 0))

    def evict(consumer: str) -> None:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": consumer, "namespace": "default"}}
        pods.cluster.ask(f"{PODS}/{consumer}/eviction", body)

    with judged(pods):
        pods.stable(names)
        incarnation = pods.incarnation(evicted)
        pods.wait_for(lambda: allowed() == 1, "all of them are ready")
        evict(evicted)
        with pytest.raises(urllib.error.HTTPError, match="429"):
            evict(refused)
        pods.wait_for(lambda: incarnation in pods.claim(evicted).ended, "it has left")
        assert pods.claim(evicted).ended[incarnation] is Ending.LEFT
        pods.back(evicted, incarnation, names)
