// Rerank requests and answers against literal texts.
#include "protocols/cohere/embed.h"
#include "protocols/rerank/rerank.h"
#include "protocols/tei/scores.h"
#include "tests/json/bodies.h"
#include "transport/http/http_request.h"

using namespace fastqps;
using namespace fastqps::test;

TEST(every_form_of_documents) {
  World w;
  DocumentsReader reader(*w.routes, kItemsMax);
  CHECK_EQ(error_of(reader, R"({"model":"","query":"q","documents":["a",{"text":"b","title":[1]}],"top_n":1,
                               "return_documents":true,"rank_fields":["text"],"max_chunks_per_doc":10,
                               "max_tokens_per_doc":4096,"priority":"high","timeout":2})"),
           "");
  CHECK_EQ(reader.items(), 2u);
  const RequestView view = item_of(reader, 1);
  CHECK(view.input == Input::kPair && w.routes->cuts(view.truncation) && !view.output.raw_scores);
  CHECK_EQ(view.pair_first, "q");
  CHECK_EQ(view.pair_second, "b");
  CHECK_EQ(view.priority, 3);
  CHECK_EQ(view.timeout_us, 2'000'000u);
  const std::string context(reader.context());
  CHECK_EQ(head_of<AnswerHead>(context).results_max, 1u);
  CHECK_EQ(head_of<AnswerHead>(context).version, '1');
  CHECK_EQ(RankContext::texts(behind<AnswerHead>(context))[1], "b");
  CHECK_EQ(error_of(reader, R"({"query":"q","documents":["a"],"truncate":false,"top_n":null})"), "");
  CHECK(!w.routes->cuts(item_of(reader).truncation) && !item_of(reader).priority);
  CHECK_EQ(head_of<AnswerHead>(reader.context()).results_max, ~0u);
  CHECK(std::string_view(head_of<AnswerHead>(context).id.text) != head_of<AnswerHead>(reader.context()).id.text);
}

TEST(the_path_gives_the_version) {
  World w;
  DocumentsReader reader(*w.routes, kItemsMax);
  HttpRequest http;
  http.path = "/v2/rerank";
  CallInfo info{};
  info.http = &http;
  const std::string_view body = R"({"query":"q","documents":["a"]})";
  ReasonText reason;
  CHECK(!reader.read({reinterpret_cast<const u8*>(body.data()), body.size()}, info, reason));
  CHECK_EQ(head_of<AnswerHead>(reader.context()).version, '2');
}

TEST(wrong_requests) {
  World w;
  w.segment.route(0).max_input_tokens = 512;
  DocumentsReader reader(*w.routes, kItemsMax);
  const Wrong cases[] = {
      {"{}", "query: must be given"},
      {R"({"query":"","documents":["a"]})", "query: 0 characters, at least 1"},
      {R"({"query":1,"documents":["a"]})", "query: must be a string"},
      {R"({"query":"q"})", "documents: must be given"},
      {R"({"query":"q","documents":[]})", "documents: 0 documents, at least 1"},
      {R"({"query":"q","documents":"a"})", "documents: must be an array of strings, or of objects with a text"},
      {R"({"query":"q","documents":[{}]})", "documents: element 0 is neither a string nor an object with a text"},
      {R"({"query":"q","documents":[{"text":1}]})",
       "documents: element 0 is neither a string nor an object with a text"},
      {R"({"query":"q","documents":[1]})", "documents: element 0 is neither a string nor an object with a text"},
      {R"({"query":"q","documents":["a","b","c","d","e"]})", "documents: more than 4 documents, which is the most"},
      {R"({"query":"q","documents":["a"],"top_n":0})", "top_n: is 0, must be at least 1"},
      {R"({"query":"q","documents":["a"],"top_n":1.5})", "top_n: must be an integer, 0 or more"},
      {R"({"query":"q","documents":["a"],"model":5})", "model: must be a string"},
      {R"({"query":"q","documents":["a"],"rank_fields":["title"]})", "rank_fields: can only name the field text"},
      {R"({"query":"q","documents":["a"],"rank_fields":"text"})", "rank_fields: must be an array of strings"},
      {R"({"query":"q","documents":["a"],"return_documents":1})", "return_documents: must be a bool"},
      {R"({"query":"q","documents":["a"],"max_tokens_per_doc":100})",
       "max_tokens_per_doc: 100, must be at least 512: texts are cut at the model's own limit alone"},
      {R"({"query":"q","documents":["a"],"priority":0})", "priority: must be low, normal or high"},
      {R"({"query":"q","documents":["a"],"topn":1})", ": 'topn' is not a field of this request"},
  };
  check_wrong(reader, cases);
  w.segment.route(0).dimensions = 3;
  CHECK_EQ(error_of(reader, R"({"query":"q","documents":["a"]})"),
           ": the model '' is not a re-ranker model: it has 3 labels, and a re-ranker has 1");
}

TEST(damaged_bodies_are_read_or_refused) {
  World w;
  DocumentsReader reader(*w.routes, kItemsMax);
  damage(reader, R"({"query":"q","documents":["a\ud83d\ude00",{"text":"b"}],"top_n":2,"return_documents":true})");
}

TEST(answers) {
  const LabelView low[] = {{"", 0.25f, 0}}, high[] = {{"", 0.75f, 0}};
  const Usage usage{.input_tokens = 3};
  ResponseView items[3];
  for (ResponseView& item : items) item.output = Output::kClassification, item.usage = &usage;
  items[0].labels = low, items[1].labels = items[2].labels = high;
  AnswerHead head{.version = '2', .id = {"7f"}};
  CHECK_EQ(answered(kDocumentsWriter, {std::string(bytes_of(head)) + '\0', "m@1"}, items),
           R"({"id":"7f","model":"m","results":[{"index":1,"relevance_score":0.75},)"
           R"({"index":2,"relevance_score":0.75},{"index":0,"relevance_score":0.25}],)"
           R"("usage":{"prompt_tokens":9,"total_tokens":9},)"
           R"("meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1}}})");
  head = {.results_max = 2, .id = {"8"}};
  std::string context(bytes_of(head));
  context += char(RankContext::kReturnText);
  for (const char* text : {"a", "\"", ""}) RankContext::add_text(context, text);
  CHECK_EQ(answered(kDocumentsWriter, {context, "m@1"}, items),
           R"({"id":"8","model":"m","results":[{"index":1,"relevance_score":0.75,"document":{"text":"\""}},)"
           R"({"index":2,"relevance_score":0.75,"document":{"text":""}}],)"
           R"("usage":{"prompt_tokens":9,"total_tokens":9},)"
           R"("meta":{"api_version":{"version":"1"},"billed_units":{"search_units":1}}})");
}

TEST(errors) {
  HttpErrorBody body{429, ContentType::kJson, {}};
  write_rerank_error({StatusCode::kResourceExhausted, "a \"b\"", {}}, body);
  CHECK_EQ(body.text, R"({"message":"a \"b\"","detail":"a \"b\""})");
  CHECK_EQ(body.status, 429);
}

TEST(texts_to_embed) {
  World w;
  w.segment.route(0).task = Task::kEmbed;
  w.segment.route(0).max_input_tokens = 256;
  w.routes->setup(0).card.prompts = {{"Query", "q: "}, {"passage", "p: "}};
  EmbedTextsReader reader(*w.routes, kItemsMax);
  const struct {
    std::string_view fields, prompt;
  } types[] = {{R"("input_type":"search_query")", "Query"},
               {R"("input_type":"search_document","truncate":"END","model":"","output_dimension":3)", "passage"},
               {R"("input_type":"clustering","embedding_types":["float","ubinary"],"max_tokens":256)", ""},
               {R"("input_type":null,"priority":"high","timeout":2)", ""}};
  for (const auto& [fields, prompt] : types) {
    CHECK_EQ(error_of(reader, R"({"texts":["a","b"],)" + std::string(fields) + "}"), "");
    CHECK_EQ(item_of(reader, 1).prompt_name, prompt);
    CHECK(item_of(reader, 1).text == "b" && w.routes->cuts(item_of(reader).truncation));
  }
  const Wrong cases[] = {
      {"{}", "texts: must be given"},
      {R"({"texts":[]})", "texts: 0 texts, at least 1"},
      {R"({"texts":["a"],"max_tokens":255})",
       "max_tokens: 255, must be at least 256: texts are cut at the model's own limit alone"},
      {R"({"texts":["a"],"input_type":"image"})",
       "input_type: must be search_document, search_query, classification or clustering"},
      {R"({"texts":["a"],"embedding_types":["int4"]})",
       "embedding_types: must be an array of float, int8, uint8, binary, ubinary or base64"},
      {R"({"texts":["a"],"truncate":"LEFT"})", "truncate: must be NONE, START or END"},
      {R"({"texts":["a"],"images":["b"]})", "images: is not served: send texts"},
      {R"({"texts":["a"],"text":1})", ": 'text' is not a field of this request"},
  };
  check_wrong(reader, cases);
  CHECK_EQ(error_of(reader, R"({"texts":["a"],"truncate":"START"})"), "");
  RequestView view;
  CHECK_EQ(kEmbedTextsFields.of(reader.item(0, view).field), "truncate");  // the model cuts on the right
  const float values[] = {1, -1, 0.25f};
  ResponseView item;
  item.embedding.values = values;
  AnswerHead head;
  head.forms = 0b101010;  // int8, binary, base64
  std::string context(bytes_of(head));
  RankContext::append(context, true, std::vector<std::string_view>{"a\""});
  CHECK_EQ(answered(kEmbedTextsWriter, {context, "m@1"}, {&item, 1}),
           R"({"id":"","response_type":"embeddings_by_type","embeddings":{"int8":[[127,-127,32]],"binary":[[32]],)"
           R"("base64":["AACAPwAAgL8AAIA+"]},"texts":["a\""],"meta":{"api_version":{"version":"1"},)"
           R"("billed_units":{"input_tokens":0}}})");
}
