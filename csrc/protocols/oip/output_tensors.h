// The outputs of a response as tensors, and their raw contents. gRPC and HTTP share them.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "core/layout.h"
#include "service/formats/protocol.h"

namespace fastqps::protocols {

// Bits of outputs, for sets of them.
enum OutputBit : u8 { kOutEmbedding = 1, kOutScores = 2, kOutLabel = 4, kOutText = 8 };

struct OutputRow {
  std::string_view name;
  OutputBit bit;
  Output output;  // what holds it in a response
};
inline constexpr OutputRow kOutputRows[] = {{"embedding", kOutEmbedding, Output::kEmbedding},
                                            {"scores", kOutScores, Output::kClassification},
                                            {"label", kOutLabel, Output::kClassification},
                                            {"text", kOutText, Output::kGeneration}};

// The context of this protocol's readers and writers: a request, as far as its answer depends on it.
struct InferContext {
  u8 outputs = 0;  // that were asked for; none: all
  u8 binary = 0;   // HTTP: those that are sent behind the JSON
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
  std::string_view name, datatype;
  u64 shape[2];
  u32 dimensions;

  std::span<const u64> sizes() const { return {shape, dimensions}; }
};

// The tensors of an answer, in the order of kOutputRows.
class OutputTensors {
 public:
  OutputTensors(u8 asked, std::span<const ResponseView> items);
  const OutputTensor* begin() const { return tensors_; }
  const OutputTensor* end() const { return tensors_ + count_; }

 private:
  OutputTensor tensors_[2];
  u32 count_ = 0;
};

// Raw contents: numbers in little-endian, strings behind their lengths of 4 bytes.
size_t raw_size(const OutputTensor& tensor, std::span<const ResponseView> items);
u8* write_raw(const OutputTensor& tensor, std::span<const ResponseView> items, u8* out);

// The one string of an item that `label` or `text` has.
std::string_view output_text(const OutputTensor& tensor, const ResponseView& item);
// An item's scores in the model's order. out: as many as there are.
void write_scores(const ResponseView& item, std::span<float> out);

}  // namespace fastqps::protocols
