"""Reads a record as one complete JSON document.

Spark's `from_json`, in each of its modes, reads only the first document of a text and ignores the rest. A second event,
or half an event, would be lost while its offset is committed.
"""

import secrets

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql.types import ArrayType, BooleanType, StringType, StructType

from spark_apps.releases import struct_of_ddl

_AROUND, _END, _CORRUPT = (f"_{word}_{secrets.token_hex(8)}" for word in ("around", "end", "corrupt"))
"""Random names, so that text behind a record's document cannot imitate the end of our array."""
NO_VALUE, NO_DOCUMENT, MORE = "no value", "not a JSON document of this shape", "there is more behind its JSON document"


def document(text: Column, schema: str) -> Column:
    """Return the text as a struct: `document`, with the fields of the schema, and `problem`, why it is null (else
    null).

    A field whose type differs from the schema is a problem too. If a name is repeated, the last value counts.
    """
    shape = struct_of_ddl(schema)
    inner = StructType([*shape.fields]).add(_END, BooleanType())
    outer = StructType().add(_AROUND, ArrayType(inner)).add(_CORRUPT, StringType())
    around = F.concat(F.lit(f'{{"{_AROUND}":['), text, F.lit(f',{{"{_END}":true}}]}}'))
    # Because of the array, Spark parses a text only once, although it is used several times.
    found = F.array(F.from_json(around, outer, {"columnNameOfCorruptRecord": _CORRUPT, "mode": "PERMISSIVE"}))
    return F.transform(found, lambda one: _judged(text, one, shape))[0]


def lines(text: Column) -> Column:
    """Return the lines of a text that are not blank, for records with one JSON document per line.

    `posexplode_outer` makes a row of each line. A text without lines gets a row with a null.
    """
    return F.filter(F.split(text, r"\r?\n"), lambda line: F.trim(line) != "")


def _judged(text: Column, one: Column, shape: StructType) -> Column:
    documents = one[_AROUND]
    whole = one[_CORRUPT].isNull() & (F.size(documents) == 2) & F.get(documents, 1)[_END]
    found = F.when(whole, F.get(documents, 0))
    document = F.when(found.isNotNull(), F.struct(*[found[field.name].alias(field.name) for field in shape.fields]))
    problem = F.when(text.isNull(), NO_VALUE).when(
        document.isNull(), F.when(_begins(text, shape), MORE).otherwise(NO_DOCUMENT)
    )
    return F.struct(document.alias("document"), problem.alias("problem"))


def _begins(text: Column, shape: StructType) -> Column:
    """Return whether a text begins with a document. Only for texts that are not a whole document."""
    corrupt = StructType([*shape.fields]).add(_CORRUPT, StringType())
    first = F.from_json(text, corrupt, {"columnNameOfCorruptRecord": _CORRUPT, "mode": "PERMISSIVE"})
    return first.isNotNull() & first[_CORRUPT].isNull()
