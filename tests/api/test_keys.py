"""Keys of a checkpoint's files: honoured ones are read, irrelevant ones are not, refused ones end the load."""

from __future__ import annotations

import pytest

from fastqps.errors import ModelError
from fastqps.models.files.keys import Keys, Refused, UnlistedKeyError, rules

KNOWN = rules(("width",), ("comment",), {"is_decoder": Refused((False,), "attention in one direction is a decoder's")})


def test_an_honoured_key_is_read() -> None:
    keys = Keys("config.json", {"width": 3, "comment": "x"}, KNOWN)
    assert keys["width"] == 3 and dict(keys) == {"width": 3}
    assert keys.get("width") == 3 and Keys("config.json", {}, KNOWN).get("width", 7) == 7


@pytest.mark.parametrize("key", ["comment", "is_decoder", "depth"])
def test_no_code_reads_another_key(key: str) -> None:
    with pytest.raises(UnlistedKeyError, match=key):
        Keys("config.json", {key: False}, KNOWN).get(key)


def test_a_refused_key_names_file_key_value_and_reason() -> None:
    with pytest.raises(ModelError, match=r"config\.json: is_decoder true is not supported: attention in one direction"):
        Keys("config.json", {"is_decoder": True}, KNOWN)


@pytest.mark.parametrize("found", [{}, {"is_decoder": None}, {"is_decoder": False}])
def test_a_neutral_value_is_not_refused(found: dict[str, object]) -> None:
    assert Keys("config.json", found, KNOWN).unknown == ()


def test_a_number_is_no_flag() -> None:
    with pytest.raises(ModelError, match="is_decoder 0"):
        Keys("config.json", {"is_decoder": 0}, KNOWN)


def test_unknown_keys_are_named() -> None:
    assert Keys("config.json", {"width": 1, "depth": 2}, KNOWN).unknown == ("depth",)


def test_the_later_rules_decide() -> None:
    both = KNOWN | rules(honoured=("is_decoder",), irrelevant=("width",))
    assert both.honoured == {"is_decoder"} and both.irrelevant == {"comment", "width"} and not both.refused


def test_a_key_has_one_rule() -> None:
    with pytest.raises(ValueError, match="width"):
        rules(("width",), ("width",))
