"""The sinks and the sample pipeline's tables, on SQLite."""

import os
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import conninfo_to_dict

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.model import Token
from spark_apps.delivery import Delivery, SinkEntry, SinkStep, SinkUnavailable, Writer, dialects, sink_is_away
from spark_apps.delivery.audit_sink import AuditSink
from spark_apps.delivery.database import Database, RowSink, borrowed
from spark_apps.delivery.database_sink import DatabaseSink
from spark_apps.delivery.dialects.sqlite import SQLite
from spark_apps.delivery.hooks import ConsumerInterceptor, ConsumerRebalanceListener, Hooks
from spark_apps.delivery.lineage import Dataset, table_dataset
from spark_apps.pipelines import delivery_of, orders
from spark_apps.plain import Output
from tests.audit_rows import read_audit


def audit_rows(offsets: list[int], incarnation: int = 1) -> pa.Table:
    rows = [
        {
            "topic": "orders",
            "partition": 2,
            "offset": offset,
            "consumer": "consumer-a",
            "incarnation": incarnation,
            "epoch": 7,
            "sequence": offset * 10,
            "produced_at": 1.5,
        }
        for offset in offsets
    ]
    return pa.Table.from_pylist(rows)


def order(offset: int, **changes: Any) -> dict[str, Any]:
    row = {
        "topic": "orders",
        "partition": 0,
        "offset": offset,
        "value": "{}",
        "problem": None,
        "order_id": f"A-{offset}",
    }
    return {**row, "product": "tea", "quantity": 2, "amount_cents": 700, "minute": "2026-11-21 08:15", **changes}


def test_the_audit_shows_every_processing(tmp_path: Path) -> None:
    sink = AuditSink(tmp_path / "audit")
    sink.append(audit_rows([1, 2]))
    sink.append(audit_rows([2, 3]))
    sink.append(audit_rows([3], incarnation=2))
    found = read_audit(tmp_path / "audit")
    assert [(row["incarnation"], row["offset"]) for row in found] == [(1, 1), (1, 2), (1, 2), (1, 3), (2, 3)]
    assert found[0]["sequence"] == 10
    assert found[0]["processed_at"] <= found[-1]["processed_at"]


def test_the_example_of_exactly_once_outlives_a_reset_to_an_earlier_offset(tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs" / "delivery.md").read_text()
    example: dict[str, Any] = {}
    exec(page.split("## Exactly once\n\n```python\n", 1)[1].split("```", 1)[0], example)
    rows = pa.table({"topic": ["texts"], "partition": [0], "offset": [5], "text": ["a"]})
    database = Database(f"sqlite:///{tmp_path}/texts.sqlite")
    for _ in range(2):
        with database.transaction() as cursor:
            example["TEXTS"].prepare(cursor)
            example["store"](cursor, rows)
    found = sqlite3.connect(tmp_path / "texts.sqlite").execute("SELECT * FROM texts").fetchall()
    assert found == [("texts", 0, 5, "a")]


def test_a_row_that_is_appended_twice_is_an_error(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/rows.sqlite")
    sink = RowSink("rows", {})
    with database.transaction() as cursor:
        sink.prepare(cursor)
        sink.append(cursor, [("orders", 0, 5)])
    with pytest.raises(sqlite3.IntegrityError) as caught, database.transaction() as cursor:
        sink.append(cursor, [("orders", 0, 6), ("orders", 0, 5)])
    assert database.is_driver_error(caught.value)
    with database.transaction() as cursor:
        assert cursor.query('SELECT "offset" FROM "rows"') == [(5,)]
    database.close()


def test_a_key_that_is_no_column_is_refused() -> None:
    with pytest.raises(Refused, match="table rows has no column order_id"):
        RowSink("rows", {"text": "TEXT"}, unique=["order_id"])


def test_the_setting_delivery_is_one_of_three_words() -> None:
    assert delivery_of({}) is Delivery.AT_LEAST_ONCE
    assert delivery_of({"delivery": "exactly-once"}) is Delivery.EXACTLY_ONCE
    with pytest.raises(Refused, match="delivery is 'twice'; give at-least-once, at-most-once, exactly-once"):
        delivery_of({"delivery": "twice"})


def test_a_plain_consumer_has_a_store_if_and_only_if_it_delivers_exactly_once() -> None:
    for output in ({"delivery": Delivery.EXACTLY_ONCE}, {"delivery": Delivery.AT_MOST_ONCE}, {}):
        with pytest.raises(Refused, match="exactly once needs a transactional store"):
            Output(**output)


def test_a_plain_consumer_refuses_an_interceptor_that_it_would_never_ask() -> None:
    class Telling(ConsumerInterceptor):
        def on_commit(self, topic: str, offsets: object) -> None:
            pass

    class Dropping(Telling):
        def on_consume(self, topic: str, batch: pa.RecordBatch) -> pa.RecordBatch:
            return batch.slice(0, 0)

    assert Output(lambda *_: None, hooks=Hooks(ConsumerRebalanceListener(), [Telling()])).hooks is not None
    with pytest.raises(Refused, match="Dropping has an on_consume, and a plain consumer does not call it") as found:
        Output(lambda *_: None, hooks=Hooks(interceptors=[Telling(), Dropping()]))
    assert "give an interceptor without on_consume" in str(found.value)


def test_a_batch_that_comes_twice_counts_once_in_the_revenue(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/orders.sqlite")
    first = pa.Table.from_pylist([order(0), order(1, product="coffee"), order(2, problem="no value", value=None)])
    overlapping = pa.Table.from_pylist([order(1, product="coffee"), order(3)])
    for batch in (first, first, overlapping):
        with database.transaction() as cursor:
            orders.prepare(cursor)
            orders.store(cursor, batch)
    with database.transaction() as cursor:
        revenue = cursor.query("SELECT product, orders, amount_cents FROM revenue ORDER BY product")
        letters = cursor.query('SELECT "offset", problem FROM dead_letters')
    database.close()
    assert revenue == [("coffee", 1, 700), ("tea", 2, 1400)]
    assert letters == [(2, "no value")]


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The opened connections."""
    made: list[object] = []
    connect = SQLite.connect

    def noted(*given: Any) -> Any:
        made.append(connect(*given))
        return made[-1]

    monkeypatch.setattr(SQLite, "connect", noted)
    return made


def test_a_restarted_query_uses_the_former_connection(tmp_path: Path, connected: list[object]) -> None:
    url = f"sqlite:///{tmp_path}/orders.sqlite"
    for offset in range(3):
        batch = pa.Table.from_pylist([order(offset)])
        orders._writing(url, orders.prepare)(cast(Any, SimpleNamespace(toArrow=lambda batch=batch: batch)), 0)
    for offset in range(3):
        AuditSink(tmp_path / "audit").append(audit_rows([offset]))
    assert len(connected) == 2, "one for each database"
    assert len(read_audit(tmp_path / "audit")) == 3
    with borrowed(url) as one, borrowed(url) as other:
        assert one is not other, "two batches at once do not wait for each other"
        with one.transaction() as cursor:
            assert cursor.query('SELECT "offset" FROM orders ORDER BY "offset"') == [(0,), (1,), (2,)]


@pytest.mark.parametrize(
    ("scheme", "client", "extra"), [("postgresql", "psycopg", "postgres"), ("mysql", "pymysql", "mysql")]
)
def test_a_database_without_its_client_is_refused_before_the_first_batch(
    monkeypatch: pytest.MonkeyPatch, scheme: str, client: str, extra: str
) -> None:
    monkeypatch.delitem(sys.modules, f"spark_apps.delivery.dialects.{scheme}", raising=False)
    monkeypatch.setitem(sys.modules, client, None)
    with pytest.raises(Refused, match=rf"needs {client}, which is not installed here; .*\[{extra}\]"):
        Database(f"{scheme}://user@host/name")
    Database("sqlite:///rows.sqlite")


def test_a_connection_to_postgresql_ends_with_its_host_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def connect(options: str) -> None:
        asked.append(conninfo_to_dict(options))
        raise psycopg.OperationalError

    def options_of(url: str) -> dict[str, str]:
        with pytest.raises(SinkUnavailable), Database(url).transaction():
            pass
        return {name: str(value) for name, value in asked.pop().items() if name != "host"}

    monkeypatch.setattr(psycopg, "connect", connect)
    monkeypatch.delenv("PGCONNECT_TIMEOUT", raising=False)
    ours = {"keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3", "tcp_user_timeout": "25000"}
    assert options_of("postgresql://db") == {**ours, "connect_timeout": "10"}
    theirs = {"connect_timeout": "3", "keepalives_idle": "60", "tcp_user_timeout": "0"}
    own = "&".join(f"{name}={value}" for name, value in theirs.items())
    assert options_of(f"postgresql://db?{own}") == {**ours, **theirs}
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "4")
    assert options_of("postgresql://db") == ours


def of_server(sqlstate: str) -> psycopg.OperationalError:
    """An error of PostgreSQL with this code."""
    return psycopg.errors.lookup(sqlstate)("no")  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("error", "away"),
    [
        (psycopg.OperationalError("connection refused"), True),
        (of_server("08006"), True),
        (of_server("57P01"), True),
        (of_server("55P03"), False),
        (of_server("40P01"), False),
        (of_server("57014"), False),
        (of_server("42P01"), False),
    ],
    ids=["no connection", "it broke", "shut down", "lock", "deadlock", "cancelled", "no table"],
)
def test_only_an_unreachable_database_is_away(error: Exception, away: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing statement is an error of the pipeline, judged by an upgrade."""

    def connect(_: str) -> None:
        raise error

    monkeypatch.setattr(psycopg, "connect", connect)
    with pytest.raises(SinkUnavailable if away else type(error)) as raised, Database("postgresql://db").transaction():
        pass
    assert sink_is_away(f"{raised.type.__name__}: {raised.value}") is away


def test_an_unknown_database_is_refused() -> None:
    with pytest.raises(Refused, match="is none of mysql, postgresql, sqlite; give an address such as sqlite:///path"):
        Database("oracle://host/name")
    with pytest.raises(Refused, match=r"a database at 'postgresql\+psycopg2://' is none of"):
        Database("postgresql+psycopg2://app:s3cret@db/shop")
    urls = (
        "postgresql+psycopg2://app:s3cret@db/shop",
        "host=db user=app password=s3cret",
        "host=db password=s3cret://x",
    )
    for url in urls:
        with pytest.raises(Refused) as raised:
            Database(url)
        assert "s3cret" not in str(raised.value)


def test_another_database_is_one_file_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "twin.py").write_text(
        "from spark_apps.delivery.dialects.sqlite import SQLite\n\n\n"
        "class Twin(SQLite):\n"
        "    def check(self, url): pass\n"
        "    def connect(self, url, lock_wait_s): return super().connect(url.replace('twin', 'sqlite'), lock_wait_s)\n"
        "    def dataset(self, url, table): return url, table\n\n\n"
        "DIALECT = Twin()\n"
    )
    monkeypatch.setattr(dialects, "__path__", [*dialects.__path__, str(tmp_path)])
    url = f"twin:///{tmp_path}/rows"
    with Database(url).transaction() as cursor:
        assert cursor.query("SELECT 1") == [(1,)]
    assert table_dataset(url, "orders") == Dataset(url, "orders")
    with pytest.raises(Refused, match="is none of mysql, postgresql, sqlite, twin"):
        Database("oracle://host/name")


def test_a_claim_does_not_wait_long_for_a_writer_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who claims commits and looks for all partitions of the topic: those that stay would stop meanwhile."""
    monkeypatch.setattr("spark_apps.delivery.dialects.sqlite.BUSY_TIMEOUT_S", 3.0)
    monkeypatch.setattr("spark_apps.delivery.database_sink.CLAIM_WAIT_S", 0.1)
    sinks = [
        DatabaseSink(Database(f"sqlite:///{tmp_path}/rows.sqlite"), lambda _: None, lambda *_: hangs()) for _ in "ab"
    ]
    old, new, took = Token(3, 1, "g1"), Token(5, 1, "g1"), list[float]()

    def hangs() -> None:
        began = time.monotonic()
        with pytest.raises(SinkUnavailable, match="does not take claims"):
            sinks[1].claim(Writer("c", "orders", "id-1", "b"), {0: new}, {})
        took.append(time.monotonic() - began)

    writer, rows = Writer("c", "orders", "id-1", "a"), pa.table({"partition": pa.array([], pa.int32())})
    sinks[0].claim(writer, {0: old}, {})
    sinks[1].claim(Writer("c", "orders", "id-1", "b"), {1: old}, {})
    assert sinks[0].write(writer, {0: SinkStep(old, 0, 1)}, rows) == {}
    assert took[0] < 2
    assert sinks[1].claim(Writer("c", "orders", "id-1", "b"), {0: new}, {}) == {0: SinkEntry(new, "b", 1)}
    for sink in sinks:
        sink.close()


@pytest.mark.parametrize(
    "query",
    [
        "sslcert=/etc/c.pem&sslkey=engine:key",
        "ssl%6Bey=engine:key",
        "sslkey=key.pem",
        "hostaddr=127.0.0.1",
        "service=x",
        "passfile=/etc/shadow",
        "options=-csearch_path%3Devil",
        "oauth_issuer=https://evil",
        "%zz=1",
    ],
)
def test_a_parameter_of_libpq_that_loads_or_redirects_is_refused(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psycopg, "connect", lambda *_: pytest.fail("it connects"))
    with (
        pytest.raises(Refused, match=r"parameter|cannot be read") as raised,
        Database(f"postgresql://w:s3cret@db/shop?{query}").transaction(),
    ):
        pass
    assert not any(word in str(raised.value) for word in ("s3cret", "evil"))


def test_a_client_certificate_of_the_site_is_taken() -> None:
    Database("postgresql://w@db/shop?sslmode=verify-full&sslrootcert=/etc/ca.pem&sslcert=/etc/c.pem&sslkey=/etc/k.pem")


def test_a_password_of_the_site_s_file_goes_to_no_other_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passwords = tmp_path / "pgpass"
    passwords.write_text("db.internal:*:*:*:s3cret\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as rogue:
        rogue.settimeout(0.5)

        def serve() -> None:
            with suppress(OSError), rogue.accept()[0] as client:
                client.recv(1024)
                client.sendall(b"R" + struct.pack("!II", 8, 3))  # asks for the password in clear
                heard.append(client.recv(1024))

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"postgresql://w@db.internal/shop?hostaddr=127.0.0.1&port={rogue.getsockname()[1]}&sslmode=disable"
        with suppress(Refused, SinkUnavailable), Database(url).transaction():
            pass
        thread.join()
    assert heard == []


def test_a_pipe_in_place_of_a_file_is_refused_and_hangs_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.db")
    with pytest.raises(Refused, match="is no regular file"), Database(f"sqlite:///{tmp_path / 'x.db'}").transaction():
        pass


def test_nothing_is_written_over_a_file_of_another_program(tmp_path: Path) -> None:
    conf, other = tmp_path / "spark-defaults.conf", tmp_path / "map.sqlite"
    conf.write_text("spark.cores.max 2\n")
    with closing(sqlite3.connect(other)) as made:
        made.execute("PRAGMA application_id=1196444487")
        made.execute("CREATE TABLE t (x)")
    for file in (conf, other):
        before = file.read_bytes()
        with (
            pytest.raises(Refused, match=r"is a file of another program .* nothing is written there; name another"),
            Database(f"sqlite:///{file}").transaction(),
        ):
            pass
        assert file.read_bytes() == before


def test_a_sink_s_tables_come_beside_those_of_a_site_s_own_database(tmp_path: Path) -> None:
    file = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(file)) as made:
        made.execute("CREATE TABLE customers (name TEXT)")
        made.execute("INSERT INTO customers VALUES ('ada')")
        made.commit()
    texts = RowSink("texts", {"text": "TEXT"})
    with Database(f"sqlite:///{file}").transaction() as cursor:
        texts.prepare(cursor)
        texts.write(cursor, [["orders", 0, 1, "x"]])
    with closing(sqlite3.connect(file)) as found:
        assert found.execute("SELECT * FROM customers").fetchall() == [("ada",)]
        assert found.execute("SELECT * FROM texts").fetchall() == [("orders", 0, 1, "x")]


def test_what_one_connection_writes_outlives_another_connection_and_another_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/rows.sqlite"
    first, second = Database(url), Database(url)
    with first.transaction() as cursor:
        cursor.execute("CREATE TABLE numbers (number INTEGER)")
    with second.transaction() as cursor:
        cursor.query("SELECT * FROM numbers")
    count = f"c = __import__('sqlite3').connect('{tmp_path}/rows.sqlite'); print(*c.execute('SELECT * FROM numbers')); c.close()"
    assert subprocess.run([sys.executable, "-c", count], capture_output=True, text=True, check=True).stdout == "\n"
    with first.transaction() as cursor:
        cursor.execute("INSERT INTO numbers VALUES (7)")
    assert subprocess.run([sys.executable, "-c", count], capture_output=True, text=True, check=True).stdout == "(7,)\n"
    first.close()
    second.close()
