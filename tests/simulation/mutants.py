"""The rules of the protocol, each with a one-line change that breaks it; `tests.simulation.mutation` asks who notices."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.simulation.forks import PRODUCT, ROOT


class Mutant(NamedTuple):
    """`old` becomes `new` where it stands first in `function`; `rule` is the sentence that then no longer holds.

    A function is named as `Class.method` or by its name alone, wherever in the product it stands, or as `module.name` where
    there are several. How `old` is broken into lines does not matter.
    """

    function: str
    old: str
    new: str
    rule: str


MUTANTS = (
    Mutant(
        "observe.unasked",
        "one.silence is Silence.UNASKED",
        "False",
        "a consumer that a bound left out is neither gone nor given anything",
    ),
    Mutant("in_order", "known.get(one.consumer, 0) > 0", "False", "owners are asked within bounds of their own"),
    Mutant("_status", "if status.acted_epoch < epoch:", "if False:", "a confirmation is for an epoch"),
    Mutant("_status", "if answer.incarnation != incarnation:", "if False:", "a confirmation is by an incarnation"),
    Mutant("_status", "if status.generation != node.generation:", "if False:", "a confirmation is for a generation"),
    Mutant(
        "why_not_closed", "if partition in status.running else", "if False else", "closed means that it does not run"
    ),
    Mutant(
        "why_not_started",
        "running.token.epoch != node.since.get(partition)",
        "running.token.epoch < 0",
        "started means under the present holding",
    ),
    Mutant(
        "why_not_started",
        'return "" if running.started else',
        'return "" if True else',
        "started means committed and planned",
    ),
    Mutant(
        "put",
        "else SetData(path, data, version)",
        "else SetData(path, data)",
        "every write is a compare-and-set",
    ),
    Mutant(
        "commit",
        "zk.transact(writes(paths, stored, decision, world))",
        "*rest, record = writes(paths, stored, decision, world); zk.transact([record]); zk.transact(rest)",
        "the record is written in the transition's transaction",
    ),
    Mutant(
        "_guards",
        "for consumer in sorted(decision.relies_on):",
        "for consumer in ():",
        "what reassigns a lost consumer's partitions is guarded by its absence",
    ),
    Mutant(
        "Deciding.drop_lost",
        "self._ending(c) in (Ending.LEFT, Ending.REAPED)",
        "True",
        "who may still have a process leaves guarded partitions",
    ),
    Mutant(
        "Deciding.drop_lost",
        "self._ending(c) in (Ending.LEFT, Ending.REAPED)",
        "self._ending(c) is Ending.LEFT",
        "whose processes were seen to end leaves nothing to wait for",
    ),
    Mutant("Draft.owners", "found.add(entry.taker)", "pass", "the taker of a hand-off is a possible owner"),
    Mutant(
        "Draft.owners",
        "found = set(self.to_close.get(partition, ()))",
        "found: set[str] = set()",
        "whoever stands in toClose is a possible owner",
    ),
    Mutant(
        "Draft._released",
        "release is not None and releases_entry(release, entry, self.generation)",
        "release is not None",
        "only a release of the present entry confirms its giver",
    ),
    Mutant(
        "Draft.move",
        "elif len(owners) == 1 and partition not in self.guarded:",
        "elif owners and partition not in self.guarded:",
        "several possible owners go through the barrier",
    ),
    Mutant(
        "Draft.move",
        "elif len(owners) == 1 and partition not in self.guarded:",
        "elif len(owners) == 1:",
        "a guarded partition is not handed off",
    ),
    Mutant(
        "Draft.drop_lost",
        "self._guard(partition, owner in may_live)",
        "self._guard(partition, False)",
        "what comes from a lost owner without a release is guarded",
    ),
    Mutant(
        "Draft._drop_taker",
        "self._guard(partition, entry is not None and may_live)",
        "self._guard(partition, False)",
        "what a lost taker may have started is guarded",
    ),
    Mutant(
        "Draft.close_confirmed",
        "= entry.epoch if entry is not None else self.epoch",
        "= self.epoch",
        "a taker goes on under the epoch of its hand-off",
    ),
    Mutant("releases_entry", "release.epoch == entry.epoch and", "", "a release is for the entry's epoch"),
    Mutant("releases_entry", "release.by == entry.giver and", "", "only the giver releases"),
    Mutant("releases_entry", "and release.generation == generation", "", "a release is of the present generation"),
    Mutant(
        "_of_ours",
        "accepted.removed or isolated or accepted.incarnations.get(consumer) != incarnation",
        "accepted.removed or accepted.incarnations.get(consumer) != incarnation",
        "an isolated consumer runs nothing",
    ),
    Mutant(
        "_of_ours",
        "accepted.removed or isolated or accepted.incarnations.get(consumer) != incarnation",
        "accepted.removed or isolated",
        "another incarnation runs nothing",
    ),
    Mutant("owes_release", "if entry.giver == consumer}", "if True}", "only the giver owes a release"),
    Mutant(
        "accepts",
        "if seen.epoch > accepted.epoch:",
        "if seen.epoch != accepted.epoch:",
        "an older read replaces nothing",
    ),
    Mutant(
        "accepts",
        "return Reading.ACT if covered >= accepted.epoch and seen.epoch > accepted.epoch else Reading.FOREIGN",
        "return Reading.ACT",
        "another generation is accepted only if it covers what was acted on",
    ),
    Mutant(
        "_outdated",
        "return grant is None or grant.token.epoch > token.epoch",
        "return grant is None",
        "a holding older than `since` is stopped and started again",
    ),
    Mutant(
        "changes",
        "if p not in running and released.get(p) != entry.epoch",
        "if released.get(p) != entry.epoch",
        "a release comes after the partition was stopped",
    ),
    Mutant(
        "Schedule._due",
        "fresh = all(h.is_sure(now, self._timing.fresh_s) for h in due.values())",
        "fresh = all(not h.is_cooling_down(h.looked_at) for h in due.values())",
        "nothing is committed on an old look",
    ),
    Mutant(
        "Batches.readable",
        "if p not in waiting and h.is_sure(now, self._fresh_s)",
        "if p not in waiting",
        "nothing is handed out on an old look",
    ),
    Mutant(
        "OwnedPartition.is_sure",
        "return now - self.looked_at <= fresh_s and not self.is_cooling_down(self.looked_at)",
        "return now - self.looked_at <= fresh_s",
        "nothing is handed out or committed on a look that a late commit may have deceived",
    ),
    Mutant(
        "BatchPlanner._available",
        "ready = sorted(self.ownership.batches.readable().items())",
        "ready = sorted(self.ownership.holdings.ready().items())",
        "a batch of Spark's is planned on a fresh look",
    ),
    # The plain consumer and the topic's worker
    Mutant(
        "PlainTopic._hand_out",
        "held = ownership.batches.readable().items()",
        "held = ownership.holdings.ready().items()",
        "a plain consumer hands out on a fresh look",
    ),
    Mutant(
        "PlainTopic._hand_out",
        "if p in ends and self._assigned.get(p) == h.token.epoch}",
        "if p in ends}",
        "records are handed out under the holding that they were fetched for",
    ),
    Mutant(
        "PlainTopic._follow",
        "TopicPartition(self.runner.topic, p, at) for p, at in due.items()",
        "TopicPartition(self.runner.topic, p, at + 1) for p, at in due.items()",
        "a partition is fetched from its position on",
    ),
    Mutant(
        "PlainTopic._process",
        "left = (left | ranges.keys()) - whole",
        "left = set()",
        "what was fetched and not handed out is fetched again",
    ),
    Mutant(
        "PlainTopic._pass",
        "if one.start <= (m.offset() or 0) < one.end",
        "if (m.offset() or 0) < one.end",
        "what was handed out once is not handed out again",
    ),
    Mutant(
        "PlainTopic._process",
        "if partition is None or partition < 0 or error.fatal():",
        "if True:",
        "what Kafka refuses of one partition stops no other",
    ),
    Mutant(
        "PlainTopic._wait_for",
        "self._drop(refused.keys())",
        "pass",
        "what Kafka has refused is fetched again from its position",
    ),
    Mutant(
        "PlainTopic._pass",
        "kept = [one for p, one in ranges.items() if p not in lost]",
        "kept = list(ranges.values())",
        "at most once, a plain consumer delivers only what is committed",
    ),
    Mutant(
        "PlainTopic._deliver",
        "self.runner.edit(lambda ownership: ownership.batches.refuse(refused))",
        "pass",
        "what a store refuses stops at a plain consumer",
    ),
    Mutant(
        "TopicReader.halt",
        "self.runner.edit(lambda ownership: ownership.query_ended(why))",
        "pass",
        "a plain consumer that has ended its reading runs nothing",
    ),
    Mutant(
        "TopicRunner.confirmed",
        "if not waiting or self._closed:",
        "if True:",
        "at most once, a batch waits for its commit",
    ),
    Mutant(
        "TopicRunner._work",
        "self.edit(lambda ownership: ownership.requests.answer(result))",
        "self.ownership.requests.answer(result)",
        "an answer of Kafka wakes whoever waits for it",
    ),
    Mutant(
        "TopicRunner._perform",
        "except Exception as error:  # the edge to the clients",
        "except CoordinatorError as error:  # the edge to the clients",
        "a request that fails in an unexpected way is answered",
    ),
    Mutant(
        "TopicRunner._connected",
        "self._offsets = offsets if node is self._node else None",
        "self._offsets = offsets",
        "the log's ends are those that the present reader reaches",
    ),
    Mutant(
        "Requests._cool_down",
        "if now - self._schedule.asked_at > self._timing.fresh_s:",
        "if False:",
        "nothing is committed while a late commit may have hidden a newer owner's entry",
    ),
    Mutant(
        "Requests._judge",
        "if verdict is Judgement.FENCED and entry is not None:",
        "if False:",
        "a newer token means stop at once",
    ),
    Mutant(
        "Requests._committed",
        "held.grant.via is Via.GUARDED",
        "False",
        "a guarded start waits until its commit has stayed its own",
    ),
    Mutant(
        "Schedule._entry",
        "offset = max(held.passed, held.commits.acknowledged or 0)",
        "offset = max(held.position, held.commits.acknowledged or 0)",
        "only what has passed the sink is committed",
    ),
    Mutant(
        "Holdings.of_request",
        "return [(p, h) for p, h in found if number > h.born]",
        "return found",
        "an answer says nothing of a holding that began after it was asked for",
    ),
    Mutant(
        "Requests._fetched",
        "if fetched.topic_id and fetched.topic_id != held.topic_id:",
        "if False:",
        "a topic that was recreated is noticed at every look",
    ),
    Mutant(
        "OwnedPartition.done",
        "return not (self.pending or self.parting) and (self.fenced or not self.due)",
        "return not (self.pending or self.parting)",
        "the last commit comes before the release",
    ),
    Mutant(
        "OwnedPartition.done",
        "return not (self.pending or self.parting) and (self.fenced or not self.due)",
        "return self.fenced or not self.due",
        "a partition runs until its last batch has passed",
    ),
    Mutant(
        "Releasing.closed",
        "if held.commits.sent and not held.fenced and same:",
        "if held.commits.sent and same:",
        "who was fenced releases nothing",
    ),
    Mutant(
        "Holdings.is_rejected",
        "and epoch <= rejected.epoch",
        "and False",
        "what was fenced is not started again under the same grant",
    ),
    Mutant(
        "_newest",
        "return max([status.acted_epoch, *held])",
        "return max([0, *held])",
        "the next epoch is above all that was acted on",
    ),
    Mutant(
        "_blockers",
        "silent = [c for c in sorted(world.members) if world.status(c) is None]",
        "silent: list[str] = []",
        "after a loss every registered consumer is asked first",
    ),
    Mutant(
        "_supersedes",
        "found[status.generation] = max(found.get(status.generation, 0), status.acted_epoch)",
        "pass",
        "a new generation covers what was acted on",
    ),
    Mutant(
        "_adopt",
        "holders = {**stored, **said}",
        "holders = dict(said)",
        "after a loss of the state alone the stored owners count",
    ),
    Mutant(
        "_adopt",
        "holders = {**stored, **said}",
        "holders = dict(stored)",
        "after a loss what runs counts as owned",
    ),
    Mutant(
        "_adopt",
        "newest = max(one.epoch, committed, stored[consumer].epoch if consumer in stored else 0)",
        "newest = committed",
        "after a loss only what has nothing newer behind it goes on",
    ),
    Mutant(
        "_adopt",
        "keeps = 0 < one.running >=",
        "keeps = one.running >=",
        "after a loss what runs nowhere begins a new holding",
    ),
    Mutant(
        "Deciding._lost_or_unowned",
        "stop_vanished(self.draft, self.view)",
        "pass",
        "what Kafka has no longer is closed at once",
    ),
    Mutant(
        "Deciding._lost_or_unowned",
        "self._leave_former_topic()",
        "pass",
        "no offset is handed over into a topic that was recreated",
    ),
    Mutant(
        "Releasing.closed",
        "if held.commits.sent and not held.fenced and same:",
        "if held.commits.sent and not held.fenced:",
        "what ran in the former topic is not released for the new one",
    ),
    Mutant(
        "Schedule._due",
        "if unknown and now >= self._list_bounds_at:",
        "if unknown:",
        "a partition without a leader keeps nothing else waiting",
    ),
    Mutant(
        "_given_out_twice",
        "if status.held and status.held != own:",
        "if False:",
        "an epoch that was given out twice is recovered from",
    ),
    Mutant(
        "Grants._steps",
        "if self._astray or not self.opened:",
        "if not self.opened:",
        "nothing is begun while another node is stored",
    ),
    Mutant(
        "presence",
        "if life.isolation is not None:",
        "if False:",
        "isolated counts as closed",
    ),
    Mutant(
        "Life.registered",
        "self.member is not None and self.member.incarnation == self.incarnation",
        "self.member is not None",
        "a registration speaks for its own incarnation",
    ),
    Mutant(
        "presence",
        "return Presence.DETACHED if life.answers else Presence.ABSENT",
        "return Presence.GONE",
        "who is absent and silent, or answers, is not gone",
    ),
    Mutant(
        "_proves",
        "and claim.answered == incarnation",
        "",
        "a refusal proves an end only at an address that has answered",
    ),
    Mutant(
        "targets",
        "if held.get(consumer, incarnation) == incarnation:",
        "if True:",
        "a new incarnation is no target before its predecessor is lost",
    ),
    Mutant(
        "_runs_nothing",
        "if any(status.running for status in answer.topics.values()):",
        "if False:",
        "readmission waits until nothing runs",
    ),
    Mutant(
        "_runs_nothing",
        "max(member.incarnation, claim.registered)",
        "member.incarnation",
        "readmission waits for who has registered last",
    ),
    Mutant(
        "_acted_on",
        "and status.acted_epoch >= node.epoch",
        "",
        "readmission waits for the acted epoch",
    ),
    Mutant(
        "judge",
        "return Judgement.FENCED if found >= own and not adopted else Judgement.REWRITE",
        "return Judgement.REWRITE",
        "the fence is read",
    ),
    Mutant(
        "start_position",
        "if release is not None and not _at_least_as_far(known, release):",
        "if release is not None:",
        "a newer commit counts more than the release",
    ),
    Mutant(
        "start_position",
        "if release is not None and not _at_least_as_far(known, release):",
        "if False:",
        "the release counts more than an older commit",
    ),
    Mutant(
        "_of_holding",
        "return release if same else None",
        "return None",
        "who begins after its hand-off was confirmed starts with the release as well",
    ),
    Mutant(
        "View._read_directive",
        "lost = was_isolated and not isolated and (node is None or found.version <= before.version)",
        "lost = False",
        "what an isolation ended is not taken up again when ZooKeeper loses the directive",
    ),
    Mutant(
        "View._same_session",
        "if self._zk.session_id != self._session:",
        "if False:",
        "a node is acted on only in the session of the registration",
    ),
    Mutant(
        "Agent._go_on_leaving",
        "clean = self._halted and not self._any(lambda ownership: not ownership.grants.idle)",
        "clean = self._halted",
        "a clean end is said only after the last commit",
    ),
    Mutant(
        "Agent._go_on_leaving",
        "self._halt_at = (max(now, until) + until + self._timing.finish_s) / 2",
        "self._halt_at = until + self._timing.finish_s",
        "a batch that does not end leaves half of the time to the last commits",
    ),
    Mutant(
        "ZooKeeperRegistry._await_free",
        "if live is not None and not same_process(live, member):",
        "if False:",
        "one process per consumer id",
    ),
    Mutant(
        "hold",
        "if found is not None and found.topic_id != config.topic_id:",
        "if False:",
        "a topic that was recreated is held",
    ),
    Mutant(
        "observe._isolate",
        "guard = Check(c.paths.id(consumer), world.claims[consumer].version)",
        "guard = Check(c.paths.id(consumer), -1)",
        "the platform isolates nobody who has registered since",
    ),
    Mutant(
        "Planning._stop_leaving",
        "if taker is not None and is_leaving(taker, incarnations.get(taker, 0), self.world):",
        "if self._taker_drains(partition):",
        "a drain takes nothing from the last consumer",
    ),
    Mutant(
        "Planning._stop_leaving",
        "if any(not is_draining(c, incarnations.get(c, 0), self.world) for c in absent):",
        "if False:",
        "who was asked to end waits for an absent consumer that may come back",
    ),
    Mutant(
        "of_plan",
        "| _to_drain(world, draft))",
        ")",
        "who drains and was away when that was planned gives everything away when it is back",
    ),
    Mutant(
        "_as_read",
        "return [Create(path), Delete(path)] if version == _ABSENT else [Check(path, version)]",
        "return []",
        "the list of a topic's partitions is written for the configuration that was read",
    ),
    Mutant(
        "drawn",
        "max(claim.incarnation, seen) + step",
        "max(claim.incarnation, seen) + 1",
        "no number is drawn again when the counters are lost",
    ),
    # The hand-off
    Mutant("Draft.owners", "found.add(owner)", "pass", "the assignee of an unfinished start is a possible owner"),
    Mutant(
        "Draft.move",
        "self.epochs[partition] = self.epoch",
        "self.epochs[partition] = self.epoch - 1",
        "what is planned again is confirmed for the new epoch",
    ),
    Mutant("Draft.move", "if owners <= {taker}:", "if owners == {taker}:", "what nobody may run is assigned at once"),
    Mutant("Draft.move", "if owners <= {taker}:", "if not owners:", "what only its target may run is assigned at once"),
    Mutant(
        "_outdated",
        "return grant is None or grant.token.epoch > token.epoch",
        "return grant is not None and grant.token.epoch > token.epoch",
        "what is no longer held is stopped",
    ),
    Mutant(
        "owes_release",
        "_of_ours(accepted, consumer, incarnation, isolated)",
        "_of_ours(accepted, consumer, incarnation, False)",
        "an isolated consumer releases nothing",
    ),
    Mutant(
        "owes_release",
        "_of_ours(accepted, consumer, incarnation, isolated)",
        "None if accepted is None or accepted.removed or isolated else accepted",
        "another incarnation releases nothing",
    ),
    Mutant(
        "Releasing._post",
        "= Release(entry.epoch, mine.consumer,",
        "= Release(token.epoch, mine.consumer,",
        "a release is written with the entry's epoch",
    ),
    Mutant(
        "Releasing.owe",
        "answered, self._holdings.answered = self._holdings.answered, {}",
        "return",
        "what does not run here is released as well",
    ),
    Mutant(
        "Deciding._closed",
        "if not any(why_not_closed(",
        "if not all(why_not_closed(",
        "every possible owner confirms that it has closed",
    ),
    Mutant(
        "Deciding._closed",
        "self.world) for c in owners):",
        "self.world) for c in owners | set(self.world.members)):",
        "who joins while a close is awaited is not waited for",
    ),
    Mutant(
        "Draft.drop_lost",
        "closed = owners & ended",
        "closed: set[str] = set()",
        "a hand-off from a lost giver ends without its release",
    ),
    Mutant("Draft.drop_lost", "if taker in lost or", "if", "a hand-off to a lost taker is taken back"),
    Mutant(
        "Planning._flight",
        "{p for p in self.draft.in_flight() if not self._taker_drains(p)}",
        "set()",
        "a further plan takes back nothing that is under way",
    ),
    # Who is there
    Mutant("ZooKeeperDiscovery.members", "self._zk.sync()", "pass", "who is registered is read after a sync"),
    Mutant("observe.snapshot", "c.zk.sync()", "pass", "what was asked of a consumer is read after a sync"),
    Mutant("transitions._each", "c.zk.sync()  #", "pass  #", "a topic is read after a sync"),
    Mutant(
        "presence",
        "if life.registered:",
        "if life.registered and life.ending is None:",
        "who is registered is never gone",
    ),
    Mutant(
        "Life.ending",
        "self.claim.ended.get(self.incarnation) if",
        "next(iter(self.claim.ended.values()), None) if",
        "an end is that of one incarnation",
    ),
    Mutant(
        "presence",
        "ending is not None and",
        "ending not in (None, Ending.LEFT) and",
        "who has left cleanly is gone at once",
    ),
    Mutant(
        "presence",
        "ending is not None and",
        "ending not in (None, Ending.REAPED) and",
        "whom its launcher has reaped is gone at once",
    ),
    Mutant(
        "discovery._registered",
        "predecessor_gone=bool(before) and is_gone(before)",
        "predecessor_gone=bool(before)",
        "a successor ends its predecessor's incarnation only when that process is gone",
    ),
    Mutant(
        "claims.registered",
        "ended(claim, claim.registered, Ending.REAPED)",
        "ended(claim, claim.incarnation, Ending.REAPED)",
        "a gone process ends the incarnation that had registered",
    ),
    Mutant(
        "predecessor",
        "another and claim.boot_id and claim.boot_id == member.boot_id",
        "another",
        "a process is asked about on its own boot only",
    ),
    Mutant("held_for_approval", "if not said or", "if True or", "a plan above the budget waits for a person"),
    Mutant(
        "held_for_approval",
        "if not said or operations_under_way.is_step(c, view, world, moves):",
        "if not said:",
        "a step of what a person has begun, and its way back, waits for nobody",
    ),
    Mutant(
        "transitions._decide",
        "return beside if beside.verdict is Verdict.WRITE else waits",
        "return waits",
        "everything else goes on beside a plan that waits",
    ),
    Mutant(
        "digest_of",
        "json.dumps(parts)",
        "view.topic",
        "an approval is for one plan, and void for every other",
    ),
    Mutant(
        "Deciding._tell",
        "if told else None",
        "if False else None",
        "a pause does not wait for the answer to a plan",
    ),
    Mutant("_may_rejoin", "if life.kept_until:", "if False:", "partitions wait for a planned restart"),
    Mutant(
        "Life.restart",
        "found.incarnation == self.incarnation",
        "found.incarnation",
        "a planned restart is of one process",
    ),
    Mutant(
        "Life.restart",
        "if found is not None and mine and found.holds(self.now) else None",
        "if found is not None and mine else None",
        "a planned restart that has run out is as if it had never been",
    ),
    Mutant(
        "PlannedRestart.holds",
        "<= 2 * (self.until_at - self.at)",
        "",
        "a planned restart that a clock ahead has noted holds nobody up",
    ),
    Mutant(
        "Life.kept_until",
        "or self._successor_is_ready",
        "",
        "who is back from a planned restart gets its partitions at once",
    ),
    Mutant(
        "Life._successor_is_ready",
        "return self.member.incarnation in (said, self.claim.answered if self.claim is not None else 0)",
        "return True",
        "partitions wait until the successor can answer for them",
    ),
    Mutant(
        "Life.kept_until",
        "self._works",
        "self.registered",
        "who is on the way out for a planned restart is waited for",
    ),
    Mutant("targets", "or life.kept_until", "", "who is on the way out for a planned restart is given nothing"),
    Mutant("Planning._movable", "and not kept", "", "who is on the way out for a planned restart keeps what it has"),
    Mutant(
        "not_running", "or (said is not None and said.leaves)", "", "who leaves is not told to start anything again"
    ),
    Mutant(
        "Deciding.drop_lost",
        "for c in self.draft.movers() & held.keys()",
        "for c in ()",
        "what is in between goes on without one that has ended, also if its id is waited for",
    ),
    Mutant(
        "Draft.drop_lost",
        "taker in awaited and partition not in self.assignments",
        "taker in awaited",
        "what an ended consumer owns waits for its id, though its start was not confirmed",
    ),
    Mutant("Deciding._waiting", "- kept", "", "a guarded start is confirmed, also if it waits for a planned restart"),
    Mutant(
        "Deciding._closed",
        "if self._goes_to_one_on_its_way_out(partition):",
        "if False:",
        "what others have closed does not become the own of one on its way out",
    ),
    Mutant(
        "Deciding._waiting",
        "if c in away and draft.assignments.get(p) == c",
        "if False",
        "a start that waits for a planned restart leaves the topic Stable",
    ),
    Mutant(
        "_overdue",
        "life.ending is not None or life.kept_until",
        "life.ending is not None",
        "nobody who is expected to restart is isolated as silent",
    ),
    Mutant(
        "returning",
        "if restart.moves else",
        "if False else",
        "partitions that moved away for a planned restart return",
    ),
    Mutant(
        "draft_of",
        "{p for p in node.guarded if not draft.runs(p)}",
        "set(node.guarded) & draft.in_flight()",
        "a partition without an owner stays guarded",
    ),
    Mutant(
        "node_of",
        "p for p in draft.guarded if not draft.runs(p)",
        "draft.guarded & draft.in_flight()",
        "a guard is written while nobody owns its partition",
    ),
    Mutant("recovery.needed", "draft.guarded = set(node.guarded)", "pass", "a recovery keeps the guards"),
    Mutant(
        "recovery.needed",
        "draft.seeks = dict(node.seeks) if view.state is None else draft_of(view, world.fresh).seeks",
        "pass",
        "a recovery keeps a reset that nobody has begun",
    ),
    Mutant(
        "_adopt",
        "begun = seek is None or one.running >= seek.epoch",
        "begun = True",
        "who runs on from before a reset stops when a recovery finds it",
    ),
    Mutant(
        "Deciding._lost_or_unowned",
        "if not kept and not restarted:",
        "if not kept:",
        "what goes back after planned restarts is no plan for everybody",
    ),
    Mutant(
        "Deciding._digest_if_whole",
        "if whole else",
        "if True else",
        "what is assigned at once is no plan for those that keep theirs",
    ),
    Mutant(
        "returning",
        "key=lambda one: -one[1].at",
        "key=lambda one: one[1].at",
        "of two planned restarts the earlier one has its partitions back",
    ),
    Mutant(
        "of_plan",
        "- restarts.away(view, world).keys()",
        "",
        "the absence of a planned restart causes no plan",
    ),
    Mutant(
        "causes.digest",
        "| restarts.away(view, world)",
        "",
        "the absence of a planned restart changes no plan's digest",
    ),
    Mutant(
        "Agent._restarts",
        "and not restart.moves",
        "",
        "who gives its partitions away for a planned restart hands them off",
    ),
    Mutant(
        "Agent._mark_draining",
        "if self._restarts():",
        "if False:",
        "who restarts as planned gives nothing away",
    ),
    Mutant(
        "_may_rejoin",
        "world.now - absence.since_at < policy.rejoin_grace_s",
        "False",
        "what a dead consumer had waits for its id",
    ),
    Mutant(
        "absence_of",
        "absence.since_at <= now",
        "True",
        "nobody waits for a time noted by a clock that was ahead",
    ),
    Mutant("_proves", "same_boot and claim.direct and", "same_boot and", "a proxy's refusal proves nothing"),
    Mutant(
        "_refused_before",
        "0 < since_at - claim.refused_at <= 2 * session_timeout_s",
        "0 < since_at - claim.refused_at",
        "a refusal of one that stayed registered for longer than a session outlives its process proves nothing",
    ),
    Mutant(
        "_noted",
        "replace(claim, absence=note, refused_at=0.0)",
        "replace(claim, absence=note)",
        "refusals before and after a silence are not one row",
    ),
    Mutant(
        "note_absence",
        "now - since >= session_timeout_s",
        "True",
        "a refusal proves an end only after a session time-out",
    ),
    Mutant(
        "note_absence",
        "or Absence(incarnation, asked_at)",
        "or Absence(incarnation, asked_at - 1.0)",
        "who is absent is so since it was asked, and not before",
    ),
    Mutant(
        "same_boot",
        "return not host.startswith(_LOOPBACK) or",
        "return True or",
        "a refusal at loopback proves an end only on the same boot",
    ),
    Mutant(
        "_overdue",
        "world.now - absence.since_at >= c.policy.absent_after_s",
        "True",
        "who is absent and silent has its time before it is isolated",
    ),
    Mutant("_overdue", "if c.policy.hold_absent:", "if False:", "a site may hold for a person instead of isolating"),
    Mutant(
        "Grants.on_posted",
        "seen.generation == accepted.generation",
        "False",
        "an old post begins nothing once ZooKeeper has shown another node",
    ),
    Mutant(
        "_nudge",
        "c.statuses.post_topic(member, stored.view.topic, codec.encode_node(node, 0 if stored.view.packed else None))",
        "pass",
        "who is detached is posted the node that it has to act on",
    ),
    # A lost or restored ZooKeeper
    Mutant(
        "recovery.needed",
        "acted = list(_acted(view.topic, world))",
        "acted = [one for one in _acted(view.topic, world) if node is None or one.status.acted_epoch <= node.epoch]",
        "an acted epoch above the stored one is recovered from",
    ),
    Mutant(
        "_disagreement",
        "if status.generation != node.generation and covered < status.acted_epoch:",
        "if False:",
        "a generation that the node does not cover is recovered from",
    ),
    Mutant(
        "_disagreement",
        "if node.assignments.get(partition) == consumer and one.token.epoch > stored:",
        "if False:",
        "an owner under a newer holding than the stored one is recovered from",
    ),
    Mutant(
        "_of_commits",
        "if newest >= 0 and commits[newest].token.epoch > node.epoch:",
        "if False:",
        "a committed epoch above the stored one is recovered from",
    ),
    Mutant(
        "_of_commits",
        "if _bars(node, partition, one.token):",
        "if False:",
        "a start that somebody's commit bars is recovered from",
    ),
    Mutant(
        "recovery.needed",
        "newest = max([committed, *",
        "newest = max([0, *",
        "the next epoch is above all that was committed",
    ),
    Mutant(
        "observe.committed",
        "{*view.partitions, *there}",
        "view.partitions",
        "what is committed counts in every partition that Kafka has",
    ),
    Mutant(
        "is_far_ahead",
        "return epoch > known + FAR",
        "return False",
        "an epoch that the topic cannot have reached is nobody's evidence",
    ),
    Mutant(
        "doubted",
        "if len(times) >= policy.flap_registrations:",
        "if False:",
        "who contradicts every node is not followed for ever",
    ),
    Mutant(
        "targets",
        "if consumer in world.unclear or consumer in world.doubted:",
        "if consumer in world.unclear:",
        "who is not believed is no target",
    ),
    Mutant("recovery.needed", "Draft(1 + max(old, newest),", "Draft(1 + newest,", "the next epoch is above the node's"),
    Mutant(
        "_adopt",
        "draft.to_close[partition] = set(holders)",
        "draft.adopt(partition, min(holders), draft.epoch)",
        "what two run after a loss is closed first",
    ),
    Mutant(
        "_by_answer",
        "status.held.keys() | status.running.keys()",
        "status.running.keys()",
        "after a loss what may yet be started counts as owned",
    ),
    Mutant(
        "_by_node",
        "enter(partition, consumer, 0)",
        "pass",
        "after a loss whoever stands in toClose is a possible owner",
    ),
    Mutant(
        "Grants.on_unreadable",
        'self._reports.add("node", sentence)',
        "self.stop(sentence)",
        "a node that has vanished or cannot be read stops nothing",
    ),
    Mutant(
        "Grants.on_unreadable",
        'self._astray = True\n        self._reports.add("node", sentence)',
        'pass\n        self._reports.add("node", sentence)',
        "nothing is begun while the node cannot be read",
    ),
    Mutant(
        "_of_ours",
        "if accepted is None or accepted.removed or isolated",
        "if accepted is None or isolated",
        "of a removed topic nothing runs",
    ),
    Mutant(
        "judge",
        "if found == own and found.generation == own.generation:",
        "if found == own:",
        "a token is of a generation",
    ),
    # Readmission
    Mutant(
        "_lift",
        "= [Check(c.paths.topic(name), version) for name, version in topics.versions.items()]",
        "= []",
        "a readmission is guarded by the topics",
    ),
    Mutant(
        "_lift",
        "guards.append(Check(c.paths.id(claim.consumer), claim.version))",
        "pass",
        "a readmission is guarded by the claim",
    ),
    Mutant(
        "_lift",
        "put_directive(c, replace(directive, isolation=None))])",
        "SetData(c.paths.directive(claim.consumer), encode_directive(replace(directive, isolation=None)))])",
        "a readmission is guarded by the directive",
    ),
    Mutant(
        "_guards",
        "guards += [Check(paths.id(consumer), world.claims[consumer].version)]",
        "pass",
        "what reassigns a lost consumer's partitions is guarded by its claim",
    ),
    Mutant(
        "_guards",
        "guards += [Check(paths.directive(consumer), world.directives[consumer].version)]",
        "pass",
        "what reassigns an isolated consumer's partitions is guarded by its directive",
    ),
    Mutant(
        "targets",
        "if life.isolation is not None or life.draining",
        "if life.draining",
        "who is isolated is no target",
    ),
    Mutant(
        "targets",
        "life.isolation is not None or life.draining is not None",
        "life.isolation is not None",
        "who drains is no target",
    ),
    # Fencing
    Mutant("judge", "return Judgement.REWRITE", "return Judgement.OURS", "an entry without our token is written over"),
    Mutant("judge", "adopted else Judgement.REWRITE", "adopted else Judgement.OURS", "an older entry is written over"),
    Mutant("judge", "or committed.topic_id != topic_id:", ":", "a commit of another topic id fences nobody"),
    Mutant(
        "start_position",
        'in ("", topic_id) else None\n    if release',
        'in ("", topic_id, committed.topic_id) else None\n    if release',
        "a commit of another topic id is no start",
    ),
    Mutant(
        "Schedule._fetch_due", "if now >= self._fetch_at or", "if", "an owner that is idle looks as well, once a second"
    ),
    Mutant(
        "OwnedPartition.place",
        "self.advance(event)",
        "self.phase = Phase.READY",
        "the start is committed before anything is read",
    ),
    Mutant(
        "Requests._judge",
        "if verdict is Judgement.FENCED and entry is not None:",
        "if verdict is Judgement.FENCED and entry is not None and held.phase is Phase.READY:",
        "a start is checked like any other commit",
    ),
    Mutant(
        "OwnedPartition.guard",
        "self.position = self.passed = max(self.passed, entry.offset)",
        "self.position = self.passed = entry.offset",
        "a guarded start never goes back",
    ),
    Mutant(
        "OwnedPartition.guard",
        "self.position = self.passed = max(self.passed, entry.offset)",
        "pass",
        "a guarded start goes on from what a survivor has committed",
    ),
    Mutant(
        "DatabaseSink.write",
        "found = _standing(cursor, writer, steps)",
        "found = {p: (writer.topic_id, Standing(s.token, writer.consumer)) for p, s in steps.items()}",
        "the sink's transaction checks the token",
    ),
    Mutant(
        "session.check",
        "if speculates and not idempotent_sink:",
        "if False:",
        "speculative execution is refused",
    ),
    Mutant(
        "OwnedPartition.guard",
        "if now - self.commits.acknowledged_at > guard_s:",
        "if now - self.commits.acknowledged_at > guard_s / 2:",
        "a guarded start stays its own for longer than the commit time-out",
    ),
    Mutant(
        "perform",
        "offsets.hold(topic, fetch.topic_id, fetch.holding)",
        "{}",
        "with the broker's fence the owner before is fenced before its entry is read",
    ),
    Mutant(
        "perform",
        "return Done(offsets.fences, failed)",
        "return Done(True, failed)",
        "only a broker that fences spares a guarded start its wait",
    ),
    Mutant(
        "TransactionalGroupOffsets._initialize",
        "_start(begun[1], limit_s)",
        "pass",
        "with the broker's fence transactions are initialized before the first commit",
    ),
    # Topics and groups
    Mutant("_check_group", "if members:", "if False:", "a group with members is not taken into use"),
    Mutant(
        "check_other_clusters",
        "if found is None or (found[0].topic_id, found[0].group_id) != (wanted.topic_id, wanted.group_id):",
        "if True:",
        "two clusters do not manage one topic for one group",
    ),
    Mutant(
        "topics._is_closed",
        "return settled and view.node.removed and not view.node.assignments",
        "return True",
        "a topic that is removed in one cluster is added in another one when the first one has closed it",
    ),
    Mutant(
        "_write_config",
        "        check_other_clusters(c, config)",
        "        pass",
        "two clusters that add one topic for one group at the same moment do not both keep it",
    ),
    # Sessions
    Mutant(
        "targets",
        "in sorted(world.members.items()):",
        "in sorted(({c: Member(c, a.incarnation, '', '') for c, a in world.answers.items() "
        "if isinstance(a, ConsumerStatus)} | dict(world.members)).items()):",
        "who is detached is no target",
    ),
    Mutant(
        "Agent._register",
        "self._registry.register(self._member)",
        "self._member = replace(self._member, incarnation=self._member.incarnation "
        "+ (self._session not in (0, session))); self._registry.register(self._member)",
        "an incarnation is kept over sessions",
    ),
    Mutant(
        "Grants.on_node",
        "self._holdings.accepted = seen",
        "self._holdings.accepted = __import__('dataclasses').replace("
        "seen, handoff={**getattr(accepted, 'handoff', {}), **seen.handoff})",
        "a node is acted on as one whole read",
    ),
    Mutant(
        "Draft.move",
        'self.former.get(partition, ""))\n        self.forget(partition)',
        'self.former.get(partition, ""))\n        pass',
        "what is moved leaves `assignments`",
    ),
    Mutant(
        "Draft.move",
        "Handoff(giver, taker, self.epoch)\n            self.to_close[partition] = owners",
        "Handoff(giver, taker, self.epoch)\n            pass",
        "the giver of a hand-off stands in `toClose`",
    ),
    Mutant("Draft.move", "self.to_start[partition] = taker", "pass", "the taker of what is moved stands in `toStart`"),
    Mutant("Grants.on_node", "elif accepted is not None:", "elif False:", "a node that is kept back is reported"),
    Mutant(
        "Requests._judge",
        'if entry is not None and entry.topic_id not in ("", held.topic_id):',
        "if False:",
        "a commit of another topic id is reported",
    ),
    Mutant(
        "Requests._judge",
        'self._reports.add(\n                f"rewritten {partition}",',
        'max(\n                f"rewritten {partition}",',
        "what was overwritten is reported",
    ),
    Mutant(
        "Schedule._entry",
        "return Committed(offset, held.token,",
        "return Committed(offset, None,",
        "a commit carries its token",
    ),
    Mutant("encode_metadata", '"o": committed.owner,', '"o": "",', "a commit names its owner"),
    Mutant("encode_metadata", '"c": committed.cluster,', '"c": "",', "a commit names its cluster"),
    Mutant("encode_metadata", '"t": committed.topic_id,', '"t": "",', "a commit names its topic id"),
    # What no test noticed
    Mutant(
        "Deciding.drop_lost",
        "self.relies_on = lost",
        "self.relies_on = lost & frozenset(self.draft.assignments.values())",
        "the absence of a lost giver or taker guards the write as well",
    ),
    Mutant(
        "Requests._committed",
        "held.acknowledge(offsets[partition].offset,",
        "held.acknowledge(held.passed,",
        "an acknowledgement is for the offset that was sent",
    ),
    Mutant(
        "Requests._judge",
        "held.looked_at = self._schedule.asked_at",
        "held.looked_at = now",
        "a look is as old as its request, not as its answer",
    ),
    Mutant(
        "perform",
        "entries = offsets.committed(topic, fetch.partitions)\n"
        "                return FetchedOffsets(entries, offsets.topic_id(topic) if fetch.asks_id else None, unheld)",
        "found = offsets.topic_id(topic) if fetch.asks_id else None\n"
        "                return FetchedOffsets(offsets.committed(topic, fetch.partitions), found, unheld)",
        "the topic's id is read after the entries that it vouches for",
    ),
    Mutant(
        "Releasing.prune",
        "if p in owed and owed[p].epoch == r.epoch}",
        "if p in owed}",
        "a release for an older hand-off leaves the outbox",
    ),
    Mutant(
        "writes",
        "operations += [Check(paths.topic(topic), versions.node)]",
        "pass",
        "a state is written only beside the node that was read",
    ),
    Mutant(
        "Deciding._reads_node",
        "not self.draft.seeks or SEEKS in member.formats",
        "True",
        "nothing is given to a release that cannot read the seeks of the node",
    ),
    Mutant(
        "Deciding._reads_node",
        "owns or not self.view.config.properties or PROPERTIES in member.formats",
        "True",
        "nothing is given to a newcomer that cannot read the properties in the node",
    ),
    Mutant(
        "Deciding._reads_node",
        "owns or not self.view.config.properties",
        "not self.view.config.properties",
        "an owner that cannot read the properties keeps its partitions until it is newer or gone",
    ),
    Mutant(
        "read_plain_only",
        "PACKED not in one.formats and subscribes(one, view.topic)",
        "False",
        "a node is packed only if every registered consumer of the topic reads that",
    ),
    Mutant(
        "packing._reads",
        "return PACKED in member.formats",
        "return True",
        "a node is packed only if every owner reads that",
    ),
    Mutant(
        "packing._reads",
        "member.incarnation == incarnation",
        "True",
        "a registration says what its own incarnation reads",
    ),
    Mutant(
        "packing._reads",
        "return view.packed and view.node is not None and view.node.incarnations.get(consumer) == incarnation",
        "return True",
        "who is not registered may read plain nodes alone",
    ),
    Mutant(
        "packing._reads",
        "view.node.incarnations.get(consumer) == incarnation",
        "True",
        "who runs something beside a restored node may read plain nodes alone",
    ),
    Mutant(
        "Deciding._plain_again",
        "if not packed or not older",
        "if True",
        "a packed node is plain again for a consumer that must act on it before it is readmitted",
    ),
    Mutant(
        "Deciding._plan",
        "return self._restart() or self._plain_again()  # the plan",
        "return self._restart()  # the plan",
        "a packed node is plain again also where the plan that is due would change nothing",
    ),
    Mutant(
        "pack_over",
        "if needs_packing(view, policy):",
        "if False:",
        "a node that does not fit plain stays packed",
    ),
    Mutant(
        "Deciding._reads_node",
        "PACKED in member.formats or not packing.needs_packing(self.view, self.policy)",
        "True",
        "nothing is given to a release that cannot read a node which fits only packed",
    ),
    Mutant(
        "with_leave", "if not leave.incarnation:", "if False:", "a consumer asks for the end of one incarnation alone"
    ),
    Mutant(
        "observe._decode_leave",
        "replace(member_codec.decode_leave(path, raw), by=consumer)",
        "member_codec.decode_leave(path, raw)",
        "who asks for an end in a node of its own is the consumer of that node",
    ),
    # The measure of pauses
    Mutant(
        "Releasing._ago",
        "(read_at, passes.last_at, passes.empty_at)",
        "(read_at, passes.first_at, passes.empty_at)",
        "a release says when its giver's last record passed",
    ),
    Mutant(
        "Passes.passed",
        "if self.first_at is None:",
        "if True:",
        "a taker says when its first record passed, not a later one",
    ),
    Mutant(
        "pauses._of_giver",
        "Span(moved.planned_at, moved.released_at + TICK_S)",
        "Span(moved.planned_at, inf)",
        "a giver wrote its release before ZooKeeper stamped it",
    ),
    Mutant(
        "pauses.pause",
        "within(Span(least, inf))",
        "within(Span(-inf, inf))",
        "a taker's first record passed after it had read the release",
    ),
    Mutant(
        "pauses._with_bounds",
        "round(first.high - passed_from, 4)",
        "round(first.high - begin_at, 4)",
        "the giver's last commit bounds a pause from above",
    ),
    Mutant(
        "pauses._with_bounds",
        "passed_from <= first.high <= passed_from + MOST_STALL_S",
        "True",
        "a bound that cannot be true counts for nothing",
    ),
    Mutant(
        "pauses.merged",
        "| {one.partition: one for one in stored.measured}",
        "| {}",
        "a pause that is stored stays as it is",
    ),
    Mutant(
        "pauses._extend",
        "SetData(path, with_pauses(path, node.data, found), version)",
        "SetData(path, with_pauses(path, node.data, found))",
        "pauses are added by a compare-and-set",
    ),
    Mutant(
        "_Ended.running",
        "one.token.epoch == self.node.since.get(partition)",
        "True",
        "a pause is that of the present holding",
    ),
    Mutant(
        "_Ended.status",
        "answer.incarnation != self.node.incarnations.get(consumer)",
        "False",
        "only the incarnation that owns a partition says how it was taken up",
    ),
    Mutant(
        "rollback.placed",
        "wanted is None or ended(wanted, able, now) is not None",
        "wanted is None",
        "a roll back that is over gives nobody anything",
    ),
    Mutant(
        "Planning._fixed", "self._placed | self._pins", "self._pins | self._placed", "a pin comes before a roll back"
    ),
    Mutant(
        "rollback.ended",
        "if able.get(c) != wanted.targets.get(c)",
        "if c not in able",
        "a newcomer is a change of membership, and ends a roll back",
    ),
    Mutant("rollback.ended", "now >= wanted.at + wanted.for_s", "False", "a roll back for a time ends"),
    Mutant(
        "Deciding._due",
        "self.view = replace(self.view, config=replace(config, rollback=None))",
        "pass",
        "the end of a roll back is noticed once",
    ),
    Mutant(
        "store.writes",
        "config = replace(config, rollback=None)",
        "pass",
        "the plan that ends a roll back removes it, so that it never returns",
    ),
    Mutant(
        "rollback.before",
        "for move in reversed(record.moves):",
        "for move in ():",
        "a roll back undoes every move since then",
    ),
    Mutant(
        "split.sides",
        "c not in split.consumers",
        "True",
        "new consumers of an upgrade get nothing that is not reserved for them",
    ),
    Mutant(
        "split.sides",
        "if not theirs or not others:",
        "if False:",
        "a side of a split without a consumer leaves its partitions to the other side",
    ),
    Mutant(
        "split.kept",
        "(c in split.consumers) == (p in split.partitions)",
        "False",
        "a step of an upgrade moves each partition once, and no others",
    ),
    Mutant(
        "Planning._question",
        "(on_its_side | dict(fixed))",
        "(dict(fixed) | on_its_side)",
        "a pin comes before an upgrade",
    ),
    Mutant(
        "transitions._each",
        "snapshot = _together(c, snapshot, list(views.values()), problems)",
        "pass",
        "all topics are planned as one",
    ),
    Mutant(
        "TogetherPlan._share",
        "(ties if part.measures else loads).update",
        "ties.update",
        "what is frozen or on its way counts for the other topics",
    ),
    Mutant(
        "Deciding._drifted",
        "together is None or not together.moves(self.view.topic)",
        "True",
        "a topic that nothing has happened to moves if all topics together are not even",
    ),
    Mutant(
        "Planning._fixed",
        "self._paused() | self._placed | self._pins",
        "self._placed | self._pins",
        "what is paused does not move",
    ),
    Mutant(
        "upgrade_store.guarded",
        "[Check(c.paths.upgrade(upgrade.app), upgrade.version), *operations]",
        "operations",
        "a slow process writes nothing for a step of an upgrade that is over",
    ),
    Mutant(
        "upgrades.advance_one",
        "ensure(c, upgrade)",
        "pass",
        "what an upgrade's record wants is made before its next step",
    ),
    Mutant(
        "upgrade_begin.begin",
        "split = Split(wish.app, found.upgrade.new_consumers)",
        "split = None",
        "no new consumer of an upgrade registers before the split",
    ),
    Mutant(
        "upgrade._moving",
        "if not away and",
        "if",
        "a step of an upgrade is held when its partitions have arrived",
    ),
    Mutant(
        "upgrade._holding",
        "if failures or upgrade.suspected_at:",
        "if False:",
        "a step that breaks its rule moves everything back",
    ),
    Mutant(
        "upgrade._holding",
        "if away := _not_arrived(upgrade, seen):",
        "if away := {}:",
        "a held step whose partitions are elsewhere moves again",
    ),
    Mutant(
        "upgrade._restoring",
        "if missing and not _late(upgrade, seen):",
        "if False:",
        "what goes back waits for the old consumers that have left",
    ),
    Mutant(
        "upgrade_rule._errors",
        "!= upgrade.incarnations.get(consumer, seen.registered[consumer])",
        "!= seen.registered[consumer]",
        "a new consumer that was started again is an error",
    ),
    # A redeployment
    Mutant(
        "redeployment._why_not_next",
        "if absent := sorted(set(fleet.consumers) - members.keys()):",
        "if absent := []:",
        "the next process of a redeployment is replaced only when the one before is back",
    ),
    Mutant(
        "redeployment._step",
        "if _why_not_next(c, fleet, members, consumer) or not all_stable(c):",
        "if _why_not_next(c, fleet, members, consumer):",
        "the next process of a redeployment is replaced only when nothing moves",
    ),
    Mutant(
        "redeployment._step",
        "claim is not None and (claim.incarnation > old or old in claim.ended)",
        "claim is not None",
        "who is replaced is launched again only when its process has ended",
    ),
    Mutant(
        "redeployment._step",
        "guards = [Check(c.paths.fleet(fleet.app), fleet.version)]",
        "guards = []",
        "nobody is drained for a fleet that was changed meanwhile",
    ),
    Mutant(
        "redeployment.pending",
        "members[one].incarnation <= incarnation",
        "True",
        "a redeployment replaces each process once",
    ),
    Mutant(
        "redeployment.would_redeploy",
        "if left := sorted(pending(c, found)):",
        "if left := []:",
        "a second redeployment waits for the first",
    ),
    Mutant(
        "Action.run",
        "if done_by(c, self.name, about, actor):",
        "if False:",
        "a task that is tried again does an action once",
    ),
    # Growth
    Mutant("growth.decide", "if seen.unsure:", "if False:", "nothing is decided on measurements that do not count"),
    Mutant(
        "autoscale.measure",
        "one not in first or one not in second",
        "False",
        "measurements do not count if a consumer of the fleet does not answer",
    ),
    Mutant(
        "autoscale._unsure",
        "fleets.check_no_upgrade(fleet)",
        "pass",
        "measurements do not count during an upgrade",
    ),
    Mutant(
        "autoscale._unsure",
        "if pending := redeployment.pending(c, fleet):",
        "if pending := set():",
        "measurements do not count during a redeployment",
    ),
    Mutant(
        "autoscale._unsure",
        "all_stable(c)",
        "True",
        "measurements do not count while partitions move",
    ),
    Mutant(
        "growth.decide",
        "acts = limits.act and found.kind",
        "acts = found.kind",
        "a fleet is changed only if a person lets the policy act",
    ),
    Mutant(
        "growth._more",
        "moves = _due_moves(limits, seen, memory) if enough else ()",
        "moves = ()",
        "sharing better goes before growing",
    ),
    Mutant(
        "growth._undone",
        "if seen.throughput >= hoped:",
        "if True:",
        "a growth that has brought no throughput is undone",
    ),
    Mutant("growth._undone", "if seen.throughput >= hoped:", "if False:", "a growth that has helped stays"),
    Mutant(
        "growth._undone",
        "not judged_at <= age < 2 * judged_at",
        "not age < 2 * judged_at",
        "a growth is judged only when its consumers have had their time",
    ),
    Mutant(
        "growth._more",
        "if _recent(memory, seen.now, {Kind.UNDO}, blocked_s):",
        "if False:",
        "a growth that was undone is not tried again at once",
    ),
    Mutant(
        "autoscale._do",
        "grow(by=who, why=decision.said, beside=remembered, version=version)",
        "grow(by=who, why=decision.said, version=version); c.zk.transact(remembered())",
        "a step of growth and the memory of it are one write",
    ),
    Mutant("autoscale._do", "_end_pins(c, kept, actor)", "pass", "the next change of size ends the pins of growth"),
    Mutant(
        "autoscale._end_pins",
        "if config.pins.get(partition) == taker:",
        "if True:",
        "growth ends no pin that a person has set since",
    ),
    # Offsets
    Mutant(
        "machine.seek",
        'if not draft.owners(p) <= {draft.assignments.get(p, "")}',
        "if False",
        "a partition that moves is not sent elsewhere",
    ),
    Mutant(
        "Draft.seek",
        "if partition in self.assignments:",
        "if False:",
        "the owner of a partition that is sent elsewhere stops it and begins a new holding",
    ),
    Mutant(
        "sought",
        "all(token.epoch < seek.epoch for token in tokens)",
        "True",
        "who takes a partition after a reset is not sent back over newer commits",
    ),
    Mutant(
        "positions.done_by",
        'if actor.kind != "airflow":',
        "if True:",
        "a task that is tried again resets once",
    ),
    Mutant(
        "offset_undo._undoable",
        "if plans[0].inputs != config.topic_id and plans[0].inputs:",
        "if False:",
        "offsets of a former topic are not restored",
    ),
    Mutant(
        "offset_undo._undoable",
        "if not rebalance and newest is not None and newest[1].undoes:",
        "if False:",
        "an undo is not taken back by a second one",
    ),
    Mutant(
        "undo",
        "(newest is not None and newest[1].undoes == found.rebalance)",
        "False",
        "two that take back one reset at the same moment do it once",
    ),
    Mutant(
        "offset_undo._summed_up",
        "{p: at for p, at in offsets.items() if p not in of_this} | dict(plan.was_at)",
        "dict(plan.was_at) | offsets",
        "an undo goes back to before the first reset of its rebalance",
    ),
    Mutant(
        "write_reset",
        "if one.before is not None",
        "if False",
        "a reset keeps what was committed before it",
    ),
    # Approvals
    Mutant(
        "plans_to_approve.answer",
        "if found.digest != digest:",
        "if False:",
        "a plan is not approved by the digest of a former one",
    ),
    Mutant(
        "plans_to_approve.answer",
        "check_entitled(c, by)",
        "pass",
        "only who may approve does",
    ),
    Mutant("approvals._missing", "if found.granted:", "if True:", "a plan that was rejected stays rejected"),
    Mutant(
        "counted_moves",
        "one.kind in between and one.giver and one.giver != one.taker",
        "True",
        "what nobody runs is assigned without an approval",
    ),
    Mutant(
        "counted_moves",
        "one.giver not in ending",
        "True",
        "who ends hands over without an approval",
    ),
)


class Place(NamedTuple):
    """A function in its file: the lines from `first` up to and without `end`, counted from 0."""

    path: Path
    first: int
    end: int


def mutated(mutant: Mutant) -> tuple[Path, str]:
    """The file that the mutant changes, and its changed text; raises `ValueError` if it is out of date."""
    places = _functions().get(mutant.function, [])
    if len(places) != 1:
        raise ValueError(f"{len(places)} functions are called {mutant.function}: bring the mutant up to date")
    path, first, end = places[0]
    lines = path.read_text().splitlines(keepends=True)
    pattern = r"\s*".join(re.escape(token) for token in re.findall(r"\w+|[^\w\s]", mutant.old))
    text, count = re.subn(pattern, lambda _: mutant.new, "".join(lines[first:end]), count=1)
    if not count:
        raise ValueError(f"{mutant.function} in {path.name} has no {mutant.old!r}: bring the mutant up to date")
    return path, "".join(lines[:first]) + text + "".join(lines[end:])


@cache
def _functions() -> dict[str, list[Place]]:
    """The product's functions by their names: with and without their module's."""
    found: dict[str, list[Place]] = {}
    for path in sorted(path for folder in PRODUCT for path in (ROOT / folder).rglob("*.py")):
        for name, place in _of(path, ast.parse(path.read_text()), ""):
            for known_as in (name, f"{path.stem}.{name}"):
                found.setdefault(known_as, []).append(place)
    return found


def _of(path: Path, parent: ast.AST, prefix: str) -> Iterator[tuple[str, Place]]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, Place(path, node.lineno - 1, node.end_lineno or node.lineno)
        elif isinstance(node, ast.ClassDef):
            yield from _of(path, node, f"{prefix}{node.name}.")
