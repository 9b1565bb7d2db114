"""Checks and sets the access lists of existing nodes."""

from collections.abc import Sequence

from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import ACL

from coordinator_tasks.adapters.zookeeper import PIPELINE, KazooZooKeeper
from coordinator_tasks.core.errors import NodeMissing, Refused


def check_closed(zk: KazooZooKeeper, folders: Sequence[str]) -> None:
    """Raise `Refused` for folders that other accounts may change or own. Without a log-in, do nothing.

    The first folder contains the others. Missing folders are skipped. But if only the coordinator may create folders, a
    missing folder raises `StoreUnavailable`.
    """
    lists = zk.access_lists
    if not lists.access.closes_nodes:
        return
    top = zk.full(folders[0])
    for folder in folders:
        full = zk.full(folder)
        try:
            acls = access_list(zk, folder)
        except NodeMissing:
            if not lists.may_create(folder):
                raise lists.missing(full) from None
            continue
        except Refused as error:
            raise lists.foreign(full, top) from error
        lists.check_closed(full, acls, top, zk.prefix)


def wrong_access_lists(zk: KazooZooKeeper, top: str) -> tuple[int, list[str]]:
    """Return the number of nodes (`top` and below), and a sentence for each node whose access list is wrong."""
    count, problems, wanted = 0, list[str](), [top]
    while wanted:
        path = wanted.pop()
        try:
            check_closed(zk, [path])
            wanted += [f"{path}/{child}" for child in zk.children(path)]
        except NodeMissing:
            continue  # the node vanished
        except Refused as error:
            problems.append(str(error))
        count += 1
    return count, problems


def set_access_lists(zk: KazooZooKeeper, top: str) -> int:
    """Give `top` and all nodes below the access lists that new nodes would get. Return the number of changed nodes.

    Raises `Refused` for a node whose access list this account may not change.
    """
    lists, wanted, done = zk.access_lists, [top], 0
    while wanted:
        sent = [(path, zk.client.set_acls_async(zk.full(path), lists.acl_of(path))) for path in wanted[:PIPELINE]]
        below: list[str] = []
        for path, answer in sent:
            try:
                answer.get(timeout=zk.limit_s)
                below += [f"{path}/{child}" for child in zk.children(path)]
                done += 1
            except (NoNodeError, NodeMissing):
                continue  # the node vanished
            except NoAuthError as error:
                raise lists.foreign(zk.full(path), zk.full(top)) from error
            except (KazooException, KazooTimeoutError) as error:
                raise zk.translated(error, path) from error
        wanted = [*wanted[PIPELINE:], *below]
    return done


def access_list(zk: KazooZooKeeper, path: str) -> list[ACL]:
    """Return a node's access list; raises `NodeMissing` and `Refused`."""
    return zk.repeat(path, lambda: zk.client.get_acls_async(zk.full(path)), lambda answer: list(answer[0]))
