"""Watches: a path is armed once until it fires."""

from spark_apps.agent.zookeeper.watches import Watches


def test_a_path_is_armed_once_until_it_fires() -> None:
    woken: list[str] = []
    watches = Watches(lambda: woken.append("w"))
    fired = watches.arm("/t")
    assert fired is not None
    assert watches.arm("/t") is None
    assert not watches.take("/t")
    fired()
    assert (woken, watches.take("/t"), watches.take("/t"), watches.is_armed("/t")) == (["w"], True, False, False)
