// A step of an encoder: its packed batch, and the answers that are written from its output rows.
#pragma once
#include <span>

#include "step/buffers.h"

namespace fastqps {

// A packed batch of an encoder.
struct EncodeStep {
  StepBuffers buffers;
  Batch batch;
  u32 n_items = 0, n_tokens = 0;
};

// Packs the claimed requests into the step's buffers. Sets n_items and n_tokens.
void pack(const Segment& segment, const Route& route, EncodeStep& step);

// Writes the answer of output row `row` into the slot, in the form that its request and its route ask for: dimensions,
// normalisation and dtype of an embedding; order and number of a sparse one's weights; activation and top labels of a
// classification.
void write_answer(const Segment& segment, const Route& route, const float* row, Slot& slot);

// The same of the rows of n_tokens tokens, which it may overwrite.
void write_answer_by_token(const Segment& segment, const Route& route, float* rows, u32 n_tokens, Slot& slot);
// Its parts, by task: a label for each token or word of a token classifier, and a vector for each token that has one.
// ids: the request's, with their marks. Return false, and write nothing, if the answer might not fit into the room.
bool write_token_labels(const Route& route, float* rows, std::span<const u32> ids, Slot& slot, std::span<u8> room);
bool write_vectors(const Route& route, const float* rows, std::span<const u32> ids, Slot& slot, std::span<u8> room);

// The form in which a request wants vectors: how many leading dimensions, of length 1 or not, in which dtype.
struct VectorForm {
  u32 dimensions;
  bool normalize;
  u8 dtype;  // DType

  VectorForm(const Route& route, const Slot& slot);
  // The size of one vector.
  u64 bytes() const { return values() * value_bytes(dtype); }
  // How many numbers it has.
  u64 values() const { return row_values(dtype, dimensions); }
  // Says in the slot how its values are to be read.
  void describe(Slot& slot) const;
};

// Whether none of the values is NaN or infinite.
bool all_finite(const float* values, u64 n);

// Writes the leading dimensions of `row`, bytes() in all.
void write_vector(const VectorForm& form, const float* row, u8* out);

}  // namespace fastqps
