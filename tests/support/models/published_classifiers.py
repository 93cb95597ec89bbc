"""config.json of popular classifiers and cross-encoders; see published_configs.py."""

from __future__ import annotations

from typing import Any

from published_bases import (
    ALIBI,
    BERT,
    CROSS,
    DEBERTA,
    DISTILBERT,
    DUMP,
    MODERNBERT,
    NEW_CROSS,
    POOLER,
    ROBERTA,
    SENTIMENT,
    XLMR,
    Config,
    Published,
)

POOLER_ACT = {"pooler_dropout": 0, "pooler_hidden_act": "gelu", "pooler_hidden_size": 768}
OLD_CROSS = {**CROSS, "sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}
MULTI_LABEL = {"problem_type": "multi_label_classification"}
_CLASSES = {
    "bert": "Bert",
    "camembert": "Camembert",
    "deberta-v2": "DebertaV2",
    "distilbert": "DistilBert",
    "modernbert": "ModernBert",
    "roberta": "Roberta",
    "xlm-roberta": "XLMRoberta",
}


def classifier(name: str, activation: str, config: Config, **more: Any) -> Published:
    config = config | more
    made = "JinaBert" if "feed_forward_type" in config else _CLASSES[config["model_type"]]
    warned = "jinaai/jina-bert-implementation" if made == "JinaBert" else ""
    return Published(
        name, config | {"architectures": [f"{made}ForSequenceClassification"]}, activation=activation, warned=warned
    )


def labels(*names: str) -> Config:
    return {"id2label": {str(i): name for i, name in enumerate(names)}}


CLASSIFIERS = (
    classifier("cross-encoder/ms-marco-MiniLM-L6-v2", "identity", BERT | OLD_CROSS),
    classifier("cross-encoder/ms-marco-MiniLM-L12-v2", "identity", BERT | CROSS | NEW_CROSS),
    classifier("cross-encoder/stsb-roberta-base", "sigmoid", ROBERTA | CROSS),
    classifier("BAAI/bge-reranker-base", "sigmoid", XLMR | CROSS),
    classifier("Alibaba-NLP/gte-reranker-modernbert-base", "sigmoid", MODERNBERT | CROSS, num_labels=1),
    classifier(
        "distilbert/distilbert-base-uncased-finetuned-sst-2-english",
        "softmax",
        DISTILBERT | labels("NEGATIVE", "POSITIVE"),
        finetuning_task="sst-2",
        label2id={"NEGATIVE": 0, "POSITIVE": 1},
    ),
    classifier(
        "cardiffnlp/twitter-roberta-base-sentiment-latest",
        "softmax",
        ROBERTA | SENTIMENT,
        gradient_checkpointing=False,
        position_embedding_type="absolute",
    ),
    classifier("cardiffnlp/twitter-roberta-base-emotion-multilabel", "sigmoid", ROBERTA | SENTIMENT | MULTI_LABEL),
    classifier(
        "papluca/xlm-roberta-base-language-detection",
        "softmax",
        XLMR | labels("ja", "nl", "ar", "pl", "de"),
        problem_type="single_label_classification",
    ),
    classifier(
        "nlptown/bert-base-multilingual-uncased-sentiment",
        "softmax",
        BERT | POOLER | labels(*(f"{i} stars" for i in range(1, 6))),
        _num_labels=5,
        finetuning_task="sentiment-analysis",
        output_past=True,
    ),
    classifier("ProsusAI/finbert", "softmax", BERT | SENTIMENT),
    classifier("unitary/toxic-bert", "sigmoid", BERT | labels("toxic", "severe_toxic") | MULTI_LABEL),
    classifier("textattack/bert-base-uncased-SST-2", "softmax", BERT | DUMP),
    classifier("HuggingFaceFW/fineweb-edu-classifier", "identity", BERT | CROSS, problem_type="regression"),
    classifier(
        "MoritzLaurer/DeBERTa-v3-base-mnli-fever-anli",
        "softmax",
        DEBERTA | POOLER_ACT | labels("entailment", "neutral", "contradiction"),
        torch_dtype="float32",
    ),
    classifier("mixedbread-ai/mxbai-rerank-base-v1", "identity", DEBERTA | POOLER_ACT | CROSS | NEW_CROSS),
    classifier(
        "protectai/deberta-v3-base-prompt-injection-v2",
        "softmax",
        DEBERTA | POOLER_ACT | labels("SAFE", "INJECTION"),
        pos_att_type=["p2c", "c2p"],
        problem_type="single_label_classification",
    ),
    classifier("jinaai/jina-reranker-v1-tiny-en", "sigmoid", BERT | ALIBI | CROSS),
    classifier("cmarkea/distilcamembert-base-sentiment", "softmax", ROBERTA | SENTIMENT, model_type="camembert"),
)
