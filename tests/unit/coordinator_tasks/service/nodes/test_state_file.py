"""The whole state in a file: restored equal in an empty cluster, which continues; everything else is refused."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from coordinator_tasks.core.codecs.growth_codec import Growth, encode_growth
from coordinator_tasks.core.codecs.node_kinds import KINDS
from coordinator_tasks.core.codecs.upgrade_codec import encode_upgrade
from coordinator_tasks.core.errors import CoordinatorError, Refused, TopicConflict
from coordinator_tasks.core.fleet.growth import Limits
from coordinator_tasks.core.fleet.upgrade import Rule, Upgrade, UpgradePhase
from coordinator_tasks.core.model import Directive, Ending, Fleet, FleetVersion, Isolation, State
from coordinator_tasks.core.ports import Create, SetData
from coordinator_tasks.service.nodes import fleet, history, state_file, topics
from coordinator_tasks.service.nodes.action_log import asked, recording
from coordinator_tasks.service.nodes.directives import put_directive
from coordinator_tasks.service.plan import overrides
from tests.fakes.cluster import PERSON, Cluster
from tests.fakes.counted import counted
from tests.world.site import Site, stable_site


def upgrade(phase: UpgradePhase) -> Upgrade:
    version = FleetVersion("/opt/shop/main.py")
    names = ("billing", version, version, "v1", "v2", ("a",), ("b",), ("orders",), (100,))
    return Upgrade(*names, 1.0, 1.0, Rule(), "kim", "", 1.0, 2.0, phase)


def shop() -> Site:
    """A cluster with nodes of every kind, after all consumers have left."""
    site = stable_site("a", "b", names=("orders", "payments"))
    c = recording(site.coordinator, "pin", "orders", PERSON, "a test")
    overrides.set_pins(c, "orders", "a", [0], actor=PERSON)
    site.zk.transact([put_directive(site.coordinator, Directive("c", Isolation("kim", "broken", 1.0)))])
    fleet.set_fleet(site.coordinator, Fleet("billing", "/opt/shop/main.py", ("a", "b"), conf={"k": "v"}))
    growth = encode_growth(Growth("billing", Limits(most=3)))
    for folder in (site.paths.growths, site.paths.upgrades):
        site.zk.ensure(folder)
    site.zk.transact([Create(site.paths.growth("billing"), growth)])
    site.zk.transact([Create(site.paths.upgrade("billing"), encode_upgrade(upgrade(UpgradePhase.DONE)))])
    site.settles()
    for consumer in ("a", "b"):
        site.dies(consumer, Ending.LEFT)
    return site


def elsewhere(site: Site, name: str = "shop") -> Site:
    """An empty cluster in another ZooKeeper, with the same Kafka and the same consumers."""
    return Site(name, site.clock, site.kafka, site.statuses)


def exported(site: Cluster) -> bytes:
    return state_file.encode(state_file.take(site.coordinator))


def imported(site: Site, raw: bytes, cluster: str = "") -> None:
    wanted = state_file.plan(site.coordinator, state_file.decode("shop.state", raw), cluster)
    state_file.restore(site.coordinator, wanted, PERSON, "moved")


FILE = exported(shop())


def test_a_file_has_something_of_every_kind_and_is_read_back_the_same() -> None:
    site = shop()
    found = state_file.take(site.coordinator)
    assert {name for name, number in found.counts.items() if number} == {n for n, k in KINDS.items() if not k.left}
    assert state_file.decode("shop.state", state_file.encode(found)) == found
    assert (found.cluster, found.at, found.left_out) == ("shop", site.clock.now(), {})


def test_another_zookeeper_gets_what_the_file_has_and_a_record_of_that() -> None:
    old = shop()
    new = elsewhere(old)
    imported(new, exported(old))
    before, after = state_file.take(old.coordinator).nodes, dict(state_file.take(new.coordinator).nodes)
    record = asked(new.coordinator)[0]
    assert (record.action, record.about, record.actor, record.why) == ("import", "shop", PERSON, "moved")
    assert after.keys() - before.keys() == {f"history/:asked/{record.sequence:010d}"}
    assert {path: after[path] for path in before} == before


def test_consumers_in_another_zookeeper_go_on_at_once_and_beyond_all_epochs() -> None:
    old = shop()
    epoch, records = old.node().epoch, len(old.history())
    new = elsewhere(old)
    imported(new, exported(old))
    topics.refresh_partitions(new.coordinator)
    new.starts("a", "b")
    began_at = new.clock.now()
    new.settles()
    assert new.clock.now() - began_at < new.policy.absent_after_s
    assert new.counts() == new.counts("payments") == {"a": 2, "b": 2}
    assert new.node().assignments[0] == "a"
    assert new.node().incarnations == {"a": 2, "b": 2}, "no process is taken for one that has ended"
    assert new.node().epoch > epoch
    assert new.state().state is State.STABLE
    assert [one.sequence for one in new.history()] == list(range(len(new.history())))
    assert len(new.history()) > records
    new.check()


def test_records_are_numbered_again_where_the_oldest_are_pruned() -> None:
    old = shop()
    history.prune(old.coordinator, "orders", 2)
    new = elsewhere(old)
    imported(new, exported(old))
    assert [replace(one, sequence=0) for one in new.history()] == [replace(one, sequence=0) for one in old.history()]
    topics.refresh_partitions(new.coordinator)
    new.starts("a")
    new.settles()
    assert [one.sequence for one in new.history()] == list(range(len(new.history())))


def test_what_was_seen_of_a_process_in_the_old_zookeeper_is_left_there() -> None:
    claim = json.loads(state_file.take(shop().coordinator).nodes["ids/a"])
    assert (claim["absence"], claim["registrations"], list(claim["ended"].values())) == (None, [], ["left"])
    assert claim["incarnation"] > 0


def test_what_cannot_be_read_is_left_out_and_named() -> None:
    site = shop()
    site.server.overwrite(site.paths.config("payments"), b"{")
    site.zk.denied.add(site.paths.fleet("billing"))
    found = state_file.take(site.coordinator)
    assert found.left_out.keys() == {"config/payments", "fleet/billing"}
    assert not found.nodes.keys() & found.left_out.keys()


def test_an_upgrade_that_is_under_way_is_not_exported() -> None:
    site = shop()
    site.zk.transact([SetData(site.paths.upgrade("billing"), encode_upgrade(upgrade(UpgradePhase.MOVING)))])
    with pytest.raises(Refused, match="the upgrade of billing to v2 is under way"):
        state_file.take(site.coordinator)


def test_a_state_that_an_import_would_refuse_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_file, "MAX_BYTES", 2_000)
    with pytest.raises(Refused, match="export fewer records with --records"):
        exported(shop())


def test_a_look_at_what_an_import_would_write_lists_each_folder_once() -> None:
    new = elsewhere(shop())
    c, requests = counted(new.coordinator)
    state_file.plan(c, state_file.decode("f", FILE))
    del requests.lists[new.paths.members]  # the discovery lists the consumers as well
    assert new.paths.fleets in requests.lists
    assert set(requests.lists.values()) == {1}


def with_node(folder: str) -> Callable[[Site], object]:
    return lambda site: site.zk.transact([Create(f"{site.paths.base}/{folder}/orders", b"{}")])


def other_fleet(site: Site) -> None:
    fleet.set_fleet(site.coordinator, Fleet("audit", "/opt/shop/main.py", ("z",)))


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (lambda site: site.starts("z"), r"consumers are registered \(z\); stop them"),
        (with_node("config"), "is not empty: it has config/orders, not as in the file"),
        (other_fleet, "is not empty: it has fleet/audit"),
        (with_node("state"), "is not empty: it has state/orders"),
        (with_node("assignments"), "is not empty: it has assignments/orders"),
    ],
)
def test_a_cluster_that_is_in_use_is_left_as_it_is(before: Callable[[Site], object], said: str) -> None:
    new = elsewhere(shop())
    before(new)
    zxid = new.server.zxid
    with pytest.raises(Refused, match=said):
        imported(new, FILE)
    assert new.server.zxid == zxid


def test_nothing_is_imported_while_a_consumer_of_the_file_runs() -> None:
    old = stable_site("a")
    raw = exported(old)
    new = elsewhere(old)
    with pytest.raises(Refused, match=r"consumers of the file still run \(a at http://a:9001\); stop them"):
        imported(new, raw)
    old.dies("a")
    imported(new, raw)


def test_the_file_of_another_cluster_has_to_be_named_and_manages_no_topic_twice() -> None:
    old = shop()
    with pytest.raises(Refused, match=r"the file is of cluster 'shop', not of 'mall'.* say --from-cluster shop"):
        imported(elsewhere(old, "mall"), FILE)
    with pytest.raises(Refused, match="not of 'bazaar'"):
        imported(elsewhere(old, "mall"), FILE, "bazaar")
    same = Site("mall", old.clock, old.kafka, old.statuses, old.server)
    with pytest.raises(TopicConflict, match="cluster 'shop' manages topic 'orders' for group 'g' already"):
        imported(same, FILE, "shop")
    new = elsewhere(old, "mall")
    imported(new, FILE, "shop")
    assert [one.topic for one in topics.list_topics(new.coordinator)] == ["orders", "payments"]


def line(path: str, data: str) -> bytes:
    return json.dumps({"path": path, "data": data}).encode() + b"\n"


def signed(body: bytes, **changes: Any) -> bytes:
    """A file of these lines, with a correct header except for the changes."""
    header = {**json.loads(FILE.split(b"\n", 1)[0]), "nodes": body.count(b"\n"), **changes}
    del header["sha256"]
    first = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    digest = hashlib.sha256(first + body).hexdigest()
    return json.dumps({**header, "sha256": digest}, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" + body


BODY = FILE.split(b"\n", 1)[1]
DIRECTIVE = line("directives/c", "{}")
HOSTILE = {
    "empty": (b"", "line 1: is not JSON"),
    "no file of ours": (b'{"format":"x"}\n', "line 1: field 'format' is not"),
    "a header twice": (b'{"format":"x","format":"y"}\n', "an object has 'format' twice"),
    "a huge header": (b"{" + b" " * 2_000 + b"}\n", "more than 1000"),
    "truncated in a line": (FILE[:-20], "its checksum is another one"),
    "a changed byte": (FILE.replace(b"broken", b"brokem"), "its checksum is another one"),
    "a changed header": (FILE.replace(b'"cluster":"shop"', b'"cluster":"mall"'), "its checksum is another one"),
    "a later version": (signed(BODY, version=2), "has format version 2.* import it with the release that wrote it"),
    "a wrong count": (signed(BODY, nodes=1), "its header says 1"),
    "a huge count": (signed(BODY, nodes=10**9), "field 'nodes' is 1000000000"),
    "no end of line": (signed(DIRECTIVE + b"x"), "line 3 is not whole"),
    "a huge line": (signed(line("directives/c", "x" * 2_100_000)), "line 2 is not whole, or has more than"),
    "no text": (signed(b"\xff\n"), "line 2 is not JSON in UTF-8"),
    "deep": (signed(b"[" * 100_000 + b"\n"), "line 2 is not JSON in UTF-8"),
    "a list": (signed(b"[]\n"), "line 2 is not an object with path and data"),
    "a field more": (signed(b'{"path":"directives/c","data":"{}","acl":1}\n'), "is not an object with path and data"),
    "no string": (signed(b'{"path":"directives/c","data":{}}\n'), "has a path or data that is no text"),
    "twice": (signed(DIRECTIVE + DIRECTIVE), "line 3 has directives/c a second time"),
}
PATHS = (
    *("config/..", "../other/config/x", "config/a/b", "/config/x", "config/", "members/a", "state/orders", "x", ""),
    *("assignments/orders", "leaving/a", "history/:lag/00", "history/orders/1", "history/../0000000000", "ids/."),
)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_is_not_as_it_was_written_is_refused(name: str) -> None:
    raw, said = HOSTILE[name]
    with pytest.raises(Refused, match=f"shop.state.*{said}"):
        state_file.decode("shop.state", raw)


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_no_exported_node_has_is_refused(path: str) -> None:
    with pytest.raises(Refused, match=r"line 2 has the path .*, which no exported node has"):
        state_file.decode("shop.state", signed(line(path, "{}")))


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if not kind.left])
def test_data_that_its_codec_does_not_read_is_refused(kind: str) -> None:
    found = state_file.decode("shop.state", FILE).nodes
    folder = KINDS[kind].folder.replace("*", "orders")
    path = next(one for one in found if one.rpartition("/")[0] == folder)
    for data in ("{", "[]", '{"version":99}'):
        with pytest.raises(Refused, match=f"shop.state line 2 has {path}, which "):
            state_file.decode("shop.state", signed(line(path, data)))


def test_what_stands_at_another_place_than_its_own_is_refused() -> None:
    found = {path: data.decode() for path, data in state_file.decode("f", FILE).nodes.items()}
    wrong = (
        ("config/payments", found["config/orders"], "is the configuration of topic 'orders'"),
        ("history/payments/0000000000", found["history/orders/0000000000"], "is a record of topic 'orders'"),
        ("upgrades/billing", encode_upgrade(upgrade(UpgradePhase.MOVING)).decode(), "is an upgrade that is under way"),
    )
    for path, data, said in wrong:
        with pytest.raises(Refused, match=said):
            state_file.decode("f", signed(line(path, data)))
    gap = line("history/orders/0000000001", found["history/orders/0000000001"])
    with pytest.raises(Refused, match="has a gap in the numbers of history/orders"):
        state_file.decode("f", signed(gap))


def test_a_large_file_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_file, "MAX_BYTES", len(FILE) - 1)
    with pytest.raises(CoordinatorError, match="bytes, more than"):
        state_file.decode("f", FILE)
