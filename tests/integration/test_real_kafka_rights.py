"""Coordinator and consumers on a real Kafka with exactly the rights of the table in `docs/security.md`, by SCRAM and by certificate."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.protocol.kafka_rights import Resource, Right, Side, needed, transactional_ids
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.doctor import CheckResult, DoctorFinding, examine
from coordinator_tasks.service.nodes import directives
from coordinator_tasks.service.offsets import positions
from coordinator_tasks.settings import TOKEN_FENCE, TRANSACTIONAL_FENCE, Settings
from coordinator_tasks.wiring import ask_brokers, open_coordinator
from spark_apps.records.batches import Range
from tests.certificates import Authority
from tests.fakes.cluster import PERSON
from tests.integration import ranges
from tests.integration.agent_site import Site, Traffic, wait_for
from tests.integration.ranges import Wanted
from tests.integration.real_site import LIMIT_S, Managed
from tests.integration.secure_kafka import Secure, secure_kafka

pytestmark = [pytest.mark.integration, pytest.mark.clusters]
ALL = range(2)


@pytest.fixture(scope="module", params=["SCRAM", "certificates"])
def secure(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    folder = tmp_path_factory.mktemp("secure")
    with secure_kafka(folder, Authority(folder, "site"), certificates=request.param == "certificates") as made:
        yield made


class RightsSite(Site):
    """`settings` are the coordinator's; `theirs` the consumers'."""

    secure: Secure

    @property
    def theirs(self) -> Settings:
        return replace(self.settings, kafka=self.secure.kafka(Side.CONSUMER))

    def of(self, side: Side) -> Settings:
        return self.settings if side is Side.COORDINATOR else self.theirs

    def binding(self, side: Side, right: Right) -> AclBinding:
        names = {
            Resource.TOPIC: self.topic,
            Resource.GROUP: self.group,
            Resource.TRANSACTIONAL_ID: transactional_ids(self.cluster),
        }
        return self.secure.binding(side, right, names[right.resource])

    def grant(self, side: Side, right: Right) -> None:
        admin = self.secure.admin()
        for done in admin.create_acls([self.binding(side, right)]).values():
            done.result(30)

    def revoke(self, side: Side, right: Right) -> None:
        one = self.binding(side, right)
        what = AclBindingFilter(
            one.restype,
            one.name,
            one.resource_pattern_type,
            one.principal,
            one.host,
            one.operation,
            one.permission_type,
        )
        admin = self.secure.admin()
        for done in admin.delete_acls([what]).values():
            assert done.result(30)

    def grant_all(self) -> None:
        for side in Side:
            for right in needed(side, transactional=self.settings.fence == TRANSACTIONAL_FENCE):
                self.grant(side, right)


@contextmanager
def site_of(zookeeper: EmbeddedZooKeeper, secure: Secure, fence: str = TOKEN_FENCE) -> Iterator[RightsSite]:
    site = RightsSite(zookeeper.connect_string, secure.broker.bootstrap_servers, partitions=len(ALL))
    site.secure = secure
    site.settings = replace(site.settings, kafka=secure.kafka(Side.COORDINATOR), fence=fence)
    try:
        site.grant_all()
        yield site
    finally:
        site.close()


def not_ok(site: RightsSite, side: Side) -> list[DoctorFinding]:
    """What the doctor finds wrong with the rights in Kafka."""
    found = list(examine(site.of(side), side, {site.topic: site.group}))
    return [one for one in found if one.check.startswith("Kafka") and one.result is not CheckResult.OK]


@pytest.mark.parametrize("fence", [TOKEN_FENCE, TRANSACTIONAL_FENCE])
def test_the_whole_job_works_with_exactly_these_rights(
    zookeeper: EmbeddedZooKeeper, secure: Secure, fence: str
) -> None:
    with site_of(zookeeper, secure, fence) as site:
        ask_brokers(site.settings.kafka)
        managed = Managed(site)
        managed.join("a", site.theirs)
        with managed.looping(), open_coordinator(site.settings) as c:
            managed.stable("a")
            traffic = Traffic(site)
            managed.ledger.grown(ALL, "records flow")
            managed.join("b", site.theirs)
            managed.stable("ab")
            directives.drain(c, "a", "ann", "a new host")
            managed.stable("b")
            wait_for(lambda: managed.consumers["a"].code == 0, "a has left", LIMIT_S)
            sent = traffic.close()
            managed.consumed(sent)
            managed.judge(sent)
            before = len(managed.ledger.offsets(0))
            positions.reset(c, site.topic, "earliest", [0], why="again", actor=PERSON)
            wait_for(lambda: len(managed.ledger.offsets(0)) >= before + sent, "partition 0 is read again", LIMIT_S)
            assert managed.consumers["b"].reports == ()
        assert not_ok(site, Side.COORDINATOR) == []
        assert not_ok(site, Side.CONSUMER) == []
        for consumer in managed.consumers.values():
            consumer.close()


EVERY = [(side, right) for side in Side for right in needed(side, transactional=True)]


@pytest.mark.parametrize(("side", "right"), EVERY, ids=lambda one: str(getattr(one, "resource", one)))
def test_each_missing_right_is_named_with_the_command_that_grants_it(
    zookeeper: EmbeddedZooKeeper, secure: Secure, side: Side, right: Right
) -> None:
    with site_of(zookeeper, secure, TRANSACTIONAL_FENCE) as site:
        assert not_ok(site, side) == []
        site.revoke(side, right)
        wait_for(lambda: not_ok(site, side), "the broker knows that the right is gone")
        (finding,) = not_ok(site, side)
        name = site.binding(side, right).name
        assert finding.check == f"Kafka: {right.operation} on {right.resource} {name}"
        assert f"and a {side} needs it" in finding.says
        assert f"--operation {right.operation} --{right.resource} '{name}'" in finding.mend
        if not secure.certificates:
            assert f"--allow-principal 'User:{side}'" in finding.mend
        WITHOUT[side](site, right)


def coordinator_without(site: RightsSite, _right: Right) -> None:
    with pytest.raises(Refused, match="does not let this user ask for"):
        Managed(site)


def consumer_without(site: RightsSite, right: Right) -> None:
    managed = Managed(site)
    consumer = managed.join("a", site.theirs)
    try:
        with managed.looping():
            named = f"{right.resource.replace('-', ' ')} authorization failed"
            wait_for(lambda: any(named in text.lower() for text in consumer.reports), f"it says: {named}", LIMIT_S)
            assert [text for text in consumer.reports if "does not answer" in text] == [], "the broker has answered"
    finally:
        consumer.close()


WITHOUT: dict[Side, Callable[[RightsSite, Right], None]] = {
    Side.COORDINATOR: coordinator_without,
    Side.CONSUMER: consumer_without,
}


def test_an_executor_reads_with_the_consumers_rights(zookeeper: EmbeddedZooKeeper, secure: Secure) -> None:
    with site_of(zookeeper, secure) as site:
        site.produce(10)
        kafka = {**secure.kafka(Side.CONSUMER), "group.id": site.group}
        with ranges.opened() as reader:
            assert len(reader.read(Wanted(site.topic, [Range(0, 0, 10, 1)], kafka))) == 10
