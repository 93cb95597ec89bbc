// Requests of text-embeddings-inference, over gRPC and HTTP alike: their defaults and checks, and the items that
// they become.
#pragma once
#include <algorithm>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
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

// The number of code points of a valid text.
inline u32 characters_of(std::string_view text) {
  return u32(std::count_if(text.begin(), text.end(), [](char byte) { return (u8(byte) & 0xc0) != 0x80; }));
}

// Each function turns one request into an item, and keeps what else the view has. A refusal of the model is a failed
// precondition.
class TextRequests {
 public:
  explicit TextRequests(service::ModelRoutes& routes) : routes_(routes) {}

  // The view has the text, or its token ids.
  FieldError embed(const TextOptions& options, RequestView& view, ReasonText& reason) {
    if (const FieldError error = embed_as(Task::kEmbed, options, view, reason)) return error;
    if (options.dimensions && !*options.dimensions) return {"dimensions", "is 0, must be at least 1"};
    view.output.normalize = options.normalize.value_or(true);
    view.output.dimensions = options.dimensions.value_or(0);
    return {};
  }
  FieldError embed_sparse(const TextOptions& options, RequestView& view, ReasonText& reason) {
    return embed_as(Task::kEmbedSparse, options, view, reason);
  }
  FieldError embed_all(const TextOptions& options, RequestView& view, ReasonText& reason) {
    return embed_as(Task::kEmbedMulti, options, view, reason);
  }
  // One text, or two as a pair.
  FieldError predict(std::span<const std::string_view> texts, const TextOptions& options, RequestView& view,
                     ReasonText& reason) {
    return classify({Task::kClassify, false, texts.size() == 1}, "inputs", texts, options, view, reason);
  }
  // One text of a request to rank. field: the name of its texts.
  FieldError rerank(const char* field, std::string_view query, std::string_view text, const TextOptions& options,
                    RequestView& view, ReasonText& reason) {
    const std::string_view texts[] = {query, text};
    return classify({Task::kClassify, true}, field, texts, options, view, reason);
  }
  // Whether the model can rank: it has one score.
  FieldError check_ranks(std::string_view model, ReasonText& reason) {
    const i32 route = ranking(model);
    const Need need{Task::kClassify, true};
    return route < 0 || can(need, u32(route)) ? FieldError{} : refuse_model(need, u32(route), reason);
  }
  // The route of the model that ranks, or a negative number as ModelRoutes::find().
  i32 ranking(std::string_view model) const { return find(model, {Task::kClassify, true}); }
  // The same of the model that embeds.
  i32 embedding(std::string_view model) const { return find(model, {Task::kEmbed}); }

 private:
  // Can a model do it? Of a request without a model the first one that can is meant.
  struct Need {
    Task task;
    bool rank = false, single_texts = false;
  };
  bool can(Need need, u32 route) const {
    const Route& model = routes_[route];
    return model.task == need.task && (!need.rank || model.dimensions == 1) &&
           (!need.single_texts || !routes_.setup(route).card.pairs_only);
  }
  i32 find(std::string_view model, Need need) const {
    return routes_.find(model, [&](u32 route) { return can(need, route); });
  }
  FieldError refuse_model(Need need, u32 route, ReasonText& reason) const {
    char why[96] = "is not a classifier model";
    if (need.task == Task::kEmbed) std::snprintf(why, sizeof why, "is not an embedding model");
    if (need.task == Task::kEmbedSparse) std::snprintf(why, sizeof why, "has no sparse embeddings");
    if (need.task == Task::kEmbedMulti) std::snprintf(why, sizeof why, "makes no vector of each token");
    if (need.rank && routes_[route].task == Task::kClassify)
      std::snprintf(why, sizeof why, "is not a re-ranker model: it has %u labels, and a re-ranker has 1",
                    routes_[route].dimensions);
    std::string able = routes_.names([&](u32 other) { return can(need, other); });
    if (!able.empty()) able.insert(0, "; of those that are served, these can: ");
    return {"", reason.print("the model '%s' %s%s", routes_.name(route), why, able.c_str()), FieldFault::kModel};
  }
  // The common part of embed() and its kin.
  FieldError embed_as(Task task, const TextOptions& options, RequestView& view, ReasonText& reason) {
    const Need need{task};
    const i32 route = find(options.model, need);  // one that is starting is refused later
    if (route >= 0 && !can(need, u32(route))) return refuse_model(need, u32(route), reason);
    if (const FieldError error = set_options(options, route, view, reason)) return error;
    const bool ids = view.input == Input::kTokenIds;
    if (ids && !view.token_count) return {"inputs", "0 token ids, at least 1", FieldFault::kEmpty};
    if (!ids && view.text.empty()) return {"inputs", kNoCharacters, FieldFault::kEmpty};
    view.request_id = ItemNote{ids ? view.token_count : characters_of(view.text)}.as_id();
    return {};
  }
  // Takes over what the options have for every request.
  FieldError set_options(const TextOptions& options, i32 route, RequestView& view, ReasonText& reason) {
    view.model = options.model.empty() && route >= 0 ? std::string_view(routes_.name(u32(route))) : options.model;
    view.prompt_name = options.prompt_name;
    view.truncation = options.truncation;
    if (options.direction == TruncationDirection::kRight) return {};
    if (options.direction != TruncationDirection::kLeft)
      return {"truncation_direction", reason.print("%d, must be 0 (right) or 1 (left)", i32(options.direction))};
    if (route < 0 || !routes_.cuts(options.truncation)) return {};
    if (routes_.setup(u32(route)).card.cuts_left) return {};
    return {"truncation_direction",
            reason.print("left, but the model '%s' cuts on the right", routes_.name(u32(route)))};
  }
  FieldError classify(Need need, const char* field, std::span<const std::string_view> texts, const TextOptions& options,
                      RequestView& view, ReasonText& reason) {
    const i32 route = find(options.model, need);
    need.single_texts = false;  // a model of pairs says so itself
    if (route >= 0 && !can(need, u32(route))) return refuse_model(need, u32(route), reason);
    if (const FieldError error = set_options(options, route, view, reason)) return error;
    if (texts.empty() || texts.size() > 2) return {field, reason.print("%zu texts, must be 1 or 2", texts.size())};
    if (std::all_of(texts.begin(), texts.end(), [](std::string_view text) { return text.empty(); }))
      return {field, kNoCharacters, FieldFault::kEmpty};
    ItemNote note{characters_of(texts[0])};
    if (texts.size() == 1) {
      view.input = Input::kText;
      view.text = texts[0];
    } else {
      view.input = Input::kPair;
      view.pair_first = texts[0];
      view.pair_second = texts[1];
      note.characters += characters_of(texts[1]);
    }
    // A checkpoint without an activation of its own still gives probabilities here, unless raw scores are asked for.
    note.activate = !options.raw_scores && route >= 0 && routes_[u32(route)].activation == Activation::kIdentity;
    view.output.raw_scores = options.raw_scores;
    view.request_id = note.as_id();
    return {};
  }

  static constexpr const char* kNoCharacters = "0 characters, at least 1";

  service::ModelRoutes& routes_;
};

}  // namespace fastqps::protocols
