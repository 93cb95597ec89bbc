// Requests of text-embeddings-inference, over gRPC and HTTP alike: their defaults and checks, and the items that
// they become.
#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "contract/request_view.h"
#include "protocols/tei/scores.h"
#include "service/tables/routes.h"

namespace fastqps::protocols {

enum class TruncationDirection : i32 { kRight = 0, kLeft = 1 };

// Options as a client sent them.
struct TextOptions {
  std::string_view model = {};  // empty: the first one that can do it, which TEI's own API always means
  Truncation truncation = {};
  TruncationDirection direction = TruncationDirection::kRight;  // may hold any number
  std::string_view prompt_name = {};                            // empty: the default one
  std::optional<bool> normalize = {};                           // of Embed; not given: true
  std::optional<u32> dimensions = {};                           // of Embed; not given: all
  bool raw_scores = false;                                      // of Predict and Rerank
};

// Each function turns one request into an item, and keeps what else the view has. A refusal of the model is a failed
// precondition.
class TextRequests {
 public:
  explicit TextRequests(service::ModelRoutes& routes) : routes_(routes) {}

  // The view has the text, or its token ids.
  FieldError embed(const TextOptions& options, RequestView& view, ReasonText& reason);
  FieldError embed_sparse(const TextOptions& options, RequestView& view, ReasonText& reason);
  // One text, or two as a pair.
  FieldError predict(std::span<const std::string_view> texts, const TextOptions& options, RequestView& view,
                     ReasonText& reason);
  // One text of a request to rank. field: the name of its texts.
  FieldError rerank(const char* field, std::string_view query, std::string_view text, const TextOptions& options,
                    RequestView& view, ReasonText& reason);
  // Whether the model can rank: it has one score.
  FieldError check_ranks(std::string_view model, ReasonText& reason);
  // The route of the model that ranks, or a negative number as ModelRoutes::find().
  i32 ranking(std::string_view model) const;

 private:
  // Can a model do it? Of a request without a model the first one that can is meant.
  struct Need {
    Task task;
    bool rank = false, single_texts = false;
  };
  bool can(Need need, u32 route) const;
  i32 find(std::string_view model, Need need) const;
  FieldError refuse_model(Need need, u32 route, ReasonText& reason) const;
  FieldError embed_as(Task task, const TextOptions& options, RequestView& view, ReasonText& reason);
  // Takes over what the options have for every request.
  FieldError set_options(const TextOptions& options, i32 route, RequestView& view, ReasonText& reason);
  FieldError classify(Need need, const char* field, std::span<const std::string_view> texts, const TextOptions& options,
                      RequestView& view, ReasonText& reason);

  service::ModelRoutes& routes_;
};

// The number of code points of a valid text.
u32 characters_of(std::string_view text);

}  // namespace fastqps::protocols
