// Bodies of JSON that are made at random or damaged, to every reader of JSON: what it takes has valid texts and no more
// items than it may have.
#include <memory>

#include "protocols/cohere/embed.h"
#include "protocols/ollama/embed.h"
#include "protocols/openai/openai.h"
#include "protocols/rerank/rerank.h"
#include "protocols/tei/http.h"
#include "protocols/tei/instances.h"
#include "protocols/vllm/pooling.h"
#include "tests/fuzz/fuzz.h"
#include "tests/service/reader_world.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

constexpr u32 kItemsMax = 4;
const std::vector<std::string> kNames = {"\"inputs\"",
                                         "\"input\"",
                                         "\"prompt\"",
                                         "\"query\"",
                                         "\"texts\"",
                                         "\"documents\"",
                                         "\"text\"",
                                         "\"sentences\"",
                                         "\"source_sentence\"",
                                         "\"parameters\"",
                                         "\"truncate\"",
                                         "\"normalize\"",
                                         "\"dimensions\"",
                                         "\"timeout\"",
                                         "\"priority\"",
                                         "\"raw_scores\"",
                                         "\"stop\"",
                                         "\"stream\"",
                                         "\"top_n\"",
                                         "\"model\"",
                                         "\"logprobs\"",
                                         "\"seed\"",
                                         "\"logit_bias\"",
                                         "\"return_text\"",
                                         "\"return_documents\"",
                                         "\"unknown\"",
                                         "\"\\u0069nput\"",
                                         "\"input_type\"",
                                         "\"embedding_types\"",
                                         "\"queries\"",
                                         "\"task\"",
                                         "\"request_id\"",
                                         "\"truncate_prompt_tokens\"",
                                         "\"aggregation_strategy\"",
                                         "\"instances\""};
const std::vector<std::string> kScalars = {"null",
                                           "true",
                                           "false",
                                           "0",
                                           "-1",
                                           "7",
                                           "4294967296",
                                           "18446744073709551615",
                                           "-9223372036854775808",
                                           "1.5e0",
                                           "1e-400",
                                           "\"\"",
                                           "\"a text\"",
                                           "\"\\ud83d\\ude00\\n\"",
                                           "\"\\u0000\"",
                                           "\"high\"",
                                           "\"base64\"",
                                           "\"Z\xc3\xbcrich\"",
                                           "\"Left\""};

// A value of JSON; `left`: how deep it may still be.
std::string value(fuzz::Random& random, u32 left) {
  const u64 kind = random.below(left ? 6 : 4);
  if (kind < 4) return random.of(kScalars);
  const bool object = kind == 4;
  std::string out(1, object ? '{' : '[');
  for (u64 n = random.below(6), i = 0; i < n; i++) {
    if (i) out += ',';
    if (object) out += random.of(kNames) + ':';
    out += value(random, left - 1);
  }
  return out + (object ? '}' : ']');
}

std::string body(fuzz::Random& random) {
  static const std::vector<std::string> kWhole = {
      R"({"inputs":["a",[7,8]],"truncate":true,"dimensions":3})",
      R"({"inputs":{"source_sentence":"s","sentences":["a","b"]},"parameters":{"truncate":true}})",
      R"({"inputs":[["a"],["b","c"]],"raw_scores":true})",
      R"({"query":"q","texts":["a",""],"return_text":true})",
      R"({"model":"","query":"q","documents":["a",{"text":"b"}],"top_n":1,"return_documents":true})",
      R"({"input":["a","b"],"encoding_format":"base64","timeout":1})",
      R"({"input":"a","embedding_type":"ubinary","task":"separation","late_chunking":false,"output_dimension":3})",
      R"({"texts":["a","b"],"embedding_types":["int8"],"input_type":"search_query","truncate":"END"})",
      R"({"input":["a",[7]],"task":"embed","truncate_prompt_tokens":-1,"use_activation":true,"request_id":"\n"})",
      R"({"queries":["p","q"],"documents":["a","b"],"use_activation":false})",
      R"({"inputs":["a","b"],"parameters":{"aggregation_strategy":"first"}})",
      R"({"instances":[{"inputs":["a",[7]]},"b"],"parameters":{"truncate":true}})",
      R"({"instances":[{"inputs":"a"},{"inputs":[["a"],["b","c"]]}]})",
      R"({"prompt":"a","stop":["x"],"stream":true,"stream_options":{"include_usage":true},"logprobs":1})"};
  if (random.one_in(2)) return fuzz::mutated(random, random.of(kWhole));
  std::string out = "{";
  for (u64 n = random.below(6), i = 0; i < n; i++) out += (i ? "," : "") + random.of(kNames) + ":" + value(random, 3);
  out += "}";
  return random.one_in(4) ? fuzz::mutated(random, out) : out;
}

struct Readers {
  test::World embeds, classifies, finds;
  EmbeddingsReader embeddings{*embeds.routes, kItemsMax};
  CompletionsReader completions{kItemsMax};
  std::unique_ptr<EmbedJsonReader> embed;
  std::unique_ptr<SimilarityReader> similarity;
  PredictJsonReader predict{*classifies.routes, kItemsMax};
  RerankJsonReader rerank{*classifies.routes, kItemsMax};
  DocumentsReader documents{*classifies.routes, kItemsMax};
  std::unique_ptr<EmbedTextsReader> texts;
  PoolingReader labels{*classifies.routes, kItemsMax, &kPoolingTasks[2]}, pooling{*embeds.routes, kItemsMax};
  ScoreReader score{*embeds.routes, kItemsMax};
  EntitiesReader entities{*finds.routes, kItemsMax};
  std::unique_ptr<OllamaReader> ollama;
  std::unique_ptr<InstancesReader> embed_instances;
  InstancesReader predict_instances{predict, kItemsMax};
  EitherReader either{"documents", {documents, {kDocumentsWriter, kRerank}}, {rerank, {kRerankJsonWriter, kTeiRerank}}};
  std::vector<RequestReader*> all;

  Readers() {
    embeds.segment.route(0).task = Task::kEmbed;
    finds.segment.route(0).task = Task::kClassifyTokens;
    embed = std::make_unique<EmbedJsonReader>(*embeds.routes, kItemsMax);
    similarity = std::make_unique<SimilarityReader>(*embeds.routes, kItemsMax);
    texts = std::make_unique<EmbedTextsReader>(*embeds.routes, kItemsMax);
    ollama = std::make_unique<OllamaReader>(*embeds.routes, kItemsMax);
    embed_instances = std::make_unique<InstancesReader>(*embed, kItemsMax);
    all = {&embeddings, &completions, embed.get(),           similarity.get(),   &predict, &rerank,  &documents,
           texts.get(), ollama.get(), embed_instances.get(), &predict_instances, &labels,  &pooling, &score,
           &entities,   &either};
  }
};

void run(fuzz::Random& random) {
  static Readers readers;
  const std::string text = body(random);
  for (RequestReader* reader : readers.all) {
    u32 items;
    if (test::read(*reader, text, items)) continue;
    CHECK(items <= kItemsMax && reader->items() <= kItemsMax);
    CHECK(std::string(reader->context()).size() <= text.size() + 1024);
  }
}

}  // namespace

int main(int argc, char** argv) { return fuzz::run_all(argc, argv, run); }
