"""The records of upgrades in ZooKeeper: one record for each fleet, changed by compare-and-set."""

from collections.abc import Sequence
from dataclasses import replace

from coordinator_tasks.core.codecs.upgrade_codec import decode_upgrade, encode_upgrade
from coordinator_tasks.core.errors import BadUpgrade, LookAgain, NotManaged
from coordinator_tasks.core.fleet.upgrade import Upgrade
from coordinator_tasks.core.names import check_app, is_app
from coordinator_tasks.core.ports import Operation, VersionCheck
from coordinator_tasks.core.protocol.znodes import children, put, written
from coordinator_tasks.core.text.partition_text import shown
from coordinator_tasks.service.coordinator import Coordinator


def fleets_with_upgrades(c: Coordinator) -> list[str]:
    """Return the fleets with a record of a present or past upgrade."""
    return list(filter(is_app, children(c.zk, c.paths.upgrades)))


def find(c: Coordinator, app: str) -> Upgrade | None:
    """Return the fleet's last upgrade. Raises `Malformed`."""
    path = c.paths.upgrade(check_app(app))
    node = c.zk.find(path)
    return None if node is None else decode_upgrade(path, node.data, app, node.stat.version)


def read(c: Coordinator, app: str) -> Upgrade:
    """Return the fleet's last upgrade. Raises `NotManaged` if the fleet was never upgraded."""
    found = find(c, app)
    if found is None:
        listed = shown(fleets_with_upgrades(c)) or "none"
        raise NotManaged(
            f"the fleet {app!r} has no upgrade (fleets with one: {listed}); begin one, or correct the name"
        )
    return found


def write(c: Coordinator, upgrade: Upgrade) -> Operation:
    """Return the write of a record at its version. Raises `BadUpgrade` if the record is too large."""
    data = encode_upgrade(upgrade)
    if len(data) > c.policy.max_write_bytes:
        raise BadUpgrade(
            f"the record of the {upgrade.said} has {len(data)} bytes, more than {c.policy.max_write_bytes}; roll it back, and "
            "upgrade with fewer topics at a time"
        )
    return put(c.paths.upgrade(upgrade.app), data, upgrade.version)


def save(c: Coordinator, upgrade: Upgrade, beside: Sequence[Operation] = ()) -> Upgrade | None:
    """Write the record and `beside` in one transaction. Return `None` if another process was faster."""
    done = written(c.zk, [write(c, upgrade), *beside])
    return replace(upgrade, version=upgrade.version + 1) if done else None


def guarded(c: Coordinator, upgrade: Upgrade, operations: Sequence[Operation]) -> bool:
    """Apply these writes if the record is unchanged. Return False if another node has changed; the caller tries again.

    Raises `LookAgain` if the record has changed.
    """
    if not operations or written(c.zk, [VersionCheck(c.paths.upgrade(upgrade.app), upgrade.version), *operations]):
        return True
    if read(c, upgrade.app).version != upgrade.version:
        raise LookAgain(f"the {upgrade.said} was changed by somebody else meanwhile; it continues")
    return False
