"""What the fields of the stored and sent formats mean: `docs/reference/znodes.md` and `http.md` are made from it.

Each text has sentences about the whole, and a line `fields | meaning` for each field; an indented line continues the line above.
"""

from collections.abc import Mapping

NODES: Mapping[str, str] = {
    "assignments/[TOPIC]": """
What consumers act on. Every write raises `epoch`. One watch and one read give a consumer everything.

`version` | format of the JSON; an older release refuses a format that it does not know
`bootstrap.servers` | where the coordinator found the topic, for a person. Consumers log in only at the brokers of their own
    settings, so a writer of the node never gets their password. A topic of that name in another Kafka has another `topicId`, and
    its partitions stop
`group.id` | consumers read and commit under this group, with its rights
`properties` | how records are fetched: only [these names](../options.md#settings-of-the-kafka-client); missing = none. They are
    defaults of the Kafka settings of the readers. Release 0.1.0 refuses a node with `properties`, and holds; 0.1.0 wrote the
    properties among the other fields, where they are still read
`epoch` | number of this write; a confirmation is for an epoch
`generation` | random; new after ZooKeeper was lost or restored, because numbers alone could repeat
`assignments` | partition → its owner. A consumer that knows only this field works, but later
`since` | partition → epoch at which the ownership began. A partition that runs since an older epoch is stopped and started again
    from the committed position
`handoff` | partition → `from`, `to`, `epoch`: giver and taker, if exactly one owner is possible
`incarnations` | consumer → the incarnation that its partitions are granted to. A restarted process with the same id runs nothing
    that its predecessor was granted
`guarded` | partitions whose last owner was isolated or refuses at its address, without a release. The new owner waits out a commit
    that may still be under way
`supersedes` | generation → largest acted epoch of it that went into this node. A consumer of another generation accepts this node
    only if its own acted epoch is covered
`topicId` | Kafka's id of the topic. Commits for a recreated topic are ignored and reported
`startingOffsets` | `earliest`, `latest` or `none`, for partitions without a commit
`initialPartitions` | partitions with this number or a larger one appeared later. They start at their beginning, so nothing is lost
`paused` | partitions that are owned and not read; they do not move
`removed` | the topic is no longer managed: the only value that means stop and commit. A vanished node means hold
`seeks` | partition → `offset`, `epoch`: where a person has sent the partition; missing = none. A seek counts as a commit under a
    token of that epoch, until there is a newer token. A later write removes the seek, once its start is confirmed
""",
    "The packed form of assignments/[TOPIC]": """
`{"version": 2, "packed": TEXT}`. The text is the node's JSON, compressed with zlib, in Base64.
[When a node is packed](../architecture.md#the-packed-form).
These columns take the place of the objects by partition; all other fields are as in the plain form.

`consumers`, `incarnations` | all ids, sorted; the incarnation of each (null = none)
`assigned`, `owners`, `since` | the assigned partitions as ranges (`0-3,7`); for each, the owner's place in `consumers`, and the epoch
`moving`, `givers`, `takers`, `epochs` | the partitions in a hand-off, in the same way
""",
    "assignments/[TOPIC]/[PARTITION]": """
One node per partition: these nodes are the partition list. The data is empty, or the last release. Only the consumer that `from` of
the hand-off names writes it.

`epoch` | of the hand-off
`by`, `incarnation` | the giver
`offset`, `generation`, `token` | the released offset, the generation, and the token under which the offset was committed
`token`: `epoch`, `incarnation`, `generation` | epoch of the acquisition, incarnation of the owner, generation
`ago`: `read`, `passed`, `empty`, `usual` | only for the [measure of pauses](../architecture.md#how-long-a-partition-stands-still):
    seconds before this write at which the giver had read the plan, its last record had passed the sink, and it last knew that
    nothing was left; `usual` is the longest stall of the partition in the ten to twenty seconds before
""",
    "state/[TOPIC]": """
The state of the topic; a missing node means Initial.

`state` | Starting, Stable or Closing; sums up the two lists below
`toStart`, `toClose` | consumer → partitions not confirmed yet. They name the possible owners of a partition in flight
`epochs` | partition → epoch of the plan that put it there. A write for other partitions leaves the confirmation valid
`rebalance` | name of the rebalance, from its first plan until Stable; connects its further runs and its history
`since`, `began` | when this state, and this rebalance, began (seconds since 1970): for durations and `stuck_after_s`
`cause` | a sentence, shown everywhere
`targets` | consumer → incarnation that the last plan counted with. A difference causes the next plan: level-triggered, no event has
    to be remembered
`planned` | digest of all other input of that plan. A changed strategy, pin, pause or attribute is noticed the same way
`restarts` | consumer → how often it was told to start again partitions that it owns and does not run; in Starting after half of
    `stuck_after_s`. After `max_restarts` a person is asked
`recovered` | consumer → the times at which its answer led to a recovery; forgotten after `flap_window_s` if it agrees by then. A
    consumer that contradicts every node would cause epochs without end: after `flap_registrations` times its answer is not believed
""",
    "members/[CONSUMER]": """
Registration of a consumer, ephemeral. The coordinator writes no field and no form that a registered consumer cannot read:
`reset-offsets`, and `add-topic` with `--property`, are refused, and name that consumer. A consumer that registers later and cannot
read a topic's properties is given nothing of that topic; an owner keeps what it has.

`consumer`, `incarnation`, `release` | who; release: missing = an older one
`address` | of its interface: `http(s)://host:port` without a path
`direct` | false = the address is a proxy's, so its refusal proves nothing
`bootId`, `process` | boot of its host; namespace and id of its process there
`rack`, `capacity`, `attributes` | for the strategies
`topics` | names or regular expressions, of which the first 32 count; empty = any. Topics of Kafka itself, such as
    `__consumer_offsets`, have to be named
`sparkUi`, `applicationId` | of its Spark application, for links on the pages; missing = none
`formats` | what it reads of the topic's node and an older release does not: the fields `seeks` and `properties`, and `packed`, the
    packed form; missing = nothing
""",
    "ids/[CONSUMER]": """
The claim of a consumer's id, persistent.

`incarnation` | the counter: one number per process start. Each start adds a random number from 1 to 1,000,000. Evidence names an
    incarnation. If ZooKeeper loses its counters or gets older ones back, no new process gets the number, or the checkpoint folder,
    of a living one
`address`, `bootId`, `direct` | of the last registration. A consumer that lost only ZooKeeper can still be asked
`registered`, `process` | the incarnation of the last registration, and the id of its process on its host. Its successor on that host
    can prove that it is gone
`answered` | the last incarnation whose interface has answered. Only then does a refusal prove an end
`ended` | incarnation → `left`, `reaped` or `refused`: the proof of its end. Its own word; its launcher's, or its successor's on the
    same host; or an address that has refused for a session time-out
`reasons` | incarnation → why it ended: one line of at most 240 characters, of the last 16 that had a reason. A consumer that had to
    leave has `left` as well, since its commits are over. The cause of the next plan, the pages and `status` show the reason
`registrations` | times of the last registrations that nobody asked for; a directive of a person, a redeployment, an upgrade or a
    growth empties the list. An id that flaps gets no partitions for a growing pause
`absence` | `incarnation`, `since`, `refused` of an owner that is not registered; outlives the process that noticed it
`refused` | since when the address of a registered consumer has refused; missing = it does not. A dead process stays registered for a
    session time-out: its refusals count from the first one. They count for nothing if the consumer then stays registered for longer
    than two session time-outs, because it was alive
""",
    "directives/[CONSUMER]": """
What a person or the platform has ordered.

`isolated`: `by`, `why`, `at`, `incarnation`, `until`, `readmit` | `incarnation` 0 means any. A person means the id; the platform and
    the consumer itself mean one incarnation
`draining`: `by`, `why`, `at`, `incarnation`, `leaving` | `leaving` = the incarnation that was asked to end while a person's draining
    stands here; missing = none
`restart`: `by`, `why`, `at`, `until`, `incarnation`, `moves`, `capacity`, `rack`, `attributes` | a planned restart; missing = none.
    While it holds, the partitions that this incarnation owns wait for the next one, and its absence causes no plan. With `moves` the
    incarnation gives everything away, and `partitions` (topic → partitions) go back to its successor. It ends at `until`. A restart
    that begins further ahead than it lasts was noted by a clock that has jumped, and does not hold
""",
    "leaving/[CONSUMER]": """
That a consumer wants to end: the fields of `draining` above. A consumer whose ZooKeeper account is not the coordinator's writes its
`draining` here, since it cannot write directives. The coordinator reads it as part of the directive. It counts only with the number
of one incarnation.
""",
    "fleet/[APP]": """
The consumers that should run. Draining removes a consumer from the fleet in the directive's transaction.

`application`, `consumers`, `arguments`, `conf`, `environment` | what to launch, and the ids
`code` | `{code}` in application and arguments stands for it
`replaced` | consumer → the incarnation that a redeployment ends
`name`, `versions` | name of the version that these fields are; name → another version that the fleet had or gets, with the same
    fields, the one before the present one last. An upgrade that is over keeps five
`runs` | consumer → the name of the version that it runs, if it is another one; only during an upgrade. An older launcher does not
    know it
""",
    "config/[TOPIC]": """
A managed topic.

`topic`, `topicId`, `bootstrap.servers`, `group.id`, `startingOffsets`, `initialPartitions`, `properties` | as in `assignments/[TOPIC]`
`strategy`, `parameters` | empty = the cluster's strategy
`pins` | partition → consumer
`paused`, `frozen`, `removed` | paused partitions; no plan for membership; no longer managed
`split` | how an upgrade moves partitions; missing = none. It reserves `partitions` for `consumers` of `fleet`, and keeps these
    consumers from all other partitions: [the rules](../architecture.md#fleets-and-upgrades)
`rollback` | a person's wish for the assignment before an earlier `rebalance`; missing = none. `assignments` (partition → consumer),
    `targets` (consumer → incarnation, of those that could be given partitions), `by`, `why`, `at`, `for` (seconds; 0 = until the
    targets change). Pins come before it, the strategy after it. The plan that finds it over removes it in its own transaction, so
    it never returns when the former membership does
`approval` | a person's answer to one plan that exceeds the site's budget; missing = none. `digest` (over the plan's inputs and
    moves), `granted`, `by`, `why`, `at`. A plan with another digest needs an answer of its own
""",
    "upgrades/[APP]": """
The last upgrade of a fleet. [How it is continued](../architecture.md#fleets-and-upgrades).

`old`, `new`, `oldName`, `newName` | the two versions, with the fields of a fleet, and their names: a way back, whatever the fleet says
`oldConsumers`, `newConsumers` | who runs which. The new ones are in the splits; the old ones drain at the end
`topics`, `steps`, `hold`, `patience` | what it is for; percent; seconds
`rule` | when a step fails: `maxLag` (seconds), `maxErrors`, `minRate` (share), `call` (a name in the setting `rules`)
`phase`, `step`, `since`, `began` | where it stands, and since when
`chosen` | topic → the partitions reserved for the new consumers. Written before the splits, so a repeated write is the same
`mark` | `at` and `positions` when the measuring began, for records per second since then
`baseline` | topic → partition → records per second before anything moved. A partition is compared with itself
`incarnations` | of the new consumers when they had started. A later start of one of them is an error
`reason`, `paused` | why it goes back; why nothing is done
`outage` | `text`: what both versions depend on and is away, since `at`; `over`: since when it is back. Missing = none. No step begins
    or is judged; the entry outlives the process that saw it
`away` | since when new consumers alone reported that the sink is away, in this step; missing = they did not. After `patience` more
    such reports pause the upgrade
`suspected` | since when the present step fails; a failure counts when it has lasted ten seconds
`by`, `why`, `events` | who asked; what was done, each with `at` and `text`, for the report
""",
    "history/[TOPIC]/[SEQ]": """
One record per transition, written by the transition's own transaction. At least 10,000 records are kept; a separate write prunes.

`topic`, `from`, `to`, `epoch`, `generation`, `rebalance`, `cause`, `at` | what happened
`actor` | `kind`, `who`, `dag`, `run`, `task`, `try`
`lasted`, `rebalanceLasted` | in the former state; the whole rebalance
`moves` | `kind`, `from`, `to`, `partitions`
`confirmed`, `counts`, `digest`, `incarnations` | incarnations: consumer → the incarnation that its partitions are granted to
`unasked` | nobody asked for the cause: a consumer was lost, or is back after that; missing = somebody did, and the record does not
    count as flapping
`plan` | if a strategy was asked: its `strategy`, a digest of all its `inputs`, a `summary`, and `reasons` (`text`, `partitions` as
    `0-3,7`) of as many moves as fit into 2 % of the transaction, those of most partitions first
`wasAt`, `undoes` | of the plan of a reset of offsets: partition → the committed offset before it; the rebalance that it takes back
`pauses` | of the record that ends a rebalance, added by a later write:
    [how long each moved partition stood still](../architecture.md#how-long-a-partition-stands-still)
`pauses`: `base`, `partitions` | a time; the columns below have one entry for each partition
`pauses`: `last`, `released`, `first` | milliseconds after `base`: the giver's last record passed the sink (`ago.passed` before the
    release's write); the release was written (ZooKeeper's time); the taker's first record passed the sink (`ago` before its answer)
`pauses`: `records`, `bytes` | what waited for the taker's first batch: the log's end as the taker knew it then, minus its start;
    times the mean size, where records are measured
`pauses`: `wait` | milliseconds, the total, the longest wait of one record: `first` minus the later of `last` and the arrival of the
    first record after it
`pauses`: `error`, `least`, `most` | milliseconds within which the true total lies; partitions whose `wait` is a lower bound; the
    upper bound of their totals, `first` minus the time of the giver's last commit
`pauses`: `usual` | milliseconds; from the release, or the giver's last commit; of an older giver, what the other partitions did just
    before. `most` and `usual` are optional: records of earlier releases have neither, and earlier releases read records that have
    them. A release that does not know them drops them if it completes such a record
`pauses`: `missing`, `unmoved`, `leftOut` | how many moved partitions have no measure; `longest` and `before` (seconds), `partition`,
    `consumer` and `partitions`; sentences
""",
    "history/:asked/[SEQ]": """
One record per action of a person, written by the action's own transaction. At least 10,000 records are kept. A task of Airflow that
is tried again and finds its own record is not refused for what it has done.

`action`, `about`, `actor`, `at`, `why` | about: the topic, consumer or fleet; actor as above
`changes` | `node`, `field`, and its JSON `before` and `after`, each at most 500 characters
""",
    "history/:growth/[APP]": """
How a fleet grows. A change of the fleet and the memory of it are one transaction. The policy is the pure function `core/fleet/growth.py`.

`limits` | of a person
`memory` | the measured `capacity` of one consumer (records/s), past `decisions`, `wanted`, and the `latest` decision
`decisions`: `kind`, `at`, `count`, `desired`, `reasons`, `leaves`, `moves`, `throughput`, `lag`, `acted` | one decision
`wanted` | (time, consumers needed) pairs of the first look and of later ones; a pair that a later need equals or exceeds is dropped
""",
    "history/:lag/[MINUTE]": """
How far everything was behind: a ring of 60 nodes, `00` to `59`, each with one moment; a moment replaces the one of an hour ago.
`reconcile` (or the plain loop) writes one a minute: it asks Kafka for the committed offsets and the logs' ends, and the owners of
partitions whose lag stands still whether they run. The live page and all metrics read the same moments, so every API server shows
the same trend and [status](../metrics.md#burrows-status), also after a restart. A moment is judged once, when it is written, by the
twenty before it.

The value is `{"version": 1, "packed": TEXT}`. It takes about 400 bytes for 12 partitions, 10 KB for 1,000 and 96 KB for 10,000; 484 KB
for 20,000 if no number repeats. No decision is made from it. A moment that cannot be read, or has an unknown version, is named, left
out, and not overwritten. If two write at once, one of them has written.

`at`, `consumers`, `leftOut` | time; names; partitions beyond 20,000
`topics` | each with `topic`, `group`, `partitions` (ranges) and the columns below, with one entry for each partition
`owners`, `offsets`, `lags` | place in `consumers`, -1 = nobody; committed; records
`late` | tenths of a second since which the next record has been in the log, -1 = unknown
`statuses`, `commits` | Burrow's numbers; 1 = it counts as a commit
""",
    "The file of export": """
Lines of JSON. `KINDS` in `coordinator_tasks/core/codecs/node_kinds.py` says of each kind of node whether it is in the file. Left out
is what a recovery makes again: after an `import` the committed epochs are above those of a new node, as after a loss of ZooKeeper. Of
`ids` all is kept but `absence`, `refused` and `registrations`: the counters go on, and the ends that are known let a recovery give
partitions away at once.

`format`, `version`, `cluster`, `release`, `at` | first line; version 1
`zxid`, `nodes`, `sha256` | first line: the newest change among what was read; the number of nodes; over this line without `sha256`
    and all others
`path`, `data` | every other line: a node's path below the cluster's node, and its data as text
""",
    "The metadata of a committed offset": """
Not a node: each commit in Kafka carries it.

"v", "g", "e", "i", "o", "c", "t" | format; generation, epoch and incarnation of the token; owner; cluster; topic id
"p" | only for the [measure of pauses](../architecture.md#how-long-a-partition-stands-still); earlier releases neither write nor read
    it. The committed records had passed the sink `a` seconds after their owner had read the topic's node of epoch `n`; `u` is the
    usual stall
""",
}

STATUS = """
`consumer`, `cluster`, `incarnation`, `bootId` | who
`health` | `ok`, `detached`, `leaving`, `failed: `, `stuck: ` or `failing: ` with the reason
`reports` | problems in sentences; also of each topic
`generation`, `actedEpoch`, `queryAlive`, `lastBatch` | of each topic
`running` | of each topic: partition → the fields below
`position`, `lag`, `rate`, `recordBytes` | next offset; records behind; records written to it per second; their mean size, where sampled
`token`, `started`, `closing` | of the ownership
`taken`: `waited`, `ago`, `batch`, `released`, `lastPass` | for a quarter of an hour after the grant: records that waited; seconds since
    its first record passed the sink; seconds that this batch took; seconds from the read of the release; `p` of the commit where it began
`overwritten`: `by`, `epoch`, `ago` | for five minutes: the last commit over the owner's under an older token (0 = no token), and seconds
    since then
`stalls` | epoch → `longest` (seconds), `partition`, `partitions` and `before`: of what it kept under the last few epochs
`failures` | what a sink or a pipeline fails at; missing = none. `partitions` (empty = the topic is not read), `why`, `tries`, `for` and
    `next` (seconds since the first failure, and until the next try), `away` (true = the sink does not answer; missing = false)
`held` | partition → epoch of everything that the accepted node lets it run or take over, started or not. A recovery counts with it
    after ZooKeeper was lost: otherwise a consumer that had accepted a hand-off and not started it could start later, beside another
    owner
"""
