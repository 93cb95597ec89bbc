"""Models of the Hugging Face hub: ``hub:OWNER/NAME@REVISION`` becomes a folder of checked files in the library's cache.

Only a process that a user has started comes here. Dispatchers and front doors are given the folder.
"""

from fastqps.models.hub.reference import PREFIX, is_hub, may_be_repository, parse_reference
from fastqps.models.hub.snapshot import fetch, fetched

__all__ = ["PREFIX", "fetch", "fetched", "is_hub", "may_be_repository", "parse_reference"]
