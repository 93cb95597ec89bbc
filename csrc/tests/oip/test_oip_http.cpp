// Inference over HTTP: requests and responses against literal texts, in JSON and with binary data behind it, and every
// byte of a request damaged.
#include <memory>

#include "protocols/oip/open_inference.h"
#include "tests/service/reader_world.h"
#include "transport/http/http_request.h"

using namespace fastqps;
using namespace fastqps::test;
using namespace std::string_literals;

namespace {

constexpr u32 kItemsMax = 4;

// A body behind whose JSON there are binary data, and the request that says so.
struct Request {
  explicit Request(const std::string& json, const std::string& binary = "") : body(json + binary) {
    http.parameters[0] = "m";
    http.parameter_count = 1;
    if (!binary.empty()) http.header_length = i64(json.size());
    info.http = &http;
  }
  std::string body;
  HttpRequest http;
  CallInfo info{};
};

struct Door {
  World world;
  HttpInferReader reader{*world.routes, kItemsMax};

  std::string error(const Request& request) {
    body.assign(request.body.begin(), request.body.end());
    return error_of(reader, {body.data(), body.size()}, request.info);
  }
  RequestView item(const Request& request, u32 index) {
    CHECK_EQ(error(request), "");
    return item_of(reader, index);
  }
  InferContext context() const { return InferContext::read(reader.context()); }
  std::vector<char> body;  // what the views lie in: at its exact size
};

std::string text_input(const std::string& rest) {
  return R"({"inputs":[{"name":"text","datatype":"BYTES",)" + rest + "}]}";
}
std::string ids_input(const std::string& rest) {
  return R"({"inputs":[{"name":"input_ids","datatype":"INT32",)" + rest + "}]}";
}

// It lives as long as the test.
std::string_view context_of(OutputSet outputs = 0, OutputSet binary = 0, std::string_view id = {}) {
  static std::vector<std::unique_ptr<std::string>> contexts;
  std::string& context = *contexts.emplace_back(std::make_unique<std::string>());
  InferContext{.outputs = outputs, .binary = binary, .id = id}.write(context);
  return context;
}

std::string written(const AnsweredCall& call, std::span<const ResponseView> items, i64* json) {
  const AnswerWriter& writer = kHttpInferWriter;
  std::vector<u8> room(writer.room(call, items));
  const auto bytes = size_t(writer.write(call, items, room.data()) - room.data());
  CHECK(bytes <= room.size());
  *json = writer.reply(call, items, bytes).header_length;
  return {room.begin(), room.begin() + i64(bytes)};
}

}  // namespace

TEST(flat_nested_and_binary_data_are_the_same) {
  Door door;
  for (const Request& request :
       {Request(text_input(R"("shape":[2],"data":["a","b\u00fc"])")),
        Request(text_input(R"("shape":[2,1],"data":[["a"],["b\u00fc"]])")),
        Request(text_input(R"("shape":[2,1],"parameters":{"binary_data_size":12})"), raw_text("a") + raw_text("bü"))}) {
    CHECK_EQ(door.item(request, 1).text, "bü");
    CHECK_EQ(door.reader.items(), 2u);
    CHECK_EQ(door.item(request, 0).model, "m");
  }
  for (const Request& request :
       {Request(ids_input(R"("shape":[2,2],"data":[5,6,7,8])")),
        Request(ids_input(R"("data":[[5,6],[7,8]],"shape":[2,2])")),
        Request(ids_input(R"("shape":[2,2],"parameters":{"binary_data_size":16})"), raw<i32>({5, 6, 7, 8}))})
    CHECK(ids_of(door.item(request, 1)) == (std::vector<u32>{7, 8}));
}

TEST(binary_data_come_in_the_order_of_the_inputs) {
  Door door;
  const Request request(R"({"inputs":[
    {"name":"attention_mask","datatype":"INT64","shape":[1,3],"parameters":{"binary_data_size":24}},
    {"name":"input_ids","datatype":"INT32","shape":[1,3],"parameters":{"binary_data_size":12}}]})",
                        raw<i64>({1, 0, 1}) + raw<i32>({5, 6, 7}));
  CHECK(ids_of(door.item(request, 0)) == (std::vector<u32>{5, 7}));
}

TEST(parameters_and_unknown_fields) {
  Door door;
  const Request request(R"({"id":"i","parameters":{"priority":1,"timeout":9,"normalize":false,"dimensions":7,
    "datatype":"FP16","sequence_id":1,"stop":null,"binary_data_output":true},"more":[1],"outputs":null,
    "inputs":[{"name":"text","datatype":"BYTES","shape":[1],"data":["a"],"parameters":{"content_type":"str"}}]})");
  const RequestView view = door.item(request, 0);
  CHECK_EQ(view.priority, 3);
  CHECK_EQ(view.timeout_us, 9u);
  CHECK_EQ(view.output.dimensions, 7u);
  CHECK_EQ(view.output.dtype, 2);
  CHECK(view.output.normalize == false);
  CHECK_EQ(door.context().id, "i");
}

// A parameter has no array: one id is a number, several are a string.
TEST(lists_of_ids) {
  Door door;
  const auto ids = [&](const std::string& value) {
    const RequestView view =
        door.item(Request(R"({"parameters":{"stop":"x","stop_token_ids":)" + value +
                          R"(},"inputs":[{"name":"text","datatype":"BYTES","shape":[1],"data":["a"]}]})"),
                  0);
    CHECK(view.has_generate && view.generate.stop.count == 1);
    return stop_ids_of(view);
  };
  CHECK(ids("7") == std::vector<u32>{7});
  CHECK(ids(R"("7")") == std::vector<u32>{7});
  CHECK(ids(R"("7,4294967295,0")") == (std::vector<u32>{7, 4294967295u, 0}));
}

// Which outputs are binary: each as it says, the others as the request does.
TEST(forms_of_the_outputs) {
  const struct {
    std::string_view fields;
    OutputSet outputs, binary;
  } cases[] = {
      {"", 0, 0},
      {R"("parameters":{"binary_data_output":true},)", 0, ~OutputSet(0)},
      {R"("outputs":[{"name":"scores"}],"parameters":{"binary_data_output":true},)", kOutScores, ~OutputSet(0)},
      {R"("outputs":[{"name":"scores","parameters":{"binary_data":true}},{"name":"label"}],)", kOutScores | kOutLabel,
       kOutScores},
      {R"("outputs":[{"name":"label","parameters":{"binary_data":false}}],"parameters":{"binary_data_output":true},)",
       kOutLabel, ~OutputSet(kOutLabel)},
  };
  Door door;
  for (const auto& each : cases) {
    CHECK_EQ(door.error(Request("{" + std::string(each.fields) + text_input(R"("shape":[1],"data":["a"])").substr(1))),
             "");
    CHECK_EQ(u32(door.context().outputs), u32(each.outputs));
    CHECK_EQ(u32(door.context().binary), u32(each.binary));
  }
}

TEST(wrong_requests) {
  Door door;
  const std::string size = R"("shape":[1],"parameters":{"binary_data_size":)";
  const struct {
    Request request;
    std::string_view error;
  } cases[] = {
      {Request(""), ": the body is not valid JSON: Empty: no JSON found"},
      {Request("[]"), ": the body must be a JSON object"},
      {Request("{}"), "inputs: must hold either text or input_ids"},
      {Request(R"({"inputs":{}})"), "inputs: must be an array of objects"},
      {Request(R"({"inputs":[1]})"), "inputs: must be an array of objects"},
      {Request(R"({"inputs":[{}]})"), "inputs: each must have a name, a string"},
      {Request(R"({"inputs":[{"name":"words"}]})"),
       "inputs: 'words' is not an input: text, text_pair, input_ids and attention_mask are"},
      {Request(R"({"inputs":[{"name":"text"}]})"), "inputs: each must have a datatype, a string"},
      {Request(R"({"inputs":[{"name":"text","datatype":"BYTES"}]})"),
       "inputs: each must have a shape, an array of integers"},
      {Request(R"({"id":1})"), "id: must be a string"},
      {Request(R"({"parameters":[]})"), "parameters: parameters must be an object"},
      {Request(R"({"parameters":{"dimension":1}})"), "parameters: 'dimension' is not a parameter of this server"},
      {Request(R"({"parameters":{"dimensions":0}})"), "parameters: dimensions is 0, must be at least 1"},
      {Request(R"({"parameters":{"stop_token_ids":"5,"}})"),
       "parameters: stop_token_ids must be an array of token ids"},
      {Request(R"({"parameters":{"stop_token_ids":"1,2,3,4,5,6,7,8,9"}})"),
       "parameters: stop_token_ids has more than 8 ids"},
      {Request(R"({"parameters":{"normalize":1}})"), "parameters: normalize must be a bool"},
      {Request(R"({"parameters":{"binary_data_output":1}})"), "parameters: binary_data_output must be a bool"},
      {Request(R"({"outputs":[{"name":"x"}]})"),
       "outputs: 'x' is not an output: the model's metadata list those it has"},
      {Request(R"({"outputs":[{"name":"label","parameters":{"classification":2}}]})"),
       "outputs: classification is not served: ask for the outputs scores and label"},
      {Request(R"({"outputs":[{"name":"label","parameters":{"binary_data":1}}]})"),
       "outputs: binary_data must be a bool"},
      {Request(text_input(R"("shape":[-1],"data":[])")), "inputs: a shape must be an array of integers, 0 or more"},
      {Request(text_input(R"("shape":1,"data":[])")), "inputs: a shape must be an array of integers, 0 or more"},
      {Request(text_input(R"("shape":[1])")), "text: 0 elements, but its shape says 1"},
      {Request(text_input(R"("shape":[1],"data":"a")")), "inputs: data must be an array"},
      {Request(text_input(R"("shape":[1],"data":[1])")),
       "inputs: element 0 of the data of a BYTES tensor must be a string"},
      {Request(text_input(R"("shape":[2,1],"data":["a",["b"]])")), "inputs: data must be flat, or an array of rows"},
      {Request(text_input(R"("shape":[2],"data":[["a"],["b"]])")),
       "inputs: a row of data has 1 elements, which its shape does not say"},
      {Request(text_input(R"("shape":[1,1],"data":[[["a"]]])")),
       "inputs: element 0 of the data of a BYTES tensor must be a string"},
      {Request(text_input(R"("shape":[1,2],"data":["a","b"])")),
       "text: 2 dimensions, must have the shape [n] or [n, 1]"},
      {Request(ids_input(R"("shape":[1,1],"data":[1.5])")),
       "inputs: element 0 of the data of an INT32 or INT64 tensor must be an integer"},
      {Request(ids_input(R"("shape":[1,1],"data":[9223372036854775808])")),
       "inputs: element 0 of the data of an INT32 or INT64 tensor must be an integer"},
      {Request(ids_input(R"("shape":[9223372036854775808,2],"data":[])")),
       "input_ids: 0 elements, but its shape says 9223372036854775808 × 2"},
      {Request(text_input(size + "5}")), "inputs: binary_data_size 5, but 0 bytes are left behind the JSON"},
      {Request(text_input(size + "6}"), raw_text("a")),
       "inputs: binary_data_size 6, but 5 bytes are left behind the JSON"},
      {Request(text_input(size + "18446744073709551615}"), raw_text("a")),
       "inputs: binary_data_size 18446744073709551615, but 5 bytes are left behind the JSON"},
      {Request(text_input(size + "-5}"), raw_text("a")), "inputs: binary_data_size must be an integer, 0 or more"},
      {Request(text_input(size + "4}"), raw_text("a")), "inputs: binary data that end inside an element"},
      {Request(text_input(size + "5}"), raw_text("a") + "xy"), ": 2 bytes behind the JSON belong to no input"},
      {Request(text_input(R"("data":["a"],)" + size + "5}"), raw_text("a")),
       "inputs: an input has either data or binary_data_size"},
      {Request(text_input(R"("shape":[1],"parameters":{"shared_memory_region":"r"})")),
       "inputs: shared_memory_region is not served: send the contents in the message"},
      {Request(R"({"parameters":{"aggregation":"all"}})"),
       "parameters: aggregation must be none, simple, first, average or max"},
  };
  for (const auto& each : cases) CHECK_EQ(door.error(each.request), each.error);
  Request longer("{}");
  longer.http.header_length = 3;
  CHECK_EQ(door.error(longer), "Inference-Header-Content-Length: 3, but the body has 2 bytes");
  Request versioned(text_input(R"("shape":[1],"data":["a"])"));
  versioned.http.parameters[1] = "other", versioned.http.parameter_count = 2;
  versioned.http.parameters[0] = "";  // the default model
  CHECK(door.error(versioned).starts_with("model_version: 'other' is not served"));
}

TEST(half_precision_is_behind_the_json) {
  const auto error = [](Task task, const std::string& output) {
    Door door;
    door.world.segment.route(0).task = task;
    Request request(R"({"parameters":{"datatype":"FP16","binary_data_output":true},"outputs":[{"name":)" + output +
                    "}]," + text_input(R"("shape":[1],"data":["a"])").substr(1));
    request.http.parameters[0] = "";  // the default model
    return door.error(request);
  };
  for (const auto& [task, name] :
       {std::pair(Task::kEmbed, R"("embedding")"s), std::pair(Task::kEmbedMulti, R"("token_embedding")"s)}) {
    CHECK_EQ(error(task, name), "");
    CHECK_EQ(error(task, name + R"(,"parameters":{"binary_data":true})"), "");
    CHECK_EQ(error(task, name + R"(,"parameters":{"binary_data":false})"),
             "parameters: datatype FP16 has no form in JSON: ask for binary_data_output, too");
  }
}

TEST(damaged_requests_are_read_or_refused) {
  Door door;
  const Request requests[] = {
      Request(
          R"({"id":"i","parameters":{"top_p":0.5},"outputs":[{"name":"label","parameters":{"binary_data":true}}],)" +
          text_input(R"("shape":[2,1],"data":[["a"],["\u00fc"]])").substr(1)),
      Request(ids_input(R"("shape":[1,2],"parameters":{"binary_data_size":8})"), raw<i32>({5, 6})),
      Request(text_input(R"("shape":[2],"parameters":{"binary_data_size":11})"), raw_text("a") + raw_text("ü")),
  };
  for (const Request& request : requests) damage(door.reader, request.body, request.info);
}

TEST(wherever_the_json_is_said_to_end) {
  Door door;
  Request request(text_input(R"("shape":[1],"parameters":{"binary_data_size":5})"), raw_text("a"));
  const i64 end = request.http.header_length;
  for (i64 at = 0; at <= i64(request.body.size()) + 2; at++) {
    request.http.header_length = at;
    CHECK_EQ(door.error(request).empty(), at == end);
  }
}

TEST(responses_in_json_and_behind_it) {
  const float values[] = {1, 0.1f, -2.5f};
  const LabelView labels[] = {{"se\"cond", 0.75f, 1}, {"first", 0.25f, 0}};
  const LabelView others[] = {{"first", 0.5f, 0}, {"se\"cond", 0.5f, 1}};
  const std::string head = R"({"model_name":"m@1","model_version":"2",)";
  i64 json;
  ResponseView items[2];
  items[0].output = items[1].output = Output::kEmbedding;
  items[0].embedding.values = items[1].embedding.values = values;
  CHECK_EQ(
      written({context_of(), "m@1@2"}, items, &json),
      head + R"("outputs":[{"name":"embedding","datatype":"FP32","shape":[2,3],"data":[1,0.1,-2.5,1,0.1,-2.5]}]})");
  CHECK_EQ(json, kNoHeaderLength);
  const std::string embedding =
      head +
      R"("id":"i\n","outputs":[{"name":"embedding","datatype":"FP32","shape":[1,3],"parameters":{"binary_data_size":12}}]})";
  CHECK_EQ(written({context_of(0, 0xffff, "i\n"), "m@1@2"}, {items, 1}, &json),
           embedding + raw<float>({1, 0.1f, -2.5f}));
  CHECK_EQ(json, i64(embedding.size()));

  items[0] = items[1] = {};
  items[0].output = items[1].output = Output::kClassification;
  items[0].labels = labels, items[1].labels = others;
  const std::string scores = R"({"name":"scores","datatype":"FP32","shape":[2,2],)";
  const std::string label = R"({"name":"label","datatype":"BYTES","shape":[2],)";
  CHECK_EQ(written({context_of(), "m@1@2"}, items, &json), head + "\"outputs\":[" + scores +
                                                               R"("data":[0.25,0.75,0.5,0.5]},)" + label +
                                                               R"("data":["se\"cond","first"]}]})");
  const std::string mixed = head + "\"outputs\":[" + scores + R"("data":[0.25,0.75,0.5,0.5]},)" + label +
                            R"("parameters":{"binary_data_size":20}}]})";
  CHECK_EQ(written({context_of(0, kOutLabel), "m@1@2"}, items, &json),
           mixed + raw_text("se\"cond") + raw_text("first"));
  CHECK_EQ(json, i64(mixed.size()));
  CHECK_EQ(written({context_of(kOutLabel, kOutLabel), "m@1@2"}, {items, 1}, &json),
           head +
               R"("outputs":[{"name":"label","datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":11}}]})" +
               raw_text("se\"cond"));

  ResponseView item;
  item.output = Output::kGeneration;
  item.generation.text = "zwölf\t";
  CHECK_EQ(written({context_of(kOutText), "m@1@2"}, {&item, 1}, &json),
           head + R"("outputs":[{"name":"text","datatype":"BYTES","shape":[1],"data":["zwölf\t"]}]})");

  const EntityView found[] = {{"PER", 0.5f, 1, 4}, {"LOC", 1, 5, 6}};
  ResponseView texts[3];
  for (ResponseView& each : texts) each.output = Output::kEntities;
  texts[1].entities = found;
  CHECK_EQ(
      written({context_of(kOutEntityLabel | kOutEntityScore | kOutEntityEnd | kOutOffsets), "m@1@2"}, texts, &json),
      head + R"("outputs":[{"name":"entity_label","datatype":"BYTES","shape":[2],"data":["PER","LOC"]},)"
             R"({"name":"entity_score","datatype":"FP32","shape":[2],"data":[0.5,1]},)"
             R"({"name":"entity_end","datatype":"INT32","shape":[2],"data":[4,6]},)"
             R"({"name":"offsets","datatype":"INT32","shape":[4],"data":[0,0,2,2]}]})");
  const u8 bits[] = {1, 2, 3, 255};
  ResponseView vectors[3];
  for (ResponseView& each : vectors) each.output = Output::kMulti, each.embedding.dimensions = 9;
  vectors[0].embedding = {.values = {}, .raw = bits, .dtype = DType::kBinary, .dimensions = 9};
  CHECK_EQ(written({context_of(), "m@1@2"}, vectors, &json),
           head + R"("outputs":[{"name":"token_embedding","datatype":"INT8","shape":[2,2],"data":[1,2,3,-1]},)"
                  R"({"name":"offsets","datatype":"INT32","shape":[4],"data":[0,2,2,2]}]})");
  const u32 token_ids[] = {7, 9};
  const float weights[] = {0.5f, 2};
  ResponseView sparse{.output = Output::kSparse, .sparse = {token_ids, weights, 5}};
  const std::string ids = head +
                          R"("outputs":[{"name":"token_id","datatype":"INT32","shape":[2],"data":[7,9]},)"
                          R"({"name":"weight","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":8}},)"
                          R"({"name":"offsets","datatype":"INT32","shape":[2],"data":[0,2]}]})";
  CHECK_EQ(written({context_of(0, kOutWeight), "m@1@2"}, {&sparse, 1}, &json), ids + raw<float>({0.5f, 2}));
}
