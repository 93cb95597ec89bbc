// The static memory of one step: gather packs inputs into it, the device fills the output rows, scatter reads them.
#pragma once
#include <span>

#include "core/claimer.h"

namespace fastqps {

inline constexpr u32 kLanesMax = 8;  // most lanes of one dispatcher

// When the device started and ended a step, in nanoseconds of CLOCK_MONOTONIC.
struct DeviceStamps {
  i64 start_ns = 0, end_ns = 0;
};

// Addresses of buffers that the runner owns; fastqps/runners/buffers.py gives their shapes. Items are packed without
// padding.
struct StepBuffers {
  i32* input_ids = nullptr;       // [max_tokens]
  i32* position_ids = nullptr;    // [max_tokens]
  i32* token_type_ids = nullptr;  // [max_tokens]
  i32* cu_seqlens = nullptr;      // [max_items + 1]
  float* output = nullptr;        // [max_items, width], or [max_tokens, width] where a row belongs to a token
  const DeviceStamps* stamps = nullptr;
  u32 max_items = 0, max_tokens = 0, width = 0;
};

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

}  // namespace fastqps
