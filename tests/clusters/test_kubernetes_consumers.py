"""The recipe for consumers as a StatefulSet, on real pods: what keeps its partitions, and what gives them away first."""

import time
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator_tasks.core.model import Ending, MoveKind
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.nodes import directives
from coordinator_tasks.wiring import open_coordinator
from tests.clusters.consumer_pods import PODS, ConsumerPods
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


def test_a_pod_that_is_back_with_its_id_keeps_its_partitions(pods: ConsumerPods, record_property: Property) -> None:
    names = pods.names(COUNT)
    before, seen = pods.stable(names), len(pods.managed.history())
    dead, announced, _ = names
    with judged(pods):
        first, uid = pods.incarnation(dead), pods.uid(dead)
        pods.kill(dead)
        record_property("container_back_s", round(pods.back(dead, first, names), 1))
        assert (pods.uid(dead), pods.restarts(dead)) == (uid, 1), "the same pod, a new container"
        known = pods.claim(dead).ended.get(first)
        assert known in (Ending.REAPED, Ending.REFUSED), "nobody had to isolate it"
        pods.grown("the new container reads")

        first, uid = pods.incarnation(announced), pods.uid(announced)
        expect_restart(pods, announced)
        pods.delete(announced)
        assert pods.claim(announced).ended[first] is Ending.LEFT, "the hook has let it leave"
        pods.back(announced, first, names)
        assert pods.uid(announced) not in ("", uid), "another pod"
        pods.grown("the new pod reads")

    assert pods.moved(pods.since(seen)) == []
    assert pods.stable(names) == before


def test_scale_in_and_a_rollout_drain_each_pod_first(pods: ConsumerPods, record_property: Property) -> None:
    names = pods.names(COUNT)
    *others, last = names
    with judged(pods):
        # Scale-in.
        mine = {p for p, owner in pods.stable(names).items() if owner == last}
        seen, incarnation, begun = len(pods.managed.history()), pods.incarnation(last), time.monotonic()
        pods.scale(COUNT - 1)
        owners = pods.stable(others)
        pods.wait_for(lambda: pods.pod(last) is None, "the pod is gone")
        record_property("scaled_in_s", round(time.monotonic() - begun, 1))
        moved = pods.moved(pods.since(seen))
        assert {(m.partition, m.giver, m.kind) for m in moved} == {(p, last, MoveKind.HANDOFF) for p in mine}
        assert {owners[p] for p in mine} <= set(others)
        assert pods.claim(last).ended[incarnation] is Ending.LEFT
        pods.managed.see_releases()
        released = [r for r in pods.managed.ledger.releases.values() if r.release.by == last]
        assert {r.partition for r in released} >= mine
        pods.grown("the others read everything")

        # Scale-out, and what everybody has then.
        pods.scale(COUNT)
        pods.stable(names)
        pods.grown("all of them read")

        # A rollout.
        seen, incarnations = len(pods.managed.history()), {name: pods.incarnation(name) for name in names}
        pods.rollout()
        pods.stable(names)
        pods.grown("the new pods read")
        for name, number in incarnations.items():
            assert pods.claim(name).ended[number] is Ending.LEFT
            assert pods.incarnation(name) != number
        assert {move.kind for move in pods.moved(pods.since(seen))} == {MoveKind.HANDOFF}


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
