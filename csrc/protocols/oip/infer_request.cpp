#include "protocols/oip/infer_request.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>

#include "contract/utf8.h"
#include "contract/wire.h"

namespace fastqps::protocols {

namespace {

using Kind = OptionValue::Kind;

// Parameters that clients send unasked and that change nothing here: sequences of stateful models, forms of tensors.
constexpr std::string_view kIgnored[] = {"sequence_id",
                                         "sequence_start",
                                         "sequence_end",
                                         "binary_data_output",
                                         "binary_data",
                                         "binary_data_size",
                                         "triton_enable_empty_final_response"};

// As Triton numbers its levels: 0 is the default, 1 the highest.
const char* set_priority(const OptionValue& value, RequestView& view) {
  constexpr i32 kLow = 1, kNormal = 2, kHigh = 3;  // fastqps.v1.Priority
  u64 level;
  if (const char* why = service::to_u64(value, &level)) return why;
  view.priority = level == 0 ? 0 : level == 1 ? kHigh : level == 2 ? kNormal : kLow;
  return nullptr;
}

const char* set_datatype(const OptionValue& value, RequestView& view) {
  if (value.kind == Kind::kString && value.text == "FP32") return view.output.dtype = 1, nullptr;
  if (value.kind == Kind::kString && value.text == "FP16") return view.output.dtype = 2, nullptr;
  return "must be FP32 or FP16";
}

// A parameter has no array: several ids are a string, with commas between them.
OptionValue ids_of(std::string_view text, OptionLists& lists) {
  size_t n = 0;
  for (const char* at = text.data(); n < lists.elements.size();) {
    const char* const end = text.data() + text.size();
    u64 id = 0;
    const auto [behind, error] = std::from_chars(at, end, id);
    if (error != std::errc() || (behind < end && *behind != ',')) return {};
    lists.elements[n++] = {.kind = Kind::kUint, .unsigned_integer = id};
    if (behind == end) break;
    at = behind + 1;
  }
  return {.kind = Kind::kList, .list = std::span(lists.elements).first(n)};
}

// How a text is generated, beside what protocols take by name. Nothing: it is another parameter.
std::optional<const char*> set_generation(std::string_view name, const OptionValue& value, RequestView& view) {
  GenerateOptions& options = view.generate;
  const bool of_prompt = name == "prompt_logprobs";
  const char* why = nullptr;
  if (name == "n") {
    why = service::to_count(value, &options.n);
  } else if (name == "best_of") {
    why = service::to_count(value, &options.best_of);
  } else if (name == "logprobs") {
    why = service::to_bool(value, &options.logprobs);
  } else if (name == "top_logprobs") {
    why = service::to_u32(value, &options.top_logprobs);
  } else if (name == "echo") {
    why = service::to_bool(value, &options.echo);
  } else if (of_prompt) {
    why = service::to_u32(value, &options.prompt_logprobs);
  } else {
    return {};
  }
  view.has_generate = true;
  if (of_prompt) options.set_given(kPromptLogprobsField);
  return why;
}

}  // namespace

FieldError set_tensor_parameter(std::string_view name, const OptionValue& value, const char* where,
                                TensorParameters& parameters, ReasonText& reason) {
  const char* why = nullptr;
  if (name == "binary_data_size") {
    why = service::to_u64(value, &parameters.binary_data_size.emplace());
  } else if (name == "binary_data") {
    why = service::to_bool(value, &parameters.binary_data.emplace());
  } else if (name == "classification") {
    why = "is not served: ask for the outputs scores and label";
  } else if (name.starts_with("shared_memory_")) {
    why = "is not served: send the contents in the message";
  }
  if (!why) return {};
  return {where, reason.print("%.*s %s", shown(name), name.data(), why)};
}

FieldError set_parameter(std::string_view name, const OptionValue& value, RequestView& view, OptionLists& lists,
                         ReasonText& reason) {
  const char* why = nullptr;
  if (name == "priority") {
    why = set_priority(value, view);
  } else if (name == "timeout") {
    why = service::to_u64(value, &view.timeout_us);
  } else if (name == "tenant") {
    why = service::to_text(value, &view.tenant);
  } else if (name == "group") {
    why = service::to_text(value, &view.group);
  } else if (name == "datatype") {
    why = set_datatype(value, view);
  } else if (name == "aggregation") {
    why = service::to_aggregation(value, &view.output.aggregation);
  } else if (const auto refused = set_generation(name, value, view)) {
    why = *refused;
  } else if (std::find(std::begin(kIgnored), std::end(kIgnored), name) == std::end(kIgnored)) {
    const bool ids = name.ends_with("_token_ids") && value.kind == Kind::kString;
    const auto error = service::set_option(name, ids ? ids_of(value.text, lists) : value, view, lists);
    if (!error)
      return {"parameters", reason.print("'%.*s' is not a parameter of this server", shown(name), name.data())};
    why = error->reason;
  }
  if (!why) return {};
  return {"parameters", reason.print("%.*s %s", shown(name), name.data(), why)};
}

namespace {

bool read_raw_texts(std::string_view raw, std::vector<std::string_view>& texts) {
  while (!raw.empty()) {
    u32 bytes;
    if (raw.size() < sizeof bytes) return false;
    std::memcpy(&bytes, raw.data(), sizeof bytes);
    raw.remove_prefix(sizeof bytes);
    if (raw.size() < bytes) return false;
    texts.push_back(raw.substr(0, bytes));
    raw.remove_prefix(bytes);
  }
  return true;
}

template <class Number>
bool read_raw_numbers(std::string_view raw, std::vector<i64>& numbers) {
  static_assert(std::endian::native == std::endian::little);
  if (raw.size() % sizeof(Number)) return false;
  numbers.reserve(raw.size() / sizeof(Number));
  for (size_t at = 0; at < raw.size(); at += sizeof(Number)) {
    Number number;
    std::memcpy(&number, raw.data() + at, sizeof number);
    numbers.push_back(number);
  }
  return true;
}

}  // namespace

void InputTensor::clear() {
  given = false;
  datatype = {};
  empty(shape);
  empty(texts);
  empty(numbers);
}

bool InputTensor::read_raw(std::string_view raw) {
  if (holds_text()) return read_raw_texts(raw, texts);
  if (datatype == "INT64") return read_raw_numbers<i64>(raw, numbers);
  if (datatype == "INT32") return read_raw_numbers<i32>(raw, numbers);
  return true;
}

namespace {

constexpr size_t kIdBytesMax = 1024;

}  // namespace

void InferRequest::clear() {
  base_ = {};
  version_ = id_ = {};
  outputs_ = model_outputs_ = 0;
  texts_ = 0;
  for (InputTensor& tensor : inputs_) tensor.clear();
}

InputTensor* InferRequest::open_input(std::string_view name, FieldError& error, ReasonText& reason) {
  for (u32 i = 0; i < u32(InputName::kCount); i++) {
    if (name != kInputNames[i]) continue;
    if (!std::exchange(inputs_[i].given, true)) return &inputs_[i];
    error = {"inputs", reason.print("'%s' is given twice", kInputNames[i])};
    return nullptr;
  }
  error = {"inputs", reason.print("'%.*s' is not an input: text, text_pair, input_ids and attention_mask are",
                                  shown(name), name.data())};
  return nullptr;
}

FieldError InferRequest::ask_for(std::string_view output, OutputBit& bit, ReasonText& reason) {
  for (const OutputRow& row : kOutputRows) {
    if (row.name != output) continue;
    outputs_ |= bit = row.bit;
    return {};
  }
  return {"outputs", reason.print("'%.*s' is not an output: the model's metadata list those it has", shown(output),
                                  output.data())};
}

// A version, and outputs, that the model does not have. A model that is not served is refused later.
FieldError InferRequest::check_model(ReasonText& reason) {
  const i32 route = routes_.find(base_.model);
  if (route < 0) return {};
  const std::string_view served = routes_.setup(u32(route)).version;
  const std::string_view version = served.substr(served.rfind('@') + 1);
  if (!version_.empty() && version_ != version)
    return {"model_version", reason.print("'%.*s' is not served; served: '%.*s'", shown(version_), version_.data(),
                                          int(version.size()), version.data())};
  const Output output = traits(routes_[u32(route)].task).output;
  model_outputs_ = rows_of(output).set;
  for (const OutputRow& row : kOutputRows)
    if (outputs_ & ~model_outputs_ & row.bit)
      return {"outputs", reason.print("the model '%s' has no output '%s'", routes_.name(u32(route)), row.name.data())};
  return output == Output::kGeneration ? check_outputs(u32(route), reason) : FieldError{};
}

// Of a generator: the text, and what the options ask for, unless the request names its outputs.
FieldError InferRequest::check_outputs(u32 route, ReasonText& reason) {
  GenerateOptions& options = base_.generate;
  const bool has_text = routes_.setup(route).detokenizer != nullptr, named = outputs_;
  if (outputs_ & kOutText && !has_text)
    return {"outputs", reason.print("'%s' has no tokenizer, and so no text: ask for token_id", routes_.name(route))};
  if (outputs_ & kOutLogprob) base_.has_generate = options.logprobs = true;
  const bool logprobs = options.logprobs || options.top_logprobs;
  OutputSet able = 0;
  if (logprobs) able |= kOutLogprob;
  if (options.top_logprobs) able |= kOutTop;
  if (options.scores_prompt()) able |= options.prompt_logprobs ? kOutPrompt : kOutPrompt & ~kOutPromptTop;
  if (!named) {
    outputs_ = able;
    if (has_text) outputs_ |= kOutText;
    if (logprobs || !has_text) outputs_ |= kOutTokenId | kOutOffsets;
    return {};
  }
  for (const OutputRow& row : kOutputRows)
    if (outputs_ & kOutByOption & ~able & row.bit)
      return {"outputs", reason.print("%s needs the parameter %s", row.name.data(),
                                      row.bit & kOutTop ? "top_logprobs" : "prompt_logprobs")};
  return {};
}

std::string_view InferRequest::id() const {
  return id_.size() <= kIdBytesMax && text::valid_utf8(id_) ? id_ : std::string_view();
}

bool InferRequest::generates() const {
  const i32 route = routes_.find(base_.model);
  return route >= 0 && fastqps::generates(routes_[u32(route)].task);
}

FieldError InferRequest::check_texts(InputName name, ReasonText& reason) {
  const InputTensor& tensor = input(name);
  const char* field = kInputNames[u32(name)];
  if (!tensor.holds_text())
    return {field, reason.print("datatype '%.*s', must be BYTES", shown(tensor.datatype), tensor.datatype.data())};
  const bool shaped = tensor.shape.size() == 1 || (tensor.shape.size() == 2 && tensor.shape[1] == 1);
  if (!shaped) return {field, reason.print("%zu dimensions, must have the shape [n] or [n, 1]", tensor.shape.size())};
  if (tensor.texts.size() != tensor.shape[0])
    return {field, reason.print("%zu elements, but its shape says %llu", tensor.texts.size(),
                                (unsigned long long)tensor.shape[0])};
  return {};
}

FieldError InferRequest::check_numbers(InputName name, ReasonText& reason) {
  const InputTensor& tensor = input(name);
  const char* field = kInputNames[u32(name)];
  if (tensor.datatype != "INT64" && tensor.datatype != "INT32")
    return {field,
            reason.print("datatype '%.*s', must be INT32 or INT64", shown(tensor.datatype), tensor.datatype.data())};
  if (tensor.shape.size() != 2)
    return {field, reason.print("%zu dimensions, must have the shape [n, tokens]", tensor.shape.size())};
  const size_t n = tensor.numbers.size();
  const u64 rows = tensor.shape[0], columns = tensor.shape[1];
  // Divided, because a product could overflow.
  const bool fits = rows && columns ? n % rows == 0 && n / rows == columns : n == 0;
  if (!fits)
    return {field, reason.print("%zu elements, but its shape says %llu × %llu", n, (unsigned long long)rows,
                                (unsigned long long)columns)};
  return {};
}

FieldError InferRequest::finish(ReasonText& reason) {
  if (id_.size() > kIdBytesMax) return {"id", reason.print("%zu bytes, at most %zu", id_.size(), kIdBytesMax)};
  if (!text::valid_utf8(id_)) return {"id", kNotUtf8};
  const bool has_text = input(InputName::kText).given, has_pair = input(InputName::kTextPair).given;
  const bool has_ids = input(InputName::kInputIds).given, has_mask = input(InputName::kAttentionMask).given;
  if (has_text == has_ids) return {"inputs", "must hold either text or input_ids"};
  if (has_pair && !has_text) return {"inputs", "text_pair needs text"};
  if (has_mask && !has_ids) return {"inputs", "attention_mask needs input_ids"};
  for (u32 i = 0; i < u32(InputName::kCount); i++) {
    if (!inputs_[i].given) continue;
    const auto name = InputName(i);
    const bool is_text = name == InputName::kText || name == InputName::kTextPair;
    if (const FieldError error = is_text ? check_texts(name, reason) : check_numbers(name, reason)) return error;
  }
  const InputTensor& first = input(has_text ? InputName::kText : InputName::kInputIds);
  const InputTensor& second = input(has_text ? InputName::kTextPair : InputName::kAttentionMask);
  if (second.given && (second.shape[0] != first.shape[0] || (has_ids && second.shape[1] != first.shape[1])))
    return {"inputs", has_text ? "text and text_pair must have the same shape"
                               : "input_ids and attention_mask must have the same shape"};
  if (!first.shape[0]) return {"inputs", "0 items, at least 1"};
  if (first.shape[0] > items_max_)
    return {"inputs", reason.print("%llu items, at most %u", (unsigned long long)first.shape[0], items_max_)};
  texts_ = u32(first.shape[0]);
  if (FieldError error = check_best_of(base_.generate, texts_, items_max_, false, reason)) {
    error.field += std::string_view("generate.").size();
    return error;
  }
  return check_model(reason);
}

FieldError InferRequest::item(u32 index, RequestView& view, ReasonText& reason) {
  view = base_;
  make_candidate(view, index % candidates());
  index /= candidates();
  if (input(InputName::kInputIds).given) return take_ids(index, view, reason);
  const std::string_view text = input(InputName::kText).texts[index];
  if (!text::valid_utf8(text)) return {"text", kNotUtf8};
  if (!input(InputName::kTextPair).given) {
    view.input = Input::kText;
    view.text = text;
    return {};
  }
  view.input = Input::kPair;
  view.pair_first = text;
  view.pair_second = input(InputName::kTextPair).texts[index];
  return text::valid_utf8(view.pair_second) ? FieldError{} : FieldError{"text_pair", kNotUtf8};
}

// Tokens that the mask leaves out are padding.
FieldError InferRequest::take_ids(u32 index, RequestView& view, ReasonText& reason) {
  const InputTensor& tensor = input(InputName::kInputIds);
  const InputTensor& mask = input(InputName::kAttentionMask);
  const size_t columns = tensor.shape[1], from = index * columns;
  ids_.clear();
  for (size_t i = from; i < from + columns; i++) {
    if (mask.given && !mask.numbers[i]) continue;
    const i64 id = tensor.numbers[i];
    if (id < 0 || id > std::numeric_limits<u32>::max())
      return {"input_ids", reason.print("id %lld, must be 0 or more and below 2^32", (long long)id)};
    ids_.push_back(u32(id));
  }
  view.input = Input::kTokenIds;
  view.tokens = ids_;
  view.token_count = u32(ids_.size());
  return {};
}

}  // namespace fastqps::protocols
