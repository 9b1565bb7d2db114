"""What differs with MySQL and MariaDB: keys, idle connections, statements that end a transaction, and addresses."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator_tasks.core.errors import Refused
from spark_apps.delivery import SinkUnavailable
from spark_apps.delivery.database import Cursor, Database, RowSink
from spark_apps.delivery.dialects.mysql import DIALECT, _typed
from spark_apps.delivery.lineage import table_dataset
from tests.mysql_server import MySQLServer
from tests.sink_bench import ROWS


@pytest.fixture
def database(mysql: MySQLServer) -> Iterator[Database]:
    made = Database(mysql.url)
    yield made
    made.close()


def test_keys_are_compared_byte_by_byte(database: Database) -> None:
    names = RowSink(f"names_{uuid.uuid4().hex[:6]}", {"name": "TEXT"}, unique=["name"])
    wanted = ["tea", "Tea", "tea ", "te\u0301a", "téa"]
    with database.transaction() as cursor:
        names.prepare(cursor)
        names.write(cursor, [("orders", 0, offset, name) for offset, name in enumerate(wanted)])
        found = cursor.query(f'SELECT name FROM "{names.table}" ORDER BY "offset"')
    assert [name for (name,) in found] == wanted


def test_a_long_text_is_stored_and_a_long_key_is_refused(database: Database) -> None:
    texts = RowSink(f"texts_{uuid.uuid4().hex[:6]}", {"text": "TEXT"})
    with database.transaction() as cursor:
        texts.prepare(cursor)
        texts.write(cursor, [("orders", 0, 0, "x" * 100_000)])
        assert cursor.query(f'SELECT LENGTH(text) FROM "{texts.table}"') == [(100_000,)]
    with pytest.raises(DIALECT.error, match="Data too long"), database.transaction() as cursor:
        texts.write(cursor, [("t" * 300, 0, 1, "x")])


def test_a_statement_that_would_commit_the_rows_is_refused(database: Database) -> None:
    def store(cursor: Cursor) -> None:
        ROWS.prepare(cursor)
        ROWS.append(cursor, [("ended", 0, 0, "x")])
        cursor.execute("CREATE TABLE more (one INTEGER)")

    refusal = "would commit the rows of this transaction before `CREATE TABLE more"
    with pytest.raises(Refused, match=refusal), database.transaction() as cursor:
        store(cursor)
    with database.transaction() as cursor:
        assert cursor.query("SELECT COUNT(*) FROM texts WHERE topic = ?", ["ended"]) == [(0,)]


def test_a_connection_that_the_server_has_ended_is_made_anew(database: Database, mysql: MySQLServer) -> None:
    with database.transaction() as cursor:
        ((number,),) = cursor.query("SELECT CONNECTION_ID()")
    other = Database(mysql.url)
    with other.transaction() as cursor:
        cursor.execute(f"KILL {number}")
    other.close()
    with database.transaction() as cursor:
        assert cursor.query('SELECT "x" FROM (SELECT 1 AS x) AS one') == [(1,)], "the session is set again"


def test_a_server_that_dies_in_a_transaction_is_away(database: Database, mysql: MySQLServer) -> None:
    def killed(cursor: Cursor) -> None:
        ((number,),) = cursor.query("SELECT CONNECTION_ID()")
        other = Database(mysql.url)
        with other.transaction() as killing:
            killing.execute(f"KILL {number}")
        other.close()
        cursor.query("SELECT 1")

    with pytest.raises(SinkUnavailable, match="does not answer"), database.transaction() as cursor:
        killed(cursor)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("mysql://host", "cannot be read"),
        ("mysql://host:port/name", "cannot be read"),
        ("mysql://host/name?local_infile=1", "the parameter local_infile, which is not taken"),
        ("mysql://host/name?ssl_ca=ca.pem", "the database's parameter ssl_ca is no path"),
    ],
)
def test_a_harmful_or_unreadable_address_is_refused(url: str, problem: str) -> None:
    with pytest.raises(Refused, match=problem):
        Database(url)


def test_the_file_of_options_has_the_password(mysql: MySQLServer, tmp_path: Path) -> None:
    account = f"u{uuid.uuid4().hex[:6]}"
    admin = Database(mysql.url)
    with admin.transaction() as cursor:
        cursor.execute(f"CREATE USER {account}@localhost IDENTIFIED BY 'secret'")
        cursor.execute(f"GRANT ALL ON tests.* TO {account}@localhost")
    admin.close()
    options = tmp_path / "options.cnf"
    options.write_text(f"[client]\nuser={account}\npassword=secret\n")
    url = mysql.url.replace("root@", "") + f"&defaults_file={options}"
    database = Database(url.replace("mysql:", "mariadb:"))
    with database.transaction() as cursor:
        ((user,),) = cursor.query("SELECT CURRENT_USER()")
    database.close()
    assert user == f"{account}@localhost"


def test_a_text_in_a_key_gets_a_length() -> None:
    made = _typed('CREATE TABLE t ("a" TEXT, b TEXT, c BYTEA, PRIMARY KEY ("a"), UNIQUE (d))')
    assert made == 'CREATE TABLE t ("a" VARCHAR(255), b LONGTEXT, c LONGBLOB, PRIMARY KEY ("a"), UNIQUE (d))'


def test_a_text_that_is_a_key_by_itself_gets_a_length(database: Database) -> None:
    name = f"keys_{uuid.uuid4().hex[:6]}"
    with database.transaction() as cursor:
        cursor.execute(
            f'CREATE TABLE {name} (id TEXT PRIMARY KEY, "a" TEXT NOT NULL UNIQUE, b BYTEA UNIQUE, c TEXT NOT NULL)'
        )
        cursor.execute(f"INSERT INTO {name} VALUES (?, ?, ?, ?)", ["x" * 255, "y" * 255, b"z" * 1_000, "c" * 70_000])
        assert cursor.query(f"SELECT LENGTH(id), LENGTH(c) FROM {name}") == [(255, 70_000)]


def test_a_full_key_shortens_the_texts_without_a_limit_of_their_own() -> None:
    made = _typed("CREATE TABLE t (topic TEXT, a TEXT, b TEXT, c BYTEA, d TEXT, PRIMARY KEY (topic, a, b, c))")
    assert made == (
        "CREATE TABLE t (topic VARCHAR(249), a VARCHAR(134), b VARCHAR(134), c VARBINARY(1000), d LONGTEXT, "
        "PRIMARY KEY (topic, a, b, c))"
    )


def test_a_table_is_a_dataset_of_lineage() -> None:
    found = table_dataset("mysql://me@DB/shop", "orders")
    assert (found.namespace, found.name) == ("mysql://db:3306", "shop.orders")
