"""Which columns of files have other types than most."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    IntegerType,
    MapType,
    StringType,
    StructType,
)

from pyspark_mq.pipeline.lake.merging import OtherType, others, types_in


def schema_of(**columns: DataType) -> StructType:
    made = StructType()
    for name, kind in columns.items():
        made.add(name, kind)
    return made


def test_columns_are_named_with_those_that_contain_them() -> None:
    price = schema_of(price=DecimalType(10, 2))
    schema = schema_of(id=StringType(), body=price, tags=MapType(StringType(), ArrayType(price)))

    assert dict(types_in(schema)) == {
        "id": "string",
        "body": "struct",
        "body.price": "decimal with 2 places",
        "tags": "map",
        "tags.key": "string",
        "tags.value": "array",
        "tags.value.element": "struct",
        "tags.value.element.price": "decimal with 2 places",
    }


def test_the_type_of_most_files_counts_and_of_as_many_that_of_the_first() -> None:
    number, text = schema_of(a=IntegerType()), schema_of(a=StringType())

    of_three = others({"1": number, "2": text, "3": text})
    of_two = others({"1": number, "2": text})

    assert of_three == [OtherType("1", "a", "int", "string")]
    assert of_two == [OtherType("2", "a", "string", "int")]


def test_files_that_lack_a_column_or_a_digit_can_be_merged() -> None:
    schemas = [schema_of(a=DecimalType(10, 2)), schema_of(a=DecimalType(20, 2), b=StringType())]

    assert others({"1": schemas[0], "2": schemas[1], "3": schema_of(c=StringType())}) == []
