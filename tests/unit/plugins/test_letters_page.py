"""The pages of dead letters: content of the reader's cluster alone, foreign texts escaped and bounded, databases that are away."""

import re
import time
from contextlib import nullcontext
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from coordinator_ui.access import Access, access_of
from coordinator_ui.data.letters import LetterReader
from fastapi import HTTPException
from fastapi.testclient import TestClient

from spark_apps.dead_letters import Letter, table
from spark_apps.delivery.database import Database
from tests.fakes.cluster import Cluster
from tests.letters_bench import letter
from tests.unit.plugins.pages_site import NASTY, pages_of, text_of

LIST = "/clusters/shop/dead-letters"


def letter_of(cluster: str, topic: str, offset: int, **more: Any) -> Letter:
    made = letter(topic, 0, offset)
    return replace(made, place=replace(made.place, cluster=cluster), **more)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/shop.sqlite"


def put(url: str, *letters: Letter) -> None:
    database = Database(url)
    with database.transaction() as cursor:
        table.prepare(cursor)
        table.put_letters(cursor, letters)
    database.close()


@pytest.fixture
def client(shop: Cluster, url: str) -> TestClient:
    client = pages_of(shop)
    client.app.state.letters = LetterReader(lambda: {"rows": url})  # type: ignore[attr-defined]
    return client


def test_the_list_has_number_and_last_error_of_each_topic_and_leads_to_each_letter(
    client: TestClient, url: str
) -> None:
    old = letter_of("shop", "orders", 3, error="an old error", failed_at_ms=1_600_000_000_000)
    put(url, old, letter_of("shop", "orders", 7), letter_of("shop", "clicks", 5))
    html = client.get(LIST).text
    page = text_of(html)
    assert "Database rows" in page
    assert (
        "orders Ask for: drop-dead-letters , replay-dead-letters 2 2023-11-14T22:13:21.000+00:00 ValueError: no number!"
        in page
    )
    assert f"{LIST}/rows/orders/0/7" in html
    until = "2023-11-14T22%3A13%3A21.000%2B00%3A00"
    assert f'/ask/drop_dead_letters?database=rows&amp;topic=orders&amp;until={until}&amp;number=2"' in html
    assert '/ask/replay_dead_letters?topic=orders"' in html
    only = text_of(client.get(LIST, params={"topic": "clicks"}).text)
    assert ("Only topic clicks" in only, "orders 0" in only) == (True, False)


def test_a_letter_is_shown_with_its_record_and_with_the_form_that_drops_it(client: TestClient, url: str) -> None:
    put(url, letter_of("shop", "orders", 7))
    html = client.get(f"{LIST}/rows/orders/0/7").text
    page = text_of(html)
    for said in ("k\\xff", "not", "json", "header trace", "1.2.3", "ValueError"):
        assert said in page
    form, _ = re.findall(r'href="/airflow/coordinator(/clusters/shop/ask/[^"]*)"', html)
    asked = client.get(unescape(form)).text
    for name, value in {"database": "rows", "topic": "orders", "partition": "0", "offset": "7", "number": "1"}.items():
        assert re.search(f'<input id="field-{name}"[^>]* value="{value}"', asked)
    for path in ("rows/orders/0/8", "rows/clicks/0/7", "other/orders/0/7"):
        assert client.get(f"{LIST}/{path}").status_code == 404
    assert client.get(f"{LIST}/rows/orders/-1/7").status_code == 422


def test_what_a_producer_wrote_is_escaped_and_bounded(client: TestClient, url: str) -> None:
    long = NASTY * 100_000
    headers = tuple((f"{NASTY}{number}", (NASTY * 1_000).encode()) for number in range(80))
    hostile = letter_of(
        "shop",
        "x; reboot",
        7,
        key=long.encode(),
        value=long.encode(),
        headers=headers,
        kind=long,
        error=long,
        release=long,
    )
    put(url, replace(hostile, failed_at_ms=2**62))
    for path in (LIST, f"{LIST}/rows/x; reboot/0/7"):
        answer = client.get(path)
        assert (answer.status_code, NASTY in answer.text) == (200, False)
        assert len(answer.text) < 1_000_000
    assert "topic=x%3B+reboot&amp;partition=0" in answer.text
    assert "And 30 more headers" in answer.text


def test_a_stage_that_another_program_wrote_is_bounded(client: TestClient, url: str) -> None:
    put(url, letter_of("shop", "orders", 7))
    with Database(url).transaction() as cursor:
        cursor.execute(f"UPDATE {table.TABLE} SET stage = ?", ["s" * 5_000_000])
    answer = client.get(LIST)
    assert (answer.status_code, len(answer.text) < 100_000) == (200, True)


def test_who_may_read_one_cluster_sees_no_letter_of_another(
    shop: Cluster, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COORDINATOR_CLUSTERS", "shop,books")
    put(url, letter_of("shop", "orders", 7), letter_of("books", "titles", 9))
    client = pages_of(lambda name: (name, lambda: nullcontext(shop.coordinator)), allowed=False)
    client.app.state.letters = LetterReader(lambda: {"rows": url})  # type: ignore[attr-defined]
    assert client.get(LIST).status_code == 401
    client = pages_of(lambda name: (name, lambda: nullcontext(shop.coordinator)))
    client.app.state.letters = LetterReader(lambda: {"rows": url})  # type: ignore[attr-defined]

    def check(dag: str) -> None:
        if dag.endswith("books"):
            raise HTTPException(403, "Forbidden")

    client.app.dependency_overrides[access_of] = lambda: Access(check)  # type: ignore[attr-defined]
    page = client.get("/dead-letters").text
    assert ("orders" in page, "titles" in page) == (True, False)
    assert client.get("/clusters/books/dead-letters").status_code == 403
    assert client.get("/clusters/books/dead-letters/rows/titles/0/9").status_code == 403
    assert client.get(f"{LIST}/rows/titles/0/9").status_code == 404


def test_a_database_that_cannot_be_read_hides_no_other_and_names_no_host(
    client: TestClient, url: str, tmp_path: Path
) -> None:
    put(url, letter_of("shop", "orders", 7))
    databases = {
        "away": "postgresql://ada@secret-host.invalid/x?connect_timeout=1",
        "gone": f"sqlite:///{tmp_path}/none",
        "rows": url,
    }
    client.app.state.letters = LetterReader(lambda: databases)  # type: ignore[attr-defined]
    page = text_of(client.get(LIST).text)
    assert (
        "the database away cannot be read from Airflow&#39;s API server (SinkUnavailable), whose log says why" in page
    )
    assert "there is no such file of SQLite" in page
    assert "orders 0 7 2023-11-14" in page
    assert "secret-host" not in page
    assert not (tmp_path / "none").exists()


def test_a_database_that_hangs_is_told_after_the_limit(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    client = pages_of(shop)
    client.app.state.letters = LetterReader(lambda: {"rows": "sqlite:///x"}, limit_s=0.2)  # type: ignore[attr-defined]
    monkeypatch.setattr(table, "opened", lambda *_: time.sleep(1.0))
    assert "the database rows has not answered within 0.2 s" in client.get(LIST).text


def test_without_databases_the_page_says_where_to_name_one(shop: Cluster) -> None:
    assert "set COORDINATOR_DATABASES_NAME to the database" in text_of(pages_of(shop).get("/dead-letters").text)


def test_a_database_without_the_table_has_no_letters(client: TestClient, url: str) -> None:
    Database(url).transaction().__enter__()
    assert "There are no dead letters." in text_of(client.get(LIST).text)
