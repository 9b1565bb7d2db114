"""The actions with a form in Airflow: those of the service, and those on the databases of the pipelines."""

from collections.abc import Mapping

from coordinator_plugin.letter_actions import DROP_DEAD_LETTERS, REPLAY_DEAD_LETTERS
from coordinator_plugin.state_actions import REHASH_STATE
from coordinator_tasks.service.actions.action import Action
from coordinator_tasks.service.actions.declarations import ACTIONS

FORMS: Mapping[str, Action] = {
    one.name: one for one in (*ACTIONS.values(), DROP_DEAD_LETTERS, REPLAY_DEAD_LETTERS, REHASH_STATE) if one.form
}
