"""Runs a decoder over the packed rows of one step."""

from __future__ import annotations

import torch

from fastqps._core import HEADER_COPIES, HEADER_MASKS, HEADER_TARGETS, Program
from fastqps.architectures.llama import Llama
from fastqps.architectures.weights import Weights
from fastqps.errors import ModelError
from fastqps.models.card import ModelCard
from fastqps.models.checkpoint import Checkpoint
from fastqps.ops.cpu.decode_ops import CpuDecodeOps
from fastqps.ops.cpu.tape import Arena
from fastqps.ops.decode_step import Copies, DecodeState, DecodeStep, Targets, TokenMasks
from fastqps.ops.interface import DecodeOps
from fastqps.runners.decode_buffers import DecodeBuffers
from fastqps.runners.first_steps import first_rows


class DecoderRunner:
    """Static buffers on the CPU over a loaded model and the state of its sequences. One runner holds one step.

    Steps run one behind the other, whichever runner holds them: each reads what the one before left in the state.
    ``arena``: the memory of runners of the same state.
    """

    instant = False

    def __init__(
        self, card: ModelCard, model: Llama, state: DecodeState, max_tokens: int, arena: Arena | None = None
    ) -> None:
        self.card = card
        self._model, self._state, self._arena = model, state, arena or Arena()
        self._buffers = b = DecodeBuffers.allocate(state.slots, max_tokens, card.vocab_size, state.biases.numpy())
        rows, runs = (b.input_ids, b.positions, b.kv_slots), (b.made, b.tokens, b.logprobs, b.finish, b.top)
        self._rows, self._runs = [torch.from_numpy(a) for a in rows], [torch.from_numpy(a) for a in runs]
        self._starts, self._admitted = torch.from_numpy(b.starts), torch.from_numpy(b.admitted)
        self._masks = TokenMasks(torch.from_numpy(b.masks), torch.from_numpy(b.header[HEADER_MASKS:][:1]))
        self._targets = Targets(torch.from_numpy(b.targets), torch.from_numpy(b.header[HEADER_TARGETS:][:1]))
        self._copies = Copies(torch.from_numpy(b.copies), torch.from_numpy(b.header[HEADER_COPIES:][:1]))
        self._program = self._record()

    @classmethod
    def load(cls, card: ModelCard, ops: DecodeOps, slots: int, max_tokens: int) -> DecoderRunner:
        """Loads ``card``'s weights and computes its prefix. ``slots`` sequences can run; a step has as many runs.

        ``ModelError`` if the checkpoint's weights are not what its configuration says, or give no numbers.
        """
        return cls(card, *load_decoder(card, ops, slots, max_tokens), max_tokens)

    def buffers(self) -> DecodeBuffers:
        """The same buffers at every call."""
        return self._buffers

    def run(self, n_runs: int, n_tokens: int, n_admitted: int, /) -> None:
        """Computes the step in ``buffers()`` and fills its output rows."""
        self._program.run(n_tokens, n_runs, n_admitted, torch.get_num_threads())

    def for_another_step(self) -> DecoderRunner:
        """A runner with its own buffers over the same weights and state."""
        return DecoderRunner(self.card, self._model, self._state, self._buffers.max_tokens, self._arena)

    def for_another_lane(self) -> DecoderRunner:
        """A runner with sequences of its own over the same weights and prefix."""
        return DecoderRunner(self.card, self._model, self._state.another(), self._buffers.max_tokens)

    def _record(self) -> Program:
        ops = self._model.ops
        assert isinstance(ops, CpuDecodeOps)
        ids, positions, kv_slots = self._rows
        made, tokens, logprobs, finish, top = self._runs
        rows = (ids, positions, kv_slots, self._starts, made)
        step = DecodeStep(
            *rows,
            tokens,
            logprobs,
            finish,
            self._admitted,
            masks=self._masks,
            targets=self._targets,
            copies=self._copies,
            top=top,
        )
        with torch.inference_mode(), ops.tape.record(self._arena) as program:
            self._model(step, self._state)
        return program

    def warm_up(self) -> None:
        """Runs a step of one row and a full one; nothing may run yet. ``ModelError`` where they give no numbers."""
        first_rows(self.card, self._buffers, self._state.prefix_len, self.run)


def load_decoder(card: ModelCard, ops: DecodeOps, slots: int, max_tokens: int) -> tuple[Llama, DecodeState]:
    """The model of ``card`` and the state of ``slots`` sequences, with its prefix, for steps of ``max_tokens`` rows."""
    check_step(card, slots, max_tokens)
    model = load_llama(card, ops)
    return model, make_state(card, model, slots)


def check_step(card: ModelCard, slots: int, max_tokens: int) -> None:
    """``ModelError`` where a step of ``max_tokens`` rows is too small for ``slots`` sequences, or for a prompt."""
    if max_tokens < max(slots, card.max_input_tokens):
        raise ModelError(
            f"{card.name}: a step of {max_tokens} tokens is too small: it has to hold {slots} running sequences, "
            f"or a prompt of {card.max_input_tokens} tokens"
        )


def load_llama(card: ModelCard, ops: DecodeOps) -> Llama:
    """The model of ``card``; ``ModelError`` if its checkpoint's weights are not what its configuration says."""
    checkpoint = Checkpoint.of(card)
    config = checkpoint.decoder_config()
    names = config.tensors
    transposed = names.layers if names.transposed else ""
    weights = Weights(checkpoint.weight_files(), config.prefixes, ops.reads_weights, checkpoint.adapter, transposed)
    positions = len(card.prefix_ids) + card.max_input_tokens + card.max_output_tokens
    with torch.inference_mode():
        model = Llama(weights, config, positions, ops)
    weights.close()
    return model


def make_state(card: ModelCard, model: Llama, slots: int) -> DecodeState:
    """The state of ``slots`` sequences where ``model`` runs, with its prefix computed."""
    c = model.config
    with torch.inference_mode():
        state = DecodeState.allocate(card, slots, c.layers, c.kv_heads, c.head_dim, model.ops.dtype, model.ops.device)
        _keep_prefix(card, model, state)
    return state


def _keep_prefix(card: ModelCard, model: Llama, state: DecodeState) -> None:
    """Computes the keys and values of the shared prefix, as those of a sequence that nothing follows."""
    n = len(card.prefix_ids)
    if not n:
        return
    with state.cache.device:
        rows = [torch.tensor(card.prefix_ids), torch.arange(n), torch.zeros(n)]
        nothing = torch.zeros(1, dtype=torch.int32)
        ids, positions, slots = (row.to(torch.int32) for row in rows)
        starts, counts = torch.tensor([0, n], dtype=torch.int32), torch.tensor([n, 1, 0], dtype=torch.int32)
    admitted = state.params[:0]
    step = DecodeStep(ids, positions, slots, starts, nothing, nothing, nothing.float(), nothing, admitted, counts)
    model.hidden(step, state.of_prefix())
