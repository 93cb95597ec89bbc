// TEI's requests and answers over HTTP against literal texts.
#include "protocols/rerank/rerank.h"
#include "protocols/tei/http.h"
#include "protocols/tei/instances.h"
#include "tests/json/bodies.h"

using namespace fastqps;
using namespace fastqps::test;
using namespace std::string_literals;

namespace {

// What a reader says of a body that it takes, or of the first item.
std::string item_error_of(RequestReader& reader, std::string_view body) {
  CHECK_EQ(error_of(reader, body), "");
  RequestView view;
  const FieldError error = reader.item(0, view);
  return error ? std::string(error.field) + ": " + error.reason : "";
}

std::string error_text(const HttpError& error, u16 status) {
  HttpErrorBody body{status, ContentType::kJson, {}};
  write_tei_error(error, body);
  return std::to_string(body.status) + " " + body.text;
}

ResponseView embedding_of(std::span<const float> values) {
  ResponseView view;
  view.output = Output::kEmbedding;
  view.embedding.values = values;
  return view;
}

ResponseView scores_of_labels(std::span<const LabelView> labels) {
  ResponseView view;
  view.output = Output::kClassification;
  view.labels = labels;
  return view;
}

// Counts how often it reads a timeout.
class CountingReader final : public TeiJsonReader {
 public:
  explicit CountingReader(ModelRoutes& routes) : TeiJsonReader(routes, kItemsMax) {}

  u32 items() const override { return 1; }
  FieldError item(u32, RequestView& view) override { return view = options_.base, FieldError{}; }

  u32 timeouts = 0;

 private:
  void clear() override {}
  FieldRows fields() const override {
    static constexpr FieldRow kFields[] = {{"timeout", by<&CountingReader::read_timeout>}};
    return kFields;
  }
  FieldError check(const CallInfo&, ReasonText&) override { return {}; }
  FieldError read_timeout(const GivenField& field) {
    timeouts++;
    return *set_call_option(field.name, field.option(), options_.base);
  }
};

}  // namespace

TEST(every_form_of_inputs_to_embed) {
  TaskWorld w(Task::kEmbed, 4);
  EmbedJsonReader reader(*w.routes, kItemsMax);
  CHECK_EQ(error_of(reader, R"({"inputs":"a\u00fc"})"), "");
  CHECK_EQ(reader.items(), 1u);
  CHECK_EQ(item_of(reader).text, "aü");
  CHECK_EQ(error_of(reader, R"({"inputs":["a",[7,8],"c"]})"), "");
  CHECK_EQ(reader.items(), 3u);
  CHECK_EQ(item_of(reader, 2).text, "c");
  CHECK(item_of(reader, 1).input == Input::kTokenIds);
  CHECK(ids_of(item_of(reader, 1)) == (std::vector<u32>{7, 8}));
  CHECK_EQ(error_of(reader, R"({"inputs":[5,6]})"), "");
  CHECK_EQ(reader.items(), 1u);
}

TEST(options_of_embed) {
  TaskWorld w(Task::kEmbed, 4);
  EmbedJsonReader reader(*w.routes, kItemsMax);
  CHECK_EQ(error_of(reader, R"({"inputs":"a","truncate":true,"normalize":false,"dimensions":3,"priority":"low",
                               "timeout":0.5,"truncation_direction":"Right","prompt_name":null,"unknown":{"a":[1]}})"),
           "");
  RequestView view = item_of(reader);
  CHECK(view.truncation.asked == true && view.output.normalize == false);
  CHECK_EQ(view.output.dimensions, 3u);
  CHECK_EQ(view.priority, 1);
  CHECK_EQ(view.timeout_us, 500'000u);
  CHECK(view.output.timings);
  CHECK_EQ(error_of(reader, R"({"inputs":"a","prompt_name":"q"})"), "");
  CHECK_EQ(item_of(reader).prompt_name, "q");
  CHECK_EQ(error_of(reader, R"({"inputs":"a"})"), "");  // nothing is left of the last request
  view = item_of(reader);
  CHECK(view.prompt_name.empty());
  CHECK(!view.truncation.asked && w.routes->cuts(view.truncation) && view.output.normalize == true &&
        !view.output.dimensions && !view.priority && !view.timeout_us);
}

TEST(wrong_requests_to_embed) {
  TaskWorld w(Task::kEmbed, 4);
  EmbedJsonReader reader(*w.routes, kItemsMax);
  const Wrong cases[] = {
      {"", ": the body is not valid JSON: Empty: no JSON found"},
      {"[]", ": the body must be a JSON object"},
      {"{}", "inputs: must be given"},
      {R"({"inputs":null})", "inputs: must be a string, an array of strings, or an array of token ids"},
      {R"({"inputs":[]})", "inputs: an empty array, must have at least one element"},
      {R"({"inputs":["a",null]})", "inputs: element 1 is neither a string nor an array of token ids"},
      {R"({"inputs":["a","b","c","d","e"]})", "inputs: more than 4 elements, which is the most"},
      {R"({"inputs":[1.0]})", "inputs: element 0 is neither a string nor an array of token ids"},
      {R"({"inputs":"a","truncate":1})", "truncate: must be a bool"},
      {R"({"inputs":"a","normalize":"yes"})", "normalize: must be a bool"},
      {R"({"inputs":"a","dimensions":-1})", "dimensions: must be an integer, 0 or more"},
      {R"({"inputs":"a","prompt_name":1})", "prompt_name: must be a string"},
      {R"({"inputs":"a","truncation_direction":"up"})", "truncation_direction: must be Left or Right"},
      {R"({"inputs":"a","truncation_direction":1})", "truncation_direction: must be Left or Right"},
      {R"({"inputs":"a","priority":1})", "priority: must be low, normal or high"},
      {R"({"inputs":"a","timeout":"1"})", "timeout: must be a number"},
  };
  check_wrong(reader, cases);
  CHECK_EQ(item_error_of(reader, R"({"inputs":""})"), "text: 0 characters, at least 1");
  CHECK_EQ(item_error_of(reader, R"({"inputs":[[]]})"), "token_ids: 0 token ids, at least 1");
  CHECK_EQ(item_error_of(reader, R"({"inputs":"a","dimensions":0})"), "dimensions: is 0, must be at least 1");
  w.segment.route(0).task = Task::kClassify;
  CHECK_EQ(item_error_of(reader, R"({"inputs":"a"})"), ": the model '' is not an embedding model");
}

TEST(similarity_reads_one_source_and_sentences) {
  TaskWorld w(Task::kEmbed, 4);
  SimilarityReader reader(*w.routes, kItemsMax);
  CHECK_EQ(
      error_of(reader, R"({"inputs":{"source_sentence":"s","sentences":["a","b"]},"parameters":{"truncate":true}})"),
      "");
  CHECK_EQ(reader.items(), 3u);
  CHECK_EQ(item_of(reader, 0).text, "s");
  CHECK_EQ(item_of(reader, 2).text, "b");
  CHECK(item_of(reader, 1).truncation.asked == true && item_of(reader, 1).output.normalize == false);
  const Wrong cases[] = {
      {"{}", "inputs: must be given"},
      {R"({"inputs":"a"})", "inputs: must be an object"},
      {R"({"inputs":{"sentences":["a"]}})", "inputs.source_sentence: must be given"},
      {R"({"inputs":{"source_sentence":"a"}})", "inputs.sentences: must be given"},
      {R"({"inputs":{"source_sentence":1,"sentences":["a"]}})", "inputs.source_sentence: must be a string"},
      {R"({"inputs":{"source_sentence":"a","sentences":"a"}})", "inputs.sentences: must be an array of strings"},
      {R"({"inputs":{"source_sentence":"a","sentences":[]}})", "inputs.sentences: 0 texts, at least 1"},
      {R"({"inputs":{"source_sentence":"a","sentences":["a","b","c","d"]}})",
       "inputs.sentences: more than 3 texts, which is the most"},
      {R"({"inputs":{"source_sentence":"a","sentences":["a"]},"parameters":1})", "parameters: must be an object"},
      {R"({"inputs":{"source_sentence":"a","sentences":["a"]},"parameters":{"truncate":1}})",
       "truncate: must be a bool"},
  };
  check_wrong(reader, cases);
}

TEST(parameters_of_instances_are_read_once_for_all) {
  TaskWorld w(Task::kEmbed, 4);
  CountingReader one(*w.routes);
  InstancesReader reader(one, kItemsMax);
  CHECK_EQ(error_of(reader, R"({"instances":["a",{"timeout":2},"b"],"parameters":{"timeout":1}})"), "");
  CHECK_EQ(one.timeouts, 2u);  // one of them is the second instance's own
  const u64 expected[] = {1'000'000, 2'000'000, 1'000'000};
  for (u32 i = 0; i < reader.items(); i++) CHECK_EQ(item_of(reader, i).timeout_us, expected[i]);
  CHECK_EQ(one.timeouts, 3u);
  CHECK_EQ(error_of(reader, R"({"instances":["a"]})"), "");
  CHECK_EQ(item_of(reader).timeout_us, 0u);
}

TEST(every_form_of_inputs_to_predict) {
  TaskWorld w(Task::kClassify, 3);
  PredictJsonReader reader(*w.routes, kItemsMax);
  const auto read_one = [&](std::string_view body) {
    CHECK_EQ(error_of(reader, body), "");
    return item_of(reader);
  };
  CHECK_EQ(read_one(R"({"inputs":"a"})").text, "a");
  CHECK_EQ(reader.context(), "1");
  CHECK(w.routes->cuts(item_of(reader).truncation));
  CHECK(!w.routes->cuts(read_one(R"({"inputs":"a","truncate":false})").truncation));
  CHECK_EQ(read_one(R"({"inputs":["a"]})").text, "a");
  CHECK_EQ(read_one(R"({"inputs":["a","b"]})").pair_second, "b");
  CHECK_EQ(reader.context(), "1");
  CHECK_EQ(reader.items(), 1u);
  CHECK_EQ(read_one(R"({"inputs":[["a"],["b","c"]],"raw_scores":true})").text, "a");
  CHECK_EQ(reader.context(), "b");
  CHECK(item_of(reader, 1).input == Input::kPair && item_of(reader, 1).output.raw_scores);
  CHECK_EQ(item_of(reader, 1).pair_first, "b");
  constexpr auto kForms = "inputs: must be a string, a pair of strings, or an array of arrays with one or two strings";
  const Wrong cases[] = {
      {"{}", "inputs: must be given"},
      {R"({"inputs":[]})", "inputs: an empty array, must have at least one element"},
      {R"({"inputs":[1]})", kForms},
      {R"({"inputs":[["a"],"b"]})", "inputs: element 1 is no array of strings"},
      {R"({"inputs":["a","b","c"]})", "inputs: 3 texts, must be 1 or 2"},
      {R"({"inputs":[["a","b","c"]]})", "inputs: element 0: 3 texts, must be 1 or 2"},
      {R"({"inputs":["a",["b"]]})", "inputs: the elements of a pair must be strings"},
      {R"({"inputs":[["a"],["a"],["a"],["a"],["a"]]})", "inputs: more than 4 elements, which is the most"},
  };
  check_wrong(reader, cases);
  CHECK_EQ(item_error_of(reader, R"({"inputs":[[]]})"), "text: 0 texts, must be 1 or 2");
  CHECK_EQ(item_error_of(reader, R"({"inputs":["",""]})"), "text: 0 characters, at least 1");
}

TEST(texts_to_find_entities_in) {
  TaskWorld w(Task::kClassifyTokens, 0);
  EntitiesReader reader(*w.routes, kItemsMax);
  CHECK_EQ(error_of(reader, R"({"inputs":["a","b"],"parameters":{"aggregation_strategy":"none","truncate":false}})"),
           "");
  CHECK(item_of(reader, 1).text == "b" && item_of(reader).output.aggregation == 1);
  CHECK(!w.routes->cuts(item_of(reader).truncation) && !head_of<EntitiesHead>(reader.context()).grouped);
  CHECK_EQ(error_of(reader, R"({"inputs":"a","parameters":null,"aggregation_strategy":"max","options":{}})"), "");
  CHECK(item_of(reader).output.aggregation == 5 && !head_of<EntitiesHead>(reader.context()).batch);
  CHECK(w.routes->cuts(item_of(reader).truncation) && head_of<EntitiesHead>(reader.context()).grouped);
  const Wrong cases[] = {
      {"{}", "inputs: must be given"},
      {R"({"inputs":[]})", "inputs: 0 texts, at least 1"},
      {R"({"inputs":[[7]]})", "inputs: element 0 is no string"},
      {R"({"inputs":"a","parameters":[]})", "parameters: must be an object"},
      {R"({"inputs":"a","aggregation_strategy":"all"})",
       "aggregation_strategy: must be none, simple, first, average or max"},
  };
  check_wrong(reader, cases);
  w.segment.route(0).task = Task::kEmbed;
  CHECK_EQ(item_error_of(reader, R"({"inputs":"a"})"), ": the model '' finds no entities");
}

TEST(answers_with_entities) {
  const EntityView found[] = {{"PER", 0.5f, 1, 4}, {"LOC", 1, 5, 6}};
  const ResponseView items[] = {{.output = Output::kEntities, .entities = found}, {.output = Output::kEntities}};
  EntitiesHead head;
  const auto answer = [&](std::vector<std::string_view> texts) {
    std::string context(bytes_of(head));
    RankContext::append(context, true, texts);
    return answered(kEntitiesWriter, {context, "m@1"}, {items, texts.size()});
  };
  CHECK_EQ(answer({"\u00fc\"\u20aca \U0001f600"}),
           "[{\"entity_group\":\"PER\",\"score\":0.5,\"word\":\"\\\"\u20aca\",\"start\":1,\"end\":4},"
           "{\"entity_group\":\"LOC\",\"score\":1,\"word\":\"\U0001f600\",\"start\":5,\"end\":6}]");
  head = {.batch = true, .grouped = false};
  CHECK_EQ(answer({"012345", "none"}), R"([[{"entity":"PER","score":0.5,"word":"123","start":1,"end":4},)"
                                       R"({"entity":"LOC","score":1,"word":"5","start":5,"end":6}],[]])");
}

TEST(entities_that_overlap_have_room) {
  const std::vector<EntityView> found(40, {"PER", 1, 0, 400});
  const ResponseView item{.output = Output::kEntities, .entities = found};
  const std::string text(400, 'a');
  std::string context(bytes_of(EntitiesHead{}));
  RankContext::append(context, true, std::vector<std::string_view>{text});
  CHECK(answered(kEntitiesWriter, {context, "m@1"}, {&item, 1}).size() > found.size() * text.size());
}

TEST(rerank_reads_a_query_and_texts) {
  TaskWorld w(Task::kClassify, 1);
  RerankJsonReader reader(*w.routes, kItemsMax);
  CHECK_EQ(error_of(reader, R"({"query":"q","texts":["a","","c"],"return_text":true})"), "");
  CHECK_EQ(reader.items(), 3u);
  CHECK_EQ(item_of(reader, 2).pair_second, "c");
  CHECK_EQ(item_of(reader, 2).pair_first, "q");
  CHECK(w.routes->cuts(item_of(reader, 2).truncation));
  CHECK_EQ(RankContext::texts(reader.context()).size(), 3u);
  CHECK_EQ(error_of(reader, R"({"query":"q","texts":["a"]})"), "");
  CHECK(!RankContext::returns_text(reader.context()));
  const Wrong cases[] = {
      {"{}", "query: must be given"},
      {R"({"query":"q"})", "texts: must be given"},
      {R"({"query":null,"texts":["a"]})", "query: must be a string"},
      {R"({"query":"q","texts":[]})", "texts: 0 texts, at least 1"},
      {R"({"query":"q","texts":"a"})", "texts: must be an array of strings"},
      {R"({"query":"q","texts":["a","b","c","d","e"]})", "texts: more than 4 texts, which is the most"},
  };
  check_wrong(reader, cases);
  w.segment.route(0).dimensions = 3;
  CHECK_EQ(error_of(reader, R"({"query":"q","texts":["a"]})"),
           ": the model '' is not a re-ranker model: it has 3 labels, and a re-ranker has 1");
}

TEST(a_body_is_of_the_format_that_its_fields_are_of) {
  TaskWorld w(Task::kClassify, 1);
  RerankJsonReader texts(*w.routes, kItemsMax);
  DocumentsReader documents(*w.routes, kItemsMax);
  InstancesReader instances(texts, kItemsMax);
  const JsonFormat by_texts{texts, {kRerankJsonWriter, kTeiRerank}};
  EitherReader inner("documents", {documents, {kDocumentsWriter, kRerank}}, by_texts);
  const InstancesWriter predictions(kRerankJsonWriter);
  EitherReader reader("instances", {instances, {predictions, kOther}}, {inner, by_texts.answering});
  const std::pair<const char*, const AnswerWriter*> cases[] = {
      {R"({"query":"q","texts":["a","b"]})", &kRerankJsonWriter},
      {R"({"query":"q","documents":["a","b"]})", &kDocumentsWriter},
      {R"({"instances":[{"query":"q","texts":["a"]},{"query":"q","texts":["b"]}]})", &predictions},
      {R"({"query":"q","texts":["a","b"],"documents":null,"instances":null})", &kRerankJsonWriter},
  };
  for (const auto& [body, writer] : cases) {
    CHECK_EQ(error_of(reader, body), "");
    CHECK(&reader.answering()->writer == writer);
    CHECK_EQ(reader.items(), 2u);
    CHECK_EQ(item_of(reader, 1).pair_second, "b");
  }
  CHECK_EQ(error_of(reader, R"({"query":"q","documents":["a"],"texts":["a"]})"),
           ": 'texts' is not a field of this request");
}

TEST(damaged_bodies_are_read_or_refused) {
  TaskWorld embeds(Task::kEmbed, 4), classifies(Task::kClassify, 1);
  EmbedJsonReader embed(*embeds.routes, kItemsMax);
  damage(embed, R"({"inputs":["a\u00fc\ud83d\ude00",[7,88]],"truncate":true,"dimensions":3,"timeout":1.5})");
  SimilarityReader similarity(*embeds.routes, kItemsMax);
  damage(similarity, R"({"inputs":{"source_sentence":"s","sentences":["a","b"]},"parameters":{"truncate":true}})");
  PredictJsonReader predict(*classifies.routes, kItemsMax);
  damage(predict, R"({"inputs":[["a"],["b","c"]],"raw_scores":true,"truncation_direction":"right"})");
  RerankJsonReader rerank(*classifies.routes, kItemsMax);
  damage(rerank, R"({"query":"q","texts":["a","\n"],"return_text":true,"raw_scores":false})");
}

TEST(answers_with_embeddings) {
  const float first[] = {0.5f, -1, 0}, second[] = {1, -2, 0}, third[] = {0, 0, 3}, none[] = {0, 0, 0};
  const ResponseView items[] = {embedding_of(first), embedding_of(second), embedding_of(third), embedding_of(none)};
  CHECK_EQ(answered(kEmbedJsonWriter, {}, {items, 1}), "[[0.5,-1,0]]");
  CHECK_EQ(answered(kEmbedJsonWriter, {}, {items, 3}), "[[0.5,-1,0],[1,-2,0],[0,0,3]]");
  CHECK_EQ(answered(kSimilarityWriter, {}, items), "[1,0,0]");
}

TEST(answers_with_scores) {
  const LabelView first[] = {{"a \"b\"", 0.75f, 1}, {"c", 0.25f, 0}}, second[] = {{"c", 1, 0}};
  const ResponseView items[] = {scores_of_labels(first), scores_of_labels(second)};
  CHECK_EQ(answered(kPredictJsonWriter, {"1", "m@1"}, {items, 1}),
           R"([{"score":0.75,"label":"a \"b\""},{"score":0.25,"label":"c"}])");
  CHECK_EQ(answered(kPredictJsonWriter, {"b", "m@1"}, items),
           R"([[{"score":0.75,"label":"a \"b\""},{"score":0.25,"label":"c"}],[{"score":1,"label":"c"}]])");
}

TEST(answers_with_ranks) {
  const LabelView low[] = {{"", -1, 0}}, high[] = {{"", 2, 0}};
  const ResponseView items[] = {scores_of_labels(low), scores_of_labels(high), scores_of_labels(high)};
  CHECK_EQ(answered(kRerankJsonWriter, {"\0"s, "m@1"}, items),
           R"([{"index":1,"score":2},{"index":2,"score":2},{"index":0,"score":-1}])");
  std::string context(1, char(RankContext::kReturnText));
  for (const char* text : {"a", "\n\n\n", ""}) RankContext::add_text(context, text);
  CHECK_EQ(
      answered(kRerankJsonWriter, {context, "m@1"}, items),
      R"([{"index":1,"text":"\n\n\n","score":2},{"index":2,"text":"","score":2},{"index":0,"text":"a","score":-1}])");
}

TEST(errors_have_the_status_and_type_of_tei) {
  using Code = StatusCode;
  const struct {
    HttpError error;
    u16 status;
    std::string_view text;
  } cases[] = {
      {{Code::kInvalidArgument, "m", "inputs", FieldFault::kValue},
       400,
       R"(422 {"error":"m","error_type":"Validation"})"},
      {{Code::kInvalidArgument, "m", "inputs", FieldFault::kEmpty}, 400, R"(400 {"error":"m","error_type":"Empty"})"},
      {{Code::kInvalidArgument, "m", "inputs", FieldFault::kTooMany},
       400,
       R"(413 {"error":"m","error_type":"Validation"})"},
      {{Code::kInvalidArgument, "\"", "", FieldFault::kValue}, 400, R"(400 {"error":"\"","error_type":"Validation"})"},
      {{Code::kFailedPrecondition, "m", "", FieldFault::kModel}, 400, R"(424 {"error":"m","error_type":"Backend"})"},
      {{Code::kResourceExhausted, "m", {}}, 429, R"(429 {"error":"m","error_type":"Overloaded"})"},
      {{Code::kResourceExhausted, "m", {}}, 413, R"(413 {"error":"m","error_type":"Validation"})"},
      {{Code::kUnavailable, "m", {}}, 503, R"(503 {"error":"m","error_type":"Unhealthy"})"},
      {{Code::kInternal, "m", {}}, 500, R"(500 {"error":"m","error_type":"Backend"})"},
      {{Code::kDeadlineExceeded, "m", {}}, 504, R"(504 {"error":"m","error_type":"Backend"})"},
      {{Code::kUnauthenticated, "m", {}}, 401, R"(401 {"error":"m","error_type":"Validation"})"},
  };
  for (const auto& each : cases) CHECK_EQ(error_text(each.error, each.status), each.text);
}
