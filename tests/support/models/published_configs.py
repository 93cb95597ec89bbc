"""config.json of popular models that are served, as they were published.

Sizes are shrunk when a checkpoint is written, so a model that differs in its size alone is left out. Everything else is
as in the file that the authors publish: legacy keys, spellings of three major versions of transformers, dumps of whole
defaults. What is refused is in tests/models/test_refused.py.
"""

from __future__ import annotations

from published_bases import (
    ALBERT,
    ALIBI,
    BERT,
    DEBERTA,
    DISTILBERT,
    DUMP,
    ELECTRA,
    GEMMA,
    GEMMA3,
    GEMMA3_1B,
    GPT2,
    GRANITE,
    GRANITE4,
    GTE_FOREIGN,
    LLAMA,
    LLAMA3_ROPE,
    LLAMA32,
    MISTRAL,
    MODERNBERT,
    MPNET,
    NEW,
    NOMIC,
    OLMO2,
    OPT,
    PHI3,
    PHI4_MINI,
    POOLER,
    PYTHIA,
    QWEN2,
    QWEN3,
    QWEN3_EMBEDDING,
    ROBERTA,
    SMOLLM2,
    SMOLLM3,
    STABLELM2,
    T5,
    XLMR,
    Published,
    cls,
    last,
    mean,
    small,
)
from published_classifiers import CLASSIFIERS

EMBEDDERS = (
    mean(
        "sentence-transformers/all-MiniLM-L6-v2", small(BERT, 384, 6, _name_or_path="nreimers/MiniLM-L6-H384-uncased")
    ),
    mean("sentence-transformers/paraphrase-MiniLM-L3-v2", small(BERT, 384, 3, tie_word_embeddings=True), False),
    mean("sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2", small(BERT, 384, 12, vocab_size=250037), False),
    mean("sentence-transformers/all-distilroberta-v1", ROBERTA | {"architectures": ["RobertaModel"]}),
    mean(
        "sentence-transformers/msmarco-distilbert-base-v4", DISTILBERT | {"architectures": ["DistilBertModel"]}, False
    ),
    cls(
        "sentence-transformers/msmarco-distilbert-base-tas-b",
        DISTILBERT | {"architectures": ["DistilBertModel"]},
        False,
    ),
    mean(
        "sentence-transformers/distiluse-base-multilingual-cased-v2", DISTILBERT | {"output_hidden_states": True}, False
    ),
    mean("sentence-transformers/paraphrase-xlm-r-multilingual-v1", XLMR, False),
    mean("sentence-transformers/bert-base-nli-mean-tokens", BERT | DUMP, False),
    cls("sentence-transformers/LaBSE", BERT | POOLER | {"vocab_size": 501153}),
    cls("BAAI/bge-small-en-v1.5", small(BERT, 384, 12, id2label={"0": "LABEL_0"}, classifier_dropout=None)),
    cls("BAAI/bge-base-en-v1.5", BERT | {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}),
    cls("BAAI/bge-large-en-v1.5", small(BERT, 1024, 24, num_attention_heads=16)),
    cls("BAAI/bge-small-zh-v1.5", small(BERT, 512, 4, bos_token_id=0, vocab_size=21128, **POOLER)),
    cls("BAAI/bge-m3", XLMR | {"max_position_embeddings": 8194, "hidden_size": 1024, "num_hidden_layers": 24}),
    mean("thenlper/gte-base", BERT | {"torch_dtype": "float16"}, False),
    mean("intfloat/e5-base-v2", BERT),
    mean(
        "intfloat/multilingual-e5-small",
        small(BERT, 384, 12, tokenizer_class="XLMRobertaTokenizer", vocab_size=250037),
    ),
    mean("intfloat/multilingual-e5-base", XLMR | {"tokenizer_class": "XLMRobertaTokenizer"}),
    cls("Snowflake/snowflake-arctic-embed-m", BERT | {"transformers_version": "4.36.1"}),
    cls("mixedbread-ai/mxbai-embed-large-v1", small(BERT, 1024, 24, use_cache=False), False),
    mean("ibm-granite/granite-embedding-30m-english", ROBERTA | {"architectures": ["RobertaModel"]}, False),
    cls("Alibaba-NLP/gte-modernbert-base", MODERNBERT | {"architectures": ["ModernBertModel"]}, False),
    mean("nomic-ai/modernbert-embed-base", MODERNBERT),
    Published("answerdotai/ModernBERT-base", MODERNBERT, warned="ModernBertForMaskedLM"),
    mean(
        "a modernbert with other layers and angles",
        MODERNBERT | {"global_attn_every_n_layers": 2, "global_rope_theta": 80000.0, "local_rope_theta": 160000.0},
    ),
    Published("google-bert/bert-base-uncased", BERT | {"architectures": ["BertForMaskedLM"]}, warned="BertForMaskedLM"),
    Published("google-bert/bert-base-multilingual-cased", BERT | POOLER | {"architectures": ["BertForMaskedLM"]}),
    Published("FacebookAI/roberta-base", ROBERTA, warned="RobertaForMaskedLM"),
    Published("FacebookAI/xlm-roberta-base", XLMR | {"architectures": ["XLMRobertaForMaskedLM"]}),
    Published(
        "almanach/camembert-base", ROBERTA | {"architectures": ["CamembertForMaskedLM"], "model_type": "camembert"}
    ),
    Published("distilbert/distilbert-base-uncased", DISTILBERT, warned="DistilBertForMaskedLM"),
    mean("sentence-transformers/all-mpnet-base-v2", MPNET),
    mean("sentence-transformers/multi-qa-mpnet-base-dot-v1", MPNET | {"_name_or_path": "microsoft/mpnet-base"}, False),
    mean("sentence-transformers/paraphrase-albert-small-v2", small(ALBERT, 768, 6, vocab_size=30000), False),
    mean("nomic-ai/nomic-embed-text-v1.5 with transformers' keys", NOMIC, warned="auto_map"),
    Published("microsoft/deberta-v3-base", DEBERTA),
    Published("microsoft/mdeberta-v3-base", DEBERTA | {"vocab_size": 251000, "architectures": ["DebertaV2Model"]}),
    mean("sentence-transformers/sentence-t5-base", T5),
    mean("sentence-transformers/gtr-t5-large", T5 | {"d_model": 1024, "num_heads": 16, "dense_act_fn": "relu"}),
    mean("the encoder of google/t5-v1_1-base", T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    cls("Alibaba-NLP/gte-multilingual-base", NEW, warned="answers are those of Alibaba-NLP/new-impl"),
    cls(
        "Alibaba-NLP/gte-base-en-v1.5",
        NEW | {"rope_theta": 500000, "rope_scaling": {"factor": 2.0, "type": "ntk"}, "type_vocab_size": 0},
        False,
        warned="auto_map",
    ),
    mean("jinaai/jina-embeddings-v2-base-en", BERT | ALIBI, False, warned="jinaai/jina-bert-implementation"),
    mean("google/embeddinggemma-300m", GEMMA3),
    mean(
        "google/embeddinggemma-300m as transformers 5 saves it",
        {k: v for k, v in GEMMA3.items() if not k.startswith("rope_")}
        | {
            "rope_parameters": {
                "full_attention": {"rope_theta": 1000000.0, "rope_type": "default"},
                "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
            }
        },
    ),
    last("Qwen/Qwen3-Embedding-0.6B", QWEN3_EMBEDDING),
    last("intfloat/e5-mistral-7b-instruct", MISTRAL | {"architectures": ["MistralModel"], "pad_token_id": 2}),
    last("Alibaba-NLP/gte-Qwen2-1.5B-instruct", QWEN2 | GTE_FOREIGN, warned="auto_map"),
    last("a llama of both directions", LLAMA | {"is_causal": False, "architectures": ["LlamaModel"]}),
    last("a gemma that sees what came before", GEMMA3 | {"use_bidirectional_attention": False}),
    last(
        "a gemma with scaled positions",
        {k: v for k, v in GEMMA3.items() if k != "layer_types"}
        | {"sliding_window_pattern": 2, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}},
    ),
    Published("microsoft/mpnet-base", MPNET, warned="MPNetForMaskedLM"),
    Published("albert/albert-base-v2", ALBERT, warned="AlbertForMaskedLM"),
    Published("albert/albert-xxlarge-v2", small(ALBERT, 4096, 12, num_attention_heads=64, hidden_act="gelu")),
    Published("google/electra-small-discriminator", ELECTRA, warned="ElectraForPreTraining"),
    Published("google/electra-base-discriminator", small(ELECTRA, 768, 12, embedding_size=768)),
    Published("allenai/scibert_scivocab_uncased", {k: v for k, v in BERT.items() if k != "architectures"}),
)
GENERATORS = (
    Published("TinyLlama/TinyLlama-1.1B-Chat-v1.0", LLAMA),
    Published("HuggingFaceTB/SmolLM-135M", SMOLLM2 | {"max_position_embeddings": 2048, "rope_theta": 10000.0}),
    Published("HuggingFaceTB/SmolLM2-135M-Instruct", SMOLLM2),
    Published("meta-llama/Llama-3.2-1B", LLAMA32),
    Published(
        "unsloth/Llama-3.2-1B-Instruct",
        LLAMA32 | {"eos_token_id": 128009, "pad_token_id": 128004, "unsloth_fixed": True},
    ),
    Published("meta-llama/Meta-Llama-3-8B", LLAMA | {"max_position_embeddings": 8192, "rope_theta": 500000.0}),
    Published(
        "JackFram/llama-68m", LLAMA | {"num_key_value_heads": 12, "num_attention_heads": 12, "rms_norm_eps": 1e-06}
    ),
    Published(
        "mistralai/Mistral-7B-v0.3",
        MISTRAL | {"rope_theta": 1000000.0, "sliding_window": None, "vocab_size": 32768},
    ),
    Published("Qwen/Qwen2-0.5B", QWEN2),
    Published(
        "Qwen/Qwen2.5-0.5B-Instruct",
        QWEN2
        | {"eos_token_id": 151645, "max_position_embeddings": 32768, "sliding_window": 32768, "max_window_layers": 21},
    ),
    Published("Qwen/Qwen2.5-1.5B", QWEN2 | {"use_mrope": False, "hidden_size": 1536, "num_attention_heads": 12}),
    Published("Qwen/Qwen3-0.6B", QWEN3),
    Published(
        "Qwen/Qwen3-0.6B as transformers 5 saves it",
        {k: v for k, v in QWEN3.items() if not k.startswith("rope_")}
        | {"rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}, "dtype": "bfloat16"},
    ),
    Published(
        "llama3 positions without a context",
        LLAMA32 | {"rope_scaling": {k: v for k, v in LLAMA3_ROPE.items() if not k.startswith("orig")}},
    ),
    Published("linear positions by their old name", LLAMA | {"rope_scaling": {"type": "linear", "factor": 4.0}}),
    Published("BAAI/bge-reranker-v2-gemma", GEMMA),
    Published("google/gemma-3-1b-it", GEMMA3_1B),
    Published(
        "google/gemma-3-270m",
        GEMMA3 | {"architectures": ["Gemma3ForCausalLM"], "use_bidirectional_attention": False},
    ),
    Published("HuggingFaceTB/SmolLM3-3B", SMOLLM3),
    Published("microsoft/Phi-3-mini-4k-instruct", PHI3, warned="auto_map"),
    Published("microsoft/Phi-4-mini-instruct", PHI4_MINI, warned="auto_map"),
    Published(
        "positions of Phi-3-mini-128k-instruct by their old name",
        PHI3
        | {"max_position_embeddings": 131072, "sliding_window": 262144}
        | {"rope_scaling": PHI4_MINI["rope_scaling"] | {"type": "su", "original_max_position_embeddings": 4096}},
        warned="auto_map",
    ),
    Published("mistralai/Mistral-7B-v0.1", MISTRAL),
    Published(
        "mistralai/Ministral-8B-Instruct-2410",
        MISTRAL
        | {"head_dim": 128, "num_hidden_layers": 36, "rope_theta": 100000000.0, "sliding_window": 32768}
        | {"vocab_size": 131072},
    ),
    Published(
        "Qwen3 over yarn's positions",
        QWEN3 | {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}},
    ),
    Published("openai-community/gpt2", GPT2),
    Published("facebook/opt-125m", OPT),
    Published(
        "facebook/opt-350m",
        OPT
        | {"hidden_size": 1024, "num_attention_heads": 16, "ffn_dim": 4096, "num_hidden_layers": 24}
        | {"do_layer_norm_before": False, "word_embed_proj_dim": 512},
    ),
    Published("EleutherAI/pythia-160m", PYTHIA),
    Published("allenai/OLMo-2-0425-1B", OLMO2),
    Published("ibm-granite/granite-3.3-2b-instruct", GRANITE),
    Published("ibm-granite/granite-4.0-350m", GRANITE4),
    Published("stabilityai/stablelm-2-1_6b", STABLELM2),
    Published(
        "tiiuae/Falcon3-1B-Instruct",
        LLAMA
        | {"activation": "swiglu", "head_dim": 256, "hidden_size": 2048, "num_attention_heads": 8}
        | {"num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_theta": 1000042, "eos_token_id": 11}
        | {"mlp_bias": False, "attention_bias": False, "attention_dropout": 0.0, "vocab_size": 131072},
        warned="activation",
    ),
    Published("a llama without kv heads", {k: v for k, v in LLAMA.items() if k != "num_key_value_heads"}),
)
PUBLISHED = (*EMBEDDERS, *CLASSIFIERS, *GENERATORS)
