// The outputs of a response as tensors, and their raw contents. gRPC and HTTP share them.
#pragma once
#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/best_of.h"
#include "core/layout.h"
#include "service/formats/protocol.h"

namespace fastqps::protocols {

// Bits of outputs, for sets of them.
enum OutputBit : u32 {
  kOutEmbedding = 1,
  kOutScores = 2,
  kOutLabel = 4,
  kOutText = 8,
  kOutTokenEmbedding = 16,
  kOutEntityLabel = 32,
  kOutEntityScore = 64,
  kOutEntityStart = 128,
  kOutEntityEnd = 256,
  kOutTokenId = 512,
  kOutWeight = 1024,
  kOutOffsets = 2048,
  kOutFinishReason = 1 << 12,
  kOutLogprob = 1 << 13,
  kOutTopTokenId = 1 << 14,
  kOutTopLogprob = 1 << 15,
  kOutPromptTokenId = 1 << 16,
  kOutPromptLogprob = 1 << 17,
  kOutPromptTopTokenId = 1 << 18,
  kOutPromptTopLogprob = 1 << 19,
  kOutPromptOffsets = 1 << 20
};
using OutputSet = u32;
// Those that a request must have an option for.
inline constexpr OutputSet kOutTop = kOutTopTokenId | kOutTopLogprob,
                           kOutPromptTop = kOutPromptTopTokenId | kOutPromptTopLogprob,
                           kOutPrompt = kOutPromptTokenId | kOutPromptLogprob | kOutPromptTop | kOutPromptOffsets,
                           kOutByOption = kOutLogprob | kOutTop | kOutPrompt;

struct OutputRow {
  std::string_view name;
  OutputBit bit;
  Output output;  // what holds it in a response
  std::string_view datatype;
};
// Where an item has any number of rows, those of all items are one after the other, and item i has the rows from
// offsets[i] to offsets[i + 1].
inline constexpr OutputRow kOutputRows[] = {{"embedding", kOutEmbedding, Output::kEmbedding, "FP32"},
                                            {"scores", kOutScores, Output::kClassification, "FP32"},
                                            {"label", kOutLabel, Output::kClassification, "BYTES"},
                                            {"text", kOutText, Output::kGeneration, "BYTES"},
                                            {"finish_reason", kOutFinishReason, Output::kGeneration, "BYTES"},
                                            {"token_id", kOutTokenId, Output::kGeneration, "INT32"},
                                            {"offsets", kOutOffsets, Output::kGeneration, "INT32"},
                                            {"logprob", kOutLogprob, Output::kGeneration, "FP32"},
                                            {"top_token_id", kOutTopTokenId, Output::kGeneration, "INT32"},
                                            {"top_logprob", kOutTopLogprob, Output::kGeneration, "FP32"},
                                            {"prompt_token_id", kOutPromptTokenId, Output::kGeneration, "INT32"},
                                            {"prompt_logprob", kOutPromptLogprob, Output::kGeneration, "FP32"},
                                            {"prompt_top_token_id", kOutPromptTopTokenId, Output::kGeneration, "INT32"},
                                            {"prompt_top_logprob", kOutPromptTopLogprob, Output::kGeneration, "FP32"},
                                            {"prompt_offsets", kOutPromptOffsets, Output::kGeneration, "INT32"},
                                            {"token_embedding", kOutTokenEmbedding, Output::kMulti, "FP32"},
                                            {"offsets", kOutOffsets, Output::kMulti, "INT32"},
                                            {"entity_label", kOutEntityLabel, Output::kEntities, "BYTES"},
                                            {"entity_score", kOutEntityScore, Output::kEntities, "FP32"},
                                            {"entity_start", kOutEntityStart, Output::kEntities, "INT32"},
                                            {"entity_end", kOutEntityEnd, Output::kEntities, "INT32"},
                                            {"offsets", kOutOffsets, Output::kEntities, "INT32"},
                                            {"token_id", kOutTokenId, Output::kSparse, "INT32"},
                                            {"weight", kOutWeight, Output::kSparse, "FP32"},
                                            {"offsets", kOutOffsets, Output::kSparse, "INT32"}};
// The rows of an Output, which are neighbours, and their bits.
struct OutputRows {
  u32 first = 0, count = 0;
  OutputSet set = 0;

  const OutputRow* begin() const { return kOutputRows + first; }
  const OutputRow* end() const { return begin() + count; }
};
inline constexpr auto kRowsOfOutputs = [] {
  std::array<OutputRows, u32(Output::kText) + 1> all{};
  for (u32 i = 0; i < std::size(kOutputRows); i++) {
    OutputRows& rows = all[u32(kOutputRows[i].output)];
    if (!rows.count++) rows.first = i;
    rows.set |= kOutputRows[i].bit;
  }
  return all;
}();
constexpr const OutputRows& rows_of(Output output) { return kRowsOfOutputs[u32(output)]; }
static_assert(std::ranges::all_of(kOutputRows, [](const OutputRow& row) {
  return u32(&row - kOutputRows) < rows_of(row.output).first + rows_of(row.output).count;
}));
static_assert(std::ranges::all_of(kTasks, [](const TaskTraits& task) { return rows_of(task.output).count != 0; }));

// The context of this protocol's readers and writers: a request, as far as its answer depends on it.
struct InferContext {
  OutputSet outputs = 0;  // that were asked for; none: all
  OutputSet binary = 0;   // HTTP: those that are sent behind the JSON
  BestOf choices = {};    // of each input
  std::string_view id = {};

  void write(std::string& context) const;
  static InferContext read(std::string_view context);
};

struct ServedModel {
  std::string_view name, version;
};
// model_version: NAME@VERSION
ServedModel served_model(std::string_view model_version);

struct OutputTensor {
  OutputBit bit;
  const std::string_view *name, *datatype;  // pointers are trivial: unused elements of OutputTensors cost nothing
  u64 shape[2];
  u32 dimensions;

  std::span<const u64> sizes() const { return {shape, dimensions}; }
};

// The items of an answer: those of the call, or the choices that are made of an input's candidates.
class ChosenItems {
 public:
  ChosenItems(const BestOf& choices, std::span<const ResponseView> items);
  std::span<const ResponseView> all() const { return items_; }

 private:
  std::vector<ResponseView> made_;
  std::span<const ResponseView> items_;
};

// The tensors of an answer, in the order of kOutputRows. choices: how many items are one input's.
class OutputTensors {
 public:
  OutputTensors(OutputSet asked, std::span<const ResponseView> items, u32 choices);
  const OutputTensor* begin() const { return tensors_; }
  const OutputTensor* end() const { return tensors_ + count_; }

 private:
  static constexpr u32 kMost = 12;
  static_assert(std::ranges::all_of(kRowsOfOutputs, [](const OutputRows& rows) { return rows.count <= kMost; }));
  OutputTensor tensors_[kMost];
  u32 count_ = 0;
};

// Raw contents: numbers in little-endian, strings behind their lengths of 4 bytes.
size_t raw_size(const OutputTensor& tensor, std::span<const ResponseView> items);
u8* write_raw(const OutputTensor& tensor, std::span<const ResponseView> items, u8* out);

// "stop" or "length"; empty: it goes on.
std::string_view word_of(FinishReason reason);
// How many rows an item has in tensors with offsets.
u32 rows_of(const ResponseView& item);
// An item's scores in the model's order. out: as many as there are.
void write_scores(const ResponseView& item, std::span<float> out);

// Calls the sink for all elements of a tensor, in their order: floats(values), bytes(values, dtype), integer(value),
// text(value), and scores(item, count) for as many floats as write_scores() writes.
template <class Sink>
void each_element(const OutputTensor& tensor, std::span<const ResponseView> items, Sink& sink) {
  const auto each_entity = [&](auto take) {
    for (const ResponseView& item : items)
      for (const EntityView& entity : item.entities) take(entity);
  };
  u32 rows = 0;
  switch (tensor.bit) {
    case kOutEmbedding:
    case kOutTokenEmbedding:
      for (const ResponseView& item : items) {
        const EmbeddingView& e = item.embedding;
        e.raw.empty() ? sink.floats(e.values) : sink.bytes(e.raw, e.dtype);
      }
      return;
    case kOutScores:
      for (const ResponseView& item : items) sink.scores(item, tensor.shape[1]);
      return;
    case kOutLabel:  // the best one is the first
      for (const ResponseView& item : items) sink.text(item.labels.empty() ? std::string_view() : item.labels[0].name);
      return;
    case kOutText:
      for (const ResponseView& item : items) {
        const GenerationView& made = item.generation;  // behind its prompt, of an echo
        made.prompt.text.empty() ? sink.text(made.text) : sink.text(std::string(made.prompt.text).append(made.text));
      }
      return;
    case kOutFinishReason:
      for (const ResponseView& item : items) sink.text(word_of(item.generation.finish_reason));
      return;
    case kOutEntityLabel:
      return each_entity([&](const EntityView& entity) { sink.text(entity.label); });
    case kOutEntityScore:
      return each_entity([&](const EntityView& entity) { sink.floats(std::span(&entity.score, 1)); });
    case kOutEntityStart:
      return each_entity([&](const EntityView& entity) { sink.integer(entity.start); });
    case kOutEntityEnd:
      return each_entity([&](const EntityView& entity) { sink.integer(entity.end); });
    case kOutTokenId:
      for (const ResponseView& item : items)
        for (const u32 id : item.output == Output::kSparse ? item.sparse.ids : item.generation.token_ids)
          sink.integer(id);
      return;
    case kOutLogprob:
      for (const ResponseView& item : items) sink.floats(item.generation.logprobs);
      return;
    case kOutTopTokenId:
      for (const ResponseView& item : items)
        for (const u32 id : item.generation.top.ids) sink.integer(id);
      return;
    case kOutTopLogprob:
      for (const ResponseView& item : items) sink.floats(item.generation.top.logprobs);
      return;
    case kOutPromptTokenId:
      for (const ResponseView& item : items)
        for (const u32 id : item.generation.prompt.token_ids) sink.integer(id);
      return;
    // The first token of a prompt has none.
    case kOutPromptLogprob:
    case kOutPromptTopLogprob:
      for (const ResponseView& item : items) {
        const PromptView& prompt = item.generation.prompt;
        if (prompt.token_ids.empty()) continue;
        constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
        for (u64 i = 0; i < (tensor.dimensions > 1 ? tensor.shape[1] : 1); i++) sink.floats(std::span(&kNone, 1));
        sink.floats(tensor.bit == kOutPromptLogprob ? prompt.logprobs : prompt.top.logprobs);
      }
      return;
    case kOutPromptTopTokenId:
      for (const ResponseView& item : items) {
        const PromptView& prompt = item.generation.prompt;
        if (prompt.token_ids.empty()) continue;
        for (u64 i = 0; i < tensor.shape[1]; i++) sink.integer(0);
        for (const u32 id : prompt.top.ids) sink.integer(id);
      }
      return;
    case kOutPromptOffsets:
      sink.integer(0);
      for (const ResponseView& item : items) sink.integer(rows += u32(item.generation.prompt.token_ids.size()));
      return;
    case kOutWeight:
      for (const ResponseView& item : items) sink.floats(item.sparse.weights);
      return;
    case kOutOffsets:
      sink.integer(0);
      for (const ResponseView& item : items) sink.integer(rows += rows_of(item));
      return;
  }
}

}  // namespace fastqps::protocols
