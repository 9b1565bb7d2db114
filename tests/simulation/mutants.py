"""The rules of the protocol, each with a one-line change that breaks it; `tests.simulation.mutation` asks who notices."""

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Mutant(NamedTuple):
    """`old` is replaced by `new` where it stands first in `file`; `rule` is the sentence that then no longer holds."""

    file: str
    old: str
    new: str
    rule: str


_CLAIMS = "coordinator_tasks/core/protocol/claims.py"
_CONFIRM = "coordinator_tasks/core/machine/confirm.py"
_DECIDING = "coordinator_tasks/core/machine/deciding.py"
_DRAFT = "coordinator_tasks/core/machine/draft.py"
_FENCE = "coordinator_tasks/core/protocol/fence.py"
_HOLDING = "coordinator_tasks/core/protocol/holding.py"
_PRESENCE = "coordinator_tasks/core/machine/presence.py"
_RECOVERY = "coordinator_tasks/core/machine/recovery.py"
_STATUS_CODEC = "coordinator_tasks/core/codecs/status_codec.py"
_STORE = "coordinator_tasks/service/store.py"
_DIRECTIVES = "coordinator_tasks/service/directives.py"
_OBSERVE = "coordinator_tasks/service/observe.py"
_TRANSITIONS = "coordinator_tasks/service/transitions.py"
_DISCOVERY = "coordinator_tasks/adapters/discovery.py"
_LEDGER = "spark_apps/agent/ownership/ledger.py"
_HELD = "spark_apps/agent/ownership/held.py"
_HOLDER = "spark_apps/agent/ownership/holder.py"
_HOLDINGS = "spark_apps/agent/ownership/holdings.py"
_RELEASING = "spark_apps/agent/ownership/releasing.py"
_TOPICS = "coordinator_tasks/service/topics.py"
_SCHEDULE = "spark_apps/agent/ownership/schedule.py"
_WORK = "spark_apps/agent/ownership/work.py"
_PLANNER = "spark_apps/agent/ownership/planner.py"
_RUNNER = "spark_apps/agent/threads/runner.py"
_PLAIN = "spark_apps/plain.py"

_OWES = 'once it no longer runs them."""\n    if picture is None or picture.removed or'

MUTANTS = (
    Mutant(_CONFIRM, "if status.acted_epoch < epoch:", "if False:", "a confirmation is for an epoch"),
    Mutant(_CONFIRM, "if answer.incarnation != incarnation:", "if False:", "a confirmation is by an incarnation"),
    Mutant(_CONFIRM, "if status.generation != node.generation:", "if False:", "a confirmation is for a generation"),
    Mutant(_CONFIRM, "if partition in status.running else", "if False else", "closed means that it does not run"),
    Mutant(
        _CONFIRM,
        "running.token.epoch != node.since.get(partition)",
        "running.token.epoch < 0",
        "started means under the present holding",
    ),
    Mutant(
        _CONFIRM, 'return "" if running.started else', 'return "" if True else', "started means committed and planned"
    ),
    Mutant(_STORE, "else SetData(path, data, version)", "else SetData(path, data)", "every write is a compare-and-set"),
    Mutant(
        _STORE,
        'operations += [Create(f"{paths.history(topic)}/", encode_record(decision.record), sequence=True)]',
        'zk.transact([Create(f"{paths.history(topic)}/", encode_record(decision.record), sequence=True)])',
        "the record is written in the transition's transaction",
    ),
    Mutant(
        _STORE,
        "for consumer in sorted(decision.relies_on):",
        "for consumer in ():",
        "what reassigns a lost consumer's partitions is guarded by its absence",
    ),
    Mutant(_DRAFT, "found.add(entry.taker)", "pass", "the taker of a hand-off is a possible owner"),
    Mutant(
        _DRAFT,
        "found = set(self.to_close.get(partition, ()))",
        "found: set[str] = set()",
        "whoever stands in toClose is a possible owner",
    ),
    Mutant(
        _DRAFT,
        "if release is not None and releases_entry(release, entry, self.generation):",
        "if release is not None:",
        "only a release of the present entry confirms its giver",
    ),
    Mutant(
        _DRAFT,
        "elif len(owners) == 1 and partition not in self.guarded:",
        "elif owners and partition not in self.guarded:",
        "several possible owners go through the barrier",
    ),
    Mutant(
        _DRAFT,
        "elif len(owners) == 1 and partition not in self.guarded:",
        "elif len(owners) == 1:",
        "a guarded partition is not handed off",
    ),
    Mutant(
        _DRAFT,
        "self._guard(partition, owner in unclean)",
        "self._guard(partition, False)",
        "what comes from a lost owner without a release is guarded",
    ),
    Mutant(
        _DRAFT,
        "self._guard(partition, entry is not None and unclean)",
        "self._guard(partition, False)",
        "what a lost taker may have started is guarded",
    ),
    Mutant(
        _DRAFT,
        "= entry.epoch if entry is not None else self.epoch",
        "= self.epoch",
        "a taker goes on under the epoch of its hand-off",
    ),
    Mutant(_HOLDING, "release.epoch == entry.epoch and", "", "a release is for the entry's epoch"),
    Mutant(_HOLDING, "release.by == entry.giver and", "", "only the giver releases"),
    Mutant(_HOLDING, "and release.generation == generation", "", "a release is of the present generation"),
    Mutant(
        _HOLDING,
        "picture.removed or isolated or picture.incarnations.get(consumer) != incarnation",
        "picture.removed or picture.incarnations.get(consumer) != incarnation",
        "an isolated consumer runs nothing",
    ),
    Mutant(
        _HOLDING,
        "picture.removed or isolated or picture.incarnations.get(consumer) != incarnation",
        "picture.removed or isolated",
        "another incarnation runs nothing",
    ),
    Mutant(_HOLDING, "if entry.giver == consumer}", "if True}", "only the giver owes a release"),
    Mutant(
        _HOLDING,
        "if seen.epoch > picture.epoch:",
        "if seen.epoch != picture.epoch:",
        "an older read replaces nothing",
    ),
    Mutant(
        _HOLDING,
        "return Reading.ACT if covered >= picture.epoch and seen.epoch > picture.epoch else Reading.FOREIGN",
        "return Reading.ACT",
        "another generation is accepted only if it covers what was acted on",
    ),
    Mutant(
        _HOLDING,
        "return grant is None or grant.token.epoch > token.epoch",
        "return grant is None",
        "a holding older than `since` is stopped and started again",
    ),
    Mutant(
        _HOLDING,
        "if p not in running and released.get(p) != entry.epoch",
        "if released.get(p) != entry.epoch",
        "a release comes after the partition was stopped",
    ),
    Mutant(
        _SCHEDULE,
        "fresh = all(h.is_sure(now, self._timing.fresh_s) for h in due.values())",
        "fresh = all(not h.doubted(h.looked_at) for h in due.values())",
        "nothing is committed on an old look",
    ),
    Mutant(
        _HOLDER,
        "return {p: h for p, h in self.ready().items() if h.is_sure(now, self._fresh_s)}",
        "return self.ready()",
        "nothing is handed out on an old look",
    ),
    Mutant(
        _HELD,
        "return now - self.looked_at <= fresh_s and not self.doubted(self.looked_at)",
        "return now - self.looked_at <= fresh_s",
        "nothing is handed out or committed on a look that a late commit may have deceived",
    ),
    Mutant(
        _PLANNER,
        "ready = sorted(self.holder.readable().items())",
        "ready = sorted(self.holder.ready().items())",
        "a batch of Spark's is planned on a fresh look",
    ),
    # The plain consumer and the topic's worker
    Mutant(
        _PLAIN,
        "held = holder.readable().items()",
        "held = holder.ready().items()",
        "a plain consumer hands out on a fresh look",
    ),
    Mutant(
        _PLAIN,
        "if p in ends and self._assigned.get(p) == h.token.epoch}",
        "if p in ends}",
        "records are handed out under the holding that they were fetched for",
    ),
    Mutant(
        _PLAIN,
        "TopicPartition(self.runner.topic, p, at) for p, at in due.items()",
        "TopicPartition(self.runner.topic, p, at + 1) for p, at in due.items()",
        "a partition is fetched from its position on",
    ),
    Mutant(
        _PLAIN,
        "self._drop([p for p in came if p not in ranges])",
        "pass",
        "what was fetched and not handed out is fetched again",
    ),
    Mutant(
        _PLAIN,
        "if (m.offset() or 0) >= one.start",
        "if True",
        "what was handed out once is not handed out again",
    ),
    Mutant(
        _PLAIN,
        "if partition is None or partition < 0 or error.fatal():",
        "if True:",
        "what Kafka refuses of one partition stops no other",
    ),
    Mutant(
        _PLAIN,
        "self._drop(refused.keys())",
        "pass",
        "what Kafka has refused is fetched again from its position",
    ),
    Mutant(
        _PLAIN,
        "kept = [one for p, one in ranges.items() if p not in lost]",
        "kept = list(ranges.values())",
        "at most once, a plain consumer delivers only what is committed",
    ),
    Mutant(
        _PLAIN,
        "self.runner.edit(lambda holder: holder.refuse(refused))",
        "pass",
        "what a store refuses stops at a plain consumer",
    ),
    Mutant(
        _PLAIN,
        "self.runner.edit(lambda holder: holder.query_ended(why))",
        "pass",
        "a plain consumer that has ended its reading runs nothing",
    ),
    Mutant(
        _RUNNER,
        "if not waiting or self._closed:",
        "if True:",
        "at most once, a batch waits for its commit",
    ),
    Mutant(
        _RUNNER,
        "self.edit(lambda holder: holder.answer(result))",
        "self.holder.answer(result)",
        "an answer of Kafka wakes whoever waits for it",
    ),
    Mutant(
        _RUNNER,
        "except Exception as error:  # the edge to the clients",
        "except CoordinatorError as error:  # the edge to the clients",
        "a request that fails in an unexpected way is answered",
    ),
    Mutant(
        _RUNNER,
        "self._offsets = offsets if node is self._node else None",
        "self._offsets = offsets",
        "the log's ends are those that the present reader reaches",
    ),
    Mutant(
        _LEDGER,
        "if now - self._schedule.asked_at > self._timing.fresh_s:",
        "if False:",
        "nothing is committed while a late commit may have hidden a newer owner's entry",
    ),
    Mutant(
        _LEDGER,
        "if verdict is Verdict.FENCED and entry is not None:",
        "if False:",
        "a newer token means stop at once",
    ),
    Mutant(
        _LEDGER, "held.grant.via is Via.GUARDED", "False", "a guarded start waits until its commit has stayed its own"
    ),
    Mutant(
        _SCHEDULE,
        "offset = max(held.passed, held.committed or 0)",
        "offset = max(held.position, held.committed or 0)",
        "only what has passed the sink is committed",
    ),
    Mutant(
        _HOLDINGS,
        "return [(p, h) for p, h in found if number > h.born]",
        "return found",
        "an answer says nothing of a holding that began after it was asked for",
    ),
    Mutant(
        _LEDGER,
        "if looked.topic_id and looked.topic_id != held.topic_id:",
        "if False:",
        "a topic that was created anew is noticed at every look",
    ),
    Mutant(
        _HELD,
        "return not (self.pending or self.parting) and (self.fenced or not self.due)",
        "return not (self.pending or self.parting)",
        "the last commit comes before the release",
    ),
    Mutant(
        _HELD,
        "return not (self.pending or self.parting) and (self.fenced or not self.due)",
        "return self.fenced or not self.due",
        "a partition runs until its last batch has passed",
    ),
    Mutant(
        _RELEASING,
        "if held.sent and not held.fenced and same:",
        "if held.sent and same:",
        "who was fenced releases nothing",
    ),
    Mutant(
        _HOLDER,
        "return bar is not None and epoch <= bar.epoch and",
        "return False and",
        "what was fenced is not started again under the same grant",
    ),
    Mutant(
        _RECOVERY,
        "return max([status.acted_epoch, *held])",
        "return max([0, *held])",
        "the next epoch is above all that was acted on",
    ),
    Mutant(
        _RECOVERY,
        "silent = [c for c in sorted(world.members) if world.status(c) is None]",
        "silent: list[str] = []",
        "after a loss every registered consumer is asked first",
    ),
    Mutant(
        _RECOVERY,
        "found[status.generation] = max(found.get(status.generation, 0), status.acted_epoch)",
        "pass",
        "a new generation covers what was acted on",
    ),
    Mutant(
        _RECOVERY,
        "since = {**stored, **own_word}",
        "since = dict(own_word)",
        "after a loss of the state alone the stored owners count",
    ),
    Mutant(
        _RECOVERY,
        "since = {**stored, **own_word}",
        "since = dict(stored)",
        "after a loss what runs counts as owned",
    ),
    Mutant(
        _RECOVERY,
        "goes_on = 0 < runs >= max(epoch, committed, stored.get(consumer, (0, 0))[0]) and not barred",
        "goes_on = 0 < runs >= committed and not barred",
        "after a loss only what has nothing newer behind it goes on",
    ),
    Mutant(
        _RECOVERY,
        "goes_on = 0 < runs >=",
        "goes_on = runs >=",
        "after a loss what runs nowhere begins a new holding",
    ),
    Mutant(
        _DECIDING,
        "stop_vanished(self.draft, self.view)",
        "pass",
        "what Kafka has no longer is closed at once",
    ),
    Mutant(
        _DECIDING,
        "self._leave_former_topic()",
        "pass",
        "no offset is handed over into a topic that was created anew",
    ),
    Mutant(
        _RELEASING,
        "if held.sent and not held.fenced and same:",
        "if held.sent and not held.fenced:",
        "what ran in the former topic is not released for the new one",
    ),
    Mutant(
        _SCHEDULE,
        "if unknown and now >= self._survey_at:",
        "if unknown:",
        "a partition without a leader keeps nothing else waiting",
    ),
    Mutant(
        _RECOVERY,
        "if status.held and status.held != own:",
        "if False:",
        "an epoch that was given out twice is recovered from",
    ),
    Mutant(
        _HOLDER,
        "if self._astray or not self._acquiring:",
        "if not self._acquiring:",
        "nothing is begun while another node is stored",
    ),
    Mutant(
        _PRESENCE,
        "if is_isolated(consumer, incarnation, world):",
        "if False:",
        "isolated counts as closed",
    ),
    Mutant(
        _PRESENCE,
        "if member is not None and member.incarnation == incarnation:",
        "if member is not None:",
        "a registration speaks for its own incarnation",
    ),
    Mutant(
        _PRESENCE,
        "return Presence.DETACHED if answers else Presence.ABSENT",
        "return Presence.GONE",
        "who is absent and silent, or answers, is not gone",
    ),
    Mutant(
        _PRESENCE,
        "and claim.answered == incarnation):",
        "):",
        "a refusal proves an end only at an address that has answered",
    ),
    Mutant(
        _PRESENCE,
        "if held.get(consumer, incarnation) == incarnation:",
        "if True:",
        "a new incarnation is no target before its predecessor is lost",
    ),
    Mutant(
        _DIRECTIVES,
        "if any(status.running for status in answer.topics.values()):",
        "if False:",
        "readmission waits until nothing runs",
    ),
    Mutant(
        _DIRECTIVES,
        "and status.acted_epoch >= node.epoch",
        "",
        "readmission waits for the acted epoch",
    ),
    Mutant(
        _FENCE,
        "return Verdict.FENCED if found >= own and not adopted else Verdict.REWRITE",
        "return Verdict.REWRITE",
        "the fence is read",
    ),
    Mutant(
        _FENCE,
        "if release is not None and not _at_least_as_far(known, release):",
        "if release is not None:",
        "a newer commit counts more than the release",
    ),
    Mutant(
        _FENCE,
        "if release is not None and not _at_least_as_far(known, release):",
        "if False:",
        "the release counts more than an older commit",
    ),
    Mutant(
        "spark_apps/agent/zookeeper/view.py",
        "lost = was_isolated and not isolated and (node is None or found.version <= before.version)",
        "lost = False",
        "what an isolation ended is not taken up again when ZooKeeper loses the directive",
    ),
    Mutant(
        "spark_apps/agent/zookeeper/view.py",
        "if self._zk.session_id != self._session:",
        "if False:",
        "a node is acted on only in the session of the registration",
    ),
    Mutant(
        "spark_apps/agent/process/agent.py",
        "clean = self._halted and not self._any(lambda holder: not holder.idle)",
        "clean = self._halted",
        "a clean end is said only after the last commit",
    ),
    Mutant(
        _DISCOVERY,
        "if live is not None and not same_process(live, member):",
        "if False:",
        "one process per consumer id",
    ),
    Mutant(
        "coordinator_tasks/core/machine/causes.py",
        "if found is not None and found.topic_id != config.topic_id:",
        "if False:",
        "a topic that was created anew is held",
    ),
    Mutant(
        _OBSERVE,
        "guard = Check(c.paths.id(consumer), world.claims[consumer].version)",
        "guard = Check(c.paths.id(consumer), -1)",
        "the platform isolates nobody who has registered since",
    ),
    Mutant(
        "coordinator_tasks/core/machine/planning.py",
        "if taker is not None and is_leaving(taker, draft.incarnations.get(taker, 0), world):",
        "if _taker_drains(draft, partition, world):",
        "a drain takes nothing from the last consumer",
    ),
    Mutant(
        "coordinator_tasks/core/machine/causes.py",
        "if c not in able} | _to_drain(world, draft))",
        "if c not in able})",
        "who drains and was away when that was planned gives everything away when it is back",
    ),
    Mutant(
        _TOPICS,
        "return [Create(path), Delete(path)] if version == _ABSENT else [Check(path, version)]",
        "return []",
        "the list of a topic's partitions is written for the configuration that was read",
    ),
    Mutant(
        "coordinator_tasks/core/protocol/claims.py",
        "max(claim.incarnation, seen) + step",
        "max(claim.incarnation, seen) + 1",
        "no number is drawn again when the counters are lost",
    ),
    # The hand-off
    Mutant(_DRAFT, "found.add(owner)", "pass", "the assignee of an unfinished start is a possible owner"),
    Mutant(
        _DRAFT,
        "self.epochs[partition] = self.epoch",
        "self.epochs[partition] = self.epoch - 1",
        "what is planned again is confirmed for the new epoch",
    ),
    Mutant(_DRAFT, "if owners <= {taker}:", "if owners == {taker}:", "what nobody may run is assigned at once"),
    Mutant(_DRAFT, "if owners <= {taker}:", "if not owners:", "what only its target may run is assigned at once"),
    Mutant(
        _HOLDING,
        "return grant is None or grant.token.epoch > token.epoch",
        "return grant is not None and grant.token.epoch > token.epoch",
        "what is no longer held is stopped",
    ),
    Mutant(
        _HOLDING,
        f"{_OWES} isolated or picture.incarnations.get(consumer) != incarnation:",
        f"{_OWES} picture.incarnations.get(consumer) != incarnation:",
        "an isolated consumer releases nothing",
    ),
    Mutant(
        _HOLDING,
        f"{_OWES} isolated or picture.incarnations.get(consumer) != incarnation:",
        f"{_OWES} isolated:",
        "another incarnation releases nothing",
    ),
    Mutant(
        _RELEASING,
        "= Release(entry.epoch, mine.consumer,",
        "= Release(token.epoch, mine.consumer,",
        "a release is written with the entry's epoch",
    ),
    Mutant(
        _RELEASING,
        "answered, self._ledger.answered = self._ledger.answered, {}",
        "return",
        "what does not run here is released as well",
    ),
    Mutant(_DECIDING, "if closed == owners:", "if closed:", "every possible owner confirms that it has closed"),
    # Who is there
    Mutant(_DISCOVERY, "self._zk.sync()", "pass", "who is registered is read after a sync"),
    Mutant(_OBSERVE, "c.zk.sync()", "pass", "what was asked of a consumer is read after a sync"),
    Mutant(_TRANSITIONS, "c.zk.sync()  #", "pass  #", "a topic is read after a sync"),
    Mutant(
        _PRESENCE,
        "if member is not None and member.incarnation == incarnation:",
        "if member is not None and member.incarnation == incarnation "
        "and incarnation not in getattr(world.claims.get(consumer), 'ended', ()):",
        "who is registered is never gone",
    ),
    Mutant(
        _PRESENCE,
        "claim.ended.get(incarnation) if claim is not None else None",
        "next(iter(claim.ended.values()), None) if claim is not None else None",
        "an end is that of one incarnation",
    ),
    Mutant(
        _PRESENCE,
        "ending is not None and",
        "ending not in (None, Ending.LEFT) and",
        "who has left cleanly is gone at once",
    ),
    Mutant(
        _PRESENCE,
        "ending is not None and",
        "ending not in (None, Ending.REAPED) and",
        "whom its launcher has reaped is gone at once",
    ),
    Mutant(
        _DISCOVERY,
        "predecessor_gone=bool(before) and is_gone(before)",
        "predecessor_gone=bool(before)",
        "a successor ends its predecessor's incarnation only when that process is gone",
    ),
    Mutant(
        _CLAIMS,
        "ended(claim, claim.registered, Ending.REAPED)",
        "ended(claim, claim.incarnation, Ending.REAPED)",
        "a gone process ends the incarnation that had registered",
    ),
    Mutant(
        _CLAIMS,
        "another and claim.boot_id and claim.boot_id == member.boot_id",
        "another",
        "a process is asked about on its own boot only",
    ),
    Mutant(
        _PRESENCE,
        "return world.now - claim.absence.since_at < policy.rejoin_grace_s",
        "return False",
        "what a dead consumer had waits for its id",
    ),
    Mutant(_PRESENCE, "same_boot and claim.direct and", "same_boot and", "a proxy's refusal proves nothing"),
    Mutant(
        _PRESENCE,
        "now - since >= session_timeout_s",
        "True",
        "a refusal proves an end only after a session time-out",
    ),
    Mutant(
        _OBSERVE,
        "return not host.startswith(_LOOPBACK) or",
        "return True or",
        "a refusal at loopback proves an end only on the same boot",
    ),
    Mutant(
        _OBSERVE,
        "world.now - absence.since_at >= c.policy.absent_after_s",
        "True",
        "who is absent and silent has its time before it is isolated",
    ),
    Mutant(_OBSERVE, "if c.policy.hold_absent:", "if False:", "a site may hold for a person instead of isolating"),
    Mutant(
        _TRANSITIONS,
        "c.statuses.post_topic(member, stored.view.topic, codec.encode_node(node))",
        "pass",
        "who is detached is posted the node that it has to act on",
    ),
    # A lost or restored ZooKeeper
    Mutant(
        _RECOVERY,
        "acted = list(_acted(view.topic, world))",
        "acted = [one for one in _acted(view.topic, world) if node is None or one[2].acted_epoch <= node.epoch]",
        "an acted epoch above the stored one is recovered from",
    ),
    Mutant(
        _RECOVERY,
        "if status.generation != node.generation and covered < status.acted_epoch:",
        "if False:",
        "a generation that the node does not cover is recovered from",
    ),
    Mutant(
        _RECOVERY,
        "if node.assignments.get(partition) == consumer and one.token.epoch > stored:",
        "if False:",
        "an owner under a newer holding than the stored one is recovered from",
    ),
    Mutant(
        _RECOVERY,
        "if committed > node.epoch:",
        "if False:",
        "a committed epoch above the stored one is recovered from",
    ),
    Mutant(
        _RECOVERY,
        "if _bars(node, partition, token):",
        "if False:",
        "a start that somebody's commit bars is recovered from",
    ),
    Mutant(
        _RECOVERY,
        "newest = max([committed, *",
        "newest = max([0, *",
        "the next epoch is above all that was committed",
    ),
    Mutant(
        _FENCE,
        "return epoch > known + FAR",
        "return False",
        "an epoch that the topic cannot have reached is nobody's evidence",
    ),
    Mutant(
        _RECOVERY,
        "if len(times) >= policy.flap_registrations:",
        "if False:",
        "who contradicts every node is not followed for ever",
    ),
    Mutant(_RECOVERY, "Draft(1 + max(old, newest),", "Draft(1 + newest,", "the next epoch is above the node's"),
    Mutant(
        _RECOVERY,
        "draft.to_close[partition] = set(since)",
        "_enter(draft, partition, min(since), draft.epoch)",
        "what two run after a loss is closed first",
    ),
    Mutant(
        _HOLDER,
        'self.reports.add("node", sentence)',
        "self.stop(sentence)",
        "a node that has vanished or cannot be read stops nothing",
    ),
    Mutant(
        _HOLDER,
        'self._astray = True\n        self.reports.add("node", sentence)',
        'pass\n        self.reports.add("node", sentence)',
        "nothing is begun while the node cannot be read",
    ),
    Mutant(
        _HOLDING,
        "if picture is None or picture.removed or isolated",
        "if picture is None or isolated",
        "of a removed topic nothing runs",
    ),
    Mutant(
        _FENCE,
        "if found == own and found.generation == own.generation:",
        "if found == own:",
        "a token is of a generation",
    ),
    # Readmission
    Mutant(
        _DIRECTIVES,
        "= [Check(c.paths.topic(name), version) for name, version in topics.versions.items()]",
        "= []",
        "a readmission is guarded by the topics",
    ),
    Mutant(
        _DIRECTIVES,
        "guards.append(Check(c.paths.id(claim.consumer), claim.version))",
        "pass",
        "a readmission is guarded by the claim",
    ),
    Mutant(
        _DIRECTIVES,
        "_write(c, replace(directive, isolation=None))])",
        "SetData(c.paths.directive(claim.consumer), encode_directive(replace(directive, isolation=None)))])",
        "a readmission is guarded by the directive",
    ),
    Mutant(
        _STORE,
        "guards += [Check(paths.id(consumer), world.claims[consumer].version)]",
        "pass",
        "what reassigns a lost consumer's partitions is guarded by its claim",
    ),
    Mutant(
        _STORE,
        "guards += [Check(paths.directive(consumer), world.directives[consumer].version)]",
        "pass",
        "what reassigns an isolated consumer's partitions is guarded by its directive",
    ),
    Mutant(
        _PRESENCE,
        "if is_isolated(consumer, incarnation, world) or is_draining(consumer, incarnation, world):",
        "if is_draining(consumer, incarnation, world):",
        "who is isolated is no target",
    ),
    Mutant(
        _PRESENCE,
        "if is_isolated(consumer, incarnation, world) or is_draining(consumer, incarnation, world):",
        "if is_isolated(consumer, incarnation, world):",
        "who drains is no target",
    ),
    # Fencing
    Mutant(_FENCE, "return Verdict.REWRITE", "return Verdict.OURS", "an entry without our token is written over"),
    Mutant(_FENCE, "adopted else Verdict.REWRITE", "adopted else Verdict.OURS", "an older entry is written over"),
    Mutant(_FENCE, "or committed.topic_id != topic_id:", ":", "a commit of another topic id fences nobody"),
    Mutant(
        _FENCE,
        'in ("", topic_id) else None\n    if release',
        'in ("", topic_id, committed.topic_id) else None\n    if release',
        "a commit of another topic id is no start",
    ),
    Mutant(_SCHEDULE, "if now >= self._look_at or", "if", "an owner that is idle looks as well, once a second"),
    Mutant(
        _HELD,
        "self.phase = Phase.STARTING",
        "self.phase = Phase.READY",
        "the start is committed before anything is read",
    ),
    Mutant(
        _LEDGER,
        "if verdict is Verdict.FENCED and entry is not None:",
        "if verdict is Verdict.FENCED and entry is not None and held.phase is Phase.READY:",
        "a start is checked like any other commit",
    ),
    Mutant(
        _HELD,
        "self.position = self.passed = max(self.passed, entry.offset)",
        "self.position = self.passed = entry.offset",
        "a guarded start never goes back",
    ),
    Mutant(
        _HELD,
        "self.position = self.passed = max(self.passed, entry.offset)",
        "pass",
        "a guarded start goes on from what a survivor has committed",
    ),
    Mutant(
        "spark_apps/delivery/database_sink.py",
        "found = _standing(cursor, writer, steps)",
        "found = {p: (writer.topic_id, Standing(s.token, writer.consumer)) for p, s in steps.items()}",
        "the sink's transaction checks the token",
    ),
    Mutant(
        "spark_apps/spark/session.py",
        "if speculates and not idempotent_sink:",
        "if False:",
        "speculative execution is refused",
    ),
    Mutant(
        _HELD,
        "if now - self.guarded_at > guard_s:",
        "if now - self.guarded_at > guard_s / 2:",
        "a guarded start stays its own for longer than the commit time-out",
    ),
    Mutant(
        "spark_apps/agent/ownership/work.py",
        "offsets.hold(topic, look.topic_id, look.holding)",
        "pass",
        "with the broker's fence the owner before is fenced before its entry is read",
    ),
    Mutant(
        "coordinator_tasks/adapters/kafka_transactions.py",
        "begun[1].init_transactions(self._broker.limit_s)",
        "pass",
        "with the broker's fence transactions are initialized before the first commit",
    ),
    # Topics and groups
    Mutant(_TOPICS, "if members:", "if False:", "a group with members is not taken into use"),
    Mutant(
        _TOPICS,
        "if found[0].group_id == wanted.group_id:",
        "if False:",
        "two clusters do not manage one topic for one group",
    ),
    Mutant(
        _TOPICS,
        "        _check_other_clusters(c, config)",
        "        pass",
        "two clusters that add one topic for one group at the same moment do not both keep it",
    ),
    # Sessions
    Mutant(
        _PRESENCE,
        "in sorted(world.members.items()):",
        "in sorted(({c: Member(c, a.incarnation, '', '') for c, a in world.answers.items() "
        "if isinstance(a, ConsumerStatus)} | dict(world.members)).items()):",
        "who is detached is no target",
    ),
    Mutant(
        "spark_apps/agent/process/agent.py",
        "self._registry.register(self._member)",
        "self._member = replace(self._member, incarnation=self._member.incarnation "
        "+ (self._session not in (0, session))); self._registry.register(self._member)",
        "an incarnation is kept over sessions",
    ),
    Mutant(
        _HOLDER,
        "self.picture = self._ledger.node = seen",
        "self.picture = self._ledger.node = __import__('dataclasses').replace("
        "seen, handoff={**getattr(self.picture, 'handoff', {}), **seen.handoff})",
        "a node is acted on as one whole read",
    ),
    Mutant(
        _DRAFT,
        'self.former.get(partition, ""))\n        self.forget(partition)',
        'self.former.get(partition, ""))\n        pass',
        "what is moved leaves `assignments`",
    ),
    Mutant(
        _DRAFT,
        "Handoff(giver, taker, self.epoch)\n            self.to_close[partition] = owners",
        "Handoff(giver, taker, self.epoch)\n            pass",
        "the giver of a hand-off stands in `toClose`",
    ),
    Mutant(_DRAFT, "self.to_start[partition] = taker", "pass", "the taker of what is moved stands in `toStart`"),
    Mutant(_HOLDER, "elif self.picture is not None:", "elif False:", "a node that is kept back is reported"),
    Mutant(
        _LEDGER,
        'if entry is not None and entry.topic_id not in ("", held.topic_id):',
        "if False:",
        "a commit of another topic id is reported",
    ),
    Mutant(
        _LEDGER,
        'self._reports.add(\n                f"rewritten {partition}",',
        'max(\n                f"rewritten {partition}",',
        "what was overwritten is reported",
    ),
    Mutant(
        _SCHEDULE,
        "return Committed(offset, held.token,",
        "return Committed(offset, None,",
        "a commit carries its token",
    ),
    Mutant(_STATUS_CODEC, '"o": committed.owner,', '"o": "",', "a commit names its owner"),
    Mutant(_STATUS_CODEC, '"c": committed.cluster,', '"c": "",', "a commit names its cluster"),
    Mutant(_STATUS_CODEC, '"t": committed.topic_id,', '"t": "",', "a commit names its topic id"),
    # What no test noticed
    Mutant(
        _DECIDING,
        "self.relies_on = lost\n",
        "self.relies_on = lost & frozenset(self.draft.assignments.values())\n",
        "the absence of a lost giver or taker guards the write as well",
    ),
    Mutant(
        _LEDGER,
        "held.acknowledge(offsets[partition].offset, guarded, now)",
        "held.acknowledge(held.passed, guarded, now)",
        "an acknowledgement is for the offset that was sent",
    ),
    Mutant(
        _LEDGER,
        "held.looked_at = self._schedule.asked_at",
        "held.looked_at = now",
        "a look is as old as its request, not as its answer",
    ),
    Mutant(
        _WORK,
        "entries = offsets.committed(topic, look.partitions)\n"
        "                return Looked(entries, offsets.topic_id(topic) if look.asks_id else None)",
        "found = offsets.topic_id(topic) if look.asks_id else None\n"
        "                return Looked(offsets.committed(topic, look.partitions), found)",
        "the topic's id is read after the entries that it vouches for",
    ),
    Mutant(
        _RELEASING,
        "if p in owed and owed[p].epoch == r.epoch}",
        "if p in owed}",
        "a release for an older hand-off leaves the outbox",
    ),
    Mutant(
        _STORE,
        "operations += [Check(paths.topic(topic), versions.node)]",
        "pass",
        "a state is written only beside the node that was read",
    ),
)


def mutated(mutant: Mutant, root: Path) -> str:
    """The file's text with the mutation; raises `ValueError` if the line is no longer there."""
    text = (root / mutant.file).read_text()
    if mutant.old not in text:
        raise ValueError(f"{mutant.file} has no {mutant.old!r} any more: bring the mutant up to date")
    return text.replace(mutant.old, mutant.new, 1)
