"""config.json as people edit it: each key alone could change an answer. See published_configs.py."""

from __future__ import annotations

from published_bases import (
    BERT,
    DISTILBERT,
    LLAMA,
    LLAMA3_ROPE,
    LLAMA32,
    MODERNBERT,
    QWEN2,
    QWEN3,
    ROBERTA,
    SENTIMENT,
    Published,
    mean,
)

ODD = (
    mean("a bert that is a decoder", BERT | {"is_decoder": True}, refused="is_decoder true"),
    mean("a roberta that is a decoder", ROBERTA | {"is_decoder": True}, refused="is_decoder true"),
    mean(
        "a bert of an encoder-decoder",
        BERT | {"is_decoder": True, "add_cross_attention": True},
        refused="is_decoder|add_cross",
    ),
    mean("a bert with pruned heads", BERT | {"pruned_heads": {"0": [1]}}, refused="pruned_heads"),
    mean("a bert with relative positions", BERT | {"position_embedding_type": "relative_key"}, refused="relative_key"),
    mean("a bert with another epsilon", BERT | {"layer_norm_eps": 0.01}),
    mean("a bert with gelu_new", BERT | {"hidden_act": "gelu_new"}),
    mean("a bert with silu", BERT | {"hidden_act": "silu"}, refused="hidden_act"),
    mean("a bert with code of its own", BERT | {"auto_map": {"AutoModel": "modeling.MyBert"}}, warned="auto_map"),
    mean("a bert with a key of its own", BERT | {"my_scale": 2.0}, warned="my_scale"),
    mean("a bert with one token type", BERT | {"type_vocab_size": 1}),
    mean("a roberta with two token types", ROBERTA | {"type_vocab_size": 2}),
    mean("a roberta that pads with 0", ROBERTA | {"pad_token_id": 0}),
    mean("a roberta without its padding", {k: v for k, v in ROBERTA.items() if k != "pad_token_id"}),
    mean("a distilbert with an epsilon", DISTILBERT | {"layer_norm_eps": 0.01}),
    mean("a distilbert with common names", DISTILBERT | {"num_attention_heads": 8}),
    mean("a distilbert of sines", DISTILBERT | {"sinusoidal_pos_embds": True}),
    mean("a distilbert with relu", DISTILBERT | {"activation": "relu"}),
    Published(
        "labels by number alone",
        BERT | {"architectures": ["BertForSequenceClassification"], "num_labels": 3},
        activation="softmax",
    ),
    Published(
        "labels that leave one out",
        BERT | {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "a", "2": "b"}},
        "id2label",
    ),
    Published(
        "more labels than names",
        BERT | {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "a", "1": "b"}, "num_labels": 4},
        activation="softmax",
    ),
    mean("a modernbert whose tokens see themselves", MODERNBERT | {"local_attention": 1}, refused="local_attention 1"),
    mean("a modernbert with an odd window", MODERNBERT | {"local_attention": 7}),
    mean("a modernbert with a window of 2", MODERNBERT | {"local_attention": 2}),
    mean("a modernbert that is global each second time", MODERNBERT | {"global_attn_every_n_layers": 2}),
    mean("a modernbert that is global", MODERNBERT | {"global_attn_every_n_layers": 1}),
    mean(
        "a modernbert without the number",
        MODERNBERT | {"global_attn_every_n_layers": 0},
        refused="global_attn_every_n_layers 0",
    ),
    mean("a modernbert with biases", MODERNBERT | {"attention_bias": True, "mlp_bias": True, "norm_bias": True}),
    mean("a modernbert with biases that it denies", MODERNBERT, refused="has no place", tensors={"norm_bias": True}),
    mean("a modernbert with other angles", MODERNBERT | {"global_rope_theta": 80000.0, "local_rope_theta": 160000.0}),
    mean(
        "a modernbert with scaled positions",
        MODERNBERT | {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        refused="rope_scaling",
    ),
    mean("a modernbert with a window by its new name", MODERNBERT | {"sliding_window": 4}, refused="sliding_window"),
    Published(
        "a modernbert's head with relu and a bias",
        MODERNBERT
        | {
            **SENTIMENT,
            "architectures": ["ModernBertForSequenceClassification"],
            "classifier_activation": "relu",
            "classifier_bias": True,
            "classifier_pooling": "cls",
        },
        activation="softmax",
    ),
    Published(
        "llama3 positions with the context at the top",
        LLAMA32
        | {
            "rope_scaling": {k: v for k, v in LLAMA3_ROPE.items() if not k.startswith("orig")},
            "original_max_position_embeddings": 8192,
        },
    ),
    Published("llama3 positions with two contexts", LLAMA32 | {"original_max_position_embeddings": 16384}),
    Published(
        "llama3 positions without a context",
        LLAMA32 | {"rope_scaling": {k: v for k, v in LLAMA3_ROPE.items() if not k.startswith("orig")}},
    ),
    Published("linear positions by their old name", LLAMA | {"rope_scaling": {"type": "linear", "factor": 4.0}}),
    Published("positions on half of a head", LLAMA | {"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
    Published("a llama with biases", LLAMA | {"attention_bias": True, "mlp_bias": True}),
    Published("a llama without kv heads", {k: v for k, v in LLAMA.items() if k != "num_key_value_heads"}),
    Published("a llama with a window", LLAMA | {"sliding_window": 4096}, "sliding_window"),
    Published(
        "a tied llama with a head of its own",
        LLAMA | {"tie_word_embeddings": True},
        "tie_word_embeddings",
        tensors={"tie_word_embeddings": False},
    ),
    Published(
        "a qwen whose layers slide",
        QWEN2 | {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 0},
        "window|8",
    ),
    Published("a qwen that repeats less", QWEN2 | {"repetition_penalty": 1.1}, "repetition_penalty"),
    Published("a qwen3 with biases", QWEN3 | {"attention_bias": True}),
)
