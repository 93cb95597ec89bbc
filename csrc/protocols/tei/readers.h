// The request messages of tei.v1, read in place.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "contract/wire.h"
#include "protocols/tei/scores.h"
#include "protocols/tei/text_request.h"
#include "service/formats/protocol.h"

namespace fastqps::protocols {

// What the messages are made of, each with numbers of its own. kText: one; kTexts: any number. Texts come first.
enum class TeiPart : u8 {
  kQuery,
  kText,
  kTexts,
  kPromptName,
  kTruncate,
  kNormalize,
  kRawScores,
  kReturnText,
  kDirection,
  kDimensions
};

class TeiReader : public service::RequestReader {
 public:
  FieldError read(std::span<const u8> message, const transport::CallInfo&, ReasonText& reason) final;
  u32 items() const override { return 1; }
  std::string_view context() const final { return context_; }

 protected:
  // parts: by the numbers of their fields, from 1. text_field: the name of the text or the texts.
  TeiReader(service::ModelRoutes& routes, std::span<const TeiPart> parts, const char* text_field)
      : requests_(routes),
        parts_(parts),
        has_one_text_(std::ranges::count(parts, TeiPart::kText) > 0),
        text_field_(text_field) {}

  // After all fields.
  virtual FieldError check(ReasonText&) { return {}; }

  TextRequests requests_;
  std::string_view query_;
  std::vector<std::string_view> texts_;  // of kText always one
  TextOptions options_;
  bool return_text_ = false;
  std::string context_;
  ReasonText item_reason_;

 private:
  FieldError read_part(TeiPart part, WireReader& in);

  const std::span<const TeiPart> parts_;
  const bool has_one_text_;
  const char* const text_field_;
};

// EmbedRequest and EmbedSparseRequest.
class EmbedReader final : public TeiReader {
 public:
  EmbedReader(service::ModelRoutes& routes, bool sparse);
  FieldError item(u32, RequestView& view) override;

 private:
  const bool sparse_;
};

// PredictRequest, with one text, and PredictPairRequest, with one or two.
class PredictReader final : public TeiReader {
 public:
  PredictReader(service::ModelRoutes& routes, bool pairs);
  FieldError item(u32, RequestView& view) override {
    view.output.timings = true;
    return requests_.predict(texts_, options_, view, item_reason_);
  }
};

// RerankRequest: an item for each text.
class RerankReader : public TeiReader {
 public:
  RerankReader(service::ModelRoutes& routes, u32 items_max);
  u32 items() const override { return u32(texts_.size()); }
  FieldError item(u32 index, RequestView& view) final {
    view.output.timings = true;
    return requests_.rerank("texts", query_, texts_[index], options_, view, item_reason_);
  }

 protected:
  RerankReader(service::ModelRoutes& routes, u32 items_max, std::span<const TeiPart> parts, const char* text_field)
      : TeiReader(routes, parts, text_field), items_max_(items_max) {}
  FieldError check(ReasonText& reason) override;

  const u32 items_max_;
};

// RerankStreamRequest: one text. The first message of a stream decides for all whether scores are raw and texts
// returned.
class RerankStreamReader final : public RerankReader {
 public:
  explicit RerankStreamReader(service::ModelRoutes& routes);
  void follow(std::string_view context) override { before_ = context; }

 private:
  FieldError check(ReasonText& reason) override;

  std::string_view before_;
};

}  // namespace fastqps::protocols
