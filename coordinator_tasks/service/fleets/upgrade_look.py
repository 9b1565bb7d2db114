"""Facts for an upgrade: its consumers, its topics, and the health of moved partitions."""

from collections.abc import Collection, Mapping

from coordinator_tasks.core.codecs import codec
from coordinator_tasks.core.errors import BadRule, KafkaUnavailable, NotManaged
from coordinator_tasks.core.fleet.upgrade import ENDURES, TopicSeen, Upgrade, UpgradeObservation, UpgradePhase
from coordinator_tasks.core.fleet.upgrade_rule import SiteRule, facts_of, failures, runs_any, shared, sinks_away
from coordinator_tasks.core.machine.churn import failed_in_a_row
from coordinator_tasks.core.machine.life import interfaces
from coordinator_tasks.core.model import Answer, State, TopicConfig, TopicNode, topic_status
from coordinator_tasks.core.protocol.znodes import find_many
from coordinator_tasks.core.text.partition_text import joined
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import fleet, store, topics
from coordinator_tasks.service.nodes.observe import load_claims


def look(c: Coordinator, upgrade: Upgrade) -> tuple[UpgradeObservation, Mapping[str, Answer]]:
    """Return the present facts, and the answers of the upgrade's consumers.

    Raises `Malformed` and the `Unavailable` kinds.
    """
    every = (*upgrade.old_consumers, *upgrade.new_consumers)
    c.zk.sync()
    members = {one: member for one, member in c.discovery.members().items() if one in every}
    answers = c.statuses.ask(interfaces([one for one in every if one in members], members, {}))
    nodes: dict[str, TopicNode] = {}
    seen: dict[str, TopicSeen] = {}
    for topic, config in configurations(c, upgrade).items():
        path = c.paths.topic(topic)
        node = store.read_node(path, c.zk.find(path))
        if node is not None:
            nodes[topic] = node
        seen[topic] = _topic(c, upgrade, config, node)
    registered = {one: member.incarnation for one, member in members.items() if not member.problem}
    wanted = frozenset(fleet.fleet_of(c, upgrade.app).consumers)
    missing = [one for one in upgrade.new_consumers if one not in registered]
    ended = _ended(c, upgrade, missing) if upgrade.phase is UpgradePhase.STARTING else {}
    return UpgradeObservation(c.clock.now(), registered, wanted, seen, _positions(nodes, answers), ended), answers


def _ended(c: Coordinator, upgrade: Upgrade, missing: Collection[str]) -> dict[str, str]:
    """Return consumer → why its last process ended. Only processes that ended with an error since the upgrade began."""
    found = {}
    for consumer, claim in load_claims(c, missing, {}).items():
        for incarnation in failed_in_a_row(claim)[:1]:
            if claim.failed_at.get(incarnation, 0.0) >= upgrade.since_at:
                found[consumer] = claim.reasons[incarnation]
    return found


def configurations(c: Coordinator, upgrade: Upgrade) -> dict[str, TopicConfig]:
    """Return the configurations of the upgrade's topics. Topics no longer managed are left out."""
    found = {}
    for topic in upgrade.topics:
        try:
            config = topics.configuration(c, topic)
        except NotManaged:
            continue
        if not config.removed:
            found[topic] = config
    return found


def outage(c: Coordinator, upgrade: Upgrade, seen: UpgradeObservation, answers: Mapping[str, Answer]) -> str:
    """Return, in a sentence, an outage that affects both versions; empty without an outage.

    An outage affects both if old consumers report the same errors, or if Kafka does not answer this host either.
    """
    if upgrade.phase not in ENDURES:
        return ""
    both = shared(upgrade, answers)
    if len(both) > upgrade.rule.max_errors:
        return f"old and new consumers have the same errors: {joined(both)}"
    try:
        c.kafka.describe([*seen.topics])
    except KafkaUnavailable as error:
        return error.told
    return ""


def away(upgrade: Upgrade, answers: Mapping[str, Answer]) -> str:
    """Return, in a sentence, the sink that does not answer the new consumers; empty if there is none.

    The report counts only if a step has passed and no old consumer runs a partition for comparison. After a passed
    step, the new version has reached the sink before.
    """
    if upgrade.step == 0 or any(runs_any(answers.get(one), upgrade.topics) for one in upgrade.old_consumers):
        return ""
    found = tuple(sinks_away(upgrade, answers))
    return f"the sink is away, and no old consumer uses it any more: {joined(found)}" if found else ""


def judged(
    c: Coordinator, upgrade: Upgrade, seen: UpgradeObservation, answers: Mapping[str, Answer]
) -> tuple[str, ...]:
    """Return how a held step violates the rule; empty if it does not. Raises `BadRule` if the site's own rule fails."""
    if upgrade.phase is not UpgradePhase.HOLDING or upgrade.mark is None:
        return ()
    facts = facts_of(upgrade, seen, answers)
    found = failures(upgrade, facts)
    if found or not upgrade.rule.call:
        return found
    said = site_rule(c, upgrade.rule.call)(facts)
    return (said,) if said else ()


def site_rule(c: Coordinator, name: str) -> SiteRule:
    """Return the site's rule of this name. Raises `BadRule` if this host's settings lack it or its import fails."""
    if name not in c.rules:
        listed = ", ".join(sorted(c.rules)) or "none"
        raise BadRule(
            f"the settings have no rule {name!r} (they have: {listed}); add it to `rules`, or choose another one"
        )
    return c.rules[name]()


def _topic(c: Coordinator, upgrade: Upgrade, config: TopicConfig, node: TopicNode | None) -> TopicSeen:
    found = find_many(c.zk, {"": c.paths.state(config.topic)})
    stable, waits = node is None, "it is not planned yet"
    if "" in found:
        state = codec.decode_state(c.paths.state(config.topic), found[""].data)
        stable = state.state is State.STABLE
        waits = "" if stable else f"{config.topic} is {state.state.value}: {state.cause}"
    waits = "it is frozen" if config.frozen else waits
    owners = {**node.assignments} if node is not None else {}
    # A partition in a hand-off belongs to its giver until the taker has started.
    owners |= {p: one.giver for p, one in node.handoff.items()} if node is not None else {}
    apart = frozenset(p for p, who in config.pins.items() if who not in upgrade.new_consumers)
    ours = config.split is not None and config.split.app == upgrade.app
    return TopicSeen(owners, stable, apart, config.paused, ours, waits)


def _positions(nodes: Mapping[str, TopicNode], answers: Mapping[str, Answer]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for topic, node in nodes.items():
        for consumer, answer in answers.items():
            said = topic_status(answer, topic)
            for partition, one in said.running.items() if said is not None else ():
                if node.assignments.get(partition) == consumer:
                    found.setdefault(topic, {})[partition] = one.position
    return found
