"""``python -m bench.peers.convert RUNTIME CHECKPOINT FOLDER``: one of ``llamas`` in int8, as a peer reads it.

First its fp32 form must generate what transformers has generated: int8 alone would not show that it is the same model.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.peers.generators import END, ctranslate2_way, openvino_way, word
from bench.peers.llamas import Llama
from bench.peers.program import Way

_CHECKED = 8  # prompts
_EXACT = {"KV_CACHE_PRECISION": "f32", "INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}


def _ctranslate2(llama: Llama, folder: Path, exact: Path) -> Way:
    from ctranslate2.converters import TransformersConverter
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    class Converter(TransformersConverter):  # type: ignore[misc]  # its package is not in this environment
        """Of a checkpoint that has no tokenizer."""

        def load_tokenizer(self, tokenizer_class: Any, model_name_or_path: Any, **_: Any) -> Any:
            words = {word(token): token for token in range(llama.vocab)}
            tokenizer = Tokenizer(WordLevel(words, unk_token=word(0)))
            ends = {"unk_token": word(0), "bos_token": word(1), "eos_token": word(END)}
            return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **ends)

    converter = Converter(str(llama.path))
    converter.convert(str(folder), quantization="int8")
    converter.convert(str(exact), quantization="float32")
    return ctranslate2_way(exact, 1, "float32")


def _openvino(llama: Llama, folder: Path, exact: Path) -> Way:
    from optimum.intel import OVModelForCausalLM, OVWeightQuantizationConfig

    OVModelForCausalLM.from_pretrained(llama.path, export=True, compile=False, load_in_8bit=False).save_pretrained(
        exact
    )
    # As `optimum-cli export openvino --weight-format int8` does it.
    int8 = OVWeightQuantizationConfig(bits=8)
    OVModelForCausalLM.from_pretrained(exact, compile=False, quantization_config=int8).save_pretrained(folder)
    return openvino_way(exact, **_EXACT)


_CONVERTERS = {"ctranslate2": _ctranslate2, "openvino": _openvino}


def main(runtime: str, checkpoint: str, folder: str) -> None:
    """Raises ``ValueError`` where the peer would compute something else."""
    llama = Llama(Path(checkpoint))
    with tempfile.TemporaryDirectory(dir=llama.path.parent) as exact:
        way = _CONVERTERS[runtime](llama, Path(folder), Path(exact) / "fp32")
        llama.check_exact(way.answer(llama.prompts()[:_CHECKED]))


if __name__ == "__main__":
    main(*sys.argv[1:])
