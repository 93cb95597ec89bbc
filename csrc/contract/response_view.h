// PredictResponse, PredictBatchResponse and GenerateChunk, written straight into a caller's buffer: no protobuf
// library, no allocation. Sizes are exact and computed first, so that a gRPC prefix and a batch frame can be written
// before the bytes that they announce. Fields go out in order of their numbers, zero scalars are left out: the same
// bytes as the protobuf runtime's (tests/api/test_wire.py holds the two together).
#pragma once
#include <cstddef>
#include <span>
#include <string_view>

#include "contract/task.h"
#include "contract/types.h"

namespace fastqps {

enum class DType : i32 {
  kUnspecified = 0,
  kFloat32 = 1,
  kFloat16 = 2,
  kInt8 = 3,
  kUint8 = 4,
  kBinary = 5,
  kUbinary = 6
};
enum class FinishReason : i32 { kUnspecified = 0, kStop = 1, kLength = 2 };

// Either `values` (float32) or `raw` (any other dtype, little-endian). Of Output::kMulti, one vector after the other.
struct EmbeddingView {
  std::span<const float> values = {};
  std::span<const u8> raw = {};
  DType dtype = DType::kUnspecified;
  u32 dimensions = 0;  // of each vector; only of Output::kMulti
};

struct LabelView {
  std::string_view name = {};  // valid UTF-8, as all strings here
  float score = 0;
  u32 index = 0;
};

struct EntityView {
  std::string_view label = {};
  float score = 0;
  u32 start = 0, end = 0;  // in characters of the input
};

// A sparse embedding: its largest weights, and how many there are in all.
struct SparseView {
  std::span<const u32> ids = {};
  std::span<const float> weights = {};
  u32 active = 0;
};

// The likeliest tokens in the place of each generated one: as many for each. Those that cannot be chosen are at the
// end, with -inf.
struct TopView {
  std::span<const u32> ids = {};
  std::span<const float> logprobs = {};
};

// A request's prompt, of which its answer tells.
struct PromptView {
  std::span<const u32> token_ids = {};
  std::span<const float> logprobs = {};  // of each but the first; empty: not asked for
  TopView top = {};                      // in the place of each but the first
  // Only of protocols that repeat it.
  std::string_view text = {};
  std::span<const u32> text_offsets = {};  // as those of a generation
};

// One of the texts that a request lets the model choose from. score: its probability among them.
struct ChoiceScore {
  std::string_view text = {};
  float logprob = 0, score = 0;
};

struct GenerationView {
  std::string_view text = {};
  std::span<const u32> token_ids = {};
  std::span<const float> logprobs = {};
  FinishReason finish_reason = FinishReason::kUnspecified;
  TopView top = {};                                 // empty: not asked for
  std::span<const u32> text_offsets = {};           // with logprobs: how many characters are in front of each token
  std::span<const ChoiceScore> choice_scores = {};  // in the request's order; empty: any text was possible
  PromptView prompt = {};                           // of a stream, only in the first part
};

// An answer as it lies in its slot, for an edge.
struct SlotView {
  u8 kind = 0, dtype = 0;  // Answer, DType
  u32 n_values = 0;
  std::span<const u8> bytes = {};
  u32 batch_items = 0, queue_us = 0, device_us = 0;
};

struct StatusView {
  i32 code = 0;
  u32 retry_after_ms = 0;
  std::string_view message = {};
};

struct Usage {
  u32 input_tokens = 0;
  u32 output_tokens = 0;
  bool truncated = false;
  u32 truncated_at = 0;
};

// Microseconds: parse, tokenize, queue, gather, launch, device, scatter, drain, upstream.
struct Timings {
  u32 us[9] = {};
};

// What the items of a call have together.
struct CallUsage {
  u32 items = 0;
  u64 input_tokens = 0, output_tokens = 0;
};

// Only the view that `output` names is read. The pointers may be null: the field is then absent.
struct ResponseView {
  u64 request_id = 0;
  Output output = Output::kNone;
  EmbeddingView embedding = {};
  std::span<const LabelView> labels = {};
  GenerationView generation = {};
  std::span<const GenerationView> other_choices = {};
  std::span<const EntityView> entities = {};
  SparseView sparse = {};
  SlotView slot = {};
  const Timings* timings = nullptr;
  const StatusView* status = nullptr;
  const Usage* usage = nullptr;
};

struct ChunkView {
  u64 request_id = 0;
  GenerationView generation = {};  // the part since the last chunk; finish_reason only in the last one
  const Usage* usage = nullptr;
  const Timings* timings = nullptr;
  u32 choice = 0;                   // the item's place in its call
  const CallUsage* call = nullptr;  // only in the last chunk of all choices, of a call that is a group
};

// The exact number of bytes that write_response() writes; a message is far below 2 GiB by the limits on its parts.
std::size_t response_size(const ResponseView& response);
std::size_t chunk_size(const ChunkView& chunk);

// Write the message to `out`, which has room for its size. Return the end of what was written.
u8* write_response(const ResponseView& response, u8* out);
u8* write_chunk(const ChunkView& chunk, u8* out);

// A PredictBatchResponse is its items one after the other, each behind a frame. batch_item_size() is the size of frame
// and item; write_batch_frame() writes the frame alone, behind which write_response() writes the item.
std::size_t batch_item_size(std::size_t response_size);
u8* write_batch_frame(std::size_t response_size, u8* out);

}  // namespace fastqps
