"""What bodies, answers and values of several routes have in common."""

import re
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

# Not `le` the largest: the documentation has limits as floats, which hold 2**63 but not the number below it.
_BEYOND = 2**63
_DIGITS = re.compile(r"[1-9][0-9]{0,18}")


class Asked(BaseModel):
    """A body of the application's: camelCase, nothing unknown, and no number in the place of a text."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, alias_generator=to_camel)


class Told(BaseModel):
    """An answer to the application: camelCase."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)


def _decimal(value: object) -> object:
    # pydantic's own integers also take +1, 1.0 and spaces.
    if isinstance(value, str) and not _DIGITS.fullmatch(value):
        raise PydanticCustomError("positive_integer", "a positive number in decimal digits")
    return value


Id = Annotated[int, Field(gt=0, lt=_BEYOND)]
"""A key of the application's, a bigint, in a body."""

IdInPath = Annotated[int, Field(gt=0, lt=_BEYOND), BeforeValidator(_decimal)]
"""The same as part of a path."""
