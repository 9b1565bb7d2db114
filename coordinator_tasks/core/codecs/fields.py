"""What the fields of the stored and sent formats mean: `docs/reference/znodes.md` and `http.md` are made from it.

Each text has sentences about the whole, and a line `fields | meaning` for each field; an indented line continues the
line above.
"""

from collections.abc import Mapping

NODES: Mapping[str, str] = {
    "assignments/[TOPIC]": """
The assignment for consumers. Every write raises `epoch`. A consumer needs a single watch and a single read.

`version` | format of the JSON; an older release refuses an unknown format
`bootstrap.servers` | where the coordinator found the topic, for a person. Consumers log in only at the brokers of their own
    settings, so a writer of the node never gets the password. A topic of the same name in another Kafka has another `topicId`, and
    the partitions stop
`group.id` | consumers read and commit under this group, with its rights
`properties` | how records are fetched: only [these names](../options.md#settings-of-the-kafka-client); empty if missing. The
    names are defaults of the readers' Kafka settings. Release 0.1.0 refuses a node with `properties`, and holds; 0.1.0 wrote the
    properties among the other fields, and later releases still read them there
`epoch` | number of this write; a confirmation is for an epoch
`generation` | random; new after ZooKeeper was lost or restored, because numbers alone could repeat
`assignments` | partition → its owner. A consumer that knows only this field works, but later
`since` | partition → epoch at which the ownership began. A partition that runs since an older epoch is stopped and started again
    from the committed position
`handoff` | partition → `from`, `to`, `epoch`: giver and taker, if exactly one owner is possible
`incarnations` | consumer → the incarnation with the grant of the partitions. A restarted process with the same id runs nothing
    of its predecessor's grant
`guarded` | partitions whose last owner was isolated or refuses at its address, without a release. The new owner waits out a commit
    under way
`supersedes` | generation → largest acted epoch covered by this node. A consumer of another generation accepts this node
    only if the consumer's acted epoch is covered
`topicId` | Kafka's id of the topic. Commits for a recreated topic are ignored and reported
`startingOffsets` | `earliest`, `latest` or `none`, for partitions without a commit
`initialPartitions` | partitions from this number on appeared later. Such partitions start at the log's beginning, so nothing is lost
`paused` | partitions with an owner, but not read; paused partitions do not move
`removed` | the topic is no longer managed: the only value that means stop and commit. A vanished node means hold
`seeks` | partition → `offset`, `epoch`: where a person has sent the partition; empty if missing. A seek counts as a commit under a
    token of that epoch, until there is a newer token. A later write removes the seek after the confirmed start
""",
    "The packed form of assignments/[TOPIC]": """
`{"version": 2, "packed": TEXT}`. The text is the node's JSON, compressed with zlib, in Base64.
[When a node is packed](../architecture.md#the-packed-form).
These columns take the place of the objects by partition; all other fields are as in the plain form.

`consumers`, `incarnations` | all ids, sorted; the incarnation of each (null = no incarnation)
`assigned`, `owners`, `since` | the assigned partitions as ranges (`0-3,7`); for each, the owner's place in `consumers`, and the epoch
`moving`, `givers`, `takers`, `epochs` | the partitions in a hand-off, in the same way
""",
    "assignments/[TOPIC]/[PARTITION]": """
A node per partition: these nodes are the partition list. The data is empty, or the last release. Only the hand-off's `from` writes
the data.

`epoch` | of the hand-off
`by`, `incarnation` | the giver
`offset`, `generation`, `token` | the released offset, the generation, and the token under which the offset was committed
`token`: `epoch`, `incarnation`, `generation` | epoch of the acquisition, incarnation of the owner, generation
`ago`: `read`, `passed`, `empty`, `usual` | only for the [measure of pauses](../architecture.md#how-long-a-partition-stands-still):
    seconds before this write: when the giver had read the plan, when the last record had passed the sink, and when the log last had
    no further record; `usual` is the longest undisturbed stall of the partition in the ten to twenty seconds before
""",
    "state/[TOPIC]": """
The state of the topic; a missing node means Initial.

`state` | Starting, Stable or Closing; sums up the two lists below
`toStart`, `toClose` | consumer → partitions not confirmed yet: the possible owners of a partition in flight
`epochs` | partition → epoch of the plan behind the entry. A write for other partitions leaves the confirmation valid
`rebalance` | name of the rebalance, from the first plan until Stable; connects further runs and the history
`since`, `began` | when this state, and this rebalance, began (seconds since 1970): for durations and `stuck_after_s`
`cause` | the causes in one sentence, shown everywhere
`causes`: `kind`, `names`, `partitions`, `by`, `why`, `ending`, `amount` | the causes; `kind` says which of the other fields there are
    (`CauseKind` in `core/model/cause.py`). Missing if `cause` is a sentence of another kind, and in records of earlier versions
`targets` | consumer → incarnation of the last plan. A difference causes the next plan: level-triggered, no event has to be
    remembered
`planned` | digest of all other input of the last plan. A changed strategy, pin, pause or attribute is noticed the same way
`restarts` | consumer → number of orders to start owned partitions again that do not run; in Starting after half of
    `stuck_after_s`. After `max_restarts` a person is asked
`recovered` | consumer → times at which the answer led to a recovery; forgotten after `flap_window_s` if the answer agrees by then. A
    consumer in contradiction to every node would cause endless epochs: after `flap_registrations` times the answer is not believed
""",
    "members/[CONSUMER]": """
Registration of a consumer, ephemeral. The coordinator writes no field and no form beyond a registered consumer's release:
`reset-offsets`, and `add-topic` with `--property`, are refused, and name the consumer. A consumer that registers later and cannot
read a topic's properties is given nothing of the topic; an owner keeps its partitions.

`consumer`, `incarnation`, `release` | id and process; release: missing = an older release
`address` | of the interface: `http(s)://host:port` without a path
`direct` | false = the address of a proxy, so a refusal proves nothing
`bootId`, `process` | boot of the host; namespace and id of the process there
`rack`, `capacity`, `attributes` | for the strategies
`topics` | names or regular expressions, at most 32 of them; empty = any. Topics of Kafka itself, such as
    `__consumer_offsets`, have to be named
`sparkUi`, `applicationId` | of the Spark application, for links on the pages; empty if missing
`formats` | forms of the topic's node beyond older releases: the fields `seeks` and `properties`, and `packed`, the packed form; missing =
    nothing
""",
    "ids/[CONSUMER]": """
The claim of a consumer's id, persistent.

`incarnation` | the counter: a number per process start. Each start adds a random number from 1 to 1,000,000. Evidence names an
    incarnation. If ZooKeeper loses or restores its counters, no new process gets the number, or the checkpoint folder, of a
    living process
`address`, `bootId`, `direct` | of the last registration, to ask a consumer without ZooKeeper
`registered`, `process` | the incarnation of the last registration, and the process id on the host. A successor on the same host can
    prove the end
`answered` | the last incarnation with an answer of the interface. Only then does a refusal prove an end
`ended` | incarnation → `left`, `reaped` or `refused`: the proof of the end: the consumer's own word; the launcher's, or the successor's on the same host; or an
    address that has refused for a session time-out
`reasons` | incarnation → reason of the end: a line of at most 240 characters, of the last 16 ends with a reason. A consumer forced to leave
    has `left` as well, since no commit follows. The cause of the next plan, the pages and `status` show the reason
`failedAt` | incarnation → time of the note of an end with a reason; missing = unknown. Several such ends in a row count as flapping
`registrations` | times of the last unrequested registrations; a directive of a person, a redeployment, an upgrade or a
    growth empties this list and `failedAt`. An id that flaps gets no partitions for a growing pause
`absence` | `incarnation`, `since`, `refused` of an unregistered owner; survives the process that noticed the absence
`refused` | since when the address of a registered consumer has refused; missing = does not refuse. A dead process stays registered for a
    session time-out: refusals count from the first. Refusals count for nothing if the consumer then stays registered for longer than
    two session time-outs, because the consumer was alive
""",
    "directives/[CONSUMER]": """
Orders of a person or the platform.

`isolated`: `by`, `why`, `at`, `incarnation`, `until`, `readmit` | `incarnation` 0 means any. A person means the id; the platform and
    the consumer itself mean one incarnation
`draining`: `by`, `why`, `at`, `incarnation`, `leaving` | `leaving` = the incarnation asked to end while a person's draining stands here; empty if missing
`owner`: `kind`, `fleet`, `version` | of `draining`: `person`, `upgrade`, `redeployment` or `growth`; the fleet; the new version of an
    upgrade. Missing beside an `incarnation`, and in records of earlier versions, where `by` and `why` tell the owner
`restart`: `by`, `why`, `at`, `until`, `incarnation`, `moves`, `capacity`, `rack`, `attributes` | a planned restart; empty if
    missing. Until `until`, the partitions of this incarnation wait for the next incarnation, and the absence causes no plan. With `moves`
    the incarnation gives everything away, and `partitions` (topic → partitions) go back to the successor. A restart with a begin
    further ahead than its length was noted by a clock that has jumped, and does not hold
""",
    "leaving/[CONSUMER]": """
A consumer's wish to end: the fields of `draining` above. A consumer with a ZooKeeper account of its own cannot write directives, and
writes `draining` here. The coordinator reads the node as part of the directive. The wish counts only with the number of an
incarnation.
""",
    "fleet/[APP]": """
The consumers to run. Draining removes a consumer from the fleet in the directive's transaction.

`application`, `consumers`, `arguments`, `conf`, `environment` | application to launch, and the ids
`code` | `{code}` in application and arguments stands for it
`replaced` | consumer → the incarnation to end by a redeployment
`name`, `versions` | name of the version in these fields; name → another former or future version of the fleet, with the same fields,
    the present version's predecessor last. A finished upgrade keeps five
`runs` | consumer → the name of its version, if different; only during an upgrade. Unknown to older launchers
""",
    "config/[TOPIC]": """
A managed topic.

`topic`, `topicId`, `bootstrap.servers`, `group.id`, `startingOffsets`, `initialPartitions`, `properties` | as in `assignments/[TOPIC]`
`strategy`, `parameters` | empty = the cluster's strategy
`pins` | partition → consumer
`paused`, `frozen`, `removed` | paused partitions; no plan for membership; no longer managed
`split` | how an upgrade moves partitions; empty if missing. Reserves `partitions` for `consumers` of `fleet`, and keeps these
    consumers from all other partitions: [the rules](../architecture.md#fleets-and-upgrades)
`rollback` | a person's wish for the assignment before an earlier `rebalance`; empty if missing. `assignments` (partition → consumer),
    `targets` (consumer → incarnation, of possible owners), `by`, `why`, `at`, `for` (seconds; 0 = until the
    targets change). Pins come before the roll back, the strategy after. The plan after the end removes the field in the plan's transaction, so
    the roll back never returns with the former membership
`approval` | a person's answer to a plan above the site's budget; empty if missing. `digest` (over the plan's inputs and
    moves), `granted`, `by`, `why`, `at`. A plan with another digest needs another answer
""",
    "upgrades/[APP]": """
The last upgrade of a fleet. [How it is continued](../architecture.md#fleets-and-upgrades).

`old`, `new`, `oldName`, `newName` | the two versions, with the fields of a fleet, and the names: a way back, independent of the fleet
`oldConsumers`, `newConsumers` | consumers of each version. New consumers are in the splits; old consumers drain at the end
`topics`, `steps`, `hold`, `patience` | topics of the upgrade; percent; seconds
`rule` | when a step fails: `maxLag` (seconds), `maxErrors`, `minRate` (share), `call` (a name in the setting `rules`)
`phase`, `step`, `since`, `began` | progress, and since when
`chosen` | topic → the partitions reserved for the new consumers. Written before the splits, so a repeated write is the same
`mark` | `at` and `positions` when the measuring began, for records per second since then
`baseline` | topic → partition → records per second before anything moved. A partition is compared with its own past
`incarnations` | of the new consumers when they had started. A later start of a new consumer is an error
`reason`, `paused` | reason of the way back; reason of the pause
`outage` | `text`: the failed dependency of both versions, since `at`; `over`: since when the dependency is back. Empty if missing. No step begins or
    is judged; the entry survives the process that saw the outage
`away` | since when only new consumers report the sink as away, in this step; missing = no report. After `patience` more
    of these reports pause the upgrade
`suspected` | since when the present step fails; a failure counts after ten seconds
`by`, `why`, `events` | the person; actions, each with `at` and `text`, for the report
""",
    "history/[TOPIC]/[SEQ]": """
A record per transition, written by the transition's own transaction. At least 10,000 records are kept; a separate write prunes.

`topic`, `from`, `to`, `epoch`, `generation`, `rebalance`, `cause`, `at` | the transition
`actor` | `kind`, `who`, `dag`, `run`, `task`, `try`
`lasted`, `rebalanceLasted` | in the former state; the whole rebalance
`moves` | `kind`, `from`, `to`, `partitions`
`confirmed`, `counts`, `digest`, `incarnations` | incarnations: consumer → the incarnation with the grant
`causes` | as in `state/[TOPIC]`
`unasked` | an unrequested cause: a consumer was lost, or is back afterwards; missing = requested, so the record does not count as flapping
`plan` | if a strategy was asked: its `strategy`, a digest of all its `inputs`, a `summary`, and `reasons` (`text`, `partitions` as
    `0-3,7`) of the moves that fit into 2 % of the transaction, largest first
`wasAt`, `undoes` | of the plan of a reset of offsets: partition → the committed offset before; the rebalance taken back
`pauses` | of the record that ends a rebalance, added by a later write:
    [how long each moved partition stood still](../architecture.md#how-long-a-partition-stands-still)
`pauses`: `base`, `partitions` | a time; the columns below have one entry for each partition
`pauses`: `last`, `released`, `first` | milliseconds after `base`: the giver's last record passed the sink (`ago.passed` before the
    release's write); the release was written (ZooKeeper's time); the taker's first record passed the sink (`ago` before the answer)
`pauses`: `records`, `bytes` | records that waited for the taker's first batch: the log's end known to the taker, minus the start; times the mean
    size, where records are measured
`pauses`: `wait` | milliseconds, the total, the longest wait of a record: `first` minus the later of `last` and the arrival of the next record
`pauses`: `error`, `least`, `most` | milliseconds around the true total; partitions with a lower bound as `wait`; the upper bound of
    the total, `first` minus the time of the giver's last commit
`pauses`: `usual` | milliseconds; from the release, or the giver's last commit; of an older giver, the stall of the other partitions
    just before. `most` and `usual` are optional: records of earlier releases have neither, and earlier releases read newer records, but
    drop the two fields when completing a record
`pauses`: `missing`, `unmoved`, `leftOut` | moved partitions without a measure; `longest` and `before` (seconds), `partition`,
    `consumer` and `partitions`; sentences
""",
    "history/:asked/[SEQ]": """
A record per action of a person, written by the action's own transaction. At least 10,000 records are kept. A retried task of
Airflow that finds its own record is not refused.

`action`, `about`, `actor`, `at`, `why` | about: the topic, consumer or fleet; actor as above
`changes` | `node`, `field`, and the JSON `before` and `after`, each at most 500 characters
""",
    "history/:growth/[APP]": """
How a fleet grows. A change of the fleet and the memory of the change are in the same transaction. The policy is the pure function `core/fleet/growth.py`.

`limits` | of a person
`memory` | the measured `capacity` of a consumer (records/s), past `decisions`, `wanted`, and the `latest` decision
`decisions`: `kind`, `at`, `count`, `desired`, `reasons`, `leaves`, `moves`, `throughput`, `lag`, `acted` | a decision
`wanted` | (time, consumers needed) pairs of the first look and of later ones; a pair that a later need equals or exceeds is dropped
""",
    "history/:lag/[MINUTE]": """
The lag of the last hour: a ring of 60 nodes, `00` to `59`, each with a moment that replaces the moment of an hour ago. `reconcile` (or
the plain loop) writes a moment each minute, from the committed offsets and the logs' ends in Kafka; owners of partitions with a constant
lag are asked. The live page and all metrics read the same moments, so every API server shows the same trend and
[status](../metrics.md#burrows-status), also after a restart. A moment is judged at its writing, by the twenty moments before.

The value is `{"version": 1, "packed": TEXT}`. The size is about 400 bytes for 12 partitions, 10 KB for 1,000 and 96 KB for 10,000; 484 KB
for 20,000 if no number repeats. No decision depends on this node. An unreadable moment, or a moment of an unknown version, is named,
left out, and not overwritten. Of two writers at the same time, the first succeeds.

`at`, `consumers`, `leftOut` | time; names; partitions beyond 20,000
`topics` | each with `topic`, `group`, `partitions` (ranges) and the columns below, with one entry for each partition
`owners`, `offsets`, `lags` | place in `consumers`, -1 = no owner; committed; records
`late` | tenths of a second since which the next record has been in the log, -1 = unknown
`statuses`, `commits` | Burrow's numbers; 1 = counts as a commit
""",
    "The file of export": """
Lines of JSON. `KINDS` in `coordinator_tasks/core/codecs/node_kinds.py` lists the kinds of nodes in the file. Left out are nodes that a
recovery makes again: after an `import` the committed epochs are above those of a new node, as after a loss of ZooKeeper. Of
`ids` all is kept but `absence`, `refused`, `registrations` and `failedAt`: the counters continue, and known ends let a recovery give partitions
away at once.

`format`, `version`, `cluster`, `release`, `at` | first line; version 1
`zxid`, `nodes`, `sha256` | first line: the newest change read; the number of nodes; digest over this line without `sha256` and all other
    lines
`path`, `data` | every other line: a node's path below the cluster's node, and its data as text
""",
    "The metadata of a committed offset": """
Not a node: part of each commit in Kafka.

"v", "g", "e", "i", "o", "c", "t" | format; generation, epoch and incarnation of the token; owner; cluster; topic id
"p" | only for the [measure of pauses](../architecture.md#how-long-a-partition-stands-still); unknown to earlier
    releases. The committed records had passed the sink, or nothing was left to read, `a` seconds after the owner had
    read the topic's node of epoch `n`; `u` is the usual stall
""",
}

STATUS = """
`consumer`, `cluster`, `incarnation`, `bootId` | identity
`health` | the condition with its reason, for a person
`condition` | `starting`, `detached`, `leaving`, `failed`, `stuck` or `failing`; missing = `ok`, or an answer of an earlier version, whose
    `health` tells the condition
`reports` | problems in sentences; also of each topic
`generation`, `actedEpoch`, `queryAlive`, `lastBatch` | of each topic
`running` | of each topic: partition → the fields below
`position`, `lag`, `rate`, `recordBytes` | next offset; records behind; records written per second; mean record size, where sampled
`token`, `started`, `closing` | of the ownership
`taken`: `waited`, `ago`, `batch`, `released`, `lastPass` | for a quarter of an hour after the grant: waiting records; seconds since
    the first record passed the sink; seconds of this batch; seconds from the read of the release; `p` of the commit at the start
`overwritten`: `by`, `epoch`, `ago` | for five minutes: the last commit over the owner's under an older token (0 = no token), and seconds
    since then
`stalls` | epoch → `longest` (seconds), `partition`, `partitions` and `before`: of the partitions kept under the last few epochs
`failures` | failures of a sink or a pipeline, and a batch that does not end; empty if missing. `partitions` (empty = the topic is not read), `why`, `tries`, `for` and
    `next` (seconds since the first failure, and until the next try), `away` (true = the sink does not answer; missing = false)
`held` | partition → epoch of all partitions that the accepted node grants or hands over, started or not. A recovery after a loss of
    ZooKeeper counts these partitions: otherwise a consumer with an accepted hand-off could start later, beside another owner
"""
