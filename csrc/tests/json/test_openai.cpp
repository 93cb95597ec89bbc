// JSON as it is written, and OpenAI's requests and answers, against literal texts.
#include <limits>

#include "protocols/openai/openai.h"
#include "tests/json/bodies.h"
#include "text/load/detokenizer.h"
#include "transport/http/json_writer.h"

using namespace fastqps;
using namespace fastqps::test;
using namespace std::string_literals;
using namespace std::string_view_literals;

namespace {

std::string written(void (*write)(JsonWriter&)) {
  std::vector<u8> room(4096);
  JsonWriter out(room.data());
  write(out);
  return {reinterpret_cast<const char*>(room.data()), size_t(out.end() - room.data())};
}

std::string chunk_of(const AnswerWriter& writer, const AnsweredCall& call, const ChunkView& chunk) {
  std::vector<u8> room(writer.chunk_room(call, chunk));
  const u8* end = writer.write_chunk(call, chunk, room.data());
  CHECK(size_t(end - room.data()) <= room.size());
  return {reinterpret_cast<const char*>(room.data()), size_t(end - room.data())};
}

TEST(strings_are_escaped) {
  CHECK_EQ(written([](JsonWriter& out) { out.string("a\"b\\c\n\r\t\b\f\x01\x1f\x7f/ü\0z"sv); }),
           R"("a\"b\\c\n\r\t\b\f\u0001\u001f)"s + "\x7f/ü" + R"(\u0000z")");
}

TEST(floats_are_the_shortest_that_read_back) {
  CHECK_EQ(
      written([](JsonWriter& out) {
        constexpr float kInfinity = std::numeric_limits<float>::infinity();
        const float values[] = {
            0,        -0.0f, 1,     0.1f,    -1.17549435e-38f, 3.4028235e38f, 1e-45f,
            16777216, 1e9f,  1e-5f, 1 / 3.f, kInfinity,        -kInfinity,    std::numeric_limits<float>::quiet_NaN()};
        out.floats(values);
      }),
      "[0,-0,1,0.1,-1.1754944e-38,3.4028235e+38,1e-45,1.6777216e+07,1e+09,1e-05,0.33333334,null,null,null]");
  CHECK_EQ(written([](JsonWriter& out) { out.floats({}); }), "[]");
}

TEST(base64_is_padded) {
  const auto encode = [](std::string_view text) {
    std::vector<u8> room(JsonWriter::base64_room(text.size()));
    JsonWriter out(room.data());
    out.base64({reinterpret_cast<const u8*>(text.data()), text.size()});
    CHECK_EQ(size_t(out.end() - room.data()), room.size());
    return std::string(reinterpret_cast<const char*>(room.data()), room.size());
  };
  CHECK_EQ(encode(""), R"("")");
  CHECK_EQ(encode("f"), R"("Zg==")");
  CHECK_EQ(encode("fo"), R"("Zm8=")");
  CHECK_EQ(encode("foo"), R"("Zm9v")");
  CHECK_EQ(encode("foobar\xff\xfe"), R"("Zm9vYmFy//4=")");
}

TEST(every_form_of_input) {
  World w;
  EmbeddingsReader reader(*w.routes, kItemsMax);
  CHECK_EQ(error_of(reader, R"({"model":"m","input":"a\u00fc\n"})"), "");
  CHECK_EQ(reader.items(), 1u);
  CHECK_EQ(item_of(reader).text, "aü\n");
  CHECK_EQ(item_of(reader).model, "m");
  CHECK_EQ(error_of(reader, R"({"input":["a","","c"]})"), "");
  CHECK_EQ(reader.items(), 3u);
  CHECK_EQ(item_of(reader, 2).text, "c");
  CHECK_EQ(error_of(reader, R"({"input":[7,8,4294967295]})"), "");
  CHECK_EQ(reader.items(), 1u);
  CHECK(ids_of(item_of(reader)) == (std::vector<u32>{7, 8, 4294967295u}));
  CHECK_EQ(error_of(reader, R"({"input":[[7],[8,9],[]]})"), "");
  CHECK_EQ(reader.items(), 3u);
  CHECK(ids_of(item_of(reader, 1)) == (std::vector<u32>{8, 9}));
  CHECK(item_of(reader, 2).input == Input::kTokenIds && ids_of(item_of(reader, 2)).empty());
}

TEST(options_of_embeddings) {
  World w;
  EmbeddingsReader reader(*w.routes, kItemsMax);
  CHECK_EQ(error_of(reader, R"({"input":"a","dimensions":64,"encoding_format":"base64","user":"u","normalize":false,
                               "truncate":true,"priority":"high","timeout":1.5,"tenant":"acme","group":"run 7"})"),
           "");
  const RequestView view = item_of(reader);
  CHECK_EQ(view.output.dimensions, 64u);
  CHECK(view.output.normalize == false && view.truncation.asked == true);
  CHECK_EQ(view.priority, 3);
  CHECK_EQ(view.timeout_us, 1'500'000u);
  CHECK_EQ(view.tenant, "acme");
  CHECK_EQ(view.group, "run 7");
  CHECK(head_of<EmbeddingsHead>(reader.context()).base64);
  CHECK_EQ(error_of(reader, R"({"input":"a","dimensions":null,"encoding_format":null,"user":null})"), "");
  CHECK_EQ(item_of(reader).output.dimensions, 0u);  // nothing is left of the last request
  CHECK(!head_of<EmbeddingsHead>(reader.context()).base64);
}

TEST(embeddings_by_fields_of_jina_and_voyage) {
  World w;
  w.routes->setup(0).card.prompts = {{"Query", "q: "}, {"retrieval.passage", "p: "}};
  EmbeddingsReader reader(*w.routes, kItemsMax);
  const struct {
    const char* fields;
    std::string_view prompt;
    bool base64;
    DType dtype;
  } cases[] = {
      {R"("task":"retrieval.query","embedding_type":"float","late_chunking":false)", "Query", false, DType::kFloat32},
      {R"("task":"retrieval.passage","embedding_type":"ubinary")", "retrieval.passage", false, DType::kUbinary},
      {R"("input_type":"query","task":null)", "Query", false, DType::kUnspecified},
      {R"("task":"separation","embedding_type":"base64")", "", true, DType::kUnspecified},
      {R"("input_type":"query","output_dtype":"int8","encoding_format":"base64")", "Query", true, DType::kInt8},
      {R"("input_type":"document","task":null,"prompt_name":"own","encoding_format":null)", "own", false,
       DType::kUnspecified},
      {R"("input_type":null,"task":null,"embedding_type":null,"late_chunking":null,"output_dtype":null)", "", false,
       DType::kUnspecified},
  };
  for (const auto& each : cases) {
    CHECK_EQ(error_of(reader, std::string(R"({"input":"a",)") + each.fields + "}"), "");
    CHECK_EQ(item_of(reader).prompt_name, each.prompt);
    CHECK_EQ(head_of<EmbeddingsHead>(reader.context()).base64, each.base64);
    CHECK_EQ(item_of(reader).output.dtype, i32(each.dtype));
  }
  CHECK_EQ(error_of(reader, R"({"input":"a","normalized":true,"truncation":false,"output_dimension":3})"), "");
  const RequestView view = item_of(reader);
  CHECK(view.output.normalize == true && view.truncation.asked == false && view.output.dimensions == 3);
}

TEST(wrong_embeddings) {
  World w;
  EmbeddingsReader reader(*w.routes, kItemsMax);
  const Wrong cases[] = {
      {"", ": the body is not valid JSON: Empty: no JSON found"},
      {"[]", ": the body must be a JSON object"},
      {"{}", "input: must be given"},
      {R"({"input":null})", "input: must be a string, an array of strings, or an array of token ids"},
      {R"({"input":[]})", "input: an empty array, must have at least one element"},
      {R"({"input":["a",1]})", "input: element 1 is neither a string nor an array of token ids"},
      {R"({"input":[1,"a"]})", "input: token ids must be integers below 2^32"},
      {R"({"input":[1.5]})", "input: element 0 is neither a string nor an array of token ids"},
      {R"({"input":[-1]})", "input: token id -1, must be 0 or more and below 2^32"},
      {R"({"input":[4294967296]})", "input: token id 4294967296, must be 0 or more and below 2^32"},
      {R"({"input":["a","b","c","d","e"]})", "input: more than 4 elements, which is the most"},
      {R"({"input":"a","encoding_format":"hex"})", "encoding_format: must be float or base64"},
      {R"({"input":"a","dimension":1})", "dimension: is not a field of this request"},
      {R"({"input":"a","dimensions":-1})", "dimensions: must be an integer, 0 or more"},
      {R"({"input":"a","dimensions":"1"})", "dimensions: must be an integer, 0 or more"},
      {R"({"input":"a","dimensions":0})", "dimensions: is 0, must be at least 1"},
      {R"({"input":"a","model":1})", "model: must be a string"},
      {R"({"input":"a","priority":"urgent"})", "priority: must be low, normal or high"},
      {R"({"input":"a","tenant":7})", "tenant: must be a string"},
      {R"({"input":"a","late_chunking":true})",
       "late_chunking: can only be false here: each text is embedded by itself"},
      {R"({"input":"a","embedding_type":["float","int8"]})",
       "embedding_type: must be float, base64, int8, uint8, binary or ubinary"},
      {R"({"input":"a","task":"nl2code"})",
       "task: must be retrieval.query, retrieval.passage, text-matching, classification or separation"},
      {R"({"input":"a","input_type":1})", "input_type: must be query or document"},
      {R"({"input":"a","output_dimension":0})", "output_dimension: is 0, must be at least 1"},
      {R"({"input":"a","truncation":"END"})", "truncation: must be a bool"},
      {R"({"input":"a","timeout":0})", "timeout: must be a number of seconds above 0, at most a year"},
  };
  check_wrong(reader, cases);
  CHECK(error_of(reader, "{\"input\":\"\xff\"}").starts_with(": the body is not valid JSON"));
  CHECK(error_of(reader, R"({"input":"a"}})").starts_with(": the body is not valid JSON"));
  CHECK(error_of(reader, std::string(5000, '[')).starts_with(": the body is not valid JSON"));
}

TEST(byte_order_marks) {
  World w;
  EmbeddingsReader reader(*w.routes, kItemsMax);
  const std::string body = R"({"input":"a"})", mark_of_utf8 = "\xef\xbb\xbf";
  CHECK_EQ(error_of(reader, mark_of_utf8 + body), "");
  CHECK_EQ(item_of(reader).text, "a");
  CHECK_EQ(error_of(reader, mark_of_utf8), ": the body is not valid JSON: Empty: no JSON found");
  for (const std::string_view mark : {"\xff\xfe{\0"sv, "\xfe\xff\0{"sv, "\xff\xfe\0\0{"sv, "\0\0\xfe\xff\0"sv})
    CHECK_EQ(error_of(reader, mark),
             ": the body begins with the byte order mark of UTF-16 or UTF-32, must be JSON in UTF-8");
}

TEST(damaged_bodies_are_read_or_refused) {
  World w;
  EmbeddingsReader embeddings(*w.routes, kItemsMax);
  damage(embeddings, R"({"model":"m","input":["a\u00fc\ud83d\ude00",""],"encoding_format":"base64","dimensions":64})");
  damage(embeddings, R"({"input":[[1,22],[3]],"normalize":false,"timeout":1.5e0,"priority":"low"})");
  CompletionsReader completions(kItemsMax);
  damage(completions, R"({"prompt":"a","stop":["x","y"],"stream":true,"stream_options":{"include_usage":true}})");
}

TEST(answers_with_embeddings) {
  const AnswerWriter& writer = kEmbeddingsWriter;
  const float first[] = {0.5f, -1}, second[] = {2, 0.25f};
  const Usage usage{.input_tokens = 3};
  ResponseView items[2];
  items[0].output = items[1].output = Output::kEmbedding;
  items[0].embedding.values = first, items[1].embedding.values = second;
  items[0].usage = items[1].usage = &usage;
  CHECK_EQ(answered(writer, {bytes_of(EmbeddingsHead{false}), "m@1@2"}, items),
           R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,-1]},)"
           R"({"object":"embedding","index":1,"embedding":[2,0.25]}],"model":"m@1",)"
           R"("usage":{"prompt_tokens":6,"total_tokens":6}})");
  CHECK_EQ(answered(writer, {bytes_of(EmbeddingsHead{true}), "m@1"}, {items, 1}),
           R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":"AAAAPwAAgL8="}],"model":"m",)"
           R"("usage":{"prompt_tokens":3,"total_tokens":3}})");
}

TEST(options_of_completions) {
  CompletionsReader reader(kItemsMax);
  CHECK_EQ(error_of(reader, R"({"prompt":"a"})"), "");
  RequestView view = item_of(reader);
  CHECK_EQ(view.generate.max_tokens, 16u);
  CHECK_EQ(view.generate.temperature, 1.0f);
  CHECK(!reader.streams());
  CHECK_EQ(error_of(reader, R"({"prompt":"a","max_tokens":5,"temperature":0,"top_p":0.5,"seed":7,"stop":["x","y"],"n":1,
                               "best_of":1,"echo":false,"logit_bias":{},"suffix":null,"presence_penalty":0.0,
                               "frequency_penalty":0,"logprobs":1,"stream":true,
                               "stream_options":{"include_usage":true}})"),
           "");
  view = item_of(reader);
  CHECK(view.has_generate && view.generate.has(4) && view.generate.has(kSeedField) && view.generate.logprobs);
  CHECK_EQ(view.generate.top_logprobs, 1u);
  CHECK_EQ(view.generate.seed, 7u);
  CHECK_EQ(view.generate.stop.count, 2u);
  std::string_view stops[kStopStringsMax];
  texts_of(view, &GenerateOptions::stop, stops);
  CHECK_EQ(stops[1], "y");
  CHECK(reader.streams());
  CHECK(head_of<CompletionsHead>(reader.context()).usage == CompletionsHead::Usage::kAtEnd);
  CHECK(behind<CompletionsHead>(reader.context()).starts_with(R"("id":"cmpl-)"));
  CHECK(reader.wants() == Output::kGeneration);  // ids have a place among the log-probabilities
  CHECK_EQ(error_of(reader, R"({"prompt":"a","seed":-1,"top_k":-1,"min_p":0,"skip_special_tokens":true,
                               "length_penalty":1,"stream_options":{"include_obfuscation":false}})"),
           "");
  CHECK_EQ(item_of(reader).generate.seed, ~u64(0));
  CHECK(reader.wants() == Output::kText);
  CHECK_EQ(error_of(reader, R"({"prompt":"a","seed":18446744073709551615})"), "");
  CHECK_EQ(item_of(reader).generate.seed, ~u64(0));
  CHECK_EQ(error_of(reader, R"({"prompt":"a","stop":"z","stop_token_ids":[5,7],"suppress_token_ids":[]})"), "");
  view = item_of(reader);
  CHECK_EQ(view.generate.stop.count, 1u);
  CHECK(stop_ids_of(view) == (std::vector<u32>{5, 7}));
  CHECK_EQ(view.generate.suppress_ids.count, 0u);
}

TEST(biases_of_a_completion) {
  CompletionsReader reader(kItemsMax);
  CHECK_EQ(error_of(reader, R"({"prompt":"a","logit_bias":{"50256":-100,"7":0.5},"typical_p":0.5,
                               "include_stop_str_in_output":true})"),
           "");
  RequestView view = item_of(reader);
  CHECK_EQ(view.generate.logit_bias.count, 2u);
  TokenBias biases[kLogitBiasMax];
  logit_bias(view, biases);
  CHECK(biases[0].id == 50256 && biases[0].bias == -100.0f && biases[1].id == 7 && biases[1].bias == 0.5f);
  CHECK(view.generate.typical_p == 0.5f && view.generate.include_stop_text);
  ReasonText reason;
  CHECK(!check_request(view, reason));
  CHECK_EQ(error_of(reader, R"({"prompt":"a","logit_bias":{"7":1,"07":2}})"), "");
  CHECK_EQ(std::string(check_request(item_of(reader), reason).reason), "token 7 is given twice");
  CHECK_EQ(error_of(reader, R"({"prompt":"a"})"), "");
  CHECK_EQ(item_of(reader).generate.logit_bias.count, 0u);
}

TEST(an_echo_asks_for_the_prompts_logprobs) {
  CompletionsReader reader(kItemsMax);
  CHECK_EQ(error_of(reader, R"({"prompt":"a","echo":true,"logprobs":3,"prompt_logprobs":1,"max_tokens":0})"), "");
  RequestView view = item_of(reader);
  CHECK(view.generate.echo && view.generate.scores_prompt() && view.generate.prompt_alone());
  CHECK(view.generate.prompt_logprobs == 3 && view.generate.top_logprobs == 3);
  const CompletionsHead head = head_of<CompletionsHead>(reader.context());
  CHECK(head.echo && head.echo_top == 3 && head.prompt_top == 1);
  ReasonText reason;
  CHECK(!check_request(view, reason));

  CHECK_EQ(error_of(reader, R"({"prompt":"a","echo":true,"max_tokens":0})"), "");
  view = item_of(reader);
  CHECK(view.generate.echo && !view.generate.scores_prompt() && !check_request(view, reason));
  CHECK_EQ(error_of(reader, R"({"prompt":"a","max_tokens":0})"),
           "max_tokens: 0, must be at least 1 without echo or prompt_logprobs");
  CHECK_EQ(error_of(reader, R"({"prompt":"a","prompt_logprobs":0,"guided_choice":["b"]})"), "");
  CHECK_EQ(std::string(check_request(item_of(reader), reason).field), "generate.prompt_logprobs");

  // Only the first candidate computes it; in a stream each, because any may come first.
  CHECK_EQ(error_of(reader, R"({"prompt":"a","echo":true,"logprobs":0,"n":2})"), "");
  CHECK(!reader.item(1, view) && view.generate.echo && !view.generate.scores_prompt());
  CHECK(!reader.item(0, view) && view.generate.scores_prompt());
  CHECK_EQ(error_of(reader, R"({"prompt":"a","echo":true,"logprobs":0,"n":2,"stream":true})"), "");
  CHECK(!reader.item(1, view) && view.generate.scores_prompt());
}

// Each prompt's are neighbours, and each is that of a request with its own seed.
TEST(choices_of_prompts) {
  CompletionsReader reader(kItemsMax);
  CHECK_EQ(error_of(reader, R"({"prompt":["a","b"],"n":2,"seed":-1})"), "");
  CHECK_EQ(reader.items(), 4u);
  const std::tuple<const char*, u64> wanted[] = {{"a", ~u64(0)}, {"a", 0}, {"b", ~u64(0)}, {"b", 0}};
  for (u32 i = 0; i < 4; i++) {
    RequestView view;
    CHECK(!reader.item(i, view));
    CHECK((std::tuple(view.text, view.generate.seed) == std::tuple<std::string_view, u64>(wanted[i])));
  }
  CHECK_EQ(error_of(reader, R"({"prompt":["a","b"],"best_of":2,"stream":false,"seed":5})"), "");
  RequestView candidate;
  CHECK_EQ(reader.items(), 4u);
  CHECK(!reader.item(3, candidate) && candidate.text == "b" && candidate.generate.seed == 6);
  CHECK(candidate.generate.logprobs && candidate.generate.candidates() == 1);  // for the comparison
  CHECK(reader.wants() == Output::kText);
  CHECK_EQ(error_of(reader, R"({"prompt":"a","n":2})"), "");
  RequestView view;
  CHECK(!reader.item(1, view) && !view.generate.has(kSeedField));  // the front door draws one
  CHECK_EQ(error_of(reader, R"({"prompt":"a"})"), "");
  CHECK_EQ(reader.items(), 1u);
}

TEST(wrong_completions) {
  CompletionsReader reader(kItemsMax);
  const Wrong cases[] = {
      {"{}", "prompt: must be given"},
      {R"({"prompt":"a","n":0})", "n: is 0, must be at least 1"},
      {R"({"prompt":["a","b"],"n":4294967295})", "n: 4294967295, at most 128"},
      {R"({"prompt":["a","b"],"n":3,"stream":true})", "n: 3, at most 4 answers to one request"},
      {R"({"prompt":["a","b"],"n":2,"best_of":3})", "best_of: 3, at most 4 answers to one request"},
      {R"({"prompt":"a","n":2,"best_of":1})", "best_of: 1, at least n, 2"},
      {R"({"prompt":"a","best_of":2,"stream":true})",
       "best_of: 2 with n 1: which ones are best is known only at the end, so a stream has as many as n"},
      {R"({"prompt":"a","echo":1})", "echo: must be a bool"},
      {R"({"prompt":"a","prompt_logprobs":21})", "prompt_logprobs: 21, at most 20"},
      {R"({"prompt":"a","prompt_logprobs":-1})", "prompt_logprobs: must be an integer, 0 or more"},
      {R"({"prompt":"a","prompt_logprobs":0,"stream":true})",
       "prompt_logprobs: cannot be given with stream, as in vLLM; use echo"},
      {R"({"prompt":"a","max_tokens":0,"echo":true,"n":2})",
       "n: 2, at most 1 with max_tokens 0: there is the prompt alone"},
      {R"({"prompt":"a","logit_bias":{"x":1}})", "logit_bias: 'x' is no token id"},
      {R"({"prompt":"a","logit_bias":{"-5":1}})", "logit_bias: '-5' is no token id"},
      {R"({"prompt":"a","logit_bias":{"5":"1"}})", "logit_bias: the value of token 5 must be a number"},
      {R"({"prompt":"a","logit_bias":[5]})", "logit_bias: must be an object of token ids and numbers"},
      {R"({"prompt":"a","suffix":"b"})", "suffix: models here go on with a prompt and fill no gap in it; leave it out"},
      {R"({"prompt":"a","bad_words":["b"]})", "bad_words: use suppress_token_ids or logit_bias, which take token ids"},
      {R"({"prompt":"a","truncate_prompt_tokens":3})",
       "truncate_prompt_tokens: use truncate, which cuts a prompt to the model's limit"},
      {R"({"prompt":"a","presence_penalty":"no"})", "presence_penalty: must be a number"},
      {R"({"prompt":"a","stop":5})", "stop: must be a string or an array of strings"},
      {R"({"prompt":"a","stop":["a",5]})", "stop: must be a string or an array of strings"},
      {R"({"prompt":"a","stop_token_ids":[1,2,3,4,5,6,7,8,9]})", "stop_token_ids: has more than 8 ids"},
      {R"({"prompt":"a","suppress_token_ids":[1,-2]})", "suppress_token_ids: must be an array of token ids"},
      {R"({"prompt":"a","stop":["","","","","","","","","","","","","","","","",""]})",
       "stop: has more than 16 strings"},
      {R"({"prompt":"a","stream":1})", "stream: must be a bool"},
      {R"({"prompt":"a","stream_options":{"x":1}})",
       "stream_options: 'x' is none of include_usage, continuous_usage_stats, include_obfuscation"},
      {R"({"prompt":"a","stream_options":{"continuous_usage_stats":1}})",
       "stream_options.continuous_usage_stats: must be a bool"},
      {R"({"prompt":"a","logprobs":21})", "logprobs: 21, at most 20"},
      {R"({"prompt":"a","logprobs":true})", "logprobs: must be an integer, 0 or more"},
      {R"({"prompt":"a","top_logprobs":2})", "top_logprobs: is not a field of this request"},
      {R"({"prompt":"a","seed":18446744073709551616})", "seed: a number beyond 64 bits"},
      {R"({"temperature":1e400,"prompt":"a"})", "temperature: a number beyond 64 bits"},
      {R"({"prompt":[18446744073709551616]})", ": the body is not valid JSON: Problem while parsing a number"},
      {R"({"prompt":"a","top_k":-2})", "top_k: must be an integer, 0 or more"},
      {R"({"prompt":"a","messages":[]})", "messages: are of /v1/chat/completions"},
  };
  check_wrong(reader, cases);
}

TEST(answers_with_completions) {
  const AnswerWriter& writer = kCompletionsWriter;
  const u32 ids[] = {5, 6};
  const float logprobs[] = {-0.5f, -2};
  const Usage usage{.input_tokens = 3, .output_tokens = 2};
  ResponseView item;
  item.output = Output::kGeneration;
  const u32 offsets[] = {0, 3};
  item.generation = {"a \"b\"", ids, logprobs, FinishReason::kStop, {}, offsets};
  item.usage = &usage;
  const auto context = [](CompletionsHead head) {
    return std::string(bytes_of(head)) + R"("id":"cmpl-1","created":9)";
  };
  const std::string at_end = context({.usage = CompletionsHead::Usage::kAtEnd});
  const std::string so_far = context({.usage = CompletionsHead::Usage::kSoFar});
  const AnsweredCall call{at_end, "m@1"};
  CHECK_EQ(
      answered(writer, call, {&item, 1}),
      R"({"object":"text_completion","id":"cmpl-1","created":9,"model":"m","choices":[{"text":"a \"b\"","index":0,)"
      R"("logprobs":{"tokens":["token_id:5","token_id:6"],"token_logprobs":[-0.5,-2],)"
      R"("top_logprobs":[{"token_id:5":-0.5},{"token_id:6":-2}],"text_offset":[0,3]},"finish_reason":"stop"}],)"
      R"("usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}})");
  CHECK_EQ(chunk_of(writer, call, {0, {"a", {}, {}, FinishReason::kUnspecified}, nullptr, nullptr}),
           R"(data: {"object":"text_completion","id":"cmpl-1","created":9,"model":"m","choices":[{"text":"a",)"
           R"("index":0,"logprobs":null,"finish_reason":null}]})"
           "\n\n");
  const CallUsage of_call{1, 3, 2};
  CHECK_EQ(chunk_of(writer, call, {0, {"b", {}, {}, FinishReason::kLength}, &usage, nullptr, 0, &of_call}),
           R"(data: {"object":"text_completion","id":"cmpl-1","created":9,"model":"m","choices":[{"text":"b",)"
           R"("index":0,"logprobs":null,"finish_reason":"length"}]})"
           "\n\n"
           R"(data: {"object":"text_completion","id":"cmpl-1","created":9,"model":"m","choices":[],)"
           R"("usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}})"
           "\n\ndata: [DONE]\n\n");
  CHECK_EQ(chunk_of(writer, {so_far, "m@1"}, {0, {.text = "a"}, &usage, nullptr}),
           R"(data: {"object":"text_completion","id":"cmpl-1","created":9,"model":"m","choices":[{"text":"a",)"
           R"("index":0,"logprobs":null,"finish_reason":null}],)"
           R"("usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}})"
           "\n\n");
}

// The last piece of one choice ends nothing; that of the last one is followed by the usage of all.
TEST(pieces_of_several_choices) {
  const Usage usage{.input_tokens = 3, .output_tokens = 2};
  const CallUsage all{4, 12, 9};
  const auto context = [](CompletionsHead head) { return std::string(bytes_of(head)) + R"("id":"cmpl-1")"; };
  const std::string at_end = context({.usage = CompletionsHead::Usage::kAtEnd, .choices = {2, 2}});
  const std::string head = R"(data: {"object":"text_completion","id":"cmpl-1","model":"m","choices":[)";
  const GenerationView end{"b", {}, {}, FinishReason::kLength};
  const std::string said = head + R"({"text":"b","index":3,"logprobs":null,"finish_reason":"length"}]})" + "\n\n";
  CHECK_EQ(chunk_of(kCompletionsWriter, {at_end, "m@1"}, {0, end, &usage, nullptr, 3}), said);
  CHECK_EQ(chunk_of(kCompletionsWriter, {at_end, "m@1"}, {0, end, &usage, nullptr, 3, &all}),
           said + head + R"(],"usage":{"prompt_tokens":6,"completion_tokens":9,"total_tokens":15}})" +
               "\n\ndata: [DONE]\n\n");
}

// Of three candidates the two whose tokens are likelier on the mean, best first. The tokens of all count.
TEST(the_best_of_a_prompts_candidates) {
  const Usage usage{.input_tokens = 3, .output_tokens = 2};
  const float logprobs[][2] = {{-0.5f, -2}, {-1, -1}, {-1, -0.5f}};
  const u32 ids[] = {5, 6};
  ResponseView items[3];
  for (u32 i = 0; i < 3; i++) {
    items[i].output = Output::kGeneration;
    items[i].generation = {std::string_view("abc").substr(i, 1), ids, logprobs[i], FinishReason::kStop};
    items[i].usage = &usage;
  }
  const auto found = [&](BestOf choices) {
    const std::string context = std::string(bytes_of(CompletionsHead{.choices = choices})) + R"("id":"cmpl-1")";
    return answered(kCompletionsWriter, {context, "m@1"}, items);
  };
  CHECK_EQ(found({2, 3, false}), R"({"object":"text_completion","id":"cmpl-1","model":"m","choices":[)"
                                 R"({"text":"c","index":0,"logprobs":null,"finish_reason":"stop"},)"
                                 R"({"text":"b","index":1,"logprobs":null,"finish_reason":"stop"}],)"
                                 R"("usage":{"prompt_tokens":3,"completion_tokens":6,"total_tokens":9}})");
  CHECK(found({1, 3, true}).find(R"("token_logprobs":[-1,-0.5])") != std::string::npos);
}

namespace {

// The likeliest tokens of two places, the first of which is chosen in the first and none in the second: of the third,
// which has the same text, and one that cannot be chosen.
struct Likely {
  static constexpr float kNone = -std::numeric_limits<float>::infinity();
  const u32 ids[2] = {1, 4}, top_ids[6] = {1, 2, 3, 3, 2, 0}, offsets[2] = {0, 1};
  const float logprobs[2] = {-0.5f, -4}, top_logprobs[6] = {-0.5f, -1, -3, -1, -2, kNone};
  const text::Detokenizer texts{text::Detokenizer::Tokens{{1, "a"}, {2, "\xe2\x82"}, {3, "a"}, {4, "\xc3\xbc\""}}};
  GenerationView view() const {
    return {"a\xc3\xbc\"", ids, logprobs, FinishReason::kLength, {top_ids, top_logprobs}, offsets};
  }
};

}  // namespace

TEST(likeliest_tokens_of_completions) {
  const Likely likely;
  ResponseView item;
  item.output = Output::kGeneration, item.generation = likely.view();
  const std::string context = std::string(bytes_of(CompletionsHead{})) + R"("id":"cmpl-1")";
  const AnsweredCall call{context, "m@1", &likely.texts};
  const std::string logprobs =
      R"("logprobs":{"tokens":["a","ü\""],"token_logprobs":[-0.5,-4],)"
      R"("top_logprobs":[{"a":-0.5,"bytes:\\xe2\\x82":-1},{"a":-1,"bytes:\\xe2\\x82":-2,"ü\"":-4}],)"
      R"("text_offset":[0,1]})";
  CHECK(answered(kCompletionsWriter, call, {&item, 1}).find(logprobs) != std::string::npos);
  CHECK(chunk_of(kCompletionsWriter, call, {.generation = item.generation}).find(logprobs) != std::string::npos);
}

// The prompt's tokens come first, the first of them without a number; and vLLM's form beside them.
TEST(prompts_of_completions) {
  const Likely likely;
  const u32 prompt_ids[] = {4, 1, 2}, prompt_top[] = {1, 3, 3, 1}, prompt_offsets[] = {0, 2, 3};
  const float prompt_logprobs[] = {-0.25f, -7}, prompt_top_logprobs[] = {-0.25f, -1, -2, -3};
  ResponseView item;
  item.output = Output::kGeneration, item.generation = likely.view();
  item.generation.prompt = {
      prompt_ids, prompt_logprobs, {prompt_top, prompt_top_logprobs}, "\xc3\xbc\"a", prompt_offsets};
  const std::string context =
      std::string(bytes_of(CompletionsHead{.echo = true, .echo_top = 1, .prompt_top = 2})) + R"("id":"cmpl-1")";
  const AnsweredCall call{context, "m@1", &likely.texts};
  const std::string whole = answered(kCompletionsWriter, call, {&item, 1});
  const std::string echoed =
      R"({"text":"ü\"aaü\"","index":0,"logprobs":{"tokens":["ü\"","a","bytes:\\xe2\\x82","a","ü\""],)"
      R"("token_logprobs":[null,-0.25,-7,-0.5,-4],"top_logprobs":[null,{"a":-0.25},{"a":-2,"bytes:\\xe2\\x82":-7},)"
      R"({"a":-0.5,"bytes:\\xe2\\x82":-1},)";
  CHECK(whole.find(echoed) != std::string::npos);
  CHECK(whole.find(R"("text_offset":[0,2,3,0,1]})") != std::string::npos);
  CHECK(whole.find(R"("prompt_logprobs":[null,{"1":{"logprob":-0.25,"rank":1,"decoded_token":"a"},)"
                   R"("3":{"logprob":-1,"rank":2,"decoded_token":"a"}},)"
                   "{\"2\":{\"logprob\":-7,\"rank\":null,\"decoded_token\":\"\xef\xbf\xbd\xef\xbf\xbd\"},"
                   R"("3":{"logprob":-2,"rank":1,"decoded_token":"a"},)") != std::string::npos);
  const std::string part = chunk_of(kCompletionsWriter, call, {.generation = item.generation});
  CHECK(part.find(echoed) != std::string::npos);
  item.generation.prompt = {};
  CHECK(chunk_of(kCompletionsWriter, call, {.generation = item.generation}).find(R"("text":"aü\"")") !=
        std::string::npos);
}

TEST(likeliest_tokens_of_chats) {
  const Likely likely;
  ResponseView item;
  item.output = Output::kGeneration, item.generation = likely.view();
  const std::string context =
      std::string(bytes_of(CompletionsHead{.form = CompletionsHead::Form::kChat})) + R"("id":"chatcmpl-1")";
  const AnsweredCall call{context, "m@1", &likely.texts};
  const std::string logprobs =
      R"("logprobs":{"content":[{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[)"
      R"({"token":"a","logprob":-0.5,"bytes":[97]},{"token":"\\xe2\\x82","logprob":-1,"bytes":[226,130]},)"
      R"({"token":"a","logprob":-3,"bytes":[97]}]},)"
      R"({"token":"ü\"","logprob":-4,"bytes":[195,188,34],"top_logprobs":[)"
      R"({"token":"a","logprob":-1,"bytes":[97]},{"token":"\\xe2\\x82","logprob":-2,"bytes":[226,130]}]}],)"
      R"("refusal":null})";
  CHECK(answered(kCompletionsWriter, call, {&item, 1}).find(logprobs) != std::string::npos);
  CHECK(chunk_of(kCompletionsWriter, call, {.generation = item.generation}).find(logprobs) != std::string::npos);
  item.generation.top = {};
  const std::string without = answered(kCompletionsWriter, {context, "m@1"}, {&item, 1});
  CHECK(without.find(R"([{"token":"token_id:1","logprob":-0.5,"bytes":null,"top_logprobs":[]},)") != std::string::npos);
}

// Whatever the tokens are, an answer stays within its room.
TEST(log_probabilities_have_room) {
  text::Detokenizer::Tokens tokens;
  for (u32 id = 0; id < 40; id++) tokens.emplace_back(id, std::string(id, id % 3 ? '\x01' : '\xff'));
  const text::Detokenizer texts{tokens};
  std::vector<u32> ids, top_ids, offsets;
  std::vector<float> logprobs, top_logprobs;
  for (u32 i = 0; i < 50; i++) {
    ids.push_back(i), logprobs.push_back(-1.23456789e-37f), offsets.push_back(~u32(0));
    for (u32 k = 0; k < kTopLogprobsMax; k++) top_ids.push_back(i + k), top_logprobs.push_back(-1.17549435e-38f);
  }
  ResponseView item;
  item.output = Output::kGeneration;
  item.generation = {"", ids, logprobs, FinishReason::kLength, {top_ids, top_logprobs}, offsets};
  for (const CompletionsHead::Form form : {CompletionsHead::Form::kText, CompletionsHead::Form::kChat}) {
    const std::string context = std::string(bytes_of(CompletionsHead{.form = form})) + R"("id":"cmpl-1")";
    for (const text::Detokenizer* some : {static_cast<const text::Detokenizer*>(nullptr), &texts}) {
      const AnsweredCall call{context, "m@1", some};
      CHECK(!answered(kCompletionsWriter, call, {&item, 1}).empty());  // they check the room
      CHECK(!chunk_of(kCompletionsWriter, call, {.generation = item.generation}).empty());
    }
  }
}

TEST(a_prompt_counts_once_whatever_its_choices) {
  const Usage usage{.input_tokens = 3, .output_tokens = 2};
  ResponseView item;
  item.output = Output::kGeneration;
  item.usage = &usage;
  const ResponseView items[] = {item, item, item, item};
  const std::string context = std::string(bytes_of(CompletionsHead{.choices = {2, 2}})) + R"("id":"cmpl-1")";
  const std::string found = answered(kCompletionsWriter, {context, "m@1"}, items);
  CHECK(found.ends_with(R"("usage":{"prompt_tokens":6,"completion_tokens":8,"total_tokens":14}})"));
  CHECK(found.find(R"("index":3)") != std::string::npos);
}

TEST(which_events_have_the_usage) {
  CompletionsReader reader(kItemsMax);
  const std::pair<const char*, char> cases[] = {{R"({"continuous_usage_stats":true,"include_usage":true})", 'c'},
                                                {R"({"continuous_usage_stats":false,"include_usage":true})", 'u'},
                                                {R"({"continuous_usage_stats":true})", '-'},
                                                {"{}", '-'}};
  for (const auto& [options, flag] : cases) {
    CHECK_EQ(error_of(reader, R"({"prompt":"a","stream":true,"stream_options":)" + std::string(options) + "}"), "");
    CHECK_EQ(reader.context()[0], flag);
  }
}

}  // namespace
