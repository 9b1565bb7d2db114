"""Rows and positions in one transaction of a database; `test_sinks.py` is the contract of every sink."""

import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pyarrow as pa
import pymysql
import pytest

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.devstack.embedded.ports import HOST, free_port
from spark_apps.delivery import SinkEntry, SinkUnavailable, Writer
from spark_apps.delivery.database import Cursor, Database, RowSink
from spark_apps.delivery.database_sink import DatabaseSink
from spark_apps.delivery.dialects import postgresql
from spark_apps.pipelines import orders
from tests.integration.agent_site import wait_for
from tests.postgres_server import PostgresServer
from tests.sink_bench import DATABASES, NEW, OLD, ROWS, DatabaseBench, bench_of


@pytest.fixture(params=DATABASES)
def bench(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DatabaseBench]:
    made = bench_of(request.param, request, tmp_path, monkeypatch)
    assert isinstance(made, DatabaseBench)
    yield made
    made.close()


KINDS = RowSink("kinds", {"whole": "BIGINT", "real": "DOUBLE PRECISION", "text": "TEXT", "exact": "NUMERIC(12, 2)"})
NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize("add", [RowSink.write, RowSink.append])
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("whole", 2**63 - 1),
        ("whole", 2**63),
        ("whole", 2.0),
        ("whole", 1.5),
        ("whole", Decimal("1.5")),
        ("whole", INFINITE),
        ("whole", NAN),
        ("real", NAN),
        ("real", INFINITE),
        ("real", -INFINITE),
        ("real", 0.1),
        ("real", 5e-324),
        ("text", "a\0b"),
        ("text", "\ud800"),
        ("text", "\U0001f600" * 100),
        ("exact", Decimal("9999999999.99")),
        ("exact", Decimal("99999999999.99")),
        ("exact", Decimal("NaN")),
    ],
)
def test_a_value_is_stored_as_it_is_or_refused_loudly(
    bench: DatabaseBench, add: Callable[..., None], column: str, value: Any
) -> None:
    row = [*("orders", 0, 1), *(value if name == column else None for name in ("whole", "real", "text", "exact"))]
    database = Database(bench.url)
    with database.transaction() as cursor:
        cursor.execute("DROP TABLE IF EXISTS kinds")
        KINDS.prepare(cursor)
    try:
        with database.transaction() as cursor:
            add(KINDS, cursor, [row])
    except (Refused, ValueError, OverflowError, sqlite3.Error, psycopg.Error, pymysql.Error):
        assert bench.query(f'SELECT "{column}" FROM kinds') == []
    else:
        ((found,),) = bench.query(f'SELECT "{column}" FROM kinds')
        assert (
            str(float(found)) == str(float(value)) if column == "real" else found == value or str(found) == str(value)
        )
    finally:
        database.close()


def test_a_row_that_is_written_again_changes_nothing_and_the_first_of_a_key_stays(bench: DatabaseBench) -> None:
    orders = RowSink(f"orders_{bench.cluster}", {"order_id": "TEXT", "text": "TEXT"}, unique=["order_id"])
    first = [(0, "A", "first"), (1, "B", "first"), (2, None, "none"), (3, None, "none")]
    again = [(0, "A", "again"), (4, "B", "again"), (5, "C", "first")]
    database = Database(bench.url)
    for rows in (first, again):
        with database.transaction() as cursor:
            orders.prepare(cursor)
            orders.write(cursor, [("orders", 0, *row) for row in rows])
    database.close()
    found = bench.query(f'SELECT "offset", order_id, text FROM "{orders.table}" ORDER BY 1')
    assert found == [*first, (5, "C", "first")]


def test_an_account_without_temporary_tables_writes_many_rows(postgres: PostgresServer) -> None:
    sink = RowSink("unstaged", {"text": "TEXT"})
    with Database(postgres.url).transaction() as cursor:
        sink.prepare(cursor)
        cursor.execute("CREATE ROLE plain LOGIN")
        cursor.execute("GRANT SELECT, INSERT ON unstaged TO plain")
        cursor.execute("REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC")
    plain = Database(postgres.url.replace("tests@", "plain@"))
    rows = [("orders", 0, offset, "a") for offset in range(2 * postgresql.STAGED_ROWS)]
    for _ in range(2):
        with plain.transaction() as cursor:
            sink.write(cursor, rows)
            assert cursor.query("SELECT COUNT(*) FROM unstaged") == [(len(rows),)]
    plain.close()
    with Database(postgres.url).transaction() as cursor:
        cursor.execute("GRANT TEMPORARY ON DATABASE postgres TO PUBLIC")


def test_two_that_write_the_same_keys_do_not_wait_for_each_other(postgres: PostgresServer) -> None:
    sink = RowSink(f"keyed_{uuid.uuid4().hex[:6]}", {"order_id": "TEXT"}, unique=["order_id"])
    both, databases = threading.Barrier(2), [Database(postgres.url) for _ in range(2)]

    def write(number: int) -> None:
        names = [f"{one:03}" for one in range(postgresql.STAGED_ROWS)]
        rows = [("orders", number, offset, one) for offset, one in enumerate(names if number else names[::-1])]
        with databases[number].transaction() as cursor:
            both.wait(10)
            sink.write(cursor, rows)

    with databases[0].transaction() as cursor:
        sink.prepare(cursor)
    with ThreadPoolExecutor() as pool:
        list(pool.map(write, range(2)))
    for one in databases:
        one.close()


def test_a_claim_waits_for_the_batch_that_is_being_written(postgres: PostgresServer) -> None:
    bench, found = DatabaseBench(postgres.url), dict[int, SinkEntry]()
    bench.claim("a", OLD)
    claiming = threading.Thread(target=lambda: found.update(bench.claim("b", NEW)))
    waiting = (
        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND strpos(query, 'consumer_positions') > 0"
    )

    def claim_meanwhile() -> None:
        claiming.start()
        wait_for(lambda: bench.query(waiting), "the claim waits for the lock")

    bench.during = claim_meanwhile
    assert bench.write("a", OLD, 0, 3) == {}
    claiming.join()
    assert found == {0: SinkEntry(NEW, "b", 3)}
    bench.close()


def test_a_percent_sign_in_a_statement_is_one(bench: DatabaseBench) -> None:
    assert bench.query("SELECT 1 WHERE 'tea' LIKE 't%' AND 1 = ?", 1) == [(1,)]
    assert bench.query("SELECT 1 WHERE 'tea' LIKE 't%'") == [(1,)]


def sample(url: str, *products: str, partition: int = 0) -> None:
    """One batch of the sample pipeline's rows, written as a consumer does."""
    rows = [
        {"topic": "orders", "partition": partition, "offset": offset, "value": "{}", "problem": None, "order_id": "A"}
        | {"product": product, "quantity": 1, "amount_cents": 1, "minute": "2026-11-21 08:15"}
        for offset, product in enumerate(products)
    ]
    orders._writing(url, orders.prepare)(cast(Any, SimpleNamespace(toArrow=lambda: pa.Table.from_pylist(rows))), 0)


@pytest.fixture
def sample_url(postgres: PostgresServer) -> str:
    with Database(postgres.url).transaction() as cursor:
        cursor.execute("DROP TABLE IF EXISTS orders, dead_letters, revenue")
    return postgres.url


def test_consumers_of_the_sample_that_begin_at_once_make_its_tables_once(sample_url: str) -> None:
    with ThreadPoolExecutor() as pool:
        with Database(sample_url).transaction() as cursor:
            orders.prepare(cursor)
            other = pool.submit(sample, sample_url, "tea")
            wait_for(lambda: waiting_locks(sample_url), "the other one waits")
        other.result()


def test_the_first_batch_of_the_sample_holds_up_no_other_consumer_that_begins(
    sample_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = orders.store

    def slow(cursor: Cursor, rows: pa.Table) -> None:
        monkeypatch.setattr(orders, "store", store)
        sample(sample_url, "coffee", partition=1)
        store(cursor, rows)

    monkeypatch.setattr(orders, "store", slow)
    sample(sample_url, "tea")
    with Database(sample_url).transaction() as cursor:
        assert cursor.query("SELECT product FROM revenue ORDER BY 1") == [("coffee",), ("tea",)]


def test_the_sample_locks_revenues_in_one_order_so_that_two_consumers_do_not_wait_for_each_other(
    sample_url: str,
) -> None:
    products = [f"product-{number:03}" for number in range(20)]
    for partition in range(150):  # with so many marks PostgreSQL groups by a hash
        sample(sample_url, *products, partition=partition)
    with Database(sample_url).transaction() as cursor:
        cursor.execute("TRUNCATE revenue")
        cursor.execute("ANALYZE orders")
    sample(sample_url, *products, partition=150)
    with Database(sample_url).transaction() as cursor:
        assert [one for (one,) in cursor.query("SELECT product FROM revenue ORDER BY ctid")] == products


def waiting_locks(url: str) -> list[tuple[Any, ...]]:
    with Database(url).transaction() as cursor:
        return cursor.query("SELECT pid FROM pg_locks WHERE NOT granted")


def test_a_database_that_does_not_answer_takes_no_claims(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    mysql = f"mysql://root@{HOST}:{free_port()}/tests"
    for url in (f"sqlite:///{tmp_path}", f"postgresql://nobody@/none?host={tmp_path}", mysql):
        sink = DatabaseSink(Database(url), ROWS.prepare, lambda *_: None)
        with pytest.raises(SinkUnavailable, match="does not take claims"):
            sink.claim(Writer("c", "t", "id", "a"), {0: OLD}, {})
