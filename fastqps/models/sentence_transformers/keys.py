"""The keys of the files of sentence-transformers (6.2), and which of them decide an embedding or a score."""

from __future__ import annotations

import re

from fastqps.models.files.keys import Refused, rules
from fastqps.models.tokenizers.keys import CHAT_TEMPLATE
from fastqps.models.tokenizers.keys import CONFIG as TOKENIZER_CONFIG

# The names under which a transformer's own file is published, in the order in which they are looked for.
TRANSFORMER_FILES = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
MODEL_FILE = "config_sentence_transformers.json"
DECIDING = (  # files beside the weights that decide the answers of a checkpoint
    "added_tokens.json",
    CHAT_TEMPLATE,
    "config.json",
    "generation_config.json",
    "modules.json",
    MODEL_FILE,
    *TRANSFORMER_FILES,
    "special_tokens_map.json",
    "tokenizer.json",
    TOKENIZER_CONFIG,
)

TRANSFORMER = rules(
    honoured=(
        "max_seq_length",
        "do_lower_case",
        "transformer_task",
        "modality_config",
        "module_output_name",
        "model_args",
        "model_kwargs",
        "tokenizer_args",
        "processor_kwargs",
        "config_args",
        "config_kwargs",
        "processing_kwargs",
    ),
    irrelevant=("unpad_inputs", "backend"),
    refused={
        "tokenizer_name_or_path": Refused((), "a tokenizer has to lie beside the weights"),
        "query_length": Refused((), "lengths by task are not supported; --max-input-tokens sets one for all"),
        "document_length": Refused((), "lengths by task are not supported; --max-input-tokens sets one for all"),
        "query_expansion": Refused((), "queries are not expanded"),
    },
)
# That of a model with a vector for each token.
MULTI_TRANSFORMER = TRANSFORMER | rules(honoured=("query_length", "document_length", "query_expansion"))
EXPANSION = rules(honoured=("strategy", "attend", "token", "length"))
# Arguments that a file can pass on to transformers: formats and loading, which decide no answer.
LOADING = rules(
    irrelevant=(
        "torch_dtype",
        "dtype",
        "attn_implementation",
        "add_pooling_layer",
        "low_cpu_mem_usage",
        "use_safetensors",
        "trust_remote_code",
        "use_fast",
        "padding",
        "revision",
        "code_revision",
        "use_cache",
    ),
)
TOKENIZER_LOADING = LOADING | rules(
    honoured=("model_max_length",),
    # With padding in front, the positions of a text would depend on the longest text beside it.
    refused={"padding_side": Refused(("right",), "an answer would depend on the texts beside it")},
)
MODEL = rules(
    honoured=("model_type", "prompts", "default_prompt_name", "activation_fn", "max_active_dims"),
    irrelevant=("__version__", "requirements", "similarity_fn_name", "keep_in_fp32_modules"),
    refused={"truncate_dim": Refused((), "shorter embeddings are a request's choice (output.dimensions)")},
)
MULTI_MODEL = MODEL | rules(
    honoured=(
        "query_prefix",
        "document_prefix",
        "query_length",
        "document_length",
        "query_expansion",
        "do_query_expansion",
        "attend_to_expansion_tokens",
        "attend_to_mask_tokens",
        "skiplist_words",
    ),
)
TOKEN_MASK = rules(
    honoured=("skiplist_words", "skiplist_tasks"),
    refused={"keep_only_token_ids": Refused(([],), "it chooses the tokens of images, and inputs are texts")},
)
MODULE = rules(honoured=("type", "path", "name"), irrelevant=("idx", "kwargs"))
POOLING = rules(
    honoured=(
        "pooling_mode",
        "pooling_mode_cls_token",
        "pooling_mode_max_tokens",
        "pooling_mode_mean_tokens",
        "pooling_mode_mean_sqrt_len_tokens",
        "pooling_mode_weightedmean_tokens",
        "pooling_mode_lasttoken",
        "include_prompt",
    ),
    irrelevant=("word_embedding_dimension", "embedding_dimension"),
)
SPLADE_POOLING = rules(
    honoured=("pooling_strategy", "activation_function"),
    irrelevant=("word_embedding_dimension", "embedding_dimension", "chunk_size"),
)
LOGIT_SCORE = rules(
    honoured=("true_token_id", "false_token_id"),
    refused={"module_input_name": Refused(("causal_logits",), "scores are those of the decoder's logits")},
)
_POOLED = Refused(("sentence_embedding",), "only the pooled vector is projected and normalised")
DENSE = rules(
    honoured=("in_features", "out_features", "bias", "activation_function"),
    irrelevant=("init_weight", "init_bias"),  # arguments of its class: tensors, which no JSON value is
    refused={
        "module_input_name": _POOLED,
        "module_output_name": _POOLED,
        "use_residual": Refused((False,), "projections have no residual"),
    },
)
NORMALIZE = rules(honoured=("module_input_name",), refused={"module_output_name": _POOLED})
# The same modules of a model with a vector for each token.
_BY_TOKEN = Refused(
    ("token_embeddings",), "there is no pooled vector; only those of tokens are projected and normalised"
)
_NAMES = rules(refused={"module_input_name": _BY_TOKEN, "module_output_name": _BY_TOKEN})
TOKEN_DENSE = DENSE | _NAMES
TOKEN_NORMALIZE = _NAMES | rules(honoured=("module_input_name",))

# A class of torch.nn, by the names under which it can be imported.
_TORCH_CLASS = re.compile(r"torch\.nn(?:\.modules(?:\.(?:activation|linear))?)?\.(\w+)")


def torch_class(path: object) -> str:
    """The class of torch.nn that a file names; "" for any other, such as a repository's own ``my_code.Identity``."""
    match = _TORCH_CLASS.fullmatch(path) if isinstance(path, str) else None
    return match[1] if match else ""
