"""A real MariaDB on a Unix socket, from the system's package `mariadb-server`; without a MariaDB, a real MySQL.

`MYSQLD` names another server to test with: the path of a `mysqld` or a `mariadbd`.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pymysql
import pytest

from coordinator_tasks.devstack.embedded.processes import ManagedProcess, ProcessSpec

INSTALL_TIMEOUT_S = 120.0
PATHS = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))
MEMORY = "/dev/shm"  # a folder in memory: a statement that makes a table waits for the disk
# What makes the server safe against a power failure is not tested here.
SETTINGS = ("--innodb-buffer-pool-size=16M", "--innodb-flush-method=nosync", "--innodb-flush-log-at-trx-commit=2")
OF_MARIADB = ("--innodb-log-file-size=8M", "--skip-sync-frm")
OF_MYSQL = ("--innodb-redo-log-capacity=8M", "--mysqlx=OFF", "--skip-log-bin", "--secure-file-priv=NULL")


@contextmanager
def mysql_or_skip() -> Iterator["MySQLServer"]:
    """A server that has started; where neither MariaDB nor MySQL is installed, the test is skipped."""
    named = (os.environ.get("MYSQLD", ""), "mariadbd", "mysqld")
    server = next(filter(None, (shutil.which(name, path=PATHS) for name in named)), None)
    if server is None:
        pytest.skip("no MariaDB: install mariadb-server")
    with MySQLServer(server) as started:
        yield started


class MySQLServer:
    """One server with the database `tests`; `url` is what `spark_apps.delivery.database.Database` takes."""

    def __init__(self, server: str) -> None:
        version = subprocess.run([server, "--version"], capture_output=True, check=True, text=True).stdout
        self.is_mariadb = "MariaDB" in version
        self.folder = Path(tempfile.mkdtemp(prefix="mysql-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
        self._socket = self.folder / "socket"
        data, user = self.folder / "data", tuple[str, ...]()
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
            user = ("--user=nobody",)
        own = OF_MARIADB if self.is_mariadb else OF_MYSQL
        given = ("--no-defaults", f"--datadir={data}", *user, *SETTINGS, *own)
        install = shutil.which("mariadb-install-db", path=PATHS) if self.is_mariadb else server
        first = ("--auth-root-authentication-method=normal", "--skip-test-db")
        subprocess.run(
            [str(install), *given, *(first if self.is_mariadb else ("--initialize-insecure",))],
            capture_output=True,
            check=True,
            cwd=self.folder,
            timeout=INSTALL_TIMEOUT_S,
        )
        self.url = f"mysql://root@localhost/tests?unix_socket={self._socket}"
        argv = (server, *given, f"--socket={self._socket}", f"--pid-file={self.folder / 'pid'}", "--skip-networking")
        self.process = ManagedProcess(ProcessSpec("MySQL", argv, self.folder / "log", cwd=self.folder), self._ready)

    def __enter__(self) -> Self:
        self.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _ready(self) -> bool:
        try:
            with pymysql.connect(user="root", unix_socket=str(self._socket)) as connection:
                connection.cursor().execute("CREATE DATABASE IF NOT EXISTS tests")
        except pymysql.OperationalError:
            return False
        return True
