"""What the consumer application is told on its command line about its pipelines."""

import pytest

from spark_apps import main

LEAST = ("--consumer", "a", "--cluster", "c", "--zookeeper", "z:1", "--kafka", "k:1")


@pytest.mark.parametrize("text", ["database=postgresql:///shop?host=db1:5432", "filter=a=b:c", "folder=/rows"])
def test_a_setting_is_split_at_its_first_sign(text: str) -> None:
    name, _, value = text.partition("=")
    told = main._how(main._parse([*LEAST, "--set", text, "--option", text]))
    assert (told.pipeline[name], told.options[name]) == (value, value)


def test_a_pattern_may_have_the_sign_too() -> None:
    given = main._parse([*LEAST, "--pattern", "(?:a|b=)+=shop.pipelines:build", "--pipeline", "orders=shop:build"])
    assert main._pipelines(given) == [("orders", "", "shop:build"), ("", "(?:a|b=)+", "shop.pipelines:build")]
