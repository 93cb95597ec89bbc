"""config.json of popular classifiers and cross-encoders; see published_configs.py."""

from __future__ import annotations

from published_bases import (
    ALIBI,
    BERT,
    CROSS,
    DEBERTA,
    DISTILBERT,
    DUMP,
    MODERNBERT,
    NEW_CROSS,
    OLD_CROSS,
    POOLER,
    ROBERTA,
    SENTIMENT,
    XLMR,
    Published,
    small,
)

POOLER_ACT = {"pooler_dropout": 0, "pooler_hidden_act": "gelu", "pooler_hidden_size": 768}
CLASSIFIERS = (
    Published("cross-encoder/ms-marco-MiniLM-L6-v2", small(BERT | OLD_CROSS, 384, 6), activation="identity"),
    Published("cross-encoder/ms-marco-MiniLM-L12-v2", small(BERT | CROSS | NEW_CROSS, 384, 12), activation="identity"),
    Published(
        "cross-encoder/ms-marco-TinyBERT-L2-v2",
        small(BERT | OLD_CROSS, 128, 2, num_attention_heads=2),
        activation="identity",
    ),
    Published(
        "cross-encoder/stsb-roberta-base",
        ROBERTA | {**CROSS, "architectures": ["RobertaForSequenceClassification"]},
        activation="sigmoid",
    ),
    Published(
        "BAAI/bge-reranker-base",
        XLMR | {**CROSS, "architectures": ["XLMRobertaForSequenceClassification"]},
        activation="sigmoid",
    ),
    Published(
        "BAAI/bge-reranker-v2-m3",
        XLMR | {**CROSS, "architectures": ["XLMRobertaForSequenceClassification"], "max_position_embeddings": 8194},
        activation="sigmoid",
    ),
    Published(
        "Alibaba-NLP/gte-reranker-modernbert-base",
        MODERNBERT | {**CROSS, "architectures": ["ModernBertForSequenceClassification"], "num_labels": 1},
        activation="sigmoid",
    ),
    Published(
        "distilbert/distilbert-base-uncased-finetuned-sst-2-english",
        DISTILBERT
        | {
            "architectures": ["DistilBertForSequenceClassification"],
            "finetuning_task": "sst-2",
            "id2label": {"0": "NEGATIVE", "1": "POSITIVE"},
            "label2id": {"NEGATIVE": 0, "POSITIVE": 1},
        },
        activation="softmax",
    ),
    Published(
        "cardiffnlp/twitter-roberta-base-sentiment-latest",
        ROBERTA
        | SENTIMENT
        | {
            "architectures": ["RobertaForSequenceClassification"],
            "gradient_checkpointing": False,
            "position_embedding_type": "absolute",
        },
        activation="softmax",
    ),
    Published(
        "cardiffnlp/twitter-roberta-base-emotion-multilabel",
        ROBERTA
        | SENTIMENT
        | {"architectures": ["RobertaForSequenceClassification"], "problem_type": "multi_label_classification"},
        activation="sigmoid",
    ),
    Published(
        "papluca/xlm-roberta-base-language-detection",
        XLMR
        | {
            "architectures": ["XLMRobertaForSequenceClassification"],
            "id2label": {str(i): code for i, code in enumerate(["ja", "nl", "ar", "pl", "de"])},
            "problem_type": "single_label_classification",
        },
        activation="softmax",
    ),
    Published(
        "nlptown/bert-base-multilingual-uncased-sentiment",
        BERT
        | POOLER
        | {
            "architectures": ["BertForSequenceClassification"],
            "_num_labels": 5,
            "finetuning_task": "sentiment-analysis",
            "output_past": True,
            "id2label": {str(i): f"{i + 1} stars" for i in range(5)},
        },
        activation="softmax",
    ),
    Published(
        "ProsusAI/finbert",
        BERT | {**SENTIMENT, "architectures": ["BertForSequenceClassification"], "type_vocab_size": 2},
        activation="softmax",
    ),
    Published(
        "unitary/toxic-bert",
        BERT
        | {
            "architectures": ["BertForSequenceClassification"],
            "problem_type": "multi_label_classification",
            "id2label": {"0": "toxic", "1": "severe_toxic"},
        },
        activation="sigmoid",
    ),
    Published(
        "textattack/bert-base-uncased-SST-2",
        BERT | DUMP | {"architectures": ["BertForSequenceClassification"]},
        activation="softmax",
    ),
    Published(
        "HuggingFaceFW/fineweb-edu-classifier",
        small(BERT | CROSS, 768, 12, problem_type="regression"),
        activation="identity",
    ),
    Published(
        "MoritzLaurer/DeBERTa-v3-base-mnli-fever-anli",
        DEBERTA
        | POOLER_ACT
        | {
            "architectures": ["DebertaV2ForSequenceClassification"],
            "id2label": {"0": "entailment", "1": "neutral", "2": "contradiction"},
            "torch_dtype": "float32",
        },
        activation="softmax",
    ),
    Published(
        "mixedbread-ai/mxbai-rerank-base-v1",
        DEBERTA | POOLER_ACT | {**CROSS, **NEW_CROSS, "architectures": ["DebertaV2ForSequenceClassification"]},
        activation="identity",
    ),
    Published(
        "protectai/deberta-v3-base-prompt-injection-v2",
        DEBERTA
        | POOLER_ACT
        | {
            "architectures": ["DebertaV2ForSequenceClassification"],
            "id2label": {"0": "SAFE", "1": "INJECTION"},
            "pos_att_type": ["p2c", "c2p"],
            "problem_type": "single_label_classification",
        },
        activation="softmax",
    ),
    Published(
        "jinaai/jina-reranker-v1-tiny-en",
        BERT | ALIBI | {**CROSS, "architectures": ["JinaBertForSequenceClassification"]},
        activation="sigmoid",
        warned="jinaai/jina-bert-implementation",
    ),
    Published(
        "cmarkea/distilcamembert-base-sentiment",
        ROBERTA | {**SENTIMENT, "model_type": "camembert", "architectures": ["CamembertForSequenceClassification"]},
        activation="softmax",
    ),
)
