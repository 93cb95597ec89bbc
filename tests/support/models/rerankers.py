"""Random decoders with the files of rerankers that compare the logits of words, and their published code."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import tokenizers as tk
import torch
import transformers as tr
from bpe_files import trained
from decoders import write_decoder
from sentence_files import MODEL_FILE, write, write_modules
from tokenizer_checkpoints import gemma_file

INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
CONTEXT = 512
PAIRS = [
    ("What is the capital of China?", "The capital of China is Beijing."),
    (
        "Explain gravity",
        "Gravity is a force that attracts two bodies towards each other.\n\nIt gives weight to objects. ",
    ),
    ("été 中文 👍", " </think> 1234 "),
    ("", "\n"),
    ("x", "word " * 300),
]
# As repositories of rerankers have it for sentence-transformers: a message for each text, the prompt as the system's.
CHAT_TEMPLATE = (
    '<|im_start|>system\nJudge the Document. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n<Instruct>: {{ messages | selectattr('role', 'eq', 'system') | map(attribute='content') "
    "| first | default('Judge.', true) }}\n"
    "<Query>: {{ messages | selectattr('role', 'eq', 'query') | map(attribute='content') | first }}\n"
    "<Document>: {{ messages | selectattr('role', 'eq', 'document') | map(attribute='content') | first }}<|im_end|>\n"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n\n</think>\n\n{% endif %}"
)
ZERO_TEMPLATE = (  # a query as the system's message, a document as the user's
    "{% for each in messages %}<|im_start|>{{ {'query': 'system', 'document': 'user'}.get(each.role, each.role) }}\n"
    "{{ each.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CHATML = (
    "{% for each in messages %}<|im_start|>{{ each.role }}\n{{ each.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@cache
def qwen_file() -> str:
    """Qwen's tokenizer in small: its pattern, special tokens, and words that are labels."""
    tokenizer = tk.Tokenizer.from_str(trained("qwen"))
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens(["<think>", "</think>", "yes", "no"])
    return str(tokenizer.to_str())


def write_qwen(path: Path, template: str = "", seed: int = 0, *, native: bool = True, **options: Any) -> Any:
    """A Qwen3ForCausalLM and its tokenizer; returns transformers' model. Not ``native``: it is the package's."""
    path.mkdir(parents=True, exist_ok=True)
    size = tk.Tokenizer.from_str(qwen_file()).get_vocab_size()
    kind = options.pop("kind", "qwen3")
    model = write_decoder(path, kind, seed, vocab_size=size, max_position_embeddings=CONTEXT, **options)
    file = json.loads(qwen_file())
    write(path / "tokenizer.json", file if native else file | {"normalizer": {"type": "NFKC"}})
    told = {"tokenizer_class": "Qwen2Tokenizer" if native else "PreTrainedTokenizerFast"}
    told |= {"pad_token": "<|endoftext|>", "eos_token": "<|im_end|>"}
    write(path / "tokenizer_config.json", told | ({"chat_template": template} if template else {}))
    return model


def write_gemma_tokens(path: Path) -> Any:
    """A Mistral with SentencePiece's tokens, which have a space in front of a word."""
    path.mkdir(parents=True, exist_ok=True)
    file = gemma_file()
    size = max(max(file["model"]["vocab"].values()), *(token["id"] for token in file["added_tokens"])) + 1
    model = write_decoder(path, "mistral", vocab_size=size, max_position_embeddings=CONTEXT)
    write(path / "tokenizer.json", file)
    write(path / "tokenizer_config.json", {"tokenizer_class": "LlamaTokenizer", "bos_token": "<bos>"})
    return model


def write_bge(path: Path) -> Any:
    """bge-reranker-v2-gemma in small, with Gemma's tokens of line breaks, and Yes with and without a space."""
    path.mkdir(parents=True, exist_ok=True)
    file = gemma_file(*["\n\n"] * 300, *["Yes", " Yes"] * 300)
    vocab = file["model"]["vocab"]
    assert {"\n", "\n\n", "Yes", "▁Yes"} <= vocab.keys()
    model = write_decoder(path, "gemma", vocab_size=max(vocab.values()) + 1, max_position_embeddings=CONTEXT)
    write(path / "tokenizer.json", file)
    named = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}
    write(path / "tokenizer_config.json", {"tokenizer_class": "GemmaTokenizer", **named})
    return model


def bge_ids(path: Path, pairs: list[tuple[str, str]], most: int = CONTEXT) -> list[list[int]]:
    """The ids of bge-reranker-v2-gemma's model card: five pieces, each tokenized by itself. ``most``: of all ids."""
    tokenizer = tr.AutoTokenizer.from_pretrained(path)

    def ids_of(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    prompt = (
        "Given a query A and a passage B, determine whether the passage contains an answer to the query by providing "
        "a prediction of either 'Yes' or 'No'."
    )
    between, end = ids_of("\n"), ids_of(prompt)
    room = most - len(between) - len(end)  # the card's max_length
    found = []
    for query, passage in pairs:
        first = [tokenizer.bos_token_id, *ids_of(f"A: {query}")[: room * 3 // 4]]
        second = [*between, *ids_of(f"B: {passage}")[:room]]
        found.append([*first, *second[: room - len(first)], *between, *end])
    return found


def bge_scores(path: Path, ids: list[list[int]]) -> list[float]:
    """The scores of bge-reranker-v2-gemma's model card: the logit of Yes."""
    tokenizer = tr.AutoTokenizer.from_pretrained(path)
    model = tr.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    yes = tokenizer("Yes", add_special_tokens=False)["input_ids"][0]
    with torch.inference_mode():
        return [model(torch.tensor([each])).logits[0, -1, yes].item() for each in ids]


def write_logit_score(path: Path, true: str, false: str | None, template: str = CHAT_TEMPLATE, **model: Any) -> None:
    """Adds the files of sentence-transformers. ``model``: of the model's file."""
    vocab = tk.Tokenizer.from_file(str(path / "tokenizer.json"))
    base = "sentence_transformers"
    write_modules(
        path,
        [
            (f"{base}.base.modules.transformer.Transformer", ""),
            (f"{base}.cross_encoder.modules.logit_score.LogitScore", "1_LogitScore"),
        ],
    )
    write(
        path / "1_LogitScore/config.json",
        {"true_token_id": vocab.token_to_id(true), "false_token_id": false and vocab.token_to_id(false)},
    )
    forward = {"method": "forward", "method_output_name": "logits"}
    write(
        path / "sentence_bert_config.json",
        {
            "transformer_task": "text-generation",
            "modality_config": {"text": forward, "message": {**forward, "format": "flat"}},
            "module_output_name": "causal_logits",
            "processing_kwargs": {"chat_template": {"add_generation_prompt": True}},
        },
    )
    write(path / MODEL_FILE, {"model_type": "CrossEncoder", "prompts": {}, "default_prompt_name": None, **model})
    (path / "chat_template.jinja").write_text(template)


def card_ids(path: Path, pairs: list[tuple[str, str]], max_length: int = CONTEXT) -> list[list[int]]:
    """The ids of Qwen3-Reranker's model card."""
    tokenizer = tr.AutoTokenizer.from_pretrained(path, padding_side="left")
    prefix = tokenizer.encode(
        "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
        'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n',
        add_special_tokens=False,
    )
    suffix = tokenizer.encode("<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", add_special_tokens=False)
    texts = [f"<Instruct>: {INSTRUCTION}\n<Query>: {query}\n<Document>: {document}" for query, document in pairs]
    room = max_length - len(prefix) - len(suffix)
    inputs = tokenizer(texts, truncation="longest_first", return_attention_mask=False, max_length=room)
    return [prefix + ids + suffix for ids in inputs["input_ids"]]


def card_scores(path: Path, ids: list[list[int]]) -> list[float]:
    """The scores of Qwen3-Reranker's model card: the probability of yes beside no."""
    tokenizer = tr.AutoTokenizer.from_pretrained(path)
    model = tr.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    false, true = map(tokenizer.convert_tokens_to_ids, ("no", "yes"))
    scores = []
    with torch.inference_mode():
        for each in ids:
            last = model(torch.tensor([each])).logits[0, -1]
            both = torch.nn.functional.log_softmax(torch.stack([last[false], last[true]]), dim=0)
            scores.append(both[1].exp().item())
    return scores
