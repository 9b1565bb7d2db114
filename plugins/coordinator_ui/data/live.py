"""A cluster now: topics with their blockers, partitions with their lag, and consumers. Writes nothing.

A partition's figures come from its current owner. A former owner does not count, even if it still answers.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

from coordinator_tasks.core.errors import DiscoveryUnavailable, Malformed, NodeMissing
from coordinator_tasks.core.grouped import grouped
from coordinator_tasks.core.machine.world import World
from coordinator_tasks.core.measure.lag import LagStatus
from coordinator_tasks.core.model import State, running_in
from coordinator_tasks.core.text.partition_text import agreed, counted, ranges, shown
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.watch import overview
from coordinator_tasks.service.watch.overview import ConsumerOverview
from coordinator_ui.data.topic_summary import TopicSummary, summaries
from coordinator_ui.data.trends import PartitionNow, Trend, Trends
from coordinator_ui.texts import words

MOST_PARTITIONS = 20_000
MOST_CONSUMERS = 200
"""Maximum consumers in an answer for the page."""
MOST_TEXTS = 20
V = TypeVar("V")
OWNED, CLOSING, STARTING, PAUSED, IDLE, UNKNOWN, UNOWNED = range(7)
STATES = ("runs", "gives", "takes", "paused", "idle", "unknown", "nobody")
"""States of a partition. Their places are the numbers in the data."""
_STANDING = frozenset({LagStatus.STOP.name, LagStatus.STALL.name, LagStatus.REWIND.name})
_FOUND_BY = ("consumer", "presence", "host", "rack")
Speeds: TypeAlias = Mapping[tuple[str, int], float]
"""(Topic, partition) → records read per second."""
Statuses: TypeAlias = Mapping[tuple[str, int], LagStatus]
"""(Topic, partition) → Burrow's status."""


@dataclass(frozen=True, slots=True)
class Now:
    """One look at a cluster. `problem`: why the consumers could not be read."""

    at: float
    cluster: str
    topics: tuple[TopicSummary, ...]
    consumers: tuple[ConsumerOverview, ...]
    world: World
    wanted: frozenset[str] = frozenset()
    problem: str = ""


def now(c: Coordinator, topic: str = "") -> Now:
    """Look once, at a single topic if named. Raises `StoreUnavailable`."""
    look = cache(lambda: overview.look(c))
    problem, consumers = "", tuple[ConsumerOverview, ...]()
    seen, wanted = World(c.clock.now()), frozenset[str]()
    found = summaries(c, [topic] if topic else transitions.topics(c), lambda: look().world)
    try:
        looked = look()
        seen, wanted = looked.world, frozenset(looked.wanted)
        consumers = tuple(overview.consumers(c, looked))
    except (DiscoveryUnavailable, Malformed) as error:
        problem = error.told
    except NodeMissing:
        pass
    return Now(c.clock.now(), c.paths.cluster, found, consumers, seen, wanted, problem)


def standings(seen: Now) -> list[PartitionNow]:
    """Return every partition of every topic, as its current owner reports it."""
    found = []
    for one in seen.topics:
        owners = {p: who for who, numbers in one.owners.items() for p in numbers}
        said = {who: running_in(seen.world.answers.get(who), one.topic) for who in one.owners}
        for partition in one.partitions:
            who = owners.get(partition, "")
            running = said[who].get(partition) if who else None
            figures = (running.position, running.lag_records, running.rate) if running is not None else ()
            known = (math.nan if figure is None else float(figure) for figure in figures)
            found.append(PartitionNow(one.topic, partition, who, *known))
    return found


def look(c: Coordinator, topic: str, trends: Trends) -> tuple[Now, dict[str, Any]]:
    """Look once. Return the look, and its data. Raises `StoreUnavailable`."""
    seen = now(c, topic)
    every, trend = standings(seen), trends.of(c)
    return seen, data(seen, every, trend, trends.speeds(c, trend, every, whole=not topic))


def data(seen: Now, every: Sequence[PartitionNow], trend: Trend, speeds: Speeds) -> dict[str, Any]:
    """Return everything, for `whole` and `part`."""
    statuses = trend.statuses()
    by_topic, by_owner = grouped((one.topic, one) for one in every), grouped((one.owner, one) for one in every)
    moving = {who for one in seen.topics for who in (*one.closing, *one.starting)}
    names = sorted({one.consumer for one in seen.consumers} | {one.owner for one in every if one.owner} | moving)
    return {
        "cluster": seen.cluster,
        "now": round(seen.at, 3),
        "problem": seen.problem,
        "trend_problems": list(trend.problems[:MOST_TEXTS]),
        "judged": round(trend.moments[-1].at, 3) if statuses else None,
        "states": list(STATES),
        "statuses": {status.name: said for status, said in words.LAG_STATUSES.items()},
        "topics": [
            {**_topic(one, by_topic.get(one.topic, []), speeds, statuses), "trend": trend.totals(one.topic)}
            for one in seen.topics
        ],
        "owners": names,
        "partitions": _columns(seen, every, speeds, statuses, names),
        "moves": _moves(seen, names),
        "consumers": [_consumer(one, seen, by_owner.get(one.consumer, []), speeds) for one in seen.consumers],
    }


def whole(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of the data API. At most `MOST_PARTITIONS` partitions are listed; the others are counted."""
    return _of_rows(found, range(len(found["partitions"]["partition"])), found["moves"])


def part(found: Mapping[str, Any], topic: str, consumer: str = "", find: str = "") -> dict[str, Any]:
    """Return the answer for a page that shows the partitions of one topic and of one consumer.

    `shown`: this topic, or if there is no such topic, the topic that needs a person most. At most `MOST_CONSUMERS`
    consumers with `find` in their names, presence, host or rack are listed; consumers that need a person come first.
    `consumers_found` counts all consumers with `find`, and `consumers_count` all consumers.
    """
    columns, listed, topics = found["partitions"], found["consumers"], found["topics"]
    here = min(
        range(len(topics)), key=lambda place: (topics[place]["topic"] != topic, _rank(topics[place])), default=-1
    )
    mine = found["owners"].index(consumer) if consumer in found["owners"] else None
    pairs = enumerate(zip(columns["topic"], columns["owner"], strict=True))
    rows = [row for row, (place, owner) in pairs if place == here or owner == mine]
    wanted = find.strip().casefold()
    shown = [one for one in listed if wanted in " ".join(one[name] for name in _FOUND_BY).casefold()]
    return {
        **_of_rows(found, rows, [move for move in found["moves"] if move[0] == here]),
        "consumers": first(shown, MOST_CONSUMERS, lambda one: one["presence"] != "live" or bool(one["notes"])),
        "consumers_found": len(shown),
        "consumers_count": len(listed),
        "answering": sum(one["answers"] for one in listed),
        "shown": topics[here]["topic"] if topics else "",
    }


def first(rows: Sequence[V], most: int, needs: Callable[[V], bool]) -> Sequence[V]:
    """Return at most `most` rows, in order. If there are more, those that need a person come first."""
    return rows if len(rows) <= most else sorted(rows, key=lambda one: not needs(one))[:most]


def _rank(one: Mapping[str, Any]) -> tuple[bool, ...]:
    """Return a key that sorts first what needs a person most."""
    ill = not _STANDING.isdisjoint(one["statuses"])
    return not one["problem"], not one["unowned"], not (one["late"] or one["state"] == State.INITIAL), not ill


def _of_rows(found: Mapping[str, Any], rows: Sequence[int], moves: Sequence[Any]) -> dict[str, Any]:
    listed = rows[:MOST_PARTITIONS]
    columns = {name: [column[row] for row in listed] for name, column in found["partitions"].items()}
    return {**found, "partitions": columns, "moves": moves[:MOST_PARTITIONS], "left_out": len(rows) - len(listed)}


def _topic(one: TopicSummary, standing: Sequence[PartitionNow], speeds: Speeds, statuses: Statuses) -> dict[str, Any]:
    lag, rate, speed = _sums(standing, speeds)
    judged = Counter(s.name for p in standing if (s := statuses.get((p.topic, p.partition))) is not None)
    return {
        "topic": one.topic,
        "statuses": {name: count for name, count in judged.items() if name != LagStatus.OK.name},
        "state": one.state.value,
        "says": says(one),
        "since": one.since_at or None,
        "epoch": one.epoch,
        "partitions": len(one.partitions),
        "unowned": ranges(one.unowned),
        "moving": ranges(one.moving),
        "blockers": dict(list(one.blockers.items())[:MOST_TEXTS]),
        "overrides": list(one.overrides[:MOST_TEXTS]),
        "problem": one.problem,
        "late": one.late,
        **_figures(standing, lag, rate, speed),
        "advice": advice(one, standing, lag, rate, speed, statuses),
    }


def _unknown(standing: Iterable[PartitionNow]) -> int:
    """Return the number of partitions with unknown lag: they have no owner, or their owner does not report the lag."""
    return sum(math.isnan(one.lag) for one in standing)


def _sums(standing: Iterable[PartitionNow], speeds: Speeds) -> tuple[float, float, float]:
    """Return the known lag, write rate and read speed of these partitions together.

    The speed is NaN unless known for every partition with a known lag. Otherwise the reads of some partitions would be
    compared with the writes of all.
    """
    found = [(one.lag, one.rate, speeds.get((one.topic, one.partition), math.nan)) for one in standing]
    is_whole = not any(math.isnan(speed) for lag, _, speed in found if not math.isnan(lag))
    read = _sum(speed for _, _, speed in found) if is_whole else math.nan
    return _sum(lag for lag, _, _ in found), _sum(rate for _, rate, _ in found), read


def _figures(standing: Iterable[PartitionNow], lag: float, rate: float, speed: float) -> dict[str, Any]:
    """Return lag in records and seconds, records written and read per second, and the time until the lag is gone."""
    unknown = _unknown(standing)
    return {
        "lag": _number(lag),
        "lag_unknown": unknown,
        "lag_s": _number(_seconds(lag, rate)),
        "rate": _number(rate),
        "speed": _number(speed),
        "drain_s": _number(_left_s(unknown, lag, rate, speed)),
    }


def _left_s(unknown: int, lag: float, rate: float, speed: float) -> float:
    """Return `drain_s` of several partitions; NaN if `unknown` partitions lack a known lag."""
    left = drain_s(lag, rate, speed)
    return math.nan if unknown and math.isfinite(left) else left


def says(one: TopicSummary) -> str:
    """Return the topic's state and blockers as a sentence."""
    if one.problem:
        return one.problem
    if one.removed:
        return "It is being removed." if one.owners or one.moving else "It was removed."
    if one.blockers:
        waits = shown(list(one.blockers.values()))
        verb, awaited = ("close", one.closing) if one.state is State.CLOSING else ("start", one.starting)
        return (
            f"It waits for {counted(len({p for ps in awaited.values() for p in ps}), 'partition')} to {verb}: {waits}."
        )
    if one.unowned:
        return f"Nobody reads {counted(len(one.unowned), 'partition')}: {_remedy(one)}."
    said = words.meaning(one.state)
    return f"{said[:1].upper()}{said[1:]}."


def _remedy(one: TopicSummary) -> str:
    if one.owners:
        return "the next plan gives them to whoever may have them"
    return one.starts or "start a consumer"


def drain_s(lag: float, rate: float, speed: float) -> float:
    """Return the seconds until the lag is gone, at the current rates.

    Infinite if the lag never ends; NaN if unknown, or if only new records are left.
    """
    if lag == 0:
        return 0.0
    gain = speed - rate
    if math.isnan(lag) or math.isnan(gain):
        return math.nan
    if gain > 0:
        return lag / gain
    return math.nan if _is_kept_up(lag, rate) else math.inf


def _is_kept_up(lag: float, rate: float) -> bool:
    """Return whether only records of the last two seconds are unread."""
    return lag <= max(rate, 0.0) * 2


def advice(
    one: TopicSummary, standing: Sequence[PartitionNow], lag: float, rate: float, speed: float, statuses: Statuses
) -> str:
    """Return a sentence on whether another consumer would help; empty if unknown."""
    if math.isnan(lag) or not one.owners or one.removed or one.unowned:
        nobody_reads = f"nobody reads {counted(len(one.unowned), 'partition')}"
        return f"Another consumer would help if it may have them: {nobody_reads}." if one.unowned and one.owners else ""
    unknown = _unknown(standing)
    left = _left_s(unknown, lag, rate, speed)
    if lag == 0 or _is_kept_up(lag, rate):
        return _advice_of_unknown(unknown) or "Another consumer would not help: the consumers keep up."
    if stands := _why_it_stands(one, standing, lag, statuses):
        return stands
    if one.frozen or len(one.owners) >= len(one.partitions):
        each = "each consumer has one partition already, so it would get none"
        why = "the topic is frozen, and every partition stays where it is" if one.frozen else each
        return f"Another consumer would not help: {why}."
    worst = max(standing, key=lambda s: 0.0 if math.isnan(s.lag) else s.lag)
    if worst.lag > lag / 2 and len(one.owners.get(worst.owner, ())) == 1:
        return f"Another consumer would help little: partition {worst.partition} has more than half of the lag, and {worst.owner} reads nothing else of it."
    if math.isnan(left):
        return (
            _advice_of_unknown(unknown)
            or "It is not known yet whether another consumer would help: the speed is measured over some seconds."
        )
    most = max(len(numbers) for numbers in one.owners.values())
    if math.isinf(left):
        return f"Another consumer would help: the lag grows, and one consumer reads {counted(most, 'partition')}."
    return f"Another consumer would shorten it: the lag is gone in {words.duration(left)} as it is."


def _why_it_stands(one: TopicSummary, standing: Sequence[PartitionNow], lag: float, statuses: Statuses) -> str:
    """Return a sentence if most of the lag is in partitions that are not read; empty otherwise."""
    paused = [s.lag for s in standing if s.partition in one.paused]
    if _sum(paused) > lag / 2:
        return f"Another consumer would not help: {counted(len(paused), 'partition')} {agreed(len(paused), 'is', 'are')} paused."
    stalled = [s.lag for s in standing if statuses.get((s.topic, s.partition)) is LagStatus.STALL]
    if _sum(stalled) > lag / 2:
        stand = agreed(len(stalled), "stands", "stand")
        return (
            f"Another consumer is no answer yet: {counted(len(stalled), 'partition')} {stand} still. See Status first."
        )
    return ""


def _advice_of_unknown(unknown: int) -> str:
    """Return the advice if `unknown` partitions have no known lag; empty if all lags are known."""
    if not unknown:
        return ""
    behind = f"how far behind {counted(unknown, 'partition')} {agreed(unknown, 'is', 'are')}"
    return f"It is not known whether another consumer would help: nobody says {behind}."


def _columns(
    seen: Now, every: Sequence[PartitionNow], speeds: Speeds, statuses: Statuses, names: Sequence[str]
) -> dict[str, list[Any]]:
    """Return the partitions in columns, which take a tenth of the size of objects.

    Owners and topics are indexes into their lists; -1 means no owner.
    """
    owner_at = {name: place for place, name in enumerate(names)}
    topic_at = {one.topic: place for place, one in enumerate(seen.topics)}
    paused = grouped((topic.topic, p) for one in seen.consumers for topic in one.topics for p in topic.paused)
    states = {one.topic: _states(one, seen, paused.get(one.topic, ())) for one in seen.topics}
    measured = [speeds.get((one.topic, one.partition), math.nan) for one in every]
    return {
        "topic": [topic_at[one.topic] for one in every],
        "partition": [one.partition for one in every],
        "owner": [owner_at.get(one.owner, -1) for one in every],
        "state": [states[one.topic].get(one.partition, UNOWNED) for one in every],
        "lag": [_number(one.lag) for one in every],
        "lag_s": [_number(_seconds(one.lag, one.rate)) for one in every],
        "rate": [_number(one.rate) for one in every],
        "speed": [_number(speed) for speed in measured],
        "drain_s": [_number(drain_s(one.lag, one.rate, s)) for one, s in zip(every, measured, strict=True)],
        "status": [s.name if (s := statuses.get((one.topic, one.partition))) is not None else None for one in every],
    }


def _moves(seen: Now, names: Sequence[str]) -> list[list[int]]:
    """Return topic, partition, giver and taker of each move, as indexes into their lists; -1 means none."""
    place = {name: at for at, name in enumerate(names)}
    found = []
    for number, one in enumerate(seen.topics):
        givers = {p: place[who] for who, numbers in one.closing.items() for p in numbers}
        takers = {p: place[who] for who, numbers in one.starting.items() for p in numbers}
        found += [[number, p, givers.get(p, -1), takers.get(p, -1)] for p in sorted(givers.keys() | takers.keys())]
    return found


def _states(one: TopicSummary, seen: Now, paused: Iterable[int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for who, numbers in one.owners.items():
        running = running_in(seen.world.answers.get(who), one.topic)
        known = seen.world.status(who) is not None
        found |= {p: (OWNED if p in running else IDLE) if known else UNKNOWN for p in numbers}
    found |= {p: PAUSED for p in paused if p in found}
    found |= {p: STARTING for numbers in one.starting.values() for p in numbers}
    return found | {p: CLOSING for numbers in one.closing.values() for p in numbers}


def _consumer(one: ConsumerOverview, seen: Now, standing: Sequence[PartitionNow], speeds: Speeds) -> dict[str, Any]:
    member = seen.world.members.get(one.consumer)
    claim = seen.world.claims.get(one.consumer)
    absent = claim.absence if claim is not None and member is None else None
    of_topics = [f"{topic.topic}: {report}" for topic in one.topics for report in topic.notes]
    return {
        "consumer": one.consumer,
        "presence": words.presence(one),
        "offers": list(words.offers(one)),
        "host": urlsplit(one.address).hostname or "",
        "address": one.address,
        "release": one.release,
        "code": one.code,
        "spark_ui": one.pages.spark_ui,
        "driver_log": one.pages.driver_log,
        "rack": member.rack if member is not None else "",
        "capacity": member.capacity if member is not None else None,
        "incarnation": one.incarnation or None,
        "registered": (member.registered_at or None) if member is not None else None,
        "answers": bool(one.health),
        "absent_since": absent.since_at if absent is not None else None,
        "health": one.unwell or one.health,
        "exits": one.exits.count if one.exits is not None else 0,
        "last_exit": one.exits.reason if one.exits is not None else "",
        "next_try": (one.exits.next_at or None) if one.exits is not None else None,
        "asked": one.asked,
        "isolated": one.presence == "isolated",
        "draining": one.presence == overview.DRAINING,
        "wanted": one.consumer in seen.wanted,
        "notes": [text for text in (one.problem, one.ended, *one.reports, *of_topics) if text][:MOST_TEXTS],
        "partitions": sum(len(topic.assigned) for topic in one.topics),
        **_figures(standing, *_sums(standing, speeds)),
    }


def summary(seen: Now) -> dict[str, Any]:
    """Return the cluster's summary for the dashboard's tile."""
    waiting = [one for one in seen.topics if one.state is not State.STABLE or one.unowned or one.problem]
    unowned = [one for one in seen.topics if one.unowned]
    oldest = min(unowned, key=lambda one: one.since_at or math.inf, default=None)
    running = [one for one in seen.consumers if one.health]
    missing = sorted(seen.wanted - {one.consumer for one in running})
    return {
        "cluster": seen.cluster,
        "now": round(seen.at, 3),
        "problem": seen.problem,
        "topics": len(seen.topics),
        "not_stable": [
            {"topic": one.topic, "state": one.state.value, "since": one.since_at or None, "says": says(one)}
            for one in waiting[:MOST_TEXTS]
        ],
        "not_stable_count": len(waiting),
        "unowned_count": sum(len(one.unowned) for one in unowned),
        "oldest_unowned": None
        if oldest is None
        else {"topic": oldest.topic, "partitions": ranges(oldest.unowned), "since": oldest.since_at or None},
        "wanted": len(seen.wanted),
        "missing": missing[:MOST_TEXTS],
        "missing_count": len(missing),
        "running": len(running),
    }


def _seconds(lag: float, rate: float) -> float:
    """Return the age in seconds of the first unread record, if records came at an even rate."""
    if lag == 0:
        return 0.0
    return lag / rate if rate > 0 else math.nan


def _sum(numbers: Iterable[float]) -> float:
    """Return the sum of the known numbers; NaN if all are unknown."""
    known = [one for one in numbers if not math.isnan(one)]
    return math.fsum(known) if known else math.nan


def _number(value: float) -> float | int | str | None:
    """Return a number for JSON: `None` if unknown, "never" if infinite."""
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "never"
    return int(value) if value == int(value) else round(value, 2)
