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


_CONFIRM = "coordinator_tasks/core/confirm.py"
_DRAFT = "coordinator_tasks/core/draft.py"
_FENCE = "coordinator_tasks/core/fence.py"
_HOLDING = "coordinator_tasks/core/holding.py"
_PRESENCE = "coordinator_tasks/core/presence.py"
_RECOVERY = "coordinator_tasks/core/recovery.py"
_STORE = "coordinator_tasks/service/store.py"
_DIRECTIVES = "coordinator_tasks/service/directives.py"
_LEDGER = "spark_apps/agent/ledger.py"
_HELD = "spark_apps/agent/held.py"
_HOLDER = "spark_apps/agent/holder.py"
_HOLDINGS = "spark_apps/agent/holdings.py"
_RELEASING = "spark_apps/agent/releasing.py"
_SCHEDULE = "spark_apps/agent/schedule.py"

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
        "fresh = all(now - h.looked_at <= self._timing.fresh_s for h in due.values())",
        "fresh = True",
        "nothing is committed on an old look",
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
        "draft = Draft(1 + max(old, newest), world.fresh, view.releases)",
        "draft = Draft(1 + old, world.fresh, view.releases)",
        "the next epoch is above all that was acted on or committed",
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
        "coordinator_tasks/core/deciding.py",
        "stop_vanished(self.draft, self.view)",
        "pass",
        "what Kafka has no longer is closed at once",
    ),
    Mutant(
        "coordinator_tasks/core/deciding.py",
        "self._leave_former_topic()",
        "pass",
        "no offset is handed over into a topic that was created anew",
    ),
    Mutant(
        "spark_apps/agent/releasing.py",
        "if held.sent and not held.fenced and same:",
        "if held.sent and not held.fenced:",
        "what ran in the former topic is not released for the new one",
    ),
    Mutant(
        "spark_apps/agent/schedule.py",
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
        "spark_apps/agent/view.py",
        "lost = was_isolated and not isolated and (node is None or found.version <= before.version)",
        "lost = False",
        "what an isolation ended is not taken up again when ZooKeeper loses the directive",
    ),
    Mutant(
        "spark_apps/agent/view.py",
        "if self._zk.session_id != self._session:",
        "if False:",
        "a node is acted on only in the session of the registration",
    ),
    Mutant(
        "spark_apps/agent/agent.py",
        "clean = self._halted and not self._any(lambda holder: not holder.idle)",
        "clean = self._halted",
        "a clean end is said only after the last commit",
    ),
    Mutant(
        "coordinator_tasks/adapters/discovery.py",
        "if live is not None and not same_process(live, member):",
        "if False:",
        "one process per consumer id",
    ),
    Mutant(
        "coordinator_tasks/core/causes.py",
        "if found is not None and found.topic_id != config.topic_id:",
        "if False:",
        "a topic that was created anew is held",
    ),
    Mutant(
        "coordinator_tasks/service/observe.py",
        "guard = Check(c.paths.id(consumer), world.claims[consumer].version)",
        "guard = Check(c.paths.id(consumer), -1)",
        "the platform isolates nobody who has registered since",
    ),
    Mutant(
        "coordinator_tasks/core/causes.py",
        "if c not in able} | _to_drain(world, draft))",
        "if c not in able})",
        "who drains and was away when that was planned gives everything away when it is back",
    ),
    Mutant(
        "coordinator_tasks/service/topics.py",
        "return [Create(path), Delete(path)] if version == _ABSENT else [Check(path, version)]",
        "return []",
        "the list of a topic's partitions is written for the configuration that was read",
    ),
    Mutant(
        "coordinator_tasks/core/claims.py",
        "max(claim.incarnation, seen) + step",
        "max(claim.incarnation, seen) + 1",
        "no number is drawn again when the counters are lost",
    ),
)


def mutated(mutant: Mutant, root: Path) -> str:
    """The file's text with the mutation; raises `ValueError` if the line is no longer there."""
    text = (root / mutant.file).read_text()
    if mutant.old not in text:
        raise ValueError(f"{mutant.file} has no {mutant.old!r} any more: bring the mutant up to date")
    return text.replace(mutant.old, mutant.new, 1)
