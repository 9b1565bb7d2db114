"""`coordinator doctor` on real servers: what it finds, how it says so, and its exit codes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator_tasks.adapters.access_lists import AccessLists
from coordinator_tasks.adapters.server_versions import REFUSES, TAKES, zookeeper_takes
from coordinator_tasks.adapters.zookeeper_access import ZooKeeperAccess
from coordinator_tasks.allowed_launches import OWN_APPLICATIONS
from coordinator_tasks.cli import main
from coordinator_tasks.core.model import Fleet
from coordinator_tasks.core.protocol.kafka_rights import Side
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.ports import free_port
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.doctor import CheckResult, examine
from coordinator_tasks.doctor.zookeeper import JUTE_BYTES
from coordinator_tasks.service.nodes import topics
from coordinator_tasks.service.nodes.fleet import set_fleet
from coordinator_tasks.wiring import Settings, open_coordinator
from tests.fakes.cluster import PERSON
from tests.integration.agent_site import Site
from tests.integration.test_real_accounts import OURS, as_consumer

pytestmark = pytest.mark.integration


def examined(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, dict[str, str], dict[str, str]]:
    """Exit code; check → result; check → what to do."""
    monkeypatch.setenv("COORDINATOR_CLUSTER", settings.cluster)
    monkeypatch.setattr("coordinator_tasks.cli.base.settings_from_environment", lambda: settings)
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--json", *arguments])
    found = json.loads(capsys.readouterr().out)
    return (
        int(str(ended.value.code)),
        {one["check"]: one["result"] for one in found},
        {one["check"]: one["mend"] for one in found},
    )


def test_the_doctor_finds_nothing_on_a_healthy_site_and_names_what_is_wrong_on_both_sides(
    zookeeper: EmbeddedZooKeeper,
    kafka: EmbeddedKafka,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    site = Site(f"{zookeeper.connect_string}/doctor", kafka.bootstrap_servers, access=OURS)
    try:
        settings = replace(site.settings, status_token="a-token-of-the-site")
        with open_coordinator(settings) as c:
            topics.add_topic(c, site.topic, site.group, actor=PERSON)
        theirs = replace(as_consumer(site), status_token=settings.status_token)
        code, results, _ = examined(settings, monkeypatch, capsys)
        assert (code, set(results.values())) == (0, {"ok"})
        assert versions_of(settings) == {"ZooKeeper versions": "3.9.5", "Kafka versions": "4.3"}
        assert {
            "ZooKeeper folders",
            "ZooKeeper nodes",
            "ZooKeeper jute.maxbuffer",
            "clocks",
            f"Kafka: Describe on topic {site.topic}",
        } <= set(results)
        before = set(site.zk.children(site.paths.base))
        code, results, _ = examined(theirs, monkeypatch, capsys, "--topic", site.topic, "--group", site.group)
        assert (code, set(results.values())) == (0, {"ok"})
        assert f"Kafka: Read on group {site.group}" in results
        assert set(site.zk.children(site.paths.base)) == before

        site.zk.client.set_acls(site.zk.full(site.paths.config(site.topic)), open_to_consumers())
        code, results, mends = examined(settings, monkeypatch, capsys)
        assert (code, results["ZooKeeper nodes"]) == (1, "failed")
        assert "zookeeper-rights" in mends["ZooKeeper nodes"]

        with open_coordinator(settings) as c:
            for app in ("billing", "tax"):
                set_fleet(c, Fleet(app, OWN_APPLICATIONS[0], (app,), (f"--topics={site.topic}",)))
        assert examined(settings, monkeypatch, capsys)[1]["fleets' topics"] == "warning"

        nobody = {"bootstrap.servers": f"127.0.0.1:{free_port()}", "log_level": "0"}
        code, results, _ = examined(replace(settings, kafka=nobody, answer_timeout_s=2.0), monkeypatch, capsys)
        assert (code, results["Kafka"], results["ZooKeeper"]) == (1, "failed", "ok")
        down = f"127.0.0.1:{free_port()}"
        code, results, _ = examined(
            replace(settings, zookeeper=down, answer_timeout_s=2.0, status_token=""), monkeypatch, capsys
        )
        assert (code, results["ZooKeeper"], results["Kafka"]) == (1, "failed", "ok")
        assert results["status token"] == "warning"
    finally:
        site.close()


@pytest.mark.parametrize(("options", "limit"), [((), JUTE_BYTES), (("-Djute.maxbuffer=500000",), 500_000)])
def test_a_server_tells_the_largest_request_that_it_takes_without_one(
    tmp_path: Path, options: tuple[str, ...], limit: int
) -> None:
    with EmbeddedZooKeeper(tmp_path, java_options=options) as own:
        server = own.connect_string
        for size, answer in ((limit, TAKES), (limit + 1, REFUSES)):
            assert zookeeper_takes(f"{server}/apps", ZooKeeperAccess(), size) == {server: answer}
        settings = Settings("shop", server, {"bootstrap.servers": f"127.0.0.1:{free_port()}", "log_level": "0"})
        found = {one.check: one for one in examine(replace(settings, answer_timeout_s=2.0), Side.COORDINATOR)}
        one = found["ZooKeeper jute.maxbuffer"]
        assert one.result is (CheckResult.OK if limit == JUTE_BYTES else CheckResult.WARNING)
        assert (server in one.says) is (limit != JUTE_BYTES)


def versions_of(settings: Settings) -> dict[str, str]:
    found = examine(settings, Side.COORDINATOR)
    return {one.check: one.says for one in found if one.check.endswith("versions")}


def open_to_consumers() -> list[object]:
    return list(AccessLists(OURS).acl_of("/consumers/c/members"))
