#include "service/intake/request_checker.h"

#include <algorithm>

#include "service/tables/generation.h"

namespace fastqps::service {

namespace {

// By Task.
constexpr const char* kDoes[] = {"embeds texts",   "classifies texts",        "generates text",
                                 "finds entities", "gives sparse embeddings", "makes a vector of each token"};

}  // namespace

Refusal RequestChecker::check(const RequestView& view, const Origin& from, u32& route) {
  ReasonText reason;
  if (const FieldError error = check_request(view, reason)) return refusals_.refuse(error);
  const i32 found = routes_.find(view.model);
  if (found == ModelRoutes::kUnknown) return not_served(view.model);
  if (found == ModelRoutes::kStarting) return refusals_.refuse(StatusCode::kUnavailable, "the model is starting");
  route = u32(found);
  if (Refusal refusal = check_task(from.wants, route)) return refusal;
  if (Refusal refusal = check_options(view.output, route)) return refusal;
  return routes_[route].task == Task::kGenerate ? check_generator(view, route)
                                                : check_encoder(view, route, from.streams);
}

// Lists the served models, as many as the message has room for.
Refusal RequestChecker::not_served(std::string_view name) {
  Refusal refusal =
      refusals_.refuse_field("model", "'%.*s' is not served here; served: %s", int(std::min<size_t>(name.size(), 100)),
                             name.data(), routes_.names().c_str());
  refusal.code = StatusCode::kNotFound;
  return refusal;
}

// Of methods that are for one task alone.
Refusal RequestChecker::check_task(Output wants, u32 r) {
  static constexpr Output kMade[] = {Output::kEmbedding, Output::kClassification, Output::kGeneration,
                                     Output::kEntities,  Output::kSparse,         Output::kMulti};  // by Task
  const auto task = u32(routes_[r].task);
  const bool text = wants == Output::kText;
  if (text && routes_[r].task == Task::kGenerate && !routes_.setup(r).detokenizer)
    return refusals_.refuse_field(
        "model",
        "'%s' has no tokenizer, so its answers have no text; ask for logprobs, which name the "
        "tokens by their ids, or call Predict",
        routes_.name(r));
  if (wants == Output::kNone || (text ? Output::kGeneration : wants) == kMade[task]) return {};
  return refusals_.refuse_field("model", "'%s' %s, which is not what this method is for", routes_.name(r), kDoes[task]);
}

// Refuses the options of other tasks. Embedders and classifiers ignore each other's.
Refusal RequestChecker::check_options(const OutputOptions& o, u32 r) {
  const Task task = routes_[r].task;
  const bool ignores = task == Task::kEmbed || task == Task::kClassify;
  if (!ignores && task != Task::kEmbedMulti) {
    if (o.dtype) return meaningless("output.dtype", u32(o.dtype), r);
    if (o.dimensions) return meaningless("output.dimensions", o.dimensions, r);
    if (o.normalize) return meaningless("output.normalize", *o.normalize, r);
  }
  if (!ignores) {
    if (o.top_labels) return meaningless("output.top_labels", o.top_labels, r);
    if (o.raw_scores) return meaningless("output.raw_scores", 1, r);
  }
  if (o.aggregation && task != Task::kClassifyTokens) return meaningless("output.aggregation", u32(o.aggregation), r);
  if (o.max_active_dims && task != Task::kEmbedSparse)
    return meaningless("output.max_active_dims", o.max_active_dims, r);
  return {};
}

Refusal RequestChecker::check_encoder(const RequestView& view, u32 r, bool streams) {
  const Route& route = routes_[r];
  const OutputOptions& output = view.output;
  const char* name = routes_.name(r);
  if (streams) return refusals_.refuse_field("model", "'%s' does not generate text; call Predict", name);
  if (view.has_generate)
    return refusals_.refuse_field("generate", "the model '%s' does not generate text; leave it unset", name);
  if (output.dimensions > route.dimensions)
    return refusals_.refuse_field("output.dimensions", "%u, at most %u", output.dimensions, route.dimensions);
  const bool normalized = output.normalize.value_or(route.normalize);
  if (DType(output.dtype) == DType::kInt8 && !normalized &&
      (route.task == Task::kEmbed || route.task == Task::kEmbedMulti))
    return refusals_.refuse_field(
        "output.dtype",
        "DTYPE_INT8 (3) can hold values from -1 to 1 only, and this embedding is not normalized; set normalize, or use "
        "DTYPE_FLOAT16");
  if (route.task == Task::kEmbedSparse && output.max_active_dims > sparse_weights(route.dimensions))
    return refusals_.refuse_field("output.max_active_dims", "%u, at most %u", output.max_active_dims,
                                  sparse_weights(route.dimensions));
  if (route.task == Task::kEmbedMulti && view.input == Input::kPair)
    return refusals_.refuse_field("pair", "2 texts, at most 1 for the model '%s', which makes a vector of each token",
                                  name);
  return route.task == Task::kClassifyTokens ? check_token_classifier(view, r) : Refusal{};
}

Refusal RequestChecker::check_token_classifier(const RequestView& view, u32 r) {
  const char* name = routes_.name(r);
  if (view.input == Input::kPair)
    return refusals_.refuse_field("pair", "2 texts, at most 1 for the model '%s', which finds entities in a text",
                                  name);
  if (view.input == Input::kTokenIds)
    return refusals_.refuse_field("token_ids",
                                  "the model '%s' says where in a text its entities are; send the text itself", name);
  return {};
}

// Of an option of another task.
Refusal RequestChecker::meaningless(const char* field, u32 value, u32 r) {
  return refusals_.refuse_field(field, "%u, but the model '%s' %s; leave it unset", value, routes_.name(r),
                                kDoes[u32(routes_[r].task)]);
}

Refusal RequestChecker::check_generator(const RequestView& view, u32 r) {
  const Route& route = routes_[r];
  const GenerateOptions& options = view.generate;
  const char* name = routes_.name(r);
  if (view.input == Input::kPair)
    return refusals_.refuse_field("pair", "2 texts, at most 1 for the model '%s', which generates", name);
  const u32 beside = options.lowers_max_tokens ? route.prefix_tokens + route.max_input_tokens : 0;
  if (const u32 most = route.max_output_tokens + beside; options.max_tokens > most)
    return refusals_.refuse_field("generate.max_tokens", "%u, at most %u", options.max_tokens, most);
  const u32 max_tokens = answer_limit(options, route);
  if (options.min_tokens > max_tokens)
    return refusals_.refuse_field("generate.min_tokens", "%u, at most max_tokens, %u", options.min_tokens, max_tokens);
  if (options.stop.count && !routes_.setup(r).detokenizer)
    return refusals_.refuse_field(
        "generate.stop", "the model '%s' has no tokenizer, so stop strings cannot be found; use stop_token_ids", name);
  return check_token_options(view, r);
}

Refusal RequestChecker::check_token_options(const RequestView& view, u32 r) {
  const u32 vocab = routes_[r].vocab_size;
  const IdList& given = view.generate.stop_ids;
  StopIds stops;
  if (const u32 n = stop_ids(view, routes_.setup(r).detokenizer.get(), stops); n > IdList::kMax)
    return refusals_.refuse_field("generate.stop",
                                  "%u of the strings are special tokens, at most %u beside %u stop_token_ids",
                                  n - given.count, IdList::kMax - given.count, given.count);
  const auto unknown = [vocab](u32 id) { return id >= vocab; };
  Refusal refusal;
  any_option(kGenerateOptions, [&](const auto& row) {
    if constexpr (std::is_same_v<typename std::decay_t<decltype(row)>::Value, IdList>) {
      const std::span<const u32> ids = (view.generate.*row.member).all();
      if (const auto id = std::find_if(ids.begin(), ids.end(), unknown); id != ids.end())
        return refusal = refusals_.refuse_field(row.path, "id %u, the vocabulary has %u", *id, vocab), true;
    }
    return false;
  });
  if (refusal) return refusal;
  const std::span<const u32> suppressed_ids = view.generate.suppress_ids.all();
  const std::vector<u32>& forced = routes_.setup(r).forced_ids;
  const auto suppressed = [&](u32 id) {
    return std::find(suppressed_ids.begin(), suppressed_ids.end(), id) != suppressed_ids.end();
  };
  if (!forced.empty() && std::all_of(forced.begin(), forced.end(), suppressed))
    return refusals_.refuse_field(
        "generate.suppress_token_ids",
        "%zu ids, with all %zu that the checkpoint's forced_eos_token_id forces; leave one of those out",
        suppressed_ids.size(), forced.size());
  return {};
}

}  // namespace fastqps::service
