// The parts of a decoder's step that torch has no fast kernel for, on the CPU: what cpu_ops.h is for encoders.
//
// A step's rows belong to runs: run i is rows starts[i] to starts[i + 1] - 1, consecutive positions of one cache slot;
// it is sampled once, from its last row. They are spread over threads as an encoder's items are. Runs that lie side by
// side can share a cache slot, if each begins where the one before ends: rows of a script.
#pragma once
#include "step/cpu/cpu_ops.h"
#include "step/decode/decode_layout.h"

namespace fastqps::step {

// Root mean square normalisation: x / sqrt(mean(x^2) + eps) * weight.
struct RmsNorm {
  const float* weight;
  const void* in;  // [n_rows, width]
  void* out;       // [n_rows, width]; may be `in`
  u32 n_rows, width;
  float eps;
  Number number;
  u32 stride = 0;  // numbers from a row to the next one, in both; 0: the width
  u64 next_row() const { return stride ? stride : width; }
};
void rms_norm(const RmsNorm& job, u32 threads);

// Copies from cache slots to others, in front of the step's rows: those of DecodeLayout::copies, one after the other.
struct SlotCopies {
  const i32* there;  // the header's word that says how many there are
  const i32* words;  // [copies][kCopyWords]
  void* cache;       // [planes, n_slots, kv_heads, max_len, head_dim]
  u32 planes;        // keys and values of each layer
  u32 n_slots, kv_heads, max_len, head_dim;
  Number number;
  i32* history;  // [n_slots, history_len]: tokens by position, those of a prefix of prefix_len included
  u32 history_len, prefix_len;
};
void copy_slots(const SlotCopies& job, u32 threads);

// Rows of a table by token id. Id -1 is the token that the row's cache slot has made last. Keeps the tokens for the
// options that read them (logit_options.h).
struct TokenEmbedding {
  const i32 *ids, *kv_slots;  // [n_tokens]
  const i32* last_token;      // by cache slot
  const void* table;          // [vocabulary, width]
  void* out;                  // [n_tokens, width]
  u32 n_tokens, width;
  Number number;
  const i32* positions = nullptr;  // [n_tokens], of the whole sequence; with history
  i32* history = nullptr;          // null, or [cache slots, history_len]: where each row's token goes, by its position
  u32 history_len = 0;
  const void* places = nullptr;  // null, or [positions, width]: added to the words, which are multiplied by `scale`
  float scale = 1;
};
void embed_tokens(const TokenEmbedding& job);

// Writes every row's key and value into its cache slot, at its position less the prefix's length. Every row then
// attends to the prefix and to its own slot's rows up to itself, or to the last of them. A prefix is computed as any
// sequence is, with its memory for a cache of one slot and nothing in front of it.
struct SlotAttention {
  const void* qkv;       // [tokens, (heads + 2 * kv_heads) * head_dim]: queries, keys, values
  void* out;             // [tokens, heads * head_dim]; with last_rows_only [n_runs, heads * head_dim]
  void* cache;           // of this layer: [2, n_slots, kv_heads, max_len, head_dim]
  const void* prefix;    // of this layer: [2, kv_heads, prefix_len, head_dim]; null if prefix_len is 0
  const i32* starts;     // [n_runs + 1], rows of qkv
  const i32* positions;  // [tokens], of the whole sequence: the prefix counts
  const i32* kv_slots;   // [tokens]
  const float* rotary;   // null, or [positions, 2, head_dim / 2]: cos and sin, by which the two halves are turned
  const float *q_norm, *k_norm;  // null, or [head_dim]: weights of a root mean square norm of each query and key
  float eps, scale;              // of those norms; of the scores
  float cap;                     // scores become cap * tanh(score / cap); 0: they stay
  u32 n_runs, heads, kv_heads, head_dim, n_slots, max_len, prefix_len;
  u32 window;           // a row sees only those at most so many positions before it, of the prefix too; 0: all
  bool last_rows_only;  // attend with the last row of each run alone; keys and values of all rows are written
  Number number;
  bool keeps = true, attends = true;  // the two parts of it: where runs share slots, one of all runs before the other
};
void attend_slots(const SlotAttention& job, u32 threads);

// activation(gate) * up.
struct Gate {
  const void* in;  // [n_rows, 2 * inner]: gate, up
  void* out;       // [n_rows, inner]
  u32 n_rows, inner;
  Number number;
  Activation activation;
};
void gate(const Gate& job, u32 threads);

// x becomes cap * tanh(x / cap).
struct Cap {
  void* x;  // [n_rows, width]
  u32 n_rows, width;
  float cap;
  Number number;
};
void cap(const Cap& job, u32 threads);

inline constexpr u32 kCandidates = kTopKMax;  // that top_k and top_p choose from

// Copies sampling parameters, the `admitted` records of decode_layout.h, to the places of their cache slots.
void admit(i32* params, const i32* admitted, u32 n);

// Draws one token for each run, says whether its sequence ends with it, and keeps it as the sequence's last.
struct Draw {
  const void* logits;  // [n_runs, vocab]
  const i32 *starts, *kv_slots, *made;
  const i32* params;  // [cache slots, kAdmittedWords]
  const i32* eos_ids;
  i32* tokens;      // [n_runs]
  float* logprobs;  // [n_runs]: of the chosen token under the raw logits; 0 where not asked for
  i32* finish;      // [n_runs]: Finish
  i32* last_token;  // by cache slot
  u32 n_runs, vocab, n_eos;
  Number number;  // of logits
  // null, or [n_runs, vocab]: the logits of the runs whose sequences have options for them, or of all runs
  const float* changed = nullptr;
  bool all_changed = false;
  i32* top = nullptr;  // null, or [n_runs, kTopWords] as DecodeLayout::out_top: only of runs that ask for it
  Targets targets = {};
};
void sample(const Draw& job, u32 threads);

}  // namespace fastqps::step
