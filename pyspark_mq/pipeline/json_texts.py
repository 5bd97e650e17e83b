"""Whether a text is JSON, as an expression of Spark."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F


def is_one_json(text: Any) -> Any:
    """Return a column that says whether a text is one value of JSON and nothing else. Spark's own
    functions read the first value and leave what follows it. As the elements of a list they must
    read on, and there must be one. A bracket that ends the list does not end an object."""
    elements = F.try_parse_json(F.concat(F.lit("["), text, F.lit("]")))
    member = F.try_parse_json(F.concat(F.lit('{"":'), text, F.lit("}")))
    return member.isNotNull() & elements.isNotNull() & _element(elements, 1).isNull()


def _element(values: Any, place: int) -> Any:
    return F.try_variant_get(values, f"$[{place}]", "variant")
