"""The command `audit`: what a person and a program read, and its exit codes."""

import json

import pytest

from coordinator_tasks.core.machine import audit as rules
from tests.unit.coordinator_tasks.cli.conftest import Run, command_of
from tests.world.shop import Shop
from tests.world.site import Site


def commit_all(shop: Shop) -> None:
    for partition, offset in {0: 80, 1: 90, 2: 70}.items():
        shop.commit(partition, offset)


def test_a_healthy_site_says_who_commits_what(shop: Shop, run: Run) -> None:
    commit_all(shop)
    code, out, _ = run("audit", "orders")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0
    assert "TOPIC COMMITTED BY PARTITIONS WHICH CHANGED IN 2.5 S RECORDS IN 2.5 S" in lines
    assert "orders a 3 0-2 0 0" in lines


def test_an_intruder_is_named_with_what_to_do_and_exit_code_1(shop: Shop, run: Run) -> None:
    commit_all(shop)
    shop.kafka.stored["g", "orders", 1] = (5, "by hand")
    code, out, _ = run("audit")
    assert code == 1
    assert "partition 1 of orders: somebody without a token has committed it over a" in out
    assert "- KPC-082: stop the intruder, or give the intruder a group of its own" in out
    code, out, _ = run("audit", "--output", "csv")
    assert code == 1
    assert out.splitlines()[0] == "code,topic,partitions,found,to do"
    assert any(line.startswith("KPC-082,orders,1,") for line in out.splitlines())
    code, out, _ = run("audit", "--json", "--for", "1")
    found = json.loads(out)
    assert (code, found["between_s"]) == (1, 1.0)
    assert [one["partitions"] for one in found["findings"] if one["alarm"]] == [[1]]


def test_what_was_not_looked_at_is_not_called_healthy(shop: Shop, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_all(shop)
    monkeypatch.setattr(rules, "old_code", lambda *_: [])
    assert run("audit")[1].startswith(
        "every partition has one owner, who runs it and commits it, or is on its way to one\n"
    )
    shop.kafka.down = True
    code, out, err = run("audit")
    healthy = "nothing is wrong in what could be looked at\n\nnothing is committed in what could be looked at\n"
    assert (code, out) == (1, healthy)
    assert err.startswith("left out: the committed offsets of orders are not audited: Kafka does not answer\n")


def test_a_cluster_whose_only_topic_cannot_be_read_is_not_called_healthy(capsys: pytest.CaptureFixture[str]) -> None:
    site = Site()
    site.add_topic()
    site.server.overwrite(site.paths.config("orders"), b"{")
    code, out, err = command_of(site, capsys)("audit")
    assert (code, out) == (1, "no topic could be audited\n")
    assert err.startswith("left out: orders is not audited: ")


def test_bad_input_is_refused(shop: Shop, run: Run) -> None:
    commit_all(shop)
    assert run("audit", "nobody")[0] == 2
    assert run("audit", "--for", "0")[0] == 2
