"""One Spark application: topics that appear while it runs, queries that stand still or keep state, and triggers."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator_tasks.core.codecs.member_codec import decode_claim
from coordinator_tasks.core.model import Ending
from tests.integration.agent_site import Site, Traffic, another_topic, wait_for
from tests.integration.hanging_pipeline import HANG, TRIGGER_S, counting, now_and_then
from tests.integration.real_site import Consumer, Ledger
from tests.integration.test_agent_spark import ROOT, START_S, SparkProcess

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400), pytest.mark.partitions(2)]
STALLED_S = 20
MODULE = "tests.integration.hanging_pipeline"


@pytest.fixture
def application(site: Site, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SparkProcess]:
    """A consumer under spark-submit, started before there is any topic."""
    patterns = (
        *("--pattern", f"(orders|later)-.*={MODULE}:{getattr(request, 'param', 'build')}"),
        *("--pattern", f"counted-.*={MODULE}:{counting.__name__}", "--set", f"batches={tmp_path / 'batches'}"),
    )
    process = SparkProcess(site, "a", tmp_path, "", (*patterns, "--max-poll-interval", str(STALLED_S)))
    process.registered()
    yield process
    process.close()


def test_topics_that_appear_are_picked_up_and_a_query_without_progress_ends_the_consumer_with_its_reason(
    application: SparkProcess,
) -> None:
    site, process = application.site, application.process

    def consumed(of: Site, count: int) -> bool:
        application.runs()
        found = of.committed()
        return len(found) == of.partitions and all(one.offset == count for one in found.values())

    assert site.status("a").topics == {}
    site.produce(10)
    site.assign(dict.fromkeys(range(2), "a"))
    wait_for(lambda: consumed(site, 10), "the first topic is read", START_S)
    incarnation, later = site.incarnation("a"), another_topic(site)
    later.produce(10)
    later.assign(dict.fromkeys(range(2), "a"))
    wait_for(lambda: consumed(later, 10), "the topic that appeared is read", START_S)
    assert site.status("a").incarnation == incarnation, "without a restart"
    assert site.runs("a") == later.runs("a") == {0: True, 1: True}
    later.producer.produce(later.topic, HANG, partition=1)
    later.producer.flush()
    site.produce(5, start=10)
    wait_for(lambda: process.poll() is not None, "it leaves", START_S)
    assert process.returncode == 1, application.said()
    assert f"topic {later.topic}: no progress for {STALLED_S} s in partitions [1]" in application.log.read_text()
    assert site.zk.find(site.paths.member("a")) is None
    assert site.committed()[0].offset == 15, "what the other query has done is committed"
    assert later.committed()[1].offset == 10, "what did not pass the sink is not"
    claim = decode_claim("", site.zk.get(site.paths.id("a")).data, "a", 0)
    assert list(claim.ended.values()) in ([], [Ending.LEFT])


@pytest.mark.parametrize("application", ["until_now"], indirect=True)
def test_with_the_trigger_available_now_a_consumer_reads_what_is_there_and_leaves_cleanly(
    application: SparkProcess,
) -> None:
    site, process = application.site, application.process
    site.produce(30)
    site.assign(dict.fromkeys(range(2), "a"))
    wait_for(lambda: process.poll() is not None, "it leaves", START_S)
    assert process.returncode == 0, application.said()
    assert site.positions() == {0: 30, 1: 30}
    claim = decode_claim("", site.zk.get(site.paths.id("a")).data, "a", 0)
    assert list(claim.ended.values()) == [Ending.LEFT]


@pytest.mark.parametrize("application", [now_and_then.__name__], indirect=True)
def test_with_a_processing_time_trigger_all_is_read_and_a_hand_off_is_served_at_the_next_one_and_state_is_refused(
    application: SparkProcess, tmp_path: Path
) -> None:
    site, taken = application.site, Ledger()

    def batches() -> list[tuple[float, list[tuple[int, int]]]]:
        file = tmp_path / "batches"
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [(at, [(partition, offset) for partition, offset in rows]) for at, rows in lines]

    def offsets(partition: int) -> list[int]:
        read = [offset for _, rows in batches() for one, offset in rows if one == partition]
        return sorted(read + taken.offsets(partition))

    other = Consumer(site, "b", taken)
    site.assign(dict.fromkeys(range(2), "a"))
    traffic = Traffic(site, per_second=100)
    try:
        wait_for(lambda: len(batches()) > 3, "records flow", START_S)
        asked = time.time()
        site.hand_off({1: "b"})
        took = wait_for(lambda: site.release(1), "a has let go", START_S)
        served = time.time()
        wait_for(lambda: taken.offsets(1), "b has taken over", START_S)
    finally:
        sent = traffic.close()
    wait_for(lambda: all(len(offsets(p)) >= sent for p in range(2)), "everything is consumed", START_S)
    assert {p: offsets(p) for p in range(2)} == {p: list(range(sent)) for p in range(2)}
    times = [at for at, _ in batches()]
    print(f"\na hand-off away with a trigger every {TRIGGER_S} s: released after {took:.1f} s")
    # Five a second without it; one that took longer than the time between two is followed by the next at once.
    assert len(times) <= 2 * (times[-1] - times[0]) / TRIGGER_S + 2, "batches come only then"
    assert sum(asked < at < served for at in times) <= 2, "the one under way, and that of the trigger that served it"
    counted = another_topic(site, "counted")
    counted.assign({0: "a"})
    refusal = "the query could not be started: the query keeps state between batches (an aggregation)"

    def refused() -> bool:
        said = counted.status("a").topics.get(counted.topic)
        return said is not None and refusal in " ".join(said.reports)

    wait_for(refused, "it is refused", START_S)
    assert not counted.runs("a").get(0)
    passed = len(batches())
    site.produce(10)
    wait_for(lambda: len(batches()) > passed, "the other topic is read on", START_S)
    application.runs()
    assert other.close() == 0


def test_the_script_of_the_documentation_reads_what_it_is_assigned_and_leaves_cleanly(
    site: Site, tmp_path: Path
) -> None:
    script, *_ = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "consumers.md").read_text(), re.DOTALL)
    (tmp_path / "texts.py").write_text(script.replace('pipeline("texts"', f'pipeline("{site.topic}"'))
    log, environment = tmp_path / "texts.log", {**os.environ, **site.environment, "PYTHONPATH": str(ROOT)}

    def texts() -> set[tuple[int, int, str]]:
        lines = [json.loads(line) for file in (tmp_path / "texts").glob("*.json") for line in file.open()]
        return {(one["partition"], one["offset"], one["text"]) for one in lines}

    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "texts.py"], stdout=output, stderr=output, cwd=tmp_path, env=environment
        )
    try:
        wait_for(lambda: site.zk.find(site.paths.member("texts-1")) or process.poll() is not None, "it starts", START_S)
        assert process.poll() is None, log.read_text()[-3000:]
        site.produce(5)
        site.assign(dict.fromkeys(range(2), "texts-1"))
        wait_for(lambda: texts() == {(p, n, str(n)) for p in range(2) for n in range(5)}, "it reads its own", START_S)
        process.send_signal(signal.SIGTERM)
        site.assign({})
        assert process.wait(60) == 0, log.read_text()[-3000:]
    finally:
        process.kill()
        process.wait()
