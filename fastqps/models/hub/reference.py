"""``hub:OWNER/NAME@REVISION``, as a user writes it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fastqps.errors import ModelError

PREFIX = "hub:"
REVISION_DEFAULT = "main"
_PART = r"[A-Za-z0-9_](?:[\w.-]{0,94}[A-Za-z0-9_])?"
_REPOSITORY = re.compile(rf"(?:{_PART}/)?{_PART}", re.ASCII)
_REVISION = re.compile(r"[\w][\w./+-]{0,199}", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class HubReference:
    """A repository of the hub, and a branch, tag, pull request (``refs/pr/1``) or commit of it."""

    repository: str
    revision: str = REVISION_DEFAULT

    @property
    def name(self) -> str:
        """The model's name, without its owner."""
        return self.repository.rpartition("/")[2]

    @property
    def pinned(self) -> bool:
        """Whether the revision is a commit, which never becomes another one."""
        return bool(_COMMIT.fullmatch(self.revision))

    def __str__(self) -> str:
        return f"{PREFIX}{self.repository}@{self.revision}"


def is_hub(text: str) -> bool:
    """Whether a model or an adapter is named by its repository, and not by a folder."""
    return text.startswith(PREFIX)


def may_be_repository(text: str) -> bool:
    """Whether the text has the form OWNER/NAME or OWNER/NAME@REVISION, which a relative path may have, too."""
    return "/" in text.partition("@")[0] and _match(text) is not None


def parse_reference(text: str) -> HubReference:
    """The repository and the revision; ``ModelError`` where it is not written as they are."""
    if found := _match(text.removeprefix(PREFIX)):
        return found
    raise ModelError(
        f"{text[:200]!r} names no repository: write hub:OWNER/NAME, or hub:OWNER/NAME@REVISION for a branch, a tag "
        "or a commit"
    )


def _match(text: str) -> HubReference | None:
    repository, at, revision = text.partition("@")
    valid = _REPOSITORY.fullmatch(repository) and "--" not in repository and ".." not in text
    if not valid or (at and not _REVISION.fullmatch(revision)):
        return None
    return HubReference(repository, revision or REVISION_DEFAULT)
