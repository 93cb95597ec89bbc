#include "tei/text_request.h"

#include <algorithm>

namespace fastqps::front {

namespace {
constexpr const char* kNoCharacters = "0 characters, at least 1";
}  // namespace

u32 characters_of(std::string_view text) {
  return u32(std::count_if(text.begin(), text.end(), [](char byte) { return (u8(byte) & 0xc0) != 0x80; }));
}

FieldError TextRequests::check_options(const TextOptions& options, ReasonText& reason) {
  if (options.direction == TruncationDirection::kRight) return {};
  if (options.direction != TruncationDirection::kLeft)
    return {"truncation_direction", reason.print("%d, must be 0 (right) or 1 (left)", i32(options.direction))};
  const i32 route = routes_.find(options.model);
  if (route < 0 || !routes_.cuts(options.truncation)) return {};
  if (routes_.setup(u32(route)).cuts_left) return {};
  return {"truncation_direction", reason.print("left, but the model '%s' cuts on the right", routes_.name(u32(route)))};
}

// What an embedding and a sparse one share.
FieldError TextRequests::embed_as(Task task, const char* not_one, const TextOptions& options, RequestView& view,
                                  ReasonText& reason) {
  const i32 route = routes_.find(options.model);  // one that is starting is refused later
  if (route >= 0 && routes_[u32(route)].task != task)
    return {"", reason.print("the model '%s' %s", routes_.name(u32(route)), not_one), FieldFault::kModel};
  if (const FieldError error = check_options(options, reason)) return error;
  const bool ids = view.input == Input::kTokenIds;
  if (ids && !view.token_count) return {"inputs", "0 token ids, at least 1", FieldFault::kEmpty};
  if (!ids && view.text.empty()) return {"inputs", kNoCharacters, FieldFault::kEmpty};
  view.model = options.model;
  view.prompt_name = options.prompt_name;
  view.truncation = options.truncation;
  view.request_id = ItemNote{ids ? view.token_count : characters_of(view.text)}.as_id();
  return {};
}

FieldError TextRequests::embed_sparse(const TextOptions& options, RequestView& view, ReasonText& reason) {
  return embed_as(Task::kEmbedSparse, "has no sparse embeddings", options, view, reason);
}

FieldError TextRequests::embed(const TextOptions& options, RequestView& view, ReasonText& reason) {
  if (const FieldError error = embed_as(Task::kEmbed, "is not an embedding model", options, view, reason)) return error;
  if (options.dimensions && !*options.dimensions) return {"dimensions", "is 0, must be at least 1"};
  view.output.has_normalize = true;
  view.output.normalize = options.normalize.value_or(true);
  view.output.dimensions = options.dimensions.value_or(0);
  return {};
}

FieldError TextRequests::check_classifies(std::string_view model, ReasonText& reason) {
  const i32 route = routes_.find(model);
  if (route < 0 || routes_[u32(route)].task == Task::kClassify) return {};
  return {"", reason.print("the model '%s' is not a classifier model", routes_.name(u32(route))), FieldFault::kModel};
}

FieldError TextRequests::check_ranks(std::string_view model, ReasonText& reason) {
  if (const FieldError error = check_classifies(model, reason)) return error;
  const i32 route = routes_.find(model);
  if (route < 0 || routes_[u32(route)].dimensions == 1) return {};
  return {"",
          reason.print("the model '%s' is not a re-ranker model: it has %u labels, and a re-ranker has 1",
                       routes_.name(u32(route)), routes_[u32(route)].dimensions),
          FieldFault::kModel};
}

// A checkpoint without an activation of its own still gives probabilities here, unless raw scores are asked for.
void TextRequests::ask_for_scores(const TextOptions& options, RequestView& view, ItemNote note) {
  const i32 route = routes_.find(options.model);
  note.activate = !options.raw_scores && route >= 0 && routes_[u32(route)].activation == Activation::kIdentity;
  view.model = options.model;
  view.output.raw_scores = options.raw_scores;
  view.request_id = note.as_id();
}

FieldError TextRequests::classify(const char* field, std::span<const std::string_view> texts,
                                  const TextOptions& options, RequestView& view, ReasonText& reason) {
  if (const FieldError error = check_classifies(options.model, reason)) return error;
  if (const FieldError error = check_options(options, reason)) return error;
  if (texts.empty() || texts.size() > 2) return {field, reason.print("%zu texts, must be 1 or 2", texts.size())};
  if (std::all_of(texts.begin(), texts.end(), [](std::string_view text) { return text.empty(); }))
    return {field, kNoCharacters, FieldFault::kEmpty};
  ItemNote note{characters_of(texts[0])};
  view.prompt_name = options.prompt_name;
  view.truncation = options.truncation;
  if (texts.size() == 1) {
    view.input = Input::kText;
    view.text = texts[0];
  } else {
    view.input = Input::kPair;
    view.pair_first = texts[0];
    view.pair_second = texts[1];
    note.characters += characters_of(texts[1]);
  }
  ask_for_scores(options, view, note);
  return {};
}

FieldError TextRequests::predict(std::span<const std::string_view> texts, const TextOptions& options, RequestView& view,
                                 ReasonText& reason) {
  return classify("inputs", texts, options, view, reason);
}

FieldError TextRequests::rerank(const char* field, std::string_view query, std::string_view text,
                                const TextOptions& options, RequestView& view, ReasonText& reason) {
  if (const FieldError error = check_ranks(options.model, reason)) return error;
  const std::string_view texts[] = {query, text};
  return classify(field, texts, options, view, reason);
}

}  // namespace fastqps::front
