"""Arguments of the consumer application about pipelines."""

import pytest

from coordinator_tasks.core.errors import BadOption, Refused
from coordinator_tasks.settings import Settings
from spark_apps import main
from spark_apps.consumer import SparkSettings

SITE = Settings(
    "c",
    "z:1",
    {"bootstrap.servers": "k:1"},
    databases={"shop": "postgresql://w:pw@db/shop"},
    registries={"main": "https://reader:pw@registry"},
)
LEAST = ("--consumer", "a", "--cluster", "c", "--zookeeper", "z:1", "--kafka", "k:1")


def how(*arguments: str) -> SparkSettings:
    return main._how(main._parse([*LEAST, *arguments]), SITE)


@pytest.mark.parametrize("text", ["database=postgresql:///shop?host=db1:5432", "filter=a=b:c", "folder=/rows"])
def test_a_setting_is_split_at_its_first_sign(text: str) -> None:
    name, _, value = text.partition("=")
    told = how("--set", text, "--option", text)
    assert (told.pipeline[name], told.options[name]) == (value, value)


@pytest.mark.parametrize(
    ("option", "first", "second", "name"),
    [
        ("--set", "database=a", "database=b", "database"),
        ("--option", "database=a", "database=b", "database"),
        ("--option", "minPartitions=4", "minpartitions=8", "minpartitions"),
    ],
    ids=["a setting", "an option", "an option of the source, in another case"],
)
def test_a_setting_that_is_given_twice_is_refused(option: str, first: str, second: str, name: str) -> None:
    with pytest.raises(Refused, match=f"{option} gives '{name}' twice; give it once"):
        how(option, first, option, second)


@pytest.mark.parametrize("option", ["--pipeline", "--pattern"])
def test_a_pipeline_that_is_given_twice_is_refused(option: str) -> None:
    given = main._parse([*LEAST, option, "orders=shop:a", option, "clicks=shop:a", option, "orders=shop:b"])
    with pytest.raises(Refused, match=f"{option} gives 'orders' twice; give it once"):
        main._pipelines(given)


@pytest.mark.parametrize("option", ["subscribe=orders,clicks", "Subscribe=orders"])
def test_the_option_that_names_a_topic_is_refused_since_the_pipelines_do(option: str) -> None:
    with pytest.raises(BadOption, match="'subscribe' is set for each topic that a pipeline is for; leave it out"):
        how("--pipeline", "orders=shop:a", "--option", option)


def test_an_unknown_log_level_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main._parse([*LEAST, "--log-level", "LOUD"])
    assert "'LOUD' is no log level of Spark; give one of ALL, TRACE, DEBUG, INFO, " in capsys.readouterr().err
    assert main._parse([*LEAST, "--log-level", "error"]).log_level == "ERROR"


def test_a_name_of_the_site_becomes_its_address_without_another_log_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPELINE_schemaRegistryPassword", "of another registry")
    told = how("--set", "database=shop", "--set", "schemaRegistry=main")
    assert told.pipeline == {"database": "postgresql://w:pw@db/shop", "schemaRegistry": "https://reader:pw@registry"}
    own = how("--set", "schemaRegistry=http://own:8081")
    assert own.pipeline == {"schemaRegistry": "http://own:8081", "schemaRegistryPassword": "of another registry"}
