"""Whether a text is JSON, as an expression of Spark."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F


def is_one_json(text: Any) -> Any:
    """Return a column that says whether a text is one value of JSON and nothing else. Spark's own
    functions read the first value and leave what follows it. As the elements of a list they must
    read all of it, and there must be one."""
    found = F.try_parse_json(F.concat(F.lit("["), text, F.lit("]")))
    return F.try_parse_json(text).isNotNull() & found.isNotNull() & _element(found, 1).isNull()


def _element(values: Any, place: int) -> Any:
    return F.try_variant_get(values, f"$[{place}]", "variant")
