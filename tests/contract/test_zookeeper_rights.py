"""An open folder, a folder of another account and too many rights are refused at the start, on a real ZooKeeper.

The refusal names the command that corrects the folder.
"""

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.security import ACL, ANYONE_ID_UNSAFE, CREATOR_ALL_ACL, Permissions

from coordinator_tasks.adapters.zookeeper import KazooZooKeeper
from coordinator_tasks.adapters.zookeeper_access import ZooKeeperAccess
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.ports import Create
from coordinator_tasks.devstack.embedded import jars
from coordinator_tasks.java import QUICK_START_OPTIONS, find_java
from coordinator_tasks.wiring import Settings, open_consumer_session, open_coordinator
from spark_apps.launch import launcher_service
from tests.contract.test_zookeeper_login import ADA, EVE, Site, acl_of, login_site, new_cluster, settings_of


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with login_site(tmp_path_factory.mktemp("rights")) as site:
        yield site


def test_a_certificate_alone_closes_its_nodes(made: Site) -> None:
    cluster = new_cluster()
    ada = made.access(made.site.sign("ada"))
    with open_coordinator(settings_of(made, cluster, ada)) as c:
        c.zk.transact([Create(f"{c.paths.fleets}/etl", b"{}")])
    for path in ("", "/fleet", "/fleet/etl"):
        full = f"/{cluster}/consumers/{cluster}{path}"
        assert acl_of(made, full, ada) == [("x509", "CN=ada", 31)]
        assert acl_of(made, full, ZooKeeperAccess()) == "refused"
        assert acl_of(made, full, made.access(made.site.sign("bob"))) == "refused"
    with open_coordinator(settings_of(made, cluster, ada)), open_consumer_session(settings_of(made, cluster, ada)):
        pass


Opener = Callable[[Settings], object]
OPENERS: dict[str, Opener] = {"coordinator": open_coordinator, "consumer": open_consumer_session}


@pytest.mark.parametrize(("opener", "login"), [("coordinator", "digest"), ("consumer", "certificate")])
def test_an_open_folder_is_refused_with_the_command_that_closes_it(made: Site, opener: str, login: str) -> None:
    cluster = new_cluster()
    access = ADA if login == "digest" else made.access(made.site.sign("ada"))
    with open_coordinator(settings_of(made, cluster, ZooKeeperAccess())) as c:
        c.zk.transact([Create(f"{c.paths.fleets}/etl", b"{}")])
    settings = settings_of(made, cluster, access)
    with (
        pytest.raises(Refused, match="can be changed by anybody, although this site logs in") as caught,
        ExitStack() as s,
    ):
        s.enter_context(OPENERS[opener](settings))  # type: ignore[arg-type]
    said = str(caught.value)
    assert "zookeeper_access.open_nodes" in said
    type_in_zkcli(made, access, *commands_in(said))
    with ExitStack() as stack:
        stack.enter_context(OPENERS[opener](settings))  # type: ignore[arg-type]
    assert acl_of(made, f"/{cluster}/consumers/{cluster}/fleet/etl", ZooKeeperAccess()) == "refused"


def test_open_folders_are_the_sites_own_choice(made: Site) -> None:
    cluster = new_cluster()
    chosen = settings_of(made, cluster, replace(ADA, open_nodes=True))
    with open_coordinator(chosen), open_consumer_session(settings_of(made, cluster, ZooKeeperAccess())):
        pass


def set_acls(made: Site, access: ZooKeeperAccess, path: str, rights_of_all: int) -> None:
    zk = KazooZooKeeper(made.plain, access=access)
    zk.client.set_acls(path, [*CREATOR_ALL_ACL, ACL(rights_of_all, ANYONE_ID_UNSAFE)])
    zk.close()


@pytest.mark.parametrize(("opener", "readable"), [("consumer", False), ("coordinator", True)])
def test_a_folder_of_another_account_is_refused_with_the_command_that_moves_it(
    made: Site, opener: str, readable: bool
) -> None:
    cluster = new_cluster()
    with open_coordinator(settings_of(made, cluster, EVE)):
        pass
    if readable:
        for folder in ("", *(f"/{one.rpartition('/')[2]}" for one in Paths(cluster).folders())):
            set_acls(made, EVE, f"/{cluster}/consumers/{cluster}{folder}", Permissions.READ)
    settings = settings_of(made, cluster, ADA)
    with pytest.raises(Refused, match="belongs to another account than this one") as caught, ExitStack() as stack:
        stack.enter_context(OPENERS[opener](settings))  # type: ignore[arg-type]
    commands = commands_in(str(caught.value))
    assert commands[0] == "addauth digest USER:PASSWORD"
    type_in_zkcli(made, ADA, "addauth digest eve:other", *commands[1:])
    type_in_zkcli(made, ADA, *commands[1:])
    with ExitStack() as stack:
        stack.enter_context(OPENERS[opener](settings))  # type: ignore[arg-type]
    assert acl_of(made, f"/{cluster}/consumers/{cluster}/fleet", EVE) == "refused"


def test_the_launcher_service_refuses_an_open_fleet(
    made: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = new_cluster()
    with open_coordinator(settings_of(made, cluster, ZooKeeperAccess())):
        pass
    monkeypatch.setattr(launcher_service, "settings_from_environment", lambda: settings_of(made, cluster, ADA))
    assert (
        launcher_service.main(["--base", str(tmp_path / "run"), "--master", "local"]) == launcher_service.REFUSED_EXIT
    )
    assert "can be changed by anybody" in capsys.readouterr().err


def commands_in(said: str) -> list[str]:
    """What stands between back quotes, with the password that a person knows."""
    return [one.replace("ada:PASSWORD", "ada:pw") for one in re.findall(r"`([^`]+)`", said)]


def type_in_zkcli(made: Site, access: ZooKeeperAccess, *commands: str) -> None:
    """Type commands into ZooKeeper's own client, connected as the account."""
    hosts, options = made.plain, []
    if access.tls:
        hosts, both = made.tls, access.certificate.removesuffix(".crt") + ".both"
        stores = {"keyStore.location": both, "trustStore.location": access.ca}
        types = {"keyStore.type": "PEM", "trustStore.type": "PEM"}
        options = [f"-Dzookeeper.ssl.{name}={value}" for name, value in {**stores, **types}.items()]
        options += ["-Dzookeeper.client.secure=true"]
        options += ["-Dzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty"]
    done = subprocess.run(
        [
            *(str(find_java().executable), *QUICK_START_OPTIONS, *options, "-cp", jars.zookeeper_class_path()),
            *("org.apache.zookeeper.ZooKeeperMain", "-server", hosts),
        ],
        input="\n".join([*commands, "quit"]) + "\n",
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    said = done.stdout + done.stderr
    for failure in ("Insufficient permission", "KeeperErrorCode", "Command failed", "does not have the form"):
        assert failure not in said, said
