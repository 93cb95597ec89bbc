// A PredictRequest with several choices: each candidate is an item, and their answers are one PredictResponse, or
// GenerateChunks that name their choice.
#pragma once
#include "contract/best_of.h"
#include "service/formats/protocol.h"

namespace fastqps::service {

class CandidatesReader final : public RequestReader {
 public:
  CandidatesReader(u32 items_max, bool streams) : items_max_(items_max), streams_(streams) {}

  FieldError read(std::span<const u8> message, const transport::CallInfo&, ReasonText& reason) override;
  u32 items() const override { return choices_.candidates; }
  u32 candidates() const override { return choices_.candidates; }
  FieldError item(u32 index, RequestView& view) override {
    view = request_;
    make_candidate(view, index);
    return {};
  }
  std::string_view context() const override;
  bool streams() const override { return streams_; }

 private:
  const u32 items_max_;
  const bool streams_;
  RequestView request_;
  BestOf choices_;
};

class CandidatesWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall& call, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override;
  size_t chunk_room(const AnsweredCall&, const ChunkView& chunk) const override {
    return chunk_size(as_written(chunk));
  }
  u8* write_chunk(const AnsweredCall&, const ChunkView& chunk, u8* out) const override {
    return fastqps::write_chunk(as_written(chunk), out);
  }

 private:
  // Only the last chunk of a choice has its usage.
  static ChunkView as_written(ChunkView chunk) {
    if (chunk.generation.finish_reason == FinishReason::kUnspecified) chunk.usage = nullptr;
    return chunk;
  }
};

}  // namespace fastqps::service
