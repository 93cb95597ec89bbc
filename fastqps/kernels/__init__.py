"""The GPU kernels, in Triton. Each module is one kernel and the launcher that takes its tensors.

Everything is computed in float32; what is read and written has the model's type (float32, bfloat16, float16).
Configurations are fixed by shape (``shapes.py``); nothing is tuned while serving. Launchers allocate what they return,
take static shapes and never wait, so that they can be captured in a graph. ``count`` is int32 [1 or more] on the
device, of which the first is read: rows from there on are padding, which is computed (so that no load waits for the
count) but not stored.

======================  ================================================================================================
``embed_norm``          ids → words, positions, types → layer norm (and float8); each row's item; the start stamp
``add_norm``            residual sum, layer norm or root mean square norm, and float8, of each row
``tile_attention``      attention inside each item of a packed batch; also causal, in a window, with shared keys, turned
``activate``            gelu, relu, silu, plain or gated (or float8)
``quantise_rows``       float8 where no kernel before could write it
``pool``                each item's first, last, mean or largest row in float32; the end stamp
``bag_means``           a static model's ids → the mean of each item's rows of its table; the start stamp
``embed_tokens``        new sequences' parameters; ids or the slot's newest token, kept → words and places; start stamp
``rope_kv``             queries and keys normalised and turned; keys and values of a decoder's rows into their slots
``slot_attention``      those queries over the prefix and their own slot, of prompts and running sequences alike
``last_rows``           the last row of each run
``logit_options``       penalties and forbidden tokens: the logits of each run that has such options
``sample``              the token of each run, by two passes over the vocabulary; stops, lengths; the end stamp
======================  ================================================================================================

``operations`` is what models call: a kernel, or its counterpart of ``torch_ops`` where ``checks`` found it wrong.

Only this package imports Triton, which is optional: ``TRITON_MISSING`` says why it cannot be used, or is empty. Under
``TRITON_INTERPRET=1`` the kernels run on CPU tensors, slowly.
"""

from __future__ import annotations

import importlib.util

TRITON_MISSING = "" if importlib.util.find_spec("triton") else "the package triton is not installed"
