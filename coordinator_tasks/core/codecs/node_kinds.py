"""Every kind of znode of a cluster. `import` checks the kinds that are exported. Other kinds give a reason.

`KINDS` has a line for each path of `names.Paths`. Nodes about present ownership are not exported. After an import the
coordinator recovers ownership from the committed offsets and the consumers' answers, as after a loss of ZooKeeper.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from coordinator_tasks.core.codecs.codec import decode_config
from coordinator_tasks.core.codecs.growth_codec import decode_growth
from coordinator_tasks.core.codecs.history_codec import decode_asked, decode_record
from coordinator_tasks.core.codecs.member_codec import decode_claim, decode_directive, decode_fleet, encode_claim
from coordinator_tasks.core.codecs.upgrade_codec import decode_upgrade
from coordinator_tasks.core.errors import Malformed
from coordinator_tasks.core.fleet.upgrade import OVER
from coordinator_tasks.core.names import is_app, is_consumer, is_topic

RECORD_DIGITS = 10
"""Number of digits that ZooKeeper appends to a record's name."""
HISTORIES = "history"


@dataclass(frozen=True, slots=True)
class NodeKind:
    """A kind of node. `left`: why the kind is not exported. All other fields are for exported kinds.

    - `folder`: the path of the folder below the cluster's node; `*` stands for a topic.
    - `allowed`: whether a node in the folder may have this name.
    - `checked`: takes path, data and name; returns the data to store, or raises `Malformed`.
    - `numbered`: the nodes are records that ZooKeeper has numbered.
    """

    left: str = ""
    folder: str = ""
    allowed: Callable[[str], bool] = lambda _name: False
    checked: Callable[[str, bytes, str], bytes] = lambda _path, data, _name: data
    numbered: bool = False


def is_record(name: str) -> bool:
    """Return whether `name` is the number of a record."""
    return len(name) == RECORD_DIGITS and name.isascii() and name.isdigit()


def kind_of(path: str) -> NodeKind | None:
    """Return the kind of a path below the cluster's node; `None` if the node is not exported."""
    folder, _, name = path.rpartition("/")
    above, _, topic = folder.rpartition("/")
    wanted = f"{HISTORIES}/*" if above == HISTORIES and is_topic(topic) else folder
    found = next((kind for kind in KINDS.values() if not kind.left and kind.folder == wanted), None)
    return found if found is not None and found.allowed(name) else None


def rank_of(path: str) -> tuple[int, str]:
    """Return the sort key for the order of writes: by kind, as in `KINDS`, then by path."""
    found = kind_of(path)
    return next((place for place, kind in enumerate(KINDS.values()) if kind is found), len(KINDS)), path


def _claim(path: str, data: bytes, name: str) -> bytes:
    """Return the claim without observations from the former ZooKeeper: absence, refusals, registrations and ends."""
    claim = decode_claim(path, data, name, 0)
    return encode_claim(replace(claim, absence=None, refused_at=0.0, registrations=(), failed_at={}))


def _config(path: str, data: bytes, name: str) -> bytes:
    found = decode_config(path, data).topic
    if found != name:
        raise Malformed(path, f"is the configuration of topic {found[:80]!r}")
    return data


def _record(path: str, data: bytes, name: str) -> bytes:
    found, topic = decode_record(path, data, int(name)).topic, path.split("/")[-2]
    if found != topic:
        raise Malformed(path, f"is a record of topic {found[:80]!r}")
    return data


def _upgrade(path: str, data: bytes, name: str) -> bytes:
    found = decode_upgrade(path, data, name, 0)
    if found.phase not in OVER:
        raise Malformed(path, "is an upgrade that is under way")
    return data


def _as_it_is(decode: Callable[[str, bytes, str, int], Any]) -> Callable[[str, bytes, str], bytes]:
    """Return a check that keeps the data unchanged if the codec can read the data."""

    def checked(path: str, data: bytes, name: str) -> bytes:
        decode(path, data, name, 0)
        return data

    return checked


def _asked(path: str, data: bytes, name: str) -> bytes:
    decode_asked(path, data, int(name))
    return data


KINDS: Mapping[str, NodeKind] = {
    # This is the order of writes. Topics, and then fleets, come last: they take effect when all other nodes exist.
    "id": NodeKind("", "ids", is_consumer, _claim),
    "directive": NodeKind("", "directives", is_consumer, _as_it_is(decode_directive)),
    "record": NodeKind("", f"{HISTORIES}/*", is_record, _record, numbered=True),
    "asked": NodeKind("", f"{HISTORIES}/:asked", is_record, _asked, numbered=True),
    "growth": NodeKind("", f"{HISTORIES}/:growth", is_app, _as_it_is(decode_growth)),
    "upgrade": NodeKind("", "upgrades", is_app, _upgrade),
    "config": NodeKind("", "config", is_topic, _config),
    "fleet": NodeKind("", "fleet", is_app, _as_it_is(decode_fleet)),
    "topic": NodeKind("who owns what is recovered from committed offsets and consumers' answers, under a higher epoch"),
    "partition": NodeKind("the partitions are listed again from Kafka; a release is of one hand-off"),
    "state": NodeKind("where a topic stands follows from the recovery"),
    "member": NodeKind("a registration is of one session"),
    "leave": NodeKind("it is of one process, which has ended or asks again"),
    "lag": NodeKind("it is measured again each minute"),
    "history": NodeKind("a folder: its records are exported"),
    "growths": NodeKind("a folder: what is in it is exported"),
    "lags": NodeKind("a folder"),
}
"""The kinds, by the attribute of `names.Paths` that has their path. `asked`: the records in this folder."""
