// The request messages of tei.v1, read in place.
#pragma once
#include <string>
#include <vector>

#include "predict/formats/request_reader.h"
#include "tei/scores.h"
#include "tei/text_request.h"

namespace fastqps::front {

// Of messages with one item.
class EmbedReader final : public RequestReader {
 public:
  explicit EmbedReader(ModelRoutes& routes) : requests_(routes) {}

  FieldError read(std::span<const u8> message, const CallInfo&, ReasonText& reason) override;
  u32 items() const override { return 1; }
  FieldError item(u32, RequestView& view) override;

 private:
  TextRequests requests_;
  std::string_view text_;
  TextOptions options_;
  ReasonText item_reason_;
};

class EmbedSparseReader final : public RequestReader {
 public:
  explicit EmbedSparseReader(ModelRoutes& routes) : requests_(routes) {}

  FieldError read(std::span<const u8> message, const CallInfo&, ReasonText& reason) override;
  u32 items() const override { return 1; }
  FieldError item(u32, RequestView& view) override;

 private:
  TextRequests requests_;
  std::string_view text_;
  TextOptions options_;
  ReasonText item_reason_;
};

// PredictRequest, with one text, and PredictPairRequest, with one or two.
class PredictReader final : public RequestReader {
 public:
  PredictReader(ModelRoutes& routes, bool pairs) : requests_(routes), pairs_(pairs) {}

  FieldError read(std::span<const u8> message, const CallInfo&, ReasonText& reason) override;
  u32 items() const override { return 1; }
  FieldError item(u32, RequestView& view) override {
    view.output.timings = true;
    return requests_.predict(texts_, options_, view, item_reason_);
  }

 private:
  TextRequests requests_;
  const bool pairs_;
  std::vector<std::string_view> texts_;
  TextOptions options_;
  ReasonText item_reason_;
};

// RerankRequest: an item for each text.
class RerankReader final : public RequestReader {
 public:
  RerankReader(ModelRoutes& routes, u32 items_max) : requests_(routes), items_max_(items_max) {}

  FieldError read(std::span<const u8> message, const CallInfo&, ReasonText& reason) override;
  u32 items() const override { return u32(texts_.size()); }
  FieldError item(u32 index, RequestView& view) override {
    view.output.timings = true;
    return requests_.rerank("texts", query_, texts_[index], options_, view, item_reason_);
  }
  std::string_view context() const override { return context_; }

 private:
  TextRequests requests_;
  const u32 items_max_;
  std::string_view query_;
  std::vector<std::string_view> texts_;
  TextOptions options_;
  std::string context_;
  ReasonText item_reason_;
};

// RerankStreamRequest: one text. The first message of a stream decides for all whether scores are raw and texts
// returned.
class RerankStreamReader final : public RequestReader {
 public:
  explicit RerankStreamReader(ModelRoutes& routes) : requests_(routes) {}

  void follow(std::string_view context) override { before_ = context; }
  FieldError read(std::span<const u8> message, const CallInfo&, ReasonText& reason) override;
  u32 items() const override { return 1; }
  FieldError item(u32, RequestView& view) override {
    view.output.timings = true;
    return requests_.rerank("texts", query_, text_, options_, view, item_reason_);
  }
  std::string_view context() const override { return context_; }

 private:
  TextRequests requests_;
  std::string_view before_, query_, text_;
  TextOptions options_;
  std::string context_;
  ReasonText item_reason_;
};

}  // namespace fastqps::front
