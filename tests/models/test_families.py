"""A model family is one module and one row: docs/adding-a-family.md has an encoder, ELECTRA's, and a decoder."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as tr
from checkpoints import write_checkpoint, write_sentence_modules
from paths import ROOT
from safetensors.torch import load_file, save_file

from fastqps import Engine
from fastqps.architectures.packed import PackedModel
from fastqps.models import ModelError, load_card
from fastqps.models.checkpoint import Checkpoint
from fastqps.models.families import FAMILIES, DecoderFamily, EncoderFamily, family_of
from fastqps.models.families.encoder import EncoderConfig

pytestmark = pytest.mark.compute

PAGE = ROOT / "docs/adding-a-family.md"
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
IDS = [[3, 50, 7, 9], [11, 12], [5, 6, 7, 8, 9, 10, 11]]


def block(number: int) -> str:
    """The page's code blocks, in their order."""
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[number]


def write(path: Path, model: Any) -> Any:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)
    model.eval().save_pretrained(path)
    return model


@pytest.mark.parametrize(("number", "family"), [(0, "electra"), (1, "granite")])
def test_families_of_the_page_are_served(number: int, family: str) -> None:
    assert block(number) == (ROOT / f"fastqps/models/families/{family}.py").read_text()


@pytest.mark.parametrize("model_type", ["xlnet", "", None, 3])
def test_an_unknown_family_is_refused(model_type: object) -> None:
    with pytest.raises(ModelError, match=r"model_type .* is not supported; supported: bert, .*qwen3"):
        family_of(model_type)


def test_a_configuration_that_nothing_computes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tr.BertModel(tr.BertConfig(vocab_size=40, **SIZES)).save_pretrained(tmp_path)
    card = load_card(str(tmp_path))
    sizes = {"hidden": 32, "inner": 64, "layers": 2, "heads": 4, "vocab": 40, "positions": 8, "eps": 1e-5}
    other = EncoderConfig(prefixes=(), activation="gelu", **sizes)  # type: ignore[arg-type]
    monkeypatch.setattr(Checkpoint, "encoder_config", lambda _: other)
    with pytest.raises(ModelError, match="no architecture computes a EncoderConfig"):
        PackedModel(card, None)  # type: ignore[arg-type]


def test_a_decoder_is_no_encoder_and_an_encoder_no_decoder(tmp_path: Path) -> None:
    tr.BertModel(tr.BertConfig(vocab_size=40, **SIZES)).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="a bert is no decoder"):
        Checkpoint.open(tmp_path).decoder_config()


def test_each_family_has_a_module_of_its_name() -> None:
    folder = ROOT / "fastqps/models/families"
    for family in FAMILIES.values():
        assert (folder / f"{family.name}.py").is_file()
        assert isinstance(family, EncoderFamily | DecoderFamily)


def test_a_sentence_t5_ends_with_a_projection_without_a_bias(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = tr.T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=200)
    model = write(tmp_path, tr.T5EncoderModel._from_config(config, attn_implementation="eager"))
    write_sentence_modules(tmp_path, "mean", dense=True, normalize=True)
    stated = {"in_features": 32, "out_features": 24, "bias": False}
    stated |= {"activation_function": "torch.nn.modules.linear.Identity"}
    (tmp_path / "2_Dense/config.json").write_text(json.dumps(stated))
    weight = torch.randn(24, 32)
    save_file({"linear.weight": weight}, tmp_path / "2_Dense/model.safetensors")
    with torch.no_grad():
        means = torch.stack([model(torch.tensor([ids])).last_hidden_state[0].mean(0) for ids in IDS])
    want = torch.nn.functional.normalize(means @ weight.T).numpy()
    assert np.abs(Engine(str(tmp_path), dtype="float32").embed(IDS) - want).max() < 1e-4


def ntk_angles(theta: float, factor: float, size: int, positions: int) -> torch.Tensor:
    """As the code of the type ``new`` has them: [positions, size / 2]."""
    pair = torch.arange(0, size, 2).double() / size
    return torch.arange(positions).double()[:, None] * (1 / (theta * factor) ** pair / factor ** (2 / size))


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("published", ["gte-large-en-v1.5", "gte-multilingual-base"])
def test_a_new_gte_with_scaled_positions(published: str, packed: bool, tmp_path: Path) -> None:
    """The same model as transformers' GTE with these angles in the place of its own."""
    theta, factor = {"gte-large-en-v1.5": (160_000.0, 2.0), "gte-multilingual-base": (20_000.0, 8.0)}[published]
    model = write_checkpoint(tmp_path, "new")
    file = tmp_path / "config.json"
    scaled = {"rope_theta": theta, "rope_scaling": {"type": "ntk", "factor": factor}, "pack_qkv": packed}
    file.write_text(json.dumps(json.loads(file.read_text()) | scaled))
    if not packed:
        tensors = load_file(tmp_path / "model.safetensors")
        for name in [name for name in tensors if "qkv_proj" in name]:
            parts = tensors.pop(name).chunk(3)
            for letter, part in zip("qkv", parts, strict=True):
                tensors[name.replace("qkv_proj", f"{letter}_proj")] = part.contiguous()
        save_file(tensors, tmp_path / "model.safetensors")
    angles = ntk_angles(theta, factor, 8, 64).float()
    model.rotary_emb.inv_freq.copy_(angles[1])
    write_sentence_modules(tmp_path, "mean")
    with torch.no_grad():
        want = torch.stack([model(torch.tensor([ids])).last_hidden_state[0].mean(0) for ids in IDS]).numpy()
    assert np.abs(Engine(str(tmp_path), dtype="float32").embed(IDS, normalize=False) - want).max() < 1e-4


# What nomic-embed-text-v1.5 says besides its sizes.
NOMIC_KEYS = {
    "activation_function": "swiglu",
    **dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop", "summary_first_dropout"), 0.0),
    **dict.fromkeys(("causal", "parallel_block", "parallel_block_tied_norm", "prenorm", "use_rms_norm"), False),
    **dict.fromkeys(("mlp_fc1_bias", "mlp_fc2_bias", "qkv_proj_bias", "rotary_emb_interleaved"), False),
    **dict.fromkeys(("reorder_and_upcast_attn", "scale_attn_by_inverse_layer_idx"), False),
    **dict.fromkeys(("dense_seq_output", "fused_bias_fc", "fused_dropout_add_ln", "scale_attn_weights"), True),
    **dict.fromkeys(("use_flash_attn", "use_xentropy", "summary_proj_to_labels", "summary_use_proj"), True),
    **dict.fromkeys(("rotary_emb_scale_base", "rotary_scaling_factor", "summary_activation"), None),
    "max_trained_positions": 2048,
    "pad_vocab_size_multiple": 64,
    "rotary_emb_base": 500,
    "summary_type": "cls_index",
    "layer_norm_epsilon": 1e-12,
    "model_type": "nomic_bert",
    "rotary_emb_fraction": 1.0,
    "type_vocab_size": 2,
}


@pytest.mark.parametrize(("gate", "function"), [("silu", "swiglu"), ("gelu", "geglu")])
def test_a_nomic_with_the_keys_of_its_own_code(gate: str, function: str, tmp_path: Path) -> None:
    """The same model as with transformers' keys, which ignores these."""
    torch.manual_seed(0)
    rope = {"rope_theta": 500.0, "rope_type": "default"}
    config = tr.NomicBertConfig(
        vocab_size=200, max_position_embeddings=64, **SIZES, hidden_act=gate, rope_parameters=rope
    )
    model = write(tmp_path, tr.NomicBertModel._from_config(config, attn_implementation="eager"))
    names = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": 64, "n_positions": 64, "vocab_size": 200}
    (tmp_path / "config.json").write_text(json.dumps(NOMIC_KEYS | names | {"activation_function": function}))
    write_sentence_modules(tmp_path, "mean")
    engine = Engine(str(tmp_path), dtype="float32")
    assert not any("does not know" in warning for warning in engine.card.warnings)
    with torch.no_grad():
        want = torch.stack([model(torch.tensor([ids])).last_hidden_state[0].mean(0) for ids in IDS]).numpy()
    assert np.abs(engine.embed(IDS, normalize=False) - want).max() < 1e-4
