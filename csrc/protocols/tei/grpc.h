// The messages of tei.v1, read and written in place.
#pragma once
#include <string>
#include <vector>

#include "protocols/tei/scores.h"
#include "protocols/tei/text_request.h"
#include "service/formats/protocol.h"

namespace fastqps::protocols {

// The fields of all request messages, each of which has some of them, with numbers of its own.
struct TeiRequest : TextOptions {
  std::string_view query = {};
  std::vector<std::string_view> texts = {};
  bool return_text = false;
};

class TeiReader : public service::RequestReader {
 public:
  FieldError read(std::span<const u8> message, const transport::CallInfo&, ReasonText& reason) final;
  u32 items() const override { return 1; }
  std::string_view context() const final { return context_; }

 protected:
  using Parse = FieldError (*)(std::string_view message, TeiRequest& request);
  // texts: how many a message has that gives none.
  TeiReader(service::ModelRoutes& routes, Parse parse, u32 texts)
      : requests_(routes), parse_(parse), texts_min_(texts) {}

  // After all fields.
  virtual FieldError check(ReasonText&) { return {}; }

  TextRequests requests_;
  TeiRequest request_;
  std::string context_;
  ReasonText item_reason_;

 private:
  const Parse parse_;
  const u32 texts_min_;
};

// EmbedRequest, EmbedSparseRequest and EmbedAllRequest, by the task.
class EmbedReader final : public TeiReader {
 public:
  explicit EmbedReader(service::ModelRoutes& routes, Task task = Task::kEmbed);
  FieldError item(u32, RequestView& view) override;

 private:
  const Task task_;
};

// PredictRequest, with one text, and PredictPairRequest, with one or two.
class PredictReader final : public TeiReader {
 public:
  PredictReader(service::ModelRoutes& routes, bool pairs);
  FieldError item(u32, RequestView& view) override {
    view.output.timings = true;
    return requests_.predict(request_.texts, request_, view, item_reason_);
  }
};

// RerankRequest: an item for each text.
class RerankReader : public TeiReader {
 public:
  RerankReader(service::ModelRoutes& routes, u32 items_max);
  u32 items() const override { return u32(request_.texts.size()); }
  FieldError item(u32 index, RequestView& view) final {
    view.output.timings = true;
    return requests_.rerank(request_.query, request_.texts[index], request_, view, item_reason_);
  }

 protected:
  RerankReader(service::ModelRoutes& routes, u32 items_max, Parse parse, u32 texts)
      : TeiReader(routes, parse, texts), items_max_(items_max) {}
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

// The context of kRerankWriter is a RankContext.
extern const service::AnswerWriter &kEmbedWriter, &kSparseWriter, &kTokenVectorsWriter, &kPredictWriter, &kRerankWriter;

}  // namespace fastqps::protocols
