"""Export of the coordinator's whole state to a file, and import into an empty cluster, also of another ZooKeeper.

The first line is a header; each further line is a node. `core.codecs.node_kinds` lists the exported nodes, and says why
other nodes are not exported. The file is outside input: before any write, codecs check every line.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from coordinator_tasks import __version__
from coordinator_tasks.core.codecs.codec import decode_config
from coordinator_tasks.core.codecs.history_codec import encode_asked
from coordinator_tasks.core.codecs.member_codec import decode_claim
from coordinator_tasks.core.codecs.node_kinds import HISTORIES, KINDS, RECORD_DIGITS, NodeKind, kind_of, rank_of
from coordinator_tasks.core.codecs.shape import VERSION
from coordinator_tasks.core.errors import UNREADABLE, CoordinatorError, LookAgain, Malformed, Refused, UnknownVersion
from coordinator_tasks.core.fleet.upgrade import OVER
from coordinator_tasks.core.machine.life import interfaces
from coordinator_tasks.core.model import ActionRecord, Actor, ConsumerStatus
from coordinator_tasks.core.names import is_topic
from coordinator_tasks.core.ports import Create, Node
from coordinator_tasks.core.protocol.znodes import children, chunks, find_many
from coordinator_tasks.core.text.json_fields import MAX_BYTES as MAX_NODE_BYTES
from coordinator_tasks.core.text.json_fields import Fields, read_json
from coordinator_tasks.core.text.partition_text import shown
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes.history import KEEP
from coordinator_tasks.service.nodes.topics import check_other_clusters
from coordinator_tasks.service.nodes.upgrade_store import find, fleets_with_upgrades

FORMAT = "partition coordinator state"
MAX_BYTES = 256 * 1024 * 1024
MAX_LINE = 2 * MAX_NODE_BYTES + 1_000
"""Maximum bytes of a line. A quotation mark in a node's data takes two bytes in the line."""
MAX_NODES = 1_000_000
_CHUNK = 200
_MAX_READS = 20
_WRITE_BYTES, _WRITE_NODES = 500_000, 500
"""Limits of a transaction."""
_HEADER_BYTES = 1_000
_AGAIN = "take another copy of it, or export again"


@dataclass(frozen=True, slots=True)
class StateFile:
    """The content of a file. `nodes`: path below the cluster's node → data. `left_out`: path → why it is unreadable.

    `zxid`: ZooKeeper's number of the newest change in the nodes.
    """

    cluster: str
    at: float
    zxid: int
    nodes: Mapping[str, bytes]
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """Return kind → number of its nodes."""
        kinds = [kind_of(path) for path in self.nodes]
        return {name: kinds.count(kind) for name, kind in KINDS.items() if not kind.left}


@dataclass(frozen=True, slots=True)
class Plan:
    """The writes of an import. `missing`: the nodes to write, in order. `there`: number of nodes that exist already."""

    state: StateFile
    missing: tuple[str, ...]
    there: int


# Export --------------------------------------------------------------------------------------------------------------


def take(c: Coordinator, keep: int = KEEP) -> StateFile:
    """Return the present state, with the newest `keep` records of each history. Write nothing.

    `left_out` names unreadable nodes. Raises `Refused` while an upgrade is under way, and the `Unavailable` kinds.
    """
    c.zk.sync()
    _check_upgrades(c)
    nodes, left_out, zxid = dict[str, bytes](), dict[str, str](), 0
    records = [one for one in _places(c) if one[0].numbered]
    for kind, folder in records:
        paths = _paths(kind, folder, _names(c, folder))[-keep:] if keep else []
        found = [data for data, _ in _read(c, kind, paths, left_out).values()]
        # Number the records from 0, as ZooKeeper does in an empty folder. The next record then gets the number after
        # the last.
        nodes |= {f"{folder}/{number:0{RECORD_DIGITS}d}": data for number, data in enumerate(found)}
    for path, (data, node) in _read_together(c, left_out).items():
        nodes[path], zxid = data, max(zxid, node.stat.modified_zxid)
    return StateFile(c.paths.cluster, c.clock.now(), zxid, dict(sorted(nodes.items())), left_out)


def _check_upgrades(c: Coordinator) -> None:
    for app in fleets_with_upgrades(c):
        with suppress(*UNREADABLE):  # `left_out` names the unreadable node
            found = find(c, app)
            if found is not None and found.phase not in OVER:
                raise Refused(
                    f"the {found.said} is under way, and its steps cannot be exported; export when it is over, or roll it back first"
                )


def _places(c: Coordinator) -> Iterator[tuple[NodeKind, str]]:
    """Yield each folder that may have exported nodes, with their kind, in the order of `KINDS`."""
    for kind in KINDS.values():
        if kind.folder == f"{HISTORIES}/*":
            yield from ((kind, f"{HISTORIES}/{one}") for one in children(c.zk, c.paths.histories) if is_topic(one))
        elif not kind.left:
            yield kind, kind.folder


def _names(c: Coordinator, folder: str) -> list[str]:
    return children(c.zk, f"{c.paths.base}/{folder}")


def _paths(kind: NodeKind, folder: str, names: Iterable[str]) -> list[str]:
    return [f"{folder}/{name}" for name in names if kind.allowed(name)]


def _read_together(c: Coordinator, left_out: dict[str, str]) -> dict[str, tuple[bytes, Node]]:
    """Return all nodes except records, as of one moment: two successive reads have to agree."""
    before: dict[str, tuple[bytes, Node]] = {}
    for number in range(_MAX_READS):
        unread, found = dict[str, str](), dict[str, tuple[bytes, Node]]()
        for kind, folder in _places(c):
            if not kind.numbered:
                found |= _read(c, kind, _paths(kind, folder, _names(c, folder)), unread)
        if number and found == before:
            left_out |= unread
            return found
        before = found
    raise LookAgain(f"{c.paths.base} changed {_MAX_READS} times while it was being read; export again")


def _read(
    c: Coordinator, kind: NodeKind, paths: Sequence[str], left_out: dict[str, str]
) -> dict[str, tuple[bytes, Node]]:
    """Return path → the data to export, and the node. Nodes deleted meanwhile are left out."""
    found: dict[str, tuple[bytes, Node]] = {}
    for some in chunks(paths, _CHUNK):
        denied: dict[str, CoordinatorError] = {}
        nodes = find_many(c.zk, {path: f"{c.paths.base}/{path}" for path in some}, denied)
        left_out |= {path: error.told for path, error in denied.items()}
        for path, node in nodes.items():
            try:
                found[path] = kind.checked(f"{c.paths.base}/{path}", node.data, path.rpartition("/")[2]), node
            except Malformed as error:
                left_out[path] = error.problem
    return found


def encode(state: StateFile) -> bytes:
    """Return the bytes of the file; raises `Refused` if the file is too large for an import."""
    lines = [_line({"path": path, "data": data.decode()}) for path, data in state.nodes.items()]
    body = b"".join(lines)
    if len(body) + _HEADER_BYTES > MAX_BYTES:
        raise Refused(
            f"the state has {len(body)} bytes, and a file may have {MAX_BYTES}; export fewer records with --records"
        )
    header = {
        "format": FORMAT,
        "version": VERSION,
        "cluster": state.cluster,
        "release": __version__,
        "at": state.at,
        "zxid": state.zxid,
        "nodes": len(lines),
    }
    return _line({**header, "sha256": _digest(header, body)}) + body


def _line(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _digest(header: Mapping[str, Any], body: bytes) -> str:
    """Return the digest of the header (without its `sha256`) and of all other lines."""
    digest = hashlib.sha256(_line(header))
    digest.update(body)
    return digest.hexdigest()


# Import --------------------------------------------------------------------------------------------------------------


def decode(path: str, raw: bytes) -> StateFile:
    """Read a file written by `encode`. Raises `Refused` with the file, the line, the problem and the remedy."""
    if len(raw) > MAX_BYTES:
        raise Refused(f"{path} has {len(raw)} bytes, more than {MAX_BYTES}; {_AGAIN}")
    first, _, body = raw.partition(b"\n")
    header = _header(path, first)
    if _digest({name: one for name, one in header.data.items() if name != "sha256"}, body) != header.data["sha256"]:
        raise Refused(f"{path} is not as it was written: its checksum is another one; {_AGAIN}")
    count, nodes = header.number("nodes", most=MAX_NODES), dict[str, bytes]()
    begin, number = 0, 1
    while begin < len(body):
        end, number = body.find(b"\n", begin), number + 1
        if end < 0 or end - begin > MAX_LINE:
            raise _bad(path, number, f"is not whole, or has more than {MAX_LINE} bytes")
        place, data = _node(path, number, body[begin:end])
        if place in nodes:
            raise _bad(path, number, f"has {place} a second time")
        nodes[place] = data
        begin = end + 1
    if len(nodes) != count:
        raise Refused(f"{path} has {len(nodes)} nodes, and its header says {count}; {_AGAIN}")
    _check_numbers(path, nodes)
    return StateFile(header.text("cluster"), header.time("at"), header.number("zxid"), nodes)


def _header(path: str, line: bytes) -> Fields:
    try:
        header = Fields.parse(f"{path} line 1", line, VERSION, _HEADER_BYTES, once=True)
        if header.text("format") != FORMAT:
            raise header.bad("format", f"is not {FORMAT!r}")
        header.text("cluster"), header.time("at"), header.number("zxid"), header.text("sha256")
        header.number("nodes", most=MAX_NODES)
    except UnknownVersion as error:
        raise Refused(f"{error.path} {error.problem}; import it with the release that wrote it") from error
    except Malformed as error:
        raise Refused(f"{error.path}: {error.problem}; name a file that `coordinator export` has written") from error
    return header


def _node(file: str, number: int, line: bytes) -> tuple[str, bytes]:
    """Return path and data of a line."""
    try:
        found = read_json(line.decode(), once=True)
    except ValueError as error:
        raise _bad(file, number, f"is not JSON in UTF-8 ({error})") from error
    if not isinstance(found, dict) or found.keys() != {"path", "data"}:
        raise _bad(file, number, "is not an object with path and data")
    path, text = found["path"], found["data"]
    if not isinstance(path, str) or not isinstance(text, str):
        raise _bad(file, number, "has a path or data that is no text")
    kind = kind_of(path)
    if kind is None:
        raise _bad(file, number, f"has the path {path[:80]!r}, which no exported node has")
    try:
        return path, kind.checked(path, text.encode(), path.rpartition("/")[2])
    except Malformed as error:
        raise _bad(file, number, f"has {error.path}, which {error.problem}") from error


def _bad(file: str, number: int, problem: str) -> Refused:
    return Refused(f"{file} line {number} {problem}; nothing was imported, {_AGAIN}")


def _check_numbers(file: str, nodes: Collection[str]) -> None:
    """Check that records are numbered from 0 without a gap. Behind a gap, ZooKeeper would use a number twice."""
    found: dict[str, list[int]] = {}
    for path in nodes:
        kind, (folder, _, name) = kind_of(path), path.rpartition("/")
        if kind is not None and kind.numbered:
            found.setdefault(folder, []).append(int(name))
    for folder, numbers in found.items():
        if sorted(numbers) != list(range(len(numbers))):
            raise Refused(f"{file} has a gap in the numbers of {folder}; nothing was imported, {_AGAIN}")


def plan(c: Coordinator, state: StateFile, cluster: str = "") -> Plan:
    """Return the writes of `restore`. `cluster`: the name in the file, if it differs and a person has confirmed it.

    Raises `Refused` unless this cluster is empty or has only nodes of an import of this file, and no consumer is
    registered or answers. Raises `TopicConflict` if another cluster of this ZooKeeper manages one of the topics.
    """
    own = c.paths.cluster
    if state.cluster != (cluster or own):
        raise Refused(
            f"the file is of cluster {state.cluster[:80]!r}, not of {cluster or own!r}; choose another file, or say "
            f"--from-cluster {state.cluster[:80]} if cluster {own!r} is to go on with its topics"
        )
    c.zk.sync()
    there = _there(c)
    missing = tuple(sorted((path for path in state.nodes if path not in there), key=rank_of))
    foreign = sorted(path for path, data in there.items() if state.nodes.get(path) != data)
    if all(there.get(path) == data for path, data in state.nodes.items()):
        return Plan(state, (), len(state.nodes))  # an import of this file is complete; later nodes stay
    members = sorted({*c.discovery.members(), *children(c.zk, c.paths.members)})
    if members:
        raise Refused(f"consumers are registered ({shown(members)}); stop them, and start them after the import")
    if running := _running(c, state):
        raise Refused(
            f"consumers of the file still run ({shown(running)}); stop them, and start them with this ZooKeeper after the import"
        )
    if planned := _planned(c):
        foreign.append(planned)
    if foreign:
        raise Refused(
            f"cluster {own!r} is not empty: it has {shown(foreign)}, not as in the file; import into an empty cluster, or "
            f"remove {c.paths.base} in ZooKeeper first if nothing in it is needed"
        )
    configs = [decode_config(path, data) for path, data in state.nodes.items() if path.startswith("config/")]
    check_other_clusters(c, *configs)
    return Plan(state, missing, len(there))


def _running(c: Coordinator, state: StateFile) -> list[str]:
    """Return the unregistered consumers that answer at their last registered address."""
    names = [path.removeprefix("ids/") for path in state.nodes if path.startswith("ids/")]
    claims = {name: decode_claim(name, state.nodes[f"ids/{name}"], name, 0) for name in names}
    answers = c.statuses.ask(interfaces(names, {}, claims))
    return [
        f"{name} at {claims[name].address}"
        for name, one in answers.items()
        if isinstance(one, ConsumerStatus) and (one.consumer, one.cluster) == (name, state.cluster)
    ]


def _there(c: Coordinator) -> dict[str, bytes]:
    """Return path → data of every node of an exported kind. An unreadable node has empty data."""
    found: dict[str, bytes] = {}
    for kind, folder in _places(c):
        names = _names(c, folder)
        found |= dict.fromkeys((f"{folder}/{name}" for name in names), b"")
        found |= {path: data for path, (data, _) in _read(c, kind, _paths(kind, folder, names), {}).items()}
    return found


def _planned(c: Coordinator) -> str:
    """Return the path of a node that a plan has written; empty if there is none."""
    if states := children(c.zk, c.paths.states):
        return f"state/{states[0]}"
    topics = {one: c.paths.topic(one) for one in children(c.zk, c.paths.assignments) if is_topic(one)}
    return next((f"assignments/{one}" for one, node in find_many(c.zk, topics).items() if node.data), "")


def restore(c: Coordinator, wanted: Plan, actor: Actor, why: str = "") -> None:
    """Write the missing nodes. After an interruption, `plan` and `restore` of the same file continue.

    Topics and fleets are written last. Raises `LookAgain` if another process writes the same nodes, and
    `StoreUnavailable`.
    """
    places = dict.fromkeys(f"{c.paths.base}/{path}".rpartition("/")[0] for path in wanted.state.nodes)
    for folder in (*places, c.paths.asked):
        c.zk.ensure(folder)
    creates = [Create(f"{c.paths.base}/{path}", wanted.state.nodes[path]) for path in wanted.missing]
    *before, last = _batches(creates) or [[]]
    for batch in before:
        c.zk.transact(batch)
    if last:
        entry = ActionRecord("import", c.paths.cluster, actor, c.clock.now(), why)
        c.zk.transact([*last, Create(f"{c.paths.asked}/", encode_asked(entry), sequence=True)])


def _batches(creates: Sequence[Create]) -> list[list[Create]]:
    """Split the nodes into transactions that are small enough for ZooKeeper."""
    found: list[list[Create]] = []
    size = 0
    for one in creates:
        size += len(one.path) + len(one.data)
        if not found or size > _WRITE_BYTES or len(found[-1]) == _WRITE_NODES:
            found.append([])
            size = len(one.path) + len(one.data)
        found[-1].append(one)
    return found
