"""The consumer's agent: owned partitions, commits and status. Knows no Spark.

Packages: `process` (a consumer from registration to end), `zookeeper`, `interface`, `threads`, and `ownership` (owned
partitions, read and committed offsets; no threads and no real time, so the simulation runs the code unchanged). Calls
in `ownership` go down this list, never up: `TopicOwnership`; `Requests` with `Schedule`, `Batches`, `Listening`;
`Grants`; `Releasing`; `Holdings` and `OwnedPartition`.

Threads: the main thread does registration, ZooKeeper and the leave. Each topic has `agent-[TOPIC]` for all ownership
requests to Kafka and the sink, `callbacks-[TOPIC]` for the site's calls, and `spark-[TOPIC]`, which asks Spark for the
query, so that the main thread does not wait for a hanging JVM. `agent-link` answers the data source; `agent-status`
serves the interface. Each topic has a lock, held to change ownership, never during a wait for Kafka, ZooKeeper or the
sink. ZooKeeper's callbacks only note a path and wake the main thread.

The main thread takes a step when a watch fires or after a quarter of a second:

1. Check progress. A query that has ended or an owned partition without progress makes the consumer leave.
2. Register, if the session is new, and again every five seconds. If the registry does not answer later in the session, or
   the own registration cannot be read, the step reports the problem and continues.
3. Read the paths of fired watches; once a second, read directive, topic names and awaited releases; topic nodes at 1
   KB/s at most, and after 30 s.
4. Give each topic its node, its releases and an isolation. The topic then owns, closes or waits, and its threads are
   woken.
5. Write the due releases, by compare-and-set.
6. While leaving: mark the consumer as draining, wait for the hand-offs, stop the queries, and write the end together
   with the end of the registration in one transaction.

`agent-[TOPIC]` sends the first due request: commits of closing partitions; a fetch of all committed offsets (every 0.9
s, and before a commit if the last fetch is older than 2 s); other commits; the topic's id; a claim in the sink; the
bounds of the log, if no position is known; the log's end; the commit of an idle partition again, once an hour.
"""
