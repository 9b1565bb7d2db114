"""State that moves with its partition: a stateful processor's rows in the sink's database, beside the positions.

A pipeline with state returns `stateful.Stateful`. The state of a batch is read and written in the transaction that
checks the owner's token and moves the positions. So a fenced or dead owner changes nothing, and a new owner restores
nothing.
"""

from coordinator_tasks.core.errors import CoordinatorError, Refused
from spark_apps.delivery import RecordAtFault


class StateRefused(Refused):
    """The pipeline asks for state in a way that is not supported or would give wrong results. The query does not start.

    Remedy: change the pipeline as the text says.
    """

    code = "KPC-066"


class StateChanged(CoordinatorError):
    """The state of a partition was written with a schema that this application cannot read: a column, a state variable
    or the key has changed. The topic's partitions wait, and their state stays unchanged.

    Remedy: deploy the application that wrote the state. Or give the operator another name, to begin without state.
    Wider numbers and new nullable columns at the end are allowed.
    """

    code = "KPC-067"


class StatePartitionsAdded(CoordinatorError):
    """The topic has more partitions than when its state began. Kafka's partitioner now writes most keys to other
    partitions, which do not have the keys' state. The consumers process no record of the topic, and the state stays
    unchanged.

    Remedy: move the state by `coordinator state rehash`, if all records from before the addition are processed. Or give
    the operator another name, to begin with empty state at the present positions. If the producers keep each key in its
    partition, declare `keeps_partition=True`.
    """

    code = "KPC-100"


class ProcessorFailed(RecordAtFault, CoordinatorError):
    """A stateful processor raises an error, returns rows of another schema, or keeps more under a key than is allowed.
    Nothing of the batch was written. The partition waits and is tried again.

    Remedy: correct the processor and deploy the application, or reset the offset behind the record.
    """

    code = "KPC-068"


class StateDamaged(CoordinatorError):
    """The table `consumer_state` lacks a column, or has a value that cannot be read, because another program has
    changed the table. Nothing was written.

    Remedy: restore the rows that the text names from a backup, or delete the rows to begin without this state.
    """

    code = "KPC-069"
