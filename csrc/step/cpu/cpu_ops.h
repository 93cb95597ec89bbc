// The parts of a packed forward on the CPU, without its matrix products: those are in products/, or torch's
// (oneDNN) where these are slower.
//
// Compiled once per instruction set (cpu_ops_*.cpp, from cpu_kernels.h) and chosen when the program runs. Everything
// is computed in fp32; only what is read and written may be bf16. Items and rows are spread over up to `threads`
// threads where there is enough work (step/team.h). Widths, head sizes and lengths may be any; multiples of 16 are
// fastest.
#pragma once
#include "contract/types.h"

namespace fastqps::step {

enum class Number : u32 { kFloat32 = 0, kBfloat16 = 1 };
inline u64 bytes_of(Number number) { return number == Number::kFloat32 ? 4 : 2; }

// bf16 is the upper half of a float. narrow() rounds to nearest, ties to even, and keeps NaN.
inline float widen(u16 x) { return __builtin_bit_cast(float, u32(x) << 16); }
inline u16 narrow(float x) {
  const u32 bits = __builtin_bit_cast(u32, x);
  return u16(x == x ? (bits + 0x7fff + ((bits >> 16) & 1)) >> 16 : (bits >> 16) | 0x40);
}

// Of a product, with what follows it.
enum class Activation : u32 { kNone = 0, kGelu = 1, kGeluTanh = 2, kRelu = 3, kSilu = 4 };

// Attention inside each item. `starts` holds n_items + 1 token offsets into qkv and out, so a range of a batch's
// items is the same call with `starts` moved on.
struct Attention {
  const void* qkv;       // [tokens, heads + 2 * kv_heads, head_dim]: queries, keys, values
  void* out;             // [tokens, heads, head_dim]
  const i32* starts;     // [n_items + 1], ascending
  const i32* positions;  // [tokens]; read only with `rotary` or `opening`
  const float* rotary;   // null, or [positions, 2, head_dim / 2]: cos and sin, by which query and key are turned
  // null, or [heads, 2 * reach + 1]: added to the score of a key that is d tokens before its query, at reach + d.
  // reach: at least the longest item's length, rounded up to 16.
  const float* bias;
  // null, or two tables by distance, as `bias` has them: [2, heads, columns, distance_stride()]. The score of a key has
  // the query's product with the first at reach + d, and the key's product with the second, too. columns: head_dim,
  // rounded up to 16. Of bf16, two neighbouring columns are one pair of 32 bits, the first one in the lower half.
  const void* relative;
  u32 n_items, heads, head_dim, reach;
  u32 window;  // 0: every token of the item is seen; else those at most `window` positions away
  Number number;
  u32 stated_kv_heads = 0;        // each of as many heads in a row shares one; 0: each head has its own
  bool causal = false;            // no token behind is seen
  const float* q_norm = nullptr;  // null, or [head_dim], both: weights of a root mean square norm of each query and
  const float* k_norm = nullptr;  // key, before it is turned
  float eps = 0;                  // of those norms
  // null, or [2, kv_heads, n_opening, head_dim]: keys, as the scores need them, and values that items begin with. An
  // item has the first so many of them as the position of its first token says. Excludes `bias` and `relative`.
  const void* opening = nullptr;
  u32 n_opening = 0;

  u32 kv_heads() const { return stated_kv_heads ? stated_kv_heads : heads; }
  u64 row() const { return u64(heads + 2 * kv_heads()) * head_dim; }  // numbers of a token in qkv
  // The tokens in front of an item's own, whose keys and values are the opening's.
  u64 before(u32 item) const { return opening ? u64(positions[starts[item]]) : 0; }
};
// Where the biases of a head's scores begin, for a distance of 0; null: there are none.
inline const float* biases_of(const Attention& job, u64 head) {
  return job.bias ? job.bias + head * (2 * u64(job.reach) + 1) + job.reach : nullptr;
}
inline u64 distance_stride(const Attention& job) { return 2 * u64(job.reach) + 16; }
void attend(const Attention& job, u32 threads);

// Layer normalisation: (x - mean) / sqrt(variance + eps) * weight + bias.
struct Norm {
  const float* weight;  // [width]
  const float* bias;    // [width], or null
  u32 width;
  float eps;
};
struct Normalization {
  Norm norm;
  const void* in;  // [n_rows, width]
  void* out;       // [n_rows, width]; may be `in`
  u32 n_rows;
  Number number;
};
void normalize(const Normalization& job, u32 threads);

// The normalised sum of a token's rows in up to three tables [any, width].
struct Embedding {
  Norm norm;                           // without a weight the sum stays as it is
  const i32 *ids, *positions, *types;  // [n_tokens]
  const void *words, *places, *kinds;  // by ids, by positions, by types; the last two may be null
  void* out;                           // [n_tokens, width]
  u32 n_tokens;
  Number number;  // of the tables and of out
};
void embed(const Embedding& job, u32 threads);

// The mean of each item's rows, or the largest number of each column.
struct ItemRows {
  const void* rows;   // [tokens, width]
  float* out;         // [n_items, width]
  const i32* starts;  // [n_items + 1], ascending; an item has at least one token
  u32 n_items, width;
  Number number;  // of rows
};
void means(const ItemRows& job, u32 threads);
void maxima(const ItemRows& job, u32 threads);

// x · weightᵀ + bias of rows of fp32, for the projections of heads.
struct Projection {
  const float* rows;    // [n_rows, inputs]
  const float* weight;  // [outputs / 16, inputs, 16]: outputs, rounded up to 16, in strips
  const float* bias;    // null, or [outputs]
  float* out;           // [n_rows, outputs]
  u32 n_rows, inputs, outputs;
};
void project(const Projection& job, u32 threads);

// Numbers of a table of rows. A half has 1 + 5 + 10 bits, unlike Number's bf16.
enum class TableNumber : u32 { kFloat32 = 0, kFloat16 = 1, kBfloat16 = 2, kInt8 = 3 };
struct HalfBits {
  u16 bits;
};

// The mean of the table's rows that an item's ids name, each times its id's weight. Ids from n_ids on and skipped_id
// name none and are not counted; an item without a row gives zeros. Single-threaded.
struct Bags {
  const void* table;     // [any, width]
  const i32* mapping;    // null, or [n_ids]: the row of each id; else it is the id itself
  const float* weights;  // null, or [n_ids]
  const i32* ids;        // [tokens]
  const i32* starts;     // [n_items + 1], ascending
  float* out;            // [n_items, width]
  u32 n_items, width, n_ids;
  u32 skipped_id;  // ~0: none
  TableNumber number;
};
void mean_bags(const Bags& job);

}  // namespace fastqps::step
