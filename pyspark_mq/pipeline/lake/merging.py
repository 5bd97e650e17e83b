"""Which files of a lake can be merged: those that can be read, and have each column in one type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructType

from pyspark_mq.pipeline.lake.folder import LakeFolder
from pyspark_mq.pipeline.running.causes import reason_of
from pyspark_mq.pipeline.whole_files import reader_of


class OtherType(NamedTuple):
    """A column that a file has in another type than the files before it, or than most files."""

    file: str
    column: str
    type: str
    usual: str

    def __str__(self) -> str:
        return f"{self.file} has column {self.column} as {self.type}"


def read_merged(spark: Any, folder: LakeFolder, names: Iterable[str]) -> Any:
    """Return the rows of files, with the columns of all of them."""
    reader = reader_of(spark).option("mergeSchema", "true")
    return reader.parquet(*(folder.full(name) for name in names))


def files_to_merge(
    spark: Any, folder: LakeFolder, names: list[str], warn: Callable[[str], object]
) -> list[str]:
    """Return those of the files that can be merged. The others are told: those that cannot be read,
    and if there are none, those that have a column in another type than most."""
    whole = [name for name in names if _is_readable(spark, folder, name, warn)]
    if len(whole) < len(names):
        return whole
    found = others(_schemas(spark, folder, names))
    for other in found:
        warn(
            f"{folder.full(other.file)} is not merged: it has column {other.column} as "
            f"{other.type}, and most files beside it as {other.usual}; write it again with that "
            "type, or rename it to _NAME for readers to leave it out"
        )
    odd = {other.file for other in found}
    return [name for name in names if name not in odd]


def first_conflict(spark: Any, addresses: Iterable[str]) -> str | None:
    """Return which file has which column in another type than one before it, or None."""
    seen: dict[str, tuple[str, str]] = {}
    for address in addresses:
        for column, kind in types_in(reader_of(spark).parquet(address).schema):
            file, usual = seen.setdefault(column, (address, kind))
            if kind != usual:
                return f"{OtherType(address, column, kind, usual)}, and {file} as {usual}"
    return None


def others(schemas: Mapping[str, StructType]) -> list[OtherType]:
    """Return for each file that has a column in another type than most the first such column. Of
    types that are equally frequent that of the first file counts."""
    kinds: dict[str, Counter[str]] = {}
    for schema in schemas.values():
        for column, kind in types_in(schema):
            kinds.setdefault(column, Counter())[kind] += 1
    usual = {column: counts.most_common(1)[0][0] for column, counts in kinds.items()}
    found: list[OtherType] = []
    for name, schema in schemas.items():
        for column, kind in types_in(schema):
            if kind != usual[column]:
                found.append(OtherType(name, column, kind, usual[column]))
                break
    return found


def types_in(kind: DataType, column: str = "") -> Iterator[tuple[str, str]]:
    """Yield the columns of a type and of what it contains, as `body.price`, with the types that
    Spark merges with no other."""
    if isinstance(kind, StructType):
        if column:
            yield column, "struct"
        for field in kind.fields:
            yield from types_in(field.dataType, f"{column}.{field.name}".lstrip("."))
    elif isinstance(kind, ArrayType):
        yield column, "array"
        yield from types_in(kind.elementType, f"{column}.element")
    elif isinstance(kind, MapType):
        yield column, "map"
        yield from types_in(kind.keyType, f"{column}.key")
        yield from types_in(kind.valueType, f"{column}.value")
    elif isinstance(kind, DecimalType):
        yield column, f"decimal with {kind.scale} places"
    else:
        yield column, kind.simpleString()


def _schemas(spark: Any, folder: LakeFolder, names: list[str]) -> dict[str, StructType]:
    return {name: reader_of(spark).parquet(folder.full(name)).schema for name in names}


def _is_readable(spark: Any, folder: LakeFolder, name: str, warn: Callable[[str], object]) -> bool:
    """Return whether Spark can read all of a file."""
    try:
        read_merged(spark, folder, [name]).write.format("noop").mode("overwrite").save()
    except (PySparkException, Py4JJavaError) as error:
        warn(
            f"{folder.full(name)} cannot be read and is not merged: {reason_of(error)}; "
            "look at it, and rename it to _NAME for readers to leave it out"
        )
        return False
    return True
