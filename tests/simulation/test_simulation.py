"""Seeded histories of the whole system, run on all cores; `make simulate` runs more of them."""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest

from coordinator_tasks.core.model import State, Token
from spark_apps.agent.ownership.schedule import Schedule
from tests.simulation.actions import Action, perform
from tests.simulation.faults import Fault, Lasting, Wait
from tests.simulation.forks import ROOT
from tests.simulation.healing import heal
from tests.simulation.history import generate, run, run_seed, without_chance
from tests.simulation.pool import run_all
from tests.simulation.search import SMALL
from tests.simulation.shrink import shrunk
from tests.simulation.states import Bounds
from tests.simulation.sweep import Search
from tests.simulation.totals import Totals
from tests.simulation.world import Setup, World

BLOCK = 300
BLOCKS = 3
EACH = 9


@pytest.fixture(scope="module")
def totals() -> Totals:
    """Collect the totals of this run's blocks."""
    return Totals()


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_history_breaks_a_rule_and_every_one_settles(totals: Totals, block: int) -> None:
    found: list[Totals] = []
    run_all(block * BLOCK, BLOCK, found.append)
    for one in found:
        totals.merge(one)
    failed = [f"seed {seed}: {text}" for one in found for seed, text in one.failed.items()]
    assert not failed, f"{failed[0]}; see it with: python -m tests.simulation --seed N --trace"


def test_every_fault_meets_every_state_often_enough(totals: Totals) -> None:
    if totals.histories < BLOCK * BLOCKS:
        pytest.skip("only over all blocks")
    seldom = {(f.value, s.value): totals.effects[f, s] for f in Fault for s in State if totals.effects[f, s] < EACH}
    assert not seldom
    assert all(sum(totals.waits[wait, state] for state in State) >= EACH for wait in Wait)
    assert all(sum(totals.lasting[lasting, state] for state in State) >= EACH for lasting in Lasting)
    assert len(Fault) >= 20


def test_every_rule_is_looked_at_in_a_few_histories() -> None:
    checks = sum((run_seed(seed).checks for seed in range(40)), Counter())
    assert len(checks) == 18
    assert min(checks.values()) > 0


def test_who_runs_on_after_zookeeper_was_lost_is_excused_only_until_a_node_names_it() -> None:
    with without_chance():
        world = World(Setup())
        heal(world)
        before = _excused(world)
        perform(world, Action(Fault.LOST.name, 0, 0))
        lost = _excused(world)
        heal(world)
        after = _excused(world)
    world.kernel.close()
    assert len(before) == 3
    assert not any(before.values())
    assert lost == dict.fromkeys(before, True)
    assert after == before, "the same holdings go on, and are judged again"


def test_who_has_read_a_node_may_begin_what_it_grants_after_zookeeper_was_lost_until_it_is_asked() -> None:
    with without_chance():
        world = World(Setup())
        heal(world)
        node = world.oracle.nodes["orders"]
        others = [(one, p) for one in world.alive() for p, owner in node.assignments.items() if owner != one.consumer]

        def excused(epoch: int) -> set[bool]:
            tokens = [(one, p, Token(epoch, one.incarnation, node.generation)) for one, p in others]
            return {world.oracle.excuses.of(one, "orders", p, token) is not None for one, p, token in tokens}

        assert excused(node.epoch) == {False}
        perform(world, Action(Fault.LOST.name, 0, 0))
        assert excused(node.epoch) == {True}
        assert excused(node.epoch + 1) == {False}
        heal(world)
        assert excused(node.epoch) == {False}
    world.kernel.close()


@pytest.mark.parametrize("fault", [Fault.DETACHED, Fault.FROZEN])
def test_a_second_process_of_an_id_ends_no_first_one_that_lives(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    calm = Action("calm", 0, 0)
    history = [*[calm] * 8, Action(fault.name, 0, 19), Action(Fault.RELAUNCHED.name, 0, 0), *[calm] * 12]
    assert run(Setup(), history).broken == ""
    monkeypatch.setattr(World, "is_gone", lambda *_: True)
    assert "and what is stored takes it for closed" in run(Setup(), history).broken


def _excused(world: World) -> dict[tuple[str, int, Token], bool]:
    oracle = world.oracle
    running = [(one, p, token) for one in world.alive() for p, token in oracle._tokens(one, "orders").items()]
    return {(one.name, p, token): oracle.excuses.of(one, "orders", p, token) is not None for one, p, token in running}


def _traced(seed: int, hash_seed: str) -> bytes:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}"}
    command = [sys.executable, "-m", "tests.simulation", "--seed", str(seed), "--trace"]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True).stdout


@pytest.mark.parametrize("seed", [3, 58])
def test_a_seed_replays_byte_for_byte_whatever_hashes_come_to(seed: int) -> None:
    first = _traced(seed, "1")
    assert first == _traced(seed, "2")
    assert first.count(b"\n") > 50


def test_a_history_does_not_depend_on_the_one_before_it() -> None:
    alone = run_seed(7).digest
    run_seed(8)
    assert run_seed(7).digest == alone


def test_a_broken_rule_is_found_and_cut_down_to_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Schedule._entry
    monkeypatch.setattr(Schedule, "_entry", lambda self, held: replace(entry(self, held), offset=held.passed + 1))
    broken = next(one for seed in range(100) if (one := run_seed(seed)).broken)
    setup, actions = generate(broken.seed)
    kept, outcome = shrunk(setup, actions, broken.rule)
    assert outcome.rule == broken.rule
    assert len(kept) < len(actions)
    assert all(run(setup, kept[:n] + kept[n + 1 :]).rule != broken.rule for n in range(len(kept)))
    assert outcome.trace


@pytest.mark.parametrize("bounds", SMALL, ids=str)
def test_no_state_within_small_bounds_has_two_owners_or_stands_still(bounds: Bounds) -> None:
    search = Search(bounds)
    search.run()
    assert search.complete
    assert search.quiet
