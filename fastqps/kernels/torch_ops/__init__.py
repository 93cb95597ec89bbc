"""The operations of this package's kernels in plain torch: the reference of their checks, and what takes their place.

Each function has its launcher's name, arguments and results. It can be captured in a graph: shapes are static, counts
are read on the device, and nothing waits for it. So nothing here uses ``item``, ``nonzero``, a mask as an index, or a
tensor made from numbers of the host. Padding rows are never used as indices. Arguments keep their padding rows
unchanged; padding rows of new results are undefined.

No function writes stamps: torch cannot read the device's clock. The host's times of launch and end take their place.
"""

from __future__ import annotations

from fastqps.kernels.torch_ops.attention import tile_attention
from fastqps.kernels.torch_ops.items import bag_means, embed_norm, end_step, pool
from fastqps.kernels.torch_ops.logit_options import logit_options
from fastqps.kernels.torch_ops.rows import activate, add_norm, quantise_rows
from fastqps.kernels.torch_ops.sample import sample
from fastqps.kernels.torch_ops.slots import embed_tokens, last_rows, rope_kv, slot_attention

__all__ = [
    "activate",
    "add_norm",
    "bag_means",
    "embed_norm",
    "embed_tokens",
    "end_step",
    "last_rows",
    "logit_options",
    "pool",
    "quantise_rows",
    "rope_kv",
    "sample",
    "slot_attention",
    "tile_attention",
]
