"""Export the records of rebalances as lines of JSON, for sites that keep records for longer than ZooKeeper does.

A line is `{"version": 1, "cluster": ..., "topic": ..., "sequence": ..., "record": {...}}`, with the fields of
`history/[TOPIC]/[SEQ]` in the plain form. A later export continues after the last line of each topic.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from coordinator_tasks.core.codecs.history_codec import decode_record, record_fields
from coordinator_tasks.core.errors import UNREADABLE, Malformed
from coordinator_tasks.core.protocol.znodes import chunks, find_many
from coordinator_tasks.core.text.json_fields import Fields, dump
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import history
from coordinator_tasks.service.plan.pauses import COMPLETE_S

VERSION = 1
_MAX_LINE = 16 * 1024 * 1024
_CHUNK = 200


class Exported(NamedTuple):
    """The number and time of an exported record."""

    sequence: int
    at: float


def read_line(place: str, line: bytes) -> tuple[str, str, Exported]:
    """Return cluster, topic and record of the line at `place`. Raises `Malformed`, also for an unknown version."""
    fields = Fields.parse(place, line, VERSION, _MAX_LINE)
    exported = Exported(fields.number("sequence"), fields.nested("record").time("at"))
    return fields.text("cluster"), fields.text("topic"), exported


def lines(c: Coordinator, topics: Sequence[str], after: Mapping[str, Exported], problems: list[str]) -> Iterator[bytes]:
    """Yield a line for each record after `after` (topic → last exported record), oldest first in each topic.

    Records of the last ten minutes are not exported yet, because pauses may still be added to them. `problems` gets
    unreadable records and topics.
    """
    until = c.clock.now() - COMPLETE_S
    for topic in topics:
        try:
            yield from _of_topic(c, topic, after.get(topic), until, problems)
        except UNREADABLE as error:
            problems.append(error.told)


def _of_topic(c: Coordinator, topic: str, last: Exported | None, until: float, problems: list[str]) -> Iterator[bytes]:
    for chunk in chunks(_behind(c, topic, last), _CHUNK):
        paths = {name: f"{c.paths.history(topic)}/{name}" for name in chunk}
        for name, node in find_many(c.zk, paths).items():
            try:
                at, fields = decode_record(paths[name], node.data, int(name)).at, record_fields(paths[name], node.data)
            except Malformed as error:
                problems.append(error.told)
                continue
            if at > until:
                return
            line = {"cluster": c.paths.cluster, "topic": topic, "sequence": int(name), "record": fields}
            yield dump(VERSION, line) + b"\n"


def _behind(c: Coordinator, topic: str, last: Exported | None) -> Sequence[str]:
    """Return the names after the last exported record; all names if ZooKeeper lost its data since then."""
    names = history.names(c, topic)
    if last is None or (names and int(names[-1]) < last.sequence):
        return names
    name = f"{last.sequence:010d}"
    known = history.read(c, topic, [name]).get(name)
    if known is not None and known.at != last.at:
        return names  # ZooKeeper has started the numbers again
    return [one for one in names if int(one) > last.sequence]
