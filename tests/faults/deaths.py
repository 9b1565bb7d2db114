"""Deaths at named points beyond those of `make test-all`: every caller and phase, pairs, rare points, later calls of a point; and sleepers."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path

from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.settings import TOKEN_FENCE, TRANSACTIONAL_FENCE
from tests.faults import plan
from tests.faults.case import Result
from tests.faults.failpoints import Kill, When
from tests.faults.notes import Notes, Part, Turn, Wanted, figure
from tests.faults.servers import Servers
from tests.faults.zombie import Wake, Zombie, adrift, blind, sleepers

SEED = 2
BATCH = 48
LATER_CALLS = (2, 3)
RARE_TRIES = 20
"""Of a case whose point need not be met: after that it is noted as one that did not come to its death."""
SLEEPERS = 50
ADRIFT = 10
PAIRS, RARE, LATER, SLEEPING, CUT_OFF = "pairs", "rare-points", "later-calls", "sleepers", "cut-off-sleepers"
POINTS = "points"
FURTHER = "further-points"
FURTHER_TRIES = 5
BLINDNESS = "blind-zombies"
BLIND = 3


def key(kills: Sequence[Kill]) -> str:
    return " and ".join(str(kill) for kill in kills)


def plans(part: str, wanted: Wanted) -> list[tuple[Kill, ...]]:
    """The cases of a part."""
    if part == PAIRS:
        return list(islice(plan.pairs(SEED), wanted.pairs))
    if part == POINTS:
        return plan.singles()
    if part == RARE:
        return plan.rare()
    if part == FURTHER:
        return plan.further_singles()
    always = [point for point, met in plan.listed().items() if met]
    return [(Kill(point, when, nth),) for nth in LATER_CALLS for point in always for when in When]


@contextmanager
def own_servers(folder: Path, partitions: int = 2) -> Iterator[Servers]:
    """ZooKeeper and Kafka for a part of its own."""
    with EmbeddedZooKeeper(folder / "zookeeper") as zookeeper, EmbeddedKafka(folder / "kafka") as kafka:
        servers = Servers(zookeeper.connect_string, kafka.bootstrap_servers, folder.name, partitions)
        try:
            yield servers
        finally:
            servers.close()


def _deaths(part: str) -> Part:
    def run(turn: Turn) -> None:
        by_key = {key(one): one for one in plans(part, turn.wanted)}
        due = turn.notes.due(by_key)
        if not due or turn.over():
            return
        with own_servers(turn.folder) as servers:
            for number, keys in turn.batches(due, BATCH):
                batch, folder = [by_key[one] for one in keys], turn.folder / f"batch{number}"
                tries, brief = {RARE: RARE_TRIES, FURTHER: FURTHER_TRIES}.get(part, 1), part == FURTHER
                for result in plan.run_reaching(servers, folder, batch, tries, brief=brief, over=turn.over):
                    note(turn.notes, part, key(result.kills), result)

    def summary(notes: Notes, wanted: Wanted) -> str:
        lines = notes.of(part)
        return (
            f"{len(lines)} of {len(plans(part, wanted))} cases, {sum(all(one['reached']) for one in lines)} came to all "
            f"their deaths, {sum(one['repeated'] for one in lines)} records repeated, all by a death; the slowest "
            f"{figure(lines, 'took_s'):.1f} s"
        )

    return Part(part, run, summary)


def note(notes: Notes, part: str, case: str, result: Result) -> None:
    """What became of a case with deaths."""
    notes.add(
        part,
        case,
        problems=result.problems,
        reached=list(result.reached),
        repeated=result.repeated,
        took_s=round(result.took_s, 2),
    )


def _sleepers(part: str, count: int, made: Callable[[Servers, Path, Iterable[int]], Sequence[Zombie]]) -> Part:
    numbers = {f"{part.removesuffix('s')} {number}": number for number in range(count)}

    def run(turn: Turn) -> None:
        due = turn.notes.due(numbers)
        if not due or turn.over():
            return
        with own_servers(turn.folder) as servers:
            for number, batch in turn.batches(due, plan.AT_ONCE):
                cases = made(servers, turn.folder / f"sleepers{number}", [numbers[key] for key in batch])
                with ThreadPoolExecutor(plan.AT_ONCE) as pool:
                    for key, wake in zip(batch, pool.map(lambda one: one.wake(), cases), strict=True):
                        turn.notes.add(part, key, **asdict(wake))

    def summary(notes: Notes, _: Wanted) -> str:
        lines = notes.of(part)
        last = max((one["batches"][-1] for one in lines if one["batches"]), default=0.0)
        return (
            f"{len(lines)} of {count}; stopped after at most {figure(lines, 'stopped_after_s'):.2f} s, the last batch of "
            f"one after {last:.2f} s, at most {max((len(one['batches']) for one in lines), default=0)} batches of one, "
            f"{sum(one['rows'] for one in lines)} records repeated, {sum(one['late_commits'] for one in lines)} commits "
            "under an old epoch"
        )

    return Part(part, run, summary)


def _blind(turn: Turn) -> None:
    fences = [fence for fence in (TRANSACTIONAL_FENCE, TOKEN_FENCE) if turn.notes.due([f"blind zombie 0, {fence}"])]
    if not fences or turn.over():
        return
    with own_servers(turn.folder) as servers:
        for fence in fences:
            cases = blind(servers, turn.folder / "blind", fence, BLIND)
            with ThreadPoolExecutor(BLIND) as pool:
                wakes = list(pool.map(lambda one: one.wake(), cases))
            for number, wake in enumerate(wakes):
                line = {**asdict(wake), "problems": _of_the_blind(fence, wake)}
                turn.notes.add(BLINDNESS, f"blind zombie {number}, {fence}", **line)


def _of_the_blind(fence: str, wake: Wake) -> list[str]:
    """The broker refuses it; with the token's fence alone its commits are wrong on purpose, and have to be noticed."""
    if fence == TRANSACTIONAL_FENCE:
        return [*wake.problems, *([] if wake.refused else ["the broker refused nothing"])]
    if not wake.late_commits:
        return ["the zombie committed nothing: nothing was shown"]
    return [] if any("under an old epoch" in text for text in wake.problems) else ["its commits were not noticed"]


def _blinded(notes: Notes, _: Wanted) -> str:
    def told(fence: str) -> str:
        lines = [one for one in notes.of(BLINDNESS) if one["key"].endswith(fence)]
        return (
            f"`fence={fence}`: {len(lines)} zombies, {sum(one['refused'] for one in lines)} refused, "
            f"{sum(one['late_commits'] for one in lines)} commits under an old epoch"
        )

    return f"{told(TRANSACTIONAL_FENCE)}; {told(TOKEN_FENCE)}"


PARTS = [
    Part(BLINDNESS, _blind, _blinded),
    _sleepers(SLEEPING, SLEEPERS, sleepers),
    _sleepers(CUT_OFF, ADRIFT, adrift),
    *(_deaths(part) for part in (POINTS, PAIRS, FURTHER, RARE, LATER)),
]
