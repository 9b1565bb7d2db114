"""Fits rows into the columns of a table, with unchanged values, or refuses the rows."""

import pyarrow as pa

from spark_apps.lakehouse import TableRefused


def fitted(rows: pa.Table, schema: pa.Schema, place: str, evolve: bool) -> pa.Table:
    """Return the rows with the table's columns and unchanged values; raises `TableRefused`.

    Without a column `partition` in the table, the rows lose theirs. `evolve`: keep further columns, which the format
    adds.
    """
    further = [name for name in rows.column_names if name not in schema.names and name != "partition"]
    if further and not evolve:
        raise TableRefused(
            f"{place} has no column {further[0]!r}; add the column to the table, leave it out of the rows, or let the sink "
            "add it: evolve=True"
        )
    columns = {field.name: _column(rows, field, place) for field in schema}
    return pa.table(columns | {name: rows[name] for name in further})


def _column(rows: pa.Table, field: pa.Field, place: str) -> pa.ChunkedArray | pa.Array:
    if field.name not in rows.column_names:
        if not field.nullable:
            raise TableRefused(
                f"{place} needs column {field.name!r}, and the rows have none; add the column to the rows"
            )
        return pa.nulls(rows.num_rows, field.type)
    column = rows[field.name]
    if not field.nullable and column.null_count:
        raise TableRefused(
            f"column {field.name!r} of {place} takes no nulls, and the rows have nulls; correct the pipeline"
        )
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise TableRefused(
            f"column {field.name!r} of {place} is of type {field.type}, and a value of the rows ({column.type}) does not "
            f"fit: {error}; convert the value in the pipeline, or give the column another type"
        ) from error
