"""Small tokenizer.json files that split words and put [CLS] and [SEP] around texts, as BERT's do."""

from __future__ import annotations

import json
from pathlib import Path

WORDS = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "b": 4}
PANICS = "文"  # the normalizer of `panicking` takes an added token apart in front of it
# For `hurtful`, whose regular expression takes twice as long for each further "a", up to its own limit:
ENDLESS = ("a" * 20 + "! ") * 180  # some ten seconds of CPU time, below 4 KiB
PANICS_SLOWLY = "a" * 29 + "!"  # a fifth of a second, then the package panics
GROWS = "c" * 60_000  # becomes 6 GB


def write_words(
    path: Path,
    words: dict[str, int] | None = None,
    *,
    native: bool = True,
    special: bool = True,
    panicking: bool = False,
    hurtful: bool = False,
) -> Path:
    """Writes tokenizer.json into the folder ``path``, to be taken as it is, for a model that has token types.

    Returns the file.

    With ``native`` False only the tokenizers package can read it; with ``panicking``, which is not native either, the
    package panics on each text that holds ``PANICS``. With ``hurtful``, which is not native either, the texts above
    take it as much time and memory as they say.
    """
    import tokenizers as tk

    words = WORDS | (words or {})
    made = tk.Tokenizer(tk.models.WordPiece(words, unk_token="[UNK]"))
    made.normalizer = tk.normalizers.BertNormalizer(lowercase=False, strip_accents=panicking)
    if not native:
        made.normalizer = tk.normalizers.Sequence([made.normalizer, tk.normalizers.NFKC()])
    made.pre_tokenizer = tk.pre_tokenizers.BertPreTokenizer()
    if hurtful:
        made.normalizer = tk.normalizers.Replace("c", "b" * 100_000)
        slow = tk.pre_tokenizers.Split(tk.Regex("(a+)+$"), "isolated")
        made.pre_tokenizer = tk.pre_tokenizers.Sequence([slow, made.pre_tokenizer])
    if special:
        made.post_processor = tk.processors.BertProcessing(("[SEP]", words["[SEP]"]), ("[CLS]", words["[CLS]"]))
    if panicking:
        made.add_tokens([tk.AddedToken("\u0301", normalized=True)])
    file = path / "tokenizer.json"
    made.save(str(file))
    names = ["input_ids", "token_type_ids", "attention_mask"]
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": names}
    (path / "tokenizer_config.json").write_text(json.dumps(config))
    return file
