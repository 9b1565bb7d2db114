"""State that moves with its partition: a stateful processor's rows in the sink's database, beside the positions.

A pipeline with state returns `stateful.Stateful`. The state of a batch is read and written in the transaction that
checks the owner's token and moves the positions. So a fenced or dead owner changes nothing, and a new owner restores
nothing.
"""

from coordinator_tasks.core.errors import CoordinatorError, Refused
from spark_apps.delivery import RecordAtFault


class StateRefused(Refused, code="KPC-066"):
    """The pipeline's use of state is not supported, or would give wrong results. The query does not start.

    Remedy: change the pipeline as the text says.
    """


class StateChanged(CoordinatorError, code="KPC-067"):
    """This application cannot read the schema of a partition's state: a column, a state variable or the key has
    changed. The topic's partitions wait.

    Remedy: deploy the application that wrote the state, or begin without state under another operator name. [Permitted
    changes](state.md#when-the-processor-changes).
    """


class StatePartitionsAdded(CoordinatorError, code="KPC-100"):
    """The topic has more partitions than when its state began, so most keys arrive in partitions without their state.
    The topic is not processed.

    Remedy: move the state, begin with empty state, or declare `keeps_partition=True`: [partitions
    added](state.md#partitions-added).
    """


class ProcessorFailed(RecordAtFault, CoordinatorError, code="KPC-068"):
    """A stateful processor raises an error, returns rows of another schema, or keeps more under a key than allowed.
    Nothing of the batch was written; the partition is tried again.

    Remedy: deploy a corrected processor, or reset the offset behind the record.
    """


class StateDamaged(CoordinatorError, code="KPC-069"):
    """Another program has changed the table `consumer_state`: a column is missing, or a value cannot be read. Nothing
    was written.

    Remedy: restore the named rows from a backup, or delete the rows to begin without this state.
    """
