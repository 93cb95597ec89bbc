// vLLM's requests of models that do not generate, and their answers, against literal texts.
#include "protocols/vllm/pooling.h"
#include "tests/json/bodies.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

const PoolingTask* kOnlyLabels = &kPoolingTasks[2];

// What a message says, with the ids and times of its answer left out.
std::string without_times(std::string text) {
  for (const std::string_view name : {"\"id\":\"", "\"created\":"}) {
    const size_t from = text.find(name) + name.size(), to = text.find_first_of("\",", from);
    text.replace(from, to - from, "0");
  }
  return text;
}

}  // namespace

TEST(inputs_to_pool) {
  TaskWorld w(Task::kEmbed, 4);
  w.segment.route(0).max_input_tokens = 256;
  PoolingReader reader(*w.routes, kItemsMax);
  CHECK_EQ(error_of(reader, R"({"model":"","input":["a",[7,8],""],"user":"u","encoding_format":"base64","task":"embed",
                               "use_activation":false,"truncate_prompt_tokens":-1,"truncation_side":"right",
                               "dimensions":3,"embed_dtype":"float32","endianness":"native","padding":"do_not_pad",
                               "add_special_tokens":true,"request_id":"an \"id\"","priority":"high","store":false})"),
           "");
  CHECK_EQ(reader.items(), 3u);
  const RequestView view = item_of(reader, 1);
  CHECK(view.input == Input::kTokenIds && ids_of(view) == std::vector<u32>({7, 8}));
  CHECK(view.output.normalize == false && view.output.dimensions == 3 && view.priority == 3);
  CHECK(w.routes->cuts(view.truncation) && !view.output.timings && item_of(reader, 2).text.empty());
  CHECK(head_of<PoolingHead>(reader.context()).base64);
  CHECK_EQ(IgnoredFields::names(head_of<PoolingHead>(reader.context()).ignored), "store");
  CHECK(behind<PoolingHead>(reader.context()).starts_with(R"("id":"pool-an \"id\"","object":"list","created":)"));
  const std::string before(reader.context());
  CHECK_EQ(error_of(reader, R"({"input":"a"})"), "");  // nothing is left of the last request
  CHECK(!w.routes->cuts(item_of(reader).truncation) && !item_of(reader).output.normalize);
  CHECK(!head_of<PoolingHead>(reader.context()).base64 && reader.context() != before);
  CHECK_EQ(error_of(reader, R"({"input":"a","truncate_prompt_tokens":256})"), "");
}

TEST(wrong_requests_to_pool) {
  TaskWorld w(Task::kEmbed, 4);
  w.segment.route(0).max_input_tokens = 256;
  PoolingReader reader(*w.routes, kItemsMax);
  const Wrong cases[] = {
      {"{}", "input: must be given"},
      {R"({"input":[]})", "input: an empty array, must have at least one element"},
      {R"({"input":["a","b","c","d","e"]})", "input: more than 4 elements, which is the most"},
      {R"({"messages":[]})", "messages: is not served: send the texts themselves"},
      {R"({"input":"a","task":"token_classify"})", "task: must be embed, token_embed or classify"},
      {R"({"input":"a","task":"classify"})", ": the model '' is not a classifier model"},
      {R"({"input":"a","task":"token_embed"})", ": the model '' makes no vector of each token"},
      {R"({"input":"a","encoding_format":"bytes"})", "encoding_format: must be float or base64"},
      {R"({"input":"a","embed_dtype":"float16"})", "embed_dtype: must be float32"},
      {R"({"input":"a","endianness":"big"})", "endianness: must be native or little"},
      {R"({"input":"a","padding":""})", "padding: must be do_not_pad"},
      {R"({"input":"a","add_special_tokens":false})",
       "add_special_tokens: must be true: to leave them out, send token ids"},
      {R"({"input":"a","truncate_prompt_tokens":100})",
       "truncate_prompt_tokens: 100, must be at least 256: texts are cut at the model's own limit alone"},
      {R"({"input":"a","truncate_prompt_tokens":0})", "truncate_prompt_tokens: is 0, must be at least 1"},
      {R"({"input":"a","truncate_prompt_tokens":-2})", "truncate_prompt_tokens: must be an integer, 0 or more"},
      {R"({"input":"a","truncation_side":"up"})", "truncation_side: must be left or right"},
      {R"({"input":"a","use_activation":1})", "use_activation: must be a bool"},
      {R"({"input":"a","dimensions":0})", "dimensions: is 0, must be at least 1"},
      {R"({"input":"a","priority":1})", "priority: must be low, normal or high"},
      {R"({"input":"a","softmax":true})", "softmax: is not a field of this request"},
  };
  check_wrong(reader, cases);
  w.segment.route(0).task = Task::kClassifyTokens;
  CHECK_EQ(error_of(reader, R"({"input":"a"})"), ": the model '' finds entities: this route is for vectors and labels");
}

TEST(the_model_decides_what_is_pooled) {
  for (const PoolingTask& row : kPoolingTasks) {
    TaskWorld w(row.task, 4);
    PoolingReader reader(*w.routes, kItemsMax), labels(*w.routes, kItemsMax, kOnlyLabels);
    CHECK_EQ(error_of(reader, R"({"input":"a","use_activation":false})"), "");
    CHECK_EQ(item_of(reader).output.raw_scores, row.task == Task::kClassify);
    CHECK_EQ(error_of(labels, R"({"input":"a"})").empty(), row.task == Task::kClassify);
    CHECK_EQ(error_of(labels, R"({"input":"a","task":"classify"})"), "task: is not a field of this request");
  }
}

TEST(pairs_to_score) {
  TaskWorld ranks(Task::kClassify, 1), embeds(Task::kEmbed, 4);
  ScoreReader reader(*ranks.routes, kItemsMax), vectors(*embeds.routes, kItemsMax);
  const struct {
    std::string_view body, first, last;  // of the last item
  } forms[] = {{R"({"data_1":"q","data_2":"a"})", "q", "a"},
               {R"({"queries":"q","documents":["a","b"]})", "q", "b"},
               {R"({"queries":["q"],"items":["a",""]})", "q", ""},
               {R"({"text_1":["p","q"],"text_2":["a","b"]})", "q", "b"}};
  for (const auto& [body, first, last] : forms) {
    CHECK_EQ(error_of(reader, body), "");
    const RequestView pair = item_of(reader, reader.items() - 1);
    CHECK(pair.input == Input::kPair && !ranks.routes->cuts(pair.truncation));
    CHECK_EQ(pair.pair_first, first);
    CHECK_EQ(pair.pair_second, last);
    CHECK_EQ(error_of(vectors, body), "");
    const u32 queries = head_of<PoolingHead>(vectors.context()).queries;
    CHECK_EQ(vectors.items(), queries + reader.items());
    CHECK_EQ(item_of(vectors, queries - 1).text, first);
    CHECK_EQ(item_of(vectors, vectors.items() - 1).text, last);
  }
  const Wrong cases[] = {
      {R"({"documents":"a"})", "queries: must be given, at least 1"},
      {R"({"queries":"q","documents":[]})", "documents: must be given, at least 1"},
      {R"({"queries":["p","q"],"documents":["a"]})", "queries: 2, must be 1 or as many as the 1 documents"},
      {R"({"text_1":{"content":[]},"text_2":"a"})", "text_1: must be an array of strings"},
      {R"({"queries":"q","documents":["a","b","c","d","e"]})", "documents: more than 4 texts, which is the most"},
      {R"({"queries":"q","documents":"a","top_n":1})", "top_n: is not a field of this request"},
  };
  check_wrong(reader, cases);
  CHECK_EQ(error_of(vectors, R"({"queries":"q","documents":["a","b","c","d"]})"),
           "documents: 5 texts with the queries, at most 4");
  ranks.segment.route(0).dimensions = 3;
  CHECK_EQ(error_of(reader, R"({"queries":"q","documents":"a"})"),
           ": the model '' is not a re-ranker model: it has 3 labels, and a re-ranker has 1");
}

TEST(damaged_bodies_are_read_or_refused) {
  TaskWorld ranks(Task::kClassify, 1), embeds(Task::kEmbed, 4);
  PoolingReader pooling(*embeds.routes, kItemsMax), labels(*ranks.routes, kItemsMax, kOnlyLabels);
  damage(pooling, R"({"input":["a\u00fc",[7,8]],"task":"embed","truncate_prompt_tokens":-1,"request_id":"\n"})");
  damage(labels, R"({"input":"a","use_activation":false})");
  ScoreReader score(*embeds.routes, kItemsMax);
  damage(score, R"({"queries":["p","q"],"documents":["a","b"]})");
}

TEST(answers) {
  TaskWorld w(Task::kClassify, 2);
  PoolingReader reader(*w.routes, kItemsMax, kOnlyLabels);
  CHECK_EQ(error_of(reader, R"({"input":"a"})"), "");
  const LabelView labels[] = {{"a \"b\"", 0.75f, 1}, {"c", 0.25f, 0}};
  const float values[] = {1, -0.5f, 0, 2};
  const Usage usage{.input_tokens = 3};
  const ResponseView classes{.output = Output::kClassification, .labels = labels, .usage = &usage},
      vector{.output = Output::kEmbedding, .embedding = {.values = values}, .usage = &usage},
      vectors{.output = Output::kMulti, .embedding = {.values = values, .dimensions = 2}, .usage = &usage};
  std::string context(reader.context());
  const auto answer = [&](const AnswerWriter& writer, std::initializer_list<ResponseView> items) {
    return without_times(answered(writer, {context, "m@1"}, {items.begin(), items.size()}));
  };
  const std::string head = R"({"id":"0","object":"list","created":0,"model":"m","data":[)";
  const auto usage_of = [](int tokens) {
    const std::string n = std::to_string(tokens);
    return "],\"usage\":{\"prompt_tokens\":" + n + ",\"total_tokens\":" + n +
           R"(,"completion_tokens":0,"prompt_tokens_details":null}})";
  };
  CHECK_EQ(answer(kClassifyWriter, {classes}),
           head + R"({"index":0,"label":"a \"b\"","probs":[0.25,0.75],"num_classes":2})" + usage_of(3));
  CHECK_EQ(answer(kPoolingWriter, {vector, vectors, classes}),
           head +
               R"({"index":0,"object":"pooling","data":[1,-0.5,0,2]},)"
               R"({"index":1,"object":"pooling","data":[[1,-0.5],[0,2]]},)"
               R"({"index":2,"object":"pooling","data":[0.25,0.75]})" +
               usage_of(9));
  PoolingHead changed = head_of<PoolingHead>(context);
  changed.base64 = true;
  context = std::string(bytes_of(changed)) + std::string(behind<PoolingHead>(context));
  CHECK_EQ(answer(kPoolingWriter, {vectors}),
           head + R"({"index":0,"object":"pooling","data":"AACAPwAAAL8AAAAAAAAAQA=="})" + usage_of(3));
  CHECK_EQ(
      answer(kScoreWriter, {classes, classes}),
      head + R"({"index":0,"object":"score","score":0.25},{"index":1,"object":"score","score":0.25})" + usage_of(6));
  changed.queries = 1;
  context = std::string(bytes_of(changed)) + std::string(behind<PoolingHead>(context));
  const float opposite[] = {-2, 1, 0, -4}, across[] = {0, 0, 3, 0};
  CHECK_EQ(answer(kScoreWriter, {vector,
                                 {.output = Output::kEmbedding, .embedding = {.values = opposite}},
                                 {.output = Output::kEmbedding, .embedding = {.values = across}}}),
           head + R"({"index":0,"object":"score","score":-1},{"index":1,"object":"score","score":0})" + usage_of(3));
}
