"""Strategies on real servers: the cluster's by its settings, by measured load, and a site's own, changed while it runs."""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest

from coordinator_tasks.core.model import Actor
from coordinator_tasks.service.actions.declarations import ACTIONS
from coordinator_tasks.wiring import Settings, open_coordinator
from tests.integration.agent_site import Site, wait_for
from tests.integration.real_site import LIMIT_S, Managed

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
# A rate is told after 10 s; by then nothing else is a reason to plan.
BY_RATE = {"measure": "records", "zones": "require", "tolerance": "0.6", "hysteresis": "0", "interval.s": "12"}
RULES = """
def by_tier(problem):
    gold = sorted(m for m, one in problem.members.items() if one.attributes.get("tier") == "gold")
    free = [p for p in problem.partitions if p not in problem.fixed]
    return {p: gold[i % len(gold)] for i, p in enumerate(free)} | dict(problem.fixed)

def all_to_the_last(problem):
    return {p: problem.fixed.get(p, max(problem.members)) for p in problem.partitions}
"""
ENTRY_POINTS = "[kafka_partition_coordinator.strategies]\nlast = site_rules:all_to_the_last\n"
GOLD = {"tier": "gold"}


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the site has installed a package with two strategies, one of them registered as an entry point."""
    (tmp_path / "site_rules.py").write_text(RULES)
    installed = tmp_path / "site_rules-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: site-rules\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.fixture
def partitions() -> int:
    return 6


def command(site: Site, settings: Settings, packages: Path, *arguments: str) -> str:
    """What the command line says, as a process of its own with its settings in the environment."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(packages)]),
        **site.environment,
        **{f"COORDINATOR_STRATEGIES_{name.upper()}": source for name, source in settings.strategies.items()},
    }
    asked = [sys.executable, "-m", "coordinator_tasks", *arguments]
    done = subprocess.run(asked, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_cluster_by_rate_with_racks_and_capacities_then_a_sites_own_strategies(
    managed: Managed, packages: Path
) -> None:
    site = managed.site
    own = {"tiers": "site_rules:by_tier"}
    settings = replace(site.settings, strategy="weighted", parameters=BY_RATE, strategies=own)
    managed.join("a", rack="r1", capacity=2.0, attributes=GOLD)
    managed.join("b", rack="r1")
    managed.join("c", rack="r9", attributes=GOLD)
    with managed.looping(settings=settings):
        first = managed.stable("ab")
        assert Counter(first.values()) == {"a": 4, "b": 2}, (
            "c is in no rack of the replicas, and a can carry twice as much"
        )

        def moved() -> bool:
            for busy in (p for p, owner in first.items() if owner == "b"):
                for _ in range(3):
                    site.producer.produce(site.topic, b"0", partition=busy)
            site.producer.poll(0)
            return Counter(managed.node().assignments.values()) == {"a": 5, "b": 1}

        wait_for(moved, "what is busy is spread", LIMIT_S)
        managed.stable("ab")
        planned = next(one for one in reversed(managed.history()) if one.plan is not None)
        assert planned.cause.startswith("loads have changed: weighted by records: 1 moves")
        assert planned.plan is not None
        (reason,) = planned.plan.moves
        assert "above the tolerance of 60 %; a carried " in reason.text
        assert reason.text.endswith(", in a rack of its replicas")

        said = command(site, settings, packages, "set-strategy", site.topic, "--strategy", "tiers")
        assert "tiers" in said
        assert managed.stable("ac") == {p: "ac"[p % 2] for p in range(6)}

        with open_coordinator(settings) as c:
            form = {"topic": site.topic, "strategy": "last", "parameters": {}}
            person = Actor("airflow", "ada", dag="set_strategy")
            told = f"{site.topic} has strategy 'tiers' (its defaults) now, and would get 'last' (its defaults)"
            assert ACTIONS["set_strategy"].lines(c, form, person, dry_run=True) == [told]
            assert ACTIONS["set_strategy"].lines(c, form, person, dry_run=False) == [told, "the next plan uses it"]
        managed.stable("c")
    asked = [one.plan for one in managed.history() if one.plan is not None]
    # On a busy machine measured loads may cause a further plan of `weighted`.
    assert [strategy for strategy, _ in groupby(plan.strategy for plan in asked)] == ["weighted", "tiers", "last"]
    assert len({plan.inputs for plan in asked}) == len(asked)
