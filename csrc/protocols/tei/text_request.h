// Requests of text-embeddings-inference, over gRPC and HTTP alike: their defaults and checks, and the items that
// they become.
#pragma once
#include <algorithm>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "protocols/json/text_options.h"
#include "protocols/tei/scores.h"
#include "service/tables/routes.h"

namespace fastqps::protocols {

// The number of code points of a valid text.
inline u32 characters_of(std::string_view text) {
  return u32(std::count_if(text.begin(), text.end(), [](char byte) { return (u8(byte) & 0xc0) != 0x80; }));
}

// What a request asks of a model.
struct Need {
  Task task;
  bool rank = false, single_texts = false;
};
inline constexpr Need kRanks{.task = Task::kClassify, .rank = true};

// Each function turns one request into an item, and keeps what else the view has. A refusal of the model is a failed
// precondition. Refusals name the fields of PredictRequest (service::FieldNames).
class TextRequests {
 public:
  explicit TextRequests(service::ModelRoutes& routes) : routes_(routes) {}

  // One text or its token ids, which the view has.
  FieldError one(Task task, const TextOptions& options, RequestView& view, ReasonText& reason) {
    i32 route;
    const Need need{.task = task, .single_texts = task == Task::kClassify};
    if (const FieldError error = set_options(need, options, view, route, reason)) return error;
    const bool ids = view.input == Input::kTokenIds;
    if (ids && !view.token_count) return {"token_ids", "0 token ids, at least 1", FieldFault::kEmpty};
    if (!ids && view.text.empty() && !options.takes_empty) return {"text", kNoCharacters, FieldFault::kEmpty};
    const u32 characters = ids ? view.token_count : characters_of(view.text);
    if (task == Task::kClassify) return set_activation(options, route, characters, view);
    view.request_id = ItemNote{characters}.as_id();
    if (task != Task::kEmbed) return {};
    if (options.dimensions && !*options.dimensions) return {"dimensions", "is 0, must be at least 1"};
    view.output.normalize = options.normalize.value_or(true);
    view.output.dimensions = options.dimensions.value_or(0);
    return {};
  }
  // One text, or two as a pair.
  FieldError predict(std::span<const std::string_view> texts, const TextOptions& options, RequestView& view,
                     ReasonText& reason) {
    return classify({.task = Task::kClassify, .single_texts = texts.size() == 1}, texts, options, view, reason);
  }
  // One text of a request to rank.
  FieldError rerank(std::string_view query, std::string_view text, const TextOptions& options, RequestView& view,
                    ReasonText& reason) {
    const std::string_view texts[] = {query, text};
    return classify(kRanks, texts, options, view, reason);
  }
  // Whether the model that is meant can do it.
  FieldError check(Need need, std::string_view model, ReasonText& reason) const {
    return check(need, find(need, model), reason);
  }
  // Whether texts may have so many tokens: they are cut at the limit of the model alone. tokens: 0: not given.
  FieldError check_tokens(const char* field, u32 tokens, i32 route, ReasonText& reason) const {
    const u32 most = route < 0 ? 0 : routes_[u32(route)].max_input_tokens;
    if (!tokens || tokens >= most) return {};
    return {field, reason.print("%u, must be at least %u: texts are cut at the model's own limit alone", tokens, most)};
  }
  // The route of a model, or a negative number as ModelRoutes::find(). Of a request without a model the first one that
  // can do it is meant.
  i32 find(Need need, std::string_view model) const {
    return routes_.find(model, [&](u32 route) { return can(need, route); });
  }
  bool can(Need need, u32 route) const {
    const Route& model = routes_[route];
    const ModelCard& card = routes_.setup(route).card;
    return model.task == need.task && (!need.rank || model.dimensions == 1 || card.ranks()) &&
           (!need.single_texts || !card.pairs_only);
  }

 private:
  FieldError check(Need need, i32 route, ReasonText& reason) const {
    need.single_texts = false;  // a model of pairs says so itself
    return route < 0 || can(need, u32(route)) ? FieldError{} : refuse_model(need, u32(route), reason);
  }
  FieldError refuse_model(Need need, u32 route, ReasonText& reason) const {
    constexpr std::pair<Task, const char*> kWrong[] = {{Task::kEmbed, "is not an embedding model"},
                                                       {Task::kEmbedSparse, "has no sparse embeddings"},
                                                       {Task::kEmbedMulti, "makes no vector of each token"},
                                                       {Task::kClassifyTokens, "finds no entities"}};
    char why[96] = "is not a classifier model";
    for (const auto& [task, wrong] : kWrong)
      if (need.task == task) std::snprintf(why, sizeof why, "%s", wrong);
    if (need.rank) std::snprintf(why, sizeof why, "is not a re-ranker model");
    if (need.rank && routes_[route].task == Task::kClassify)
      std::snprintf(why, sizeof why, "is not a re-ranker model: it has %u labels, and a re-ranker has 1",
                    routes_[route].dimensions);
    std::string able = routes_.names([&](u32 other) { return can(need, other); });
    if (!able.empty()) able.insert(0, "; of those that are served, these can: ");
    return {"", reason.print("the model '%s' %s%s", routes_.name(route), why, able.c_str()), FieldFault::kModel};
  }
  // Takes over what the options have for every request. A model that is starting is refused later.
  FieldError set_options(Need need, const TextOptions& options, RequestView& view, i32& route, ReasonText& reason) {
    route = find(need, options.model);
    if (const FieldError error = check(need, route, reason)) return error;
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
  FieldError classify(Need need, std::span<const std::string_view> texts, const TextOptions& options, RequestView& view,
                      ReasonText& reason) {
    i32 route;
    if (const FieldError error = set_options(need, options, view, route, reason)) return error;
    if (texts.empty() || texts.size() > 2) return {"text", reason.print("%zu texts, must be 1 or 2", texts.size())};
    const auto is_empty = [](std::string_view text) { return text.empty(); };
    if (!options.takes_empty && std::all_of(texts.begin(), texts.end(), is_empty))
      return {"text", kNoCharacters, FieldFault::kEmpty};
    u32 characters = characters_of(texts[0]);
    if (texts.size() == 1) {
      view.input = Input::kText;
      view.text = texts[0];
    } else {
      view.input = Input::kPair;
      view.pair_first = texts[0];
      view.pair_second = texts[1];
      characters += characters_of(texts[1]);
    }
    return set_activation(options, route, characters, view);
  }
  FieldError set_activation(const TextOptions& options, i32 route, u32 characters, RequestView& view) {
    // A checkpoint without an activation of its own still gives probabilities here, unless raw scores are asked for.
    const bool activate = !options.raw_scores && route >= 0 && routes_[u32(route)].activation == Activation::kIdentity;
    view.output.raw_scores = options.raw_scores;
    view.request_id = ItemNote{characters, activate}.as_id();
    return {};
  }

  static constexpr const char* kNoCharacters = "0 characters, at least 1";

  service::ModelRoutes& routes_;
};

}  // namespace fastqps::protocols
