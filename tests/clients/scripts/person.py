"""A form that each answer has: every text of it ends, also a random model's."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Person(BaseModel):
    """A person."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(max_length=8)
    size: Literal["small", "large"]
    old: bool
    age: int = Field(ge=0, le=130)
