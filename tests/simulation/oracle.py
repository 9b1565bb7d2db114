"""The rules of README.md, checked with full knowledge at every moment of every history."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coordinator_tasks.core.codecs.codec import decode_config, decode_node, decode_state
from coordinator_tasks.core.codecs.history_codec import decode_record
from coordinator_tasks.core.codecs.member_codec import decode_claim, decode_directive, decode_member
from coordinator_tasks.core.codecs.packed import begins_packed
from coordinator_tasks.core.machine import invariants
from coordinator_tasks.core.model import (
    Committed,
    IdClaim,
    MoveKind,
    Record,
    State,
    Token,
    TopicConfig,
    TopicNode,
    TopicState,
)
from coordinator_tasks.core.protocol.holding import grants
from spark_apps.agent.ownership.owned_partition import OwnedPartition
from spark_apps.agent.ownership.phases import Phase
from spark_apps.records.batches import Range
from tests.simulation.consumer import Consumer, Query
from tests.simulation.excuses import LOOK_S, Excuse, Excuses
from tests.simulation.grants import Grants, by_picture
from tests.simulation.looks import Looks
from tests.simulation.pauses import Pauses
from tests.simulation.running import Running, Runs
from tests.simulation.shown import Shown
from tests.simulation.withheld import Withheld
from tests.simulation.zookeeper import Changes, Znode
from tests.world.node_steps import of_step

if TYPE_CHECKING:
    from tests.simulation.world import World

_RUNS = frozenset({Phase.GUARDING, Phase.READY})


class Broken(AssertionError):
    """An invariant does not hold; `rule` is its short name."""

    def __init__(self, rule: str, sentence: str) -> None:
        super().__init__(f"{rule}: {sentence}")
        self.rule = rule


@dataclass
class Progress:
    """A partition of a topic id: the passed offset, and the newest token's position and holding."""

    frontier: int = 0
    token: Token | None = None
    position: int = 0
    holding: OwnedPartition | None = None
    overwritten: bool = False
    tainted: bool = False


@dataclass
class Oracle:
    world: "World"
    consumers: list[Consumer] = field(default_factory=list)
    excuses: Excuses = field(init=False)
    nodes: dict[str, TopicNode] = field(default_factory=dict)
    states: dict[str, State] = field(default_factory=dict)
    configs: dict[str, TopicConfig] = field(default_factory=dict)
    checks: Counter[str] = field(default_factory=Counter)  # checks that could fail
    progress: dict[tuple[str, int], Progress] = field(default_factory=dict)
    rewinds: int = 0
    _stored: dict[tuple[str, int], Token | None] = field(default_factory=dict)
    grants: Grants = field(default_factory=Grants)
    shown: Shown = field(init=False)
    looks: Looks = field(init=False)
    pauses: Pauses = field(init=False)
    running: Running = field(default_factory=Running)
    withheld: Withheld = field(default_factory=Withheld)
    _asked_to_end: set[tuple[str, int]] = field(default_factory=set)  # consumer, incarnation
    _written: bool = False  # since all processes were looked at
    _committers: dict[tuple[str, int, int], str] = field(default_factory=dict)
    _generations: dict[str, frozenset[str]] = field(default_factory=dict)
    _pictures: dict[tuple[str, str], TopicNode] = field(default_factory=dict)
    _held: dict[tuple[str, str], dict[int, Token]] = field(default_factory=dict)
    _let_go: dict[tuple[str, str], dict[int, Token]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.paths = self.world.paths
        self.excuses = Excuses(self.consumers, self.grants)
        self.shown = Shown(self.paths)
        self.looks = Looks(self.expect)
        self.pauses = Pauses(self.expect)

    def expect(self, rule: str, holds: bool, sentence: str, *, excused: bool = False) -> None:
        """Check and count a rule, unless `excused`."""
        if excused:
            return
        self.checks[rule] += 1
        if not holds:
            raise Broken(rule, sentence)

    # Writes in ZooKeeper ----------------------------------------------------------------------------------------------

    def on_write(self, before: Changes, after: Changes, who: str) -> None:
        self._written = True
        restored = who == "restore"
        stood = {topic: node.epoch for topic, node in self.nodes.items()}
        readers = {
            self.paths.directives: self._directive,
            self.paths.members: self._member,
            self.paths.ids: self._claim,
            self.paths.configs: self._config,
        }
        for path, node in after.items():
            folder, _, name = path.rpartition("/")
            if folder in readers:
                readers[folder](name, path, node)
        records = self._records(before, after)
        for path in after:
            folder, _, topic = path.rpartition("/")
            if folder == self.paths.states:
                self._state(topic, before[path], after, records.get(topic, []), restored)
            elif folder == self.paths.assignments and self._changed(before[path], after[path]):
                self._node(topic, before[path], after, records.get(topic, []), who)
        if restored:
            self.excuses.on_restore(stood)
            return
        for topic in records:
            written = self.paths.state(topic) in after
            self.expect("one record", written, f"a record of {topic} without its transition by {who}")

    def _records(self, before: Changes, after: Changes) -> dict[str, list[Record]]:
        """The history records of a transaction, by topic."""
        records: dict[str, list[Record]] = {}
        for path, node in after.items():
            folder, _, name = path.rpartition("/")
            if not folder.startswith(self.paths.histories + "/"):
                continue
            if self._changed(before[path], node):
                self.pauses.on_record(folder.rpartition("/")[2], path, node.data if node is not None else None)
            if node is not None and before[path] is None:
                records.setdefault(folder.rpartition("/")[2], []).append(decode_record(path, node.data, int(name)))
        return records

    @staticmethod
    def _changed(before: Znode | None, after: Znode | None) -> bool:
        return (before.data if before else b"") != (after.data if after else b"")

    def _state(self, topic: str, before: Znode | None, after: Changes, records: list[Record], restored: bool) -> None:
        path = self.paths.state(topic)
        now = after[path]
        state = decode_state(path, now.data) if now is not None else TopicState(State.INITIAL)
        was = decode_state(path, before.data).state if before is not None else State.INITIAL
        self.states[topic] = state.state
        self.grants.on_state(topic, state if now is not None else None)
        if restored:
            return
        self.expect("one record", len(records) == 1, f"a transition of {topic} with {len(records)} records")
        told = (records[0].source, records[0].target)
        self.expect("one record", told == (was, state.state), f"{topic} went {was} to {state.state}, told {told}")

    def _node(self, topic: str, before: Znode | None, after: Changes, records: list[Record], who: str) -> None:
        path = self.paths.topic(topic)
        old = decode_node(path, before.data) if before is not None and before.data else None
        now = after[path]
        if now is None or not now.data:
            self.nodes.pop(topic, None)
            self.grants.on_node(topic, None)
            return
        node = self.nodes[topic] = decode_node(path, now.data)
        self._generations[topic] = self._generations.get(topic, frozenset()) | {node.generation}
        self.grants.on_node(topic, node)
        if who == "restore":
            return
        if begins_packed(now.data):
            older = [one.name for one in self.consumers if one.alive and one.session.older]
            named = [one.name for one in self.consumers if node.incarnations.get(one.consumer) == one.incarnation]
            blind = sorted(set(older) & set(named))
            self.expect("all read their node", not blind, f"{topic} is packed, and {blind} cannot read that")
        recovered = old is None or old.generation != node.generation
        if recovered:
            self.excuses.on_recovery(topic, node, self.world.interfaces.heard.get(who, ()))
        self.excuses.on_node(topic, node)
        state_node = after.get(self.paths.state(topic))
        self.expect("one effect", state_node is not None, f"the node of {topic} was written without its state")
        if state_node is not None:
            broken = invariants.of_topic(node, decode_state(self.paths.state(topic), state_node.data))
            self.expect("node and state agree", not broken, "; ".join(broken))
        if old is not None:
            wrong = of_step(old, node)
            self.expect("epochs never fall", not wrong, "; ".join(wrong))
            self._undisturbed(topic, old, node, records)
        if recovered:
            self._new_generation(topic, node, who)
        else:
            self._given_out_again(node, {one.name for one in self.consumers if self._asked(one, who) and _heard(one)})
        frozen = self.configs[topic].frozen and not self.configs[topic].removed
        if frozen and records and old is not None and old.generation == node.generation:
            moved = [move for move in records[0].moves if move.partition in old.assignments]
            kinds = {move.kind for move in moved} & {MoveKind.HANDOFF, MoveKind.STOP}
            self.expect("hold means hold", not kinds, f"{topic} is frozen and was planned: {sorted(kinds)}")
        if old is not None and not recovered and not self.configs[topic].removed:
            self._kept(topic, old, records)
            self._spared(topic, old, records, who)
            self._not_yet(topic, old, node, who)

    def _kept(self, topic: str, old: TopicNode, records: list[Record]) -> None:
        """Check that a drain moves partitions, and stops none: only a consumer asked to end closes untaken partitions."""
        stopped = [move.partition for record in records for move in record.moves if move.kind is MoveKind.STOP]
        for p in stopped:
            giver = old.assignments.get(p)
            if giver is not None and p < len(self.world.brokers.logs[topic].ends):
                ends = (giver, old.incarnations[giver]) in self._asked_to_end
                self.expect("a drain keeps", ends, f"{topic}-{p} was taken from {giver} and given to nobody")

    def _spared(self, topic: str, old: TopicNode, records: list[Record], who: str) -> None:
        """Check that a leaving consumer, which closes all partitions, is not told to start them again."""
        again = {move.taker for record in records for move in record.moves if move.kind is MoveKind.RESTART}
        for one in self.consumers:
            mine = one.consumer in again and old.incarnations.get(one.consumer) == one.incarnation
            leaves = mine and one.address in self.world.interfaces.leaving.get(who, ())
            if mine:
                self.expect(
                    "who leaves is spared", not leaves, f"{one.name} leaves, and is told to start {topic} again"
                )

    def _not_yet(self, topic: str, old: TopicNode, node: TopicNode, who: str) -> None:
        """Check that no repeatedly failed consumer gets its first partition of the topic during its pause."""
        moment = self.world.moment(who)
        for consumer, incarnation in node.incarnations.items() if moment is not None else ():
            until = self.withheld.until(consumer, moment)
            if until and old.incarnations.get(consumer) != incarnation:
                told = f"{consumer} failed repeatedly, and gets partitions of {topic} {until - moment.last:.1f} s too early"
                self.expect("failed ends withhold", moment.last >= until, told)

    def _undisturbed(self, topic: str, old: TopicNode, node: TopicNode, records: list[Record]) -> None:
        moved = {move.partition for record in records for move in record.moves}
        for p in old.assignments.keys() & node.assignments.keys():
            owner = node.assignments[p]
            same = old.assignments[p] == owner and old.incarnations[owner] == node.incarnations[owner]
            kept, told = old.since[p] == node.since[p], f"{topic}-{p} stays at {owner} and was given a new holding"
            self.expect("undisturbed", kept, told, excused=not same or p in moved)

    def _asked(self, one: Consumer, who: str) -> bool:
        """Return whether the writer must have asked the consumer.

        The consumer must be present now, and have been at the writer's read of the registry.
        """
        return self.excuses.here(one) and one.address not in self.world.registry.missed.get(who, ())

    def _new_generation(self, topic: str, node: TopicNode, who: str) -> None:
        """Check a new generation. Absent consumers may run on: only the fence stops them.

        Silent consumers without facts about an older life are treated alike, and not awaited.
        """
        first = node.epoch == 1
        asked: set[str] = set()
        for one in (one for one in self.consumers if one.alive):
            if self._asked(one, who) and (_heard(one) or not first):
                asked.add(one.name)
            else:
                self.excuses.on_elder(one, topic, self._generations[topic] - {node.generation})
                self.taint(one)
        newest = max(
            (t.epoch for at, t in self._stored.items() if t and self._knowable(node, at, t, who, asked)), default=0
        )
        self.expect("epochs never fall", node.epoch > newest, f"epoch {node.epoch} after {newest} was committed")
        self._given_out_again(node, asked)
        # the consumer may continue under an epoch at which another has committed since
        for p, owner in node.assignments.items():
            at = node.topic_id, p, node.since[p]
            lives = {one.name: one.incarnation for one in self.consumers if one.consumer == owner}
            if at in self._committers and lives.get(self._committers[at]) != node.incarnations[owner]:
                self._forget_committer(at)

    def _knowable(self, node: TopicNode, at: tuple[str, int], token: Token, who: str, asked: Collection[str]) -> bool:
        """Return whether the writer had to know of this commit: readable at the time, or by an asked owner."""
        read = at not in self.world.brokers.unread.get(who, ())
        return at[0] == node.topic_id and (read or self._committers.get((*at, token.epoch)) in asked)

    def _given_out_again(self, node: TopicNode, asked: Collection[str]) -> None:
        """Forget commits at future epochs: ZooKeeper was lost or restored.

        Another process overwrote the only trace of such a commit, so the commit is unknown unless its owner can be
        asked. If the owner lives, both tokens have the same epoch, and the fence lets one continue.
        """
        for at in list(self._committers):
            if at[0] == node.topic_id and at[2] >= node.epoch:
                who = self._forget_committer(at)
                told = f"epoch {node.epoch} after {who} committed at {at[2]}"
                self.expect("epochs never fall", who not in asked, told)

    def _forget_committer(self, at: tuple[str, int, int]) -> str:
        progress = self._of(*at[:2])
        progress.tainted |= progress.overwritten  # only this entry had the newer position
        progress.token = None
        return self._committers.pop(at)

    def _directive(self, consumer: str, path: str, node: Znode | None) -> None:
        directive = decode_directive(path, node.data, consumer, 0) if node is not None else None
        isolation = directive.isolation if directive is not None else None
        draining = directive.draining if directive is not None else None
        if draining is not None:
            self._asked_to_end |= {(consumer, draining.incarnation), (consumer, draining.leaving)}
        self.excuses.on_directive(consumer, isolation.incarnation if isolation is not None else None, self.nodes)
        for one in self.consumers if isolation is not None else ():
            # A process whose id was taken by another process may be well, and cannot be asked.
            if self.excuses.set_aside(one) or (self.excuses.lost(one) and not self.excuses.here(one)):
                self.taint(one)

    def _member(self, consumer: str, path: str, node: Znode | None) -> None:
        address = decode_member(path, node.data).address if node is not None else ""
        self.excuses.on_member(consumer, address)
        for missed in self.world.registry.missed.values():
            missed.add(address)

    def _claim(self, consumer: str, path: str, node: Znode | None) -> None:
        claim = decode_claim(path, node.data, consumer, 0) if node is not None else IdClaim(consumer, 0)
        before = [one for one in self.consumers if not self.excuses.lost(one)]
        self.excuses.on_claim(claim, self.nodes)
        self.withheld.on_claim(claim, self.world.kernel.now)
        for one in before:
            if self.excuses.lost(one):  # the address has refused for long: the process may live, with a batch to commit
                self.taint(one)

    def _config(self, topic: str, path: str, node: Znode | None) -> None:
        if node is not None:
            self.configs[topic] = decode_config(path, node.data)

    # Actions of processes --------------------------------------------------------------------------------------------

    @staticmethod
    def _items(one: Consumer, topic: str) -> Iterable[tuple[int, OwnedPartition]]:
        ownership = one.ownership(topic)
        return ownership.holdings.held.items() if ownership is not None else ()

    def _tokens(self, one: Consumer, topic: str) -> dict[int, Token]:
        return {p: h.token for p, h in self._items(one, topic)}

    def after_step(self) -> None:
        """Look at every process."""
        self._look_at_all()

    def after_turn(self, one: Consumer | None) -> None:
        """Look at the process of this turn (`None`: a task's), and at all processes after a write."""
        if self._written:
            self._look_at_all()
        elif one is not None:
            self._look(one, again=False)
            self._one_owner([one.name])

    def _look_at_all(self) -> None:
        again, self._written = self._written, False
        for one in self.consumers:
            self._look(one, again)
        self._one_owner(self.running.names())

    def _one_owner(self, names: Collection[str]) -> None:
        self.checks["one owner"] += self.running.unexcused(names)
        if not self.running.shared(names):
            return
        for one in self.consumers:  # the other process may have ended since the last look
            self._look(one, again=True)
        shared = self.running.shared(names)
        self.expect("one owner", not shared, shared)

    def _look(self, one: Consumer, again: bool) -> None:
        """Judge this process's partitions, if changed since the last look, or `again`: stored data has changed."""
        if one.topics is None or not one.alive:
            self.running.ended(one)
            return
        if not self.running.is_another(one, self.shown.news(one)) and not again:
            return
        ignored = self.shown.ignored(one)
        self.expect("acts on what it reads", not ignored, ignored)
        runs: Runs = {}
        for topic, query in one.topics.queries.items():
            held = query.ownership.holdings.held
            self._changes(one, topic, held)
            for p, h in held.items():
                if (h.phase in _RUNS or h.pending or h.commits.sent) and not h.fenced:
                    excuse = self.excuses.of(one, topic, p, h.token)
                    self._still_granted(one, topic, p, h, excuse)
                    runs[topic, p] = h.token, excuse
        self.running.runs(one, runs)

    def _still_granted(
        self, one: Consumer, topic: str, partition: int, held: OwnedPartition, excuse: Excuse | None
    ) -> None:
        """Check that open partitions are granted by the process's picture, and by stored data are not another's."""
        by_stored = excuse is None and self.grants.is_known(topic)
        if not held.closing and not by_picture(one, topic, partition, held):
            why = "which its picture does not give it"
        elif not held.closing and self.shown.is_isolated(one):
            why = "and has read that it is isolated"
        elif by_stored and not self.grants.may_run(one, topic, partition):
            why = "and what is stored takes it for closed"
        else:
            why = ""
        told = f"{one.name} runs {topic}-{partition} at epoch {held.token.epoch}, {why}"
        self.expect("granted", not why, told, excused=held.closing and not by_stored)

    def _changes(self, one: Consumer, topic: str, held: dict[int, OwnedPartition]) -> None:
        """Check the holdings begun or stopped by this process since the last look."""
        key = (one.name, topic)
        now = {p: h.token for p, h in held.items()}
        was = self._held.get(key, {})
        ownership = one.ownership(topic)
        assert ownership is not None
        picture = ownership.holdings.accepted
        if picture is not None and self._pictures.get(key) is not picture:
            before = self._pictures.get(key)
            grows = before is None or picture.epoch > before.epoch
            self.expect("epochs never fall", grows, f"{one.name} went to epoch {picture.epoch} of {topic}")
            self._pictures[key] = picture
        if ownership.grants.isolated:
            self._let_go[key] = {p: h.token for p, h in held.items() if h.closing}
        if now == was:
            return
        self._held[key] = now
        for p, token in now.items():
            if was.get(p) != token:
                granted = (
                    topic,
                    token.generation,
                    p,
                    token.epoch,
                    one.consumer,
                    one.incarnation,
                ) in self.grants.granted
                self.expect("granted", granted, f"{one.name} holds {topic}-{p} at epoch {token.epoch} by no grant")
        for p, token in was.items():
            if p not in now:
                self._stopped(one, topic, p, token)

    def _stopped(self, one: Consumer, topic: str, partition: int, token: Token) -> None:
        ownership = one.ownership(topic)
        assert ownership is not None
        found = grants(ownership.holdings.accepted, one.consumer, one.incarnation, ownership.grants._releases, False)
        grant = found.get(partition)
        still = grant is not None and grant.token == token and not ownership.grants._is_void(grant.token)
        # A stop that began under an isolation continues, even if ZooKeeper and the isolation were lost then.
        told = ownership.grants.isolated or self._let_go.get((one.name, topic), {}).get(partition) == token
        over = self.looks.is_over(one, topic, partition, token)
        reason = not still or over or ownership.grants._stopping or told
        self.expect("hold means hold", reason, f"{one.name} stopped {topic}-{partition} for no reason")
        self.looks.on_stopped(one, topic, partition)

    def on_commit(self, topic: str, partition: int, entry: Committed, topic_id: str, who: str, *, late: bool) -> None:
        token = entry.token
        self._stored[topic_id, partition] = token if entry.topic_id == topic_id else None
        if any(one.name == who for one in self.consumers):
            self.expect("one committer", token is not None, f"{who} commits {topic}-{partition} without a token")
        if token is None or entry.topic_id != topic_id:
            self._of(topic_id, partition).overwritten = True
            return
        progress = self._of(topic_id, partition)
        survives = self._survives(who, topic, partition, token)
        first = who if survives else self._committers.setdefault((topic_id, partition, token.epoch), who)
        both = f"{who} and {first} commit {topic}-{partition} at {token.epoch}"
        self.expect("one committer", first == who, both, excused=survives)
        passed = entry.offset <= progress.frontier
        self.expect(
            "nothing skipped", passed, f"{topic}-{partition}: {entry.offset} committed, {progress.frontier} passed"
        )
        back = entry.offset < progress.position
        older = progress.token is not None and token < progress.token
        again = late and back and token == progress.token
        if older or again or survives:
            # Until the owner's next look; and a survivor's commit between an owner's look and its commit is lost.
            progress.overwritten = True
            # A newer token stops the owner before the passed offsets are committed.
            progress.tainted |= progress.token is not None and token > progress.token
            return
        held = self._held_by(who, topic, partition)
        if back and progress.overwritten and (token != progress.token or held is not progress.holding):
            # Somebody wrote over the owner's entry, and the owner was gone before it looked, or had stopped and begins anew:
            # nothing else knew better.
            self.rewinds += 1
            back, progress.tainted = False, True
            released = self._released(who, topic, partition, progress.token)
            self.expect(
                "position never goes back",
                released <= entry.offset,
                f"{topic}-{partition}: {who} begins at {entry.offset}, and was released at {released}",
            )
        self.expect(
            "position never goes back",
            not back,
            f"{topic}-{partition}: {entry.offset} by {who} at epoch {token.epoch} after {progress.position}",
        )
        if held is not None and held.commits.acknowledged is None and not late and entry.offset == progress.frontier:
            progress.tainted = False  # it begins where all has passed: a fault's effect on earlier holdings is over
        progress.token, progress.position, progress.overwritten = token, entry.offset, False
        progress.holding = held

    def _released(self, who: str, topic: str, partition: int, token: Token | None) -> int:
        """Return where the owner of this token has released the partition to this process; 0 = not released."""
        held = self._held_by(who, topic, partition)
        release = held.grant.release if held is not None else None
        return release.offset if release is not None and release.token == token else 0

    def _held_by(self, who: str, topic: str, partition: int) -> OwnedPartition | None:
        one = next(c for c in self.consumers if c.name == who)
        return dict(self._items(one, topic)).get(partition)

    def on_deleted(self, topic_id: str) -> None:
        """Kafka has deleted the topic and all commits: the epochs are no longer readable."""
        self._stored = {at: token for at, token in self._stored.items() if at[0] != topic_id}

    def _survives(self, who: str, topic: str, partition: int, token: Token) -> bool:
        """Return whether this commit comes from a dead or lost process, or has an unknowable epoch."""
        one = next(c for c in self.consumers if c.name == who)
        if not one.alive or self.excuses.is_given_out_again(one, topic, partition, token):
            return True
        return self.excuses.of(one, topic, partition, token) is not None

    def on_offer(self, one: Consumer, topic: str, query: Query) -> None:
        """Check that a batch has only granted, open partitions with a recent look."""
        held, batch = query.ownership.holdings.held, query.current
        ranges = batch.ranges if batch is not None else {}
        self.looks.on_offer(one, topic, ranges)
        for p in ranges:
            h = held.get(p)
            sure = h is not None and h.phase is Phase.READY and not h.closing and by_picture(one, topic, p, h)
            self.expect("granted", sure, f"{one.name} hands out records of {topic}-{p}, which it does not hold")

    def on_pass(self, one: Consumer, topic: str, topic_id: str, each: Range) -> None:
        progress = self._of(topic_id, each.partition)
        at = f"{topic}-{each.partition} from {each.start}"
        reached = each.start <= progress.frontier
        self.expect("nothing skipped", reached, f"{one.name} read {at}, only {progress.frontier} passed")
        again = max(0, min(progress.frontier, each.end) - each.start)
        # A survivor's passed records are read again by the owner, or were read by it.
        token = self._tokens(one, topic)[each.partition]
        # The same is true for a process adopted by a recovery after its own late commit over the newer owner's.
        late = progress.overwritten and progress.token is not None and token < progress.token
        excuse = self.excuses.of(one, topic, each.partition, token)
        progress.tainted |= late or self.excuses.set_aside(one) or excuse is not None
        told = f"{one.name} read {at} again, {progress.frontier} had passed"
        self.expect("nothing doubled", not again, told, excused=progress.tainted)
        progress.frontier = max(progress.frontier, each.end)

    def taint(self, one: Consumer) -> None:
        """The process's running partitions may be read again: death, presumed loss, or disturbed commits."""
        if one.topics is None:
            return
        for topic, query in one.topics.queries.items():
            picture = query.ownership.holdings.accepted
            if picture is not None:
                for p, _ in self._items(one, topic):
                    self._of(picture.topic_id, p).tainted = True

    def taint_all(self) -> None:
        for progress in self.progress.values():
            progress.tainted = True
        for one in self.consumers:
            self.taint(one)

    def _of(self, topic_id: str, partition: int) -> Progress:
        return self.progress.setdefault((topic_id, partition), Progress())


def _heard(one: Consumer) -> bool:
    """Return whether the process answers, and has answered all tasks that may still write observations."""
    return one.listener.mood is None and one.kernel.now - one.listener.unheard_at > LOOK_S
