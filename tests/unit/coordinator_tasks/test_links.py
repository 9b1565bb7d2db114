"""Which addresses become links on a page, and how a site's template becomes the address of a driver's log.

A link to a Spark UI is `http(s)://host[:port][/path]` of at most 500 characters, or no link.
"""

import pytest

from coordinator_tasks.core.text.json_fields import MAX_LINK_CHARS
from coordinator_tasks.links import host_of, is_application, is_page, log_page, why_no_template

KNOWN = {
    "cluster": "shop",
    "consumer": "billing-1",
    "host": "h1",
    "incarnation": "7",
    "application_id": "application_17_0001",
}


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("http://driver-1:4040", True),
        ("https://spark.example.org/proxy/application_17_0001/", True),
        ("http://[fd00::7]:4040", True),
        ("", False),
        ("h:4040", False),
        ("javascript:alert(1)", False),
        ("JAVASCRIPT:alert(1)//http://h:1", False),
        ("//h:4040", False),
        ("http://h:0", False),
        ("http://h:99999", False),
        ("http://user:secret@h:4040", False),
        ("http://h:4040/?q=1", False),
        ("http://h:4040/a b", False),
        ('http://h:4040/"onmouseover="x', False),
        ("http://h:4040/\n", False),
        ("http://h:4040/\u202e", False),
        ("http://xn--h:4040", False),
        ("http://h\\@evil:4040", False),
        ("http://[::zz]:4040", False),
        ("http://h:4040/" + "x" * MAX_LINK_CHARS, False),
    ],
)
def test_a_plain_address_is_a_page_and_anything_else_is_none(text: str, page: bool) -> None:
    assert is_page(text) is page


def test_a_site_may_want_a_query_in_the_address_of_its_logs() -> None:
    assert is_page("https://logs.example.org/app?q=a%20b&from=now#end", query=True)
    assert not is_page("https://logs.example.org/app?q=<b>", query=True)


@pytest.mark.parametrize(
    ("text", "known"),
    [("application_17_0001", True), ("local-1700000000", True), ("", False), ("../x", False), ("a" * 200, False)],
)
def test_the_id_of_an_application_has_a_known_shape(text: str, known: bool) -> None:
    assert is_application(text) == known


def test_a_template_gets_what_is_known() -> None:
    template = "https://logs/{cluster}/{consumer}/{incarnation}?app={application_id}&on={host}"
    assert log_page(template, KNOWN) == "https://logs/shop/billing-1/7?app=application_17_0001&on=h1"


def test_a_value_adds_no_path_query_or_placeholder() -> None:
    assert log_page("http://logs/{consumer}", {"consumer": "../a?b=c#d"}) == "http://logs/..%2Fa%3Fb%3Dc%23d"
    assert log_page("http://logs/{cluster}/{consumer}", {"cluster": "{consumer}", "consumer": "a"}) == (
        "http://logs/%7Bconsumer%7D/a"
    )


def test_the_host_of_a_log_is_a_host_or_there_is_no_link() -> None:
    assert log_page("http://{host}:8042/logs", {"host": "[fd00::7]"}) == "http://[fd00::7]:8042/logs"
    assert log_page("http://{host}:8042/logs", {"host": "evil/x"}) == ""
    assert log_page("http://{host}:8042/logs", {"host": "me@evil"}) == ""


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("http://logs/{consumer.__class__}", "there is no placeholder {consumer.__class__}"),
        ("http://logs/{{consumer}}", "it is no address"),
        ("{{ conf.x }}", "there is no placeholder { conf.x }"),
        ("ftp://logs/{consumer}", "it is no address"),
        ("http://logs/" + "x" * 1_000, "more than 1000"),
    ],
)
def test_a_template_that_gives_no_address_is_refused(template: str, said: str) -> None:
    assert said in why_no_template(template)


def test_the_host_of_an_address() -> None:
    assert [host_of(one) for one in ("http://h:1", "https://[fd00::7]:1", "")] == ["h", "[fd00::7]", ""]
