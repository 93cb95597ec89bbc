// PredictBatchRequest and PredictBatchResponse.
#pragma once
#include <vector>

#include "service/formats/answer_writer.h"
#include "service/formats/request_reader.h"

namespace fastqps::service {

class NativeBatchReader final : public RequestReader {
 public:
  explicit NativeBatchReader(u32 items_max) : items_(items_max) {}

  FieldError read(std::span<const u8> message, const transport::CallInfo&, ReasonText& reason) override {
    return split_batch({reinterpret_cast<const char*>(message.data()), message.size()}, items_, &count_, reason);
  }
  u32 items() const override { return u32(count_); }
  FieldError item(u32 index, RequestView& view) override { return parse_request(items_[index], &view); }

 private:
  std::vector<std::string_view> items_;
  size_t count_ = 0;
};

class NativeBatchWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall&, std::span<const ResponseView> items) const override {
    size_t room = 0;
    for (const ResponseView& item : items) room += batch_item_size(response_size(item));
    return room;
  }
  u8* write(const AnsweredCall&, std::span<const ResponseView> items, u8* out) const override {
    for (const ResponseView& item : items) out = write_response(item, write_batch_frame(response_size(item), out));
    return out;
  }
  bool has_item_statuses() const override { return true; }
};

// Of PredictStream, whose messages have one item and one answer each.
class NativeStreamReader final : public RequestReader {
 public:
  FieldError read(std::span<const u8> message, const transport::CallInfo&, ReasonText&) override {
    message_ = {reinterpret_cast<const char*>(message.data()), message.size()};
    return {};
  }
  u32 items() const override { return 1; }
  FieldError item(u32, RequestView& view) override { return parse_request(message_, &view); }

 private:
  std::string_view message_;
};

class NativeStreamWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall&, std::span<const ResponseView> items) const override {
    return response_size(items[0]);
  }
  u8* write(const AnsweredCall&, std::span<const ResponseView> items, u8* out) const override {
    return write_response(items[0], out);
  }
  bool has_item_statuses() const override { return true; }
};

}  // namespace fastqps::service
