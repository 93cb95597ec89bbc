// Writes the answer to an edge's item as it lies in its slot.
#pragma once
#include "predict/formats/answer_writer.h"
#include "wire/step_message.h"

namespace fastqps::front {

class StepWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall&, std::span<const ResponseView> items) const override {
    return step_row_size(of(items[0]));
  }
  u8* write(const AnsweredCall&, std::span<const ResponseView> items, u8* out) const override {
    return write_step_row(of(items[0]), out);
  }
  size_t chunk_room(const AnsweredCall&, const ChunkView& chunk) const override { return step_row_size(of(chunk)); }
  u8* write_chunk(const AnsweredCall&, const ChunkView& chunk, u8* out) const override {
    return write_step_row(of(chunk), out);
  }
  size_t seal_room() const override { return kChecksumBytes; }
  u8* seal(const u8* begin, u8* end) const override { return seal_step_message(begin, end); }
  bool has_item_statuses() const override { return true; }

 private:
  static StepRow of(const ResponseView& item);
  static StepRow of(const ChunkView& chunk);
};

}  // namespace fastqps::front
