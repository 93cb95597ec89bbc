// The readers and writers of protobuf and the reader of JSON bodies as Python functions. tests/api/test_wire.py holds
// them against the protobuf runtime, test_json.py against Python's json.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <deque>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "contract/request_view.h"
#include "contract/response_view.h"
#include "protocols/json/json_body.h"

namespace fastqps::test {
namespace {

namespace py = pybind11;
using namespace fastqps::protocols;
using namespace fastqps::service;

py::str text(std::string_view view) { return py::str(view.data(), view.size()); }

void throw_if(const FieldError& error) {
  if (error) throw std::invalid_argument(std::string(error.field) + ": " + error.reason);
}

RequestView parsed(std::string_view message) {
  RequestView view;
  view.request_id = 0xdead;  // parse_request() must not keep what was there before
  view.input = Input::kPair;
  view.pair_first = "stale";
  throw_if(parse_request(message, &view));
  return view;
}

template <class T>
py::object value_of(const RequestView&, const T& value) {
  return py::cast(value);
}
// How many there are, and those that are kept.
py::object value_of(const RequestView&, const IdList& list) {
  return py::make_tuple(list.count, std::vector<u32>(list.all().begin(), list.all().end()));
}
// Of each token, as protobuf has it: the last entry counts.
py::object value_of(const RequestView& view, BiasCount count) {
  std::vector<TokenBias> biases(count.count);
  logit_bias(view, biases.data());
  py::dict out;
  for (const auto& [id, bias] : biases) out[py::int_(id)] = bias;
  return out;
}
// Of the view's own options.
py::object value_of(const RequestView& view, const OptionTexts& list) {
  std::vector<std::string_view> texts(list.count);
  texts_of(view, &list == &view.generate.stop ? &GenerateOptions::stop : &GenerateOptions::choices, texts.data());
  py::list out;
  for (const std::string_view each : texts) out.append(text(each));
  return out;
}

// By the options' names; None: an option that is not given.
template <class Rows, class Message>
py::object options_dict(const RequestView& view, bool has, const Rows& rows, const Message& message) {
  if (!has) return py::none();
  py::dict out;
  each_option(rows, [&](const auto& row) {
    bool given = true;
    if constexpr (requires { message.has(row.number); }) given = !row.is(kOptional) || message.has(row.number);
    out[py::str(std::string(row.name()))] = given ? value_of(view, message.*row.member) : py::none();
  });
  return out;
}

py::object input_value(const RequestView& view) {
  switch (view.input) {
    case Input::kNone:
      return py::none();
    case Input::kText:
      return text(view.text);
    case Input::kPair:
      return py::make_tuple(text(view.pair_first), text(view.pair_second));
    case Input::kChat: {
      std::vector<ChatMessage> messages;
      chat_messages(view, messages);
      py::list all;
      for (const ChatMessage& each : messages)
        all.append(py::make_tuple(text(kChatRoles[u8(each.role)]), text(each.content)));
      return py::make_tuple(all, text(kChatModes[u8(view.chat.mode)]), text(view.chat.variables));
    }
    case Input::kTokenIds:
    case Input::kStep: {
      std::vector<u32> ids(view.token_count);
      token_ids(view, ids.data());
      return py::cast(ids);
    }
  }
  return py::none();
}

py::dict parse_request(const py::bytes& message) {
  const RequestView view = parsed(message);
  py::dict out;
  out["model"] = text(view.model);
  out["input"] = input_value(view);
  out["request_id"] = view.request_id;
  out["priority"] = view.priority;
  out["timeout_us"] = view.timeout_us;
  out["truncate"] = view.truncation.asked;
  out["keep_second"] = view.keep_second;
  out["prompt_name"] = text(view.prompt_name);
  out["tenant"] = text(view.tenant);
  out["group"] = text(view.group);
  out["output"] = options_dict(view, view.has_output, kOutputOptions, view.output);
  out["generate"] = options_dict(view, view.has_generate, kGenerateOptions, view.generate);
  return out;
}

py::list split_batch(const py::bytes& message, std::size_t items_max) {
  std::vector<std::string_view> items(items_max);
  std::size_t count = 0;
  ReasonText reason;
  throw_if(split_batch(message, items, &count, reason));
  py::list out;
  for (std::size_t i = 0; i < count; i++) out.append(py::bytes(items[i].data(), items[i].size()));
  return out;
}

// A response and all that its views point to. Filled from dicts that name fields as the .proto does; a part that is
// missing is absent.
struct Response {
  ResponseView view;
  std::string text;
  std::string raw;
  std::vector<float> floats, top_floats, prompt_floats;
  std::vector<u32> ids, top_ids, prompt_ids;
  std::deque<Response> choices;  // of the generation, beside the first
  std::vector<GenerationView> other_choices;
  std::deque<std::string> names;
  std::vector<LabelView> labels;
  std::vector<EntityView> entities;
  StatusView status;
  std::string status_message;
  Usage usage;
  Timings timings;

  explicit Response(const py::dict& in) {
    view.request_id = in["request_id"].cast<u64>();
    if (in.contains("embedding")) read_vectors(Output::kEmbedding, in["embedding"]);
    if (in.contains("multi")) read_vectors(Output::kMulti, in["multi"]);
    if (in.contains("classification")) read_labels(in["classification"]);
    if (in.contains("generation")) read_generation(in["generation"]);
    if (in.contains("other_choices")) read_choices(in["other_choices"]);
    if (in.contains("sparse")) read_sparse(in["sparse"]);
    if (in.contains("entities")) read_entities(in["entities"]);
    if (in.contains("timings")) {
      const auto us = in["timings"].cast<std::array<u32, 9>>();
      std::copy(us.begin(), us.end(), timings.us);
      view.timings = &timings;
    }
    if (in.contains("status")) {
      std::tie(status.code, status_message, status.retry_after_ms) =
          in["status"].cast<std::tuple<i32, std::string, u32>>();
      status.message = status_message;
      view.status = &status;
    }
    if (in.contains("usage")) {
      std::tie(usage.input_tokens, usage.output_tokens, usage.truncated, usage.truncated_at) =
          in["usage"].cast<std::tuple<u32, u32, bool, u32>>();
      view.usage = &usage;
    }
  }
  Response() = default;
  Response(const Response&) = delete;

 private:
  void read_vectors(Output output, const py::handle& in) {
    i32 dtype;
    u32 dimensions;
    std::tie(floats, raw, dtype, dimensions) = in.cast<std::tuple<std::vector<float>, std::string, i32, u32>>();
    view.output = output;
    view.embedding = {floats, {reinterpret_cast<const u8*>(raw.data()), raw.size()}, DType(dtype), dimensions};
  }
  void read_labels(const py::handle& in) {
    for (const auto& [name, score, index] : in.cast<std::vector<std::tuple<std::string, float, u32>>>())
      labels.push_back({names.emplace_back(name), score, index});
    view.output = Output::kClassification;
    view.labels = labels;
  }
  void read_entities(const py::handle& in) {
    for (const auto& [label, score, start, end] : in.cast<std::vector<std::tuple<std::string, float, u32, u32>>>())
      entities.push_back({names.emplace_back(label), score, start, end});
    view.output = Output::kEntities;
    view.entities = entities;
  }
  void read_sparse(const py::handle& in) {
    u32 active;
    std::tie(ids, floats, active) = in.cast<std::tuple<std::vector<u32>, std::vector<float>, u32>>();
    view.output = Output::kSparse;
    view.sparse = {ids, floats, active};
  }
  void read_generation(const py::handle& in) {
    i32 reason;
    using Ids = std::vector<u32>;
    using Floats = std::vector<float>;
    std::tie(text, ids, reason, floats, top_ids, top_floats, prompt_ids, prompt_floats) =
        in.cast<std::tuple<std::string, Ids, i32, Floats, Ids, Floats, Ids, Floats>>();
    view.output = Output::kGeneration;
    view.generation = {text, ids, floats, FinishReason(reason), {top_ids, top_floats}};
    // With the same likeliest tokens as the answer.
    if (!prompt_ids.empty()) view.generation.prompt = {prompt_ids, prompt_floats, {top_ids, top_floats}};
  }
  void read_choices(const py::handle& in) {
    for (const py::handle each : in) {
      choices.emplace_back().read_generation(each);
      other_choices.push_back(choices.back().view.generation);
    }
    view.other_choices = other_choices;
  }
};

// Appends what `write` writes, which must be exactly `size` bytes.
template <class Write>
void append_exactly(std::string* out, std::size_t size, Write write) {
  constexpr std::size_t kGuard = 16;
  const std::size_t before = out->size();
  out->resize(before + size + kGuard, '\x5a');
  u8* const begin = reinterpret_cast<u8*>(out->data()) + before;
  if (write(begin) != begin + size) throw std::logic_error("the announced size is not the written size");
  for (std::size_t i = 0; i < kGuard; i++)
    if (begin[size + i] != 0x5a) throw std::logic_error("written past the end");
  out->resize(before + size);
}

py::bytes encode_response(const py::dict& in) {
  const Response response(in);
  std::string out;
  append_exactly(&out, response_size(response.view), [&](u8* at) { return write_response(response.view, at); });
  return out;
}

py::bytes encode_batch(const std::vector<py::dict>& items) {
  std::string out;
  for (const py::dict& item : items) {
    const Response response(item);
    const std::size_t size = response_size(response.view);
    append_exactly(&out, batch_item_size(size),
                   [&](u8* at) { return write_response(response.view, write_batch_frame(size, at)); });
  }
  return out;
}

py::bytes encode_chunk(const py::dict& in) {
  const Response response(in);
  const ResponseView& r = response.view;
  const ChunkView chunk{r.request_id, r.generation, r.usage, r.timings,
                        in.contains("choice") ? in["choice"].cast<u32>() : 0};
  std::string out;
  append_exactly(&out, chunk_size(chunk), [&](u8* at) { return write_chunk(chunk, at); });
  return out;
}

// ---- JSON

py::object object_of(const simdjson::dom::element& value);

py::object scalar_of(const simdjson::dom::element& value) {
  const OptionValue scalar = option_value(value);
  switch (scalar.kind) {
    case OptionValue::Kind::kBool:
      return py::bool_(scalar.boolean);
    case OptionValue::Kind::kInt:
      return py::int_(scalar.integer);
    case OptionValue::Kind::kUint:
      return py::int_(scalar.unsigned_integer);
    case OptionValue::Kind::kDouble:
      return py::float_(scalar.number);
    case OptionValue::Kind::kString:
      return py::str(scalar.text.data(), scalar.text.size());
    case OptionValue::Kind::kOther:
    case OptionValue::Kind::kList:
      break;
  }
  return py::none();
}

// The last of several fields with one name counts, as in the readers.
py::dict dict_of(const simdjson::dom::object& fields) {
  py::dict found;
  for (const auto [name, value] : fields) found[py::str(name.data(), name.size())] = object_of(value);
  return found;
}

py::object object_of(const simdjson::dom::element& value) {
  if (value.is_object()) return dict_of(simdjson::dom::object(value));
  if (!value.is_array()) return scalar_of(value);
  py::list found;
  for (const simdjson::dom::element& each : simdjson::dom::array(value)) found.append(object_of(each));
  return found;
}

py::dict parse_json(const py::bytes& bytes) {
  const std::string_view body(bytes);
  static JsonBody reader;  // one for all bodies, as in a front door
  ReasonText reason;
  simdjson::dom::object fields;
  if (const FieldError error = reader.parse({reinterpret_cast<const u8*>(body.data()), body.size()}, &fields, reason))
    throw std::invalid_argument(error.reason);
  return dict_of(fields);
}

}  // namespace

void add_functions(py::module_& m) {
  m.def("parse_request", &parse_request, py::arg("message"), "A PredictRequest as a dict. Raises ValueError.");
  m.def("split_batch", &split_batch, py::arg("message"), py::arg("items_max"), "The items' bytes. Raises ValueError.");
  m.def("encode_response", &encode_response, py::arg("response"), "A PredictResponse from a dict.");
  m.def("encode_batch", &encode_batch, py::arg("responses"), "A PredictBatchResponse from dicts.");
  m.def("encode_chunk", &encode_chunk, py::arg("chunk"), "A GenerateChunk from a dict with a generation.");
  m.def("parse_json", &parse_json, py::arg("body"), "A body as a dict. Raises ValueError.");
}

}  // namespace fastqps::test

PYBIND11_MODULE(fastqps_wire, m) { fastqps::test::add_functions(m); }
