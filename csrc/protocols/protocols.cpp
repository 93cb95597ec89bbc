#include "protocols/protocols.h"

#include "protocols/cohere/embed.h"
#include "protocols/oip/generate.h"
#include "protocols/oip/open_inference.h"
#include "protocols/ollama/embed.h"
#include "protocols/openai/chat.h"
#include "protocols/openai/openai.h"
#include "protocols/rerank/rerank.h"
#include "protocols/step/step_service.h"
#include "protocols/tei/grpc.h"
#include "protocols/tei/http.h"
#include "protocols/tei/instances.h"
#include "protocols/vllm/pooling.h"

namespace fastqps::protocols {

namespace {

using service::GroupKind;

// Metadata, readiness and statistics are rare calls (fastqps/frontdoor/open_inference.py).
void add_open_inference(Methods& m) {
  const u32 items_max = m.path.items_max;
  m.unary("/inference.GRPCInferenceService/ModelInfer", m.make<InferReader>(m.routes, items_max, false), kInferWriter,
          kModelInfer);
  m.stream("/inference.GRPCInferenceService/ModelStreamInfer", m.make<InferReader>(m.routes, items_max, true),
           kInferStreamWriter, kModelStreamInfer, GroupKind::kRequests);
  auto& infer = m.items(m.make<HttpInferReader>(m.routes, items_max), kHttpInferWriter, kModelInfer);
  for (const char* path : {"/v2/models/{model}/infer", "/v2/models/{model}/versions/{version}/infer"})
    m.post(path, infer, kModelInfer);
  auto& whole = m.items(m.make<GenerateReader>(m.routes, items_max, false), kGenerateWriter, kModelInfer);
  auto& pieces = m.items(m.make<GenerateReader>(m.routes, items_max, true), kGenerateWriter, kModelStreamInfer);
  for (const char* path : {"/v2/models/{model}/generate", "/v2/models/{model}/versions/{version}/generate"})
    m.post(path, whole, kModelInfer);
  for (const char* path :
       {"/v2/models/{model}/generate_stream", "/v2/models/{model}/versions/{version}/generate_stream"})
    m.post(path, pieces, kModelStreamInfer);
}

void add_cohere(Methods& m) {
  auto& embed = m.items(m.make<EmbedTextsReader>(m.routes, m.path.items_max), kEmbedTextsWriter, kEmbeddings);
  for (const char* path : {"/v1/embed", "/v2/embed"}) m.post(path, embed, kEmbeddings, write_rerank_error);
}

// /api/tags and others are rows of kElsewhere.
void add_ollama(Methods& m) {
  m.post("/api/embed", m.items(m.make<OllamaReader>(m.routes, m.path.items_max), kOllamaEmbedWriter, kEmbeddings),
         kEmbeddings);
  m.post("/api/embeddings", m.items(m.make<OllamaReader>(m.routes), kOllamaPromptWriter, kEmbeddings), kEmbeddings);
}

void add_rerank(Methods& m) {
  auto& rerank = m.items(m.make<DocumentsReader>(m.routes, m.path.items_max), kDocumentsWriter, kRerank);
  for (const char* path : {"/v1/rerank", "/v2/rerank", "/openai/v1/rerank"})
    m.post(path, rerank, kRerank, write_rerank_error);
}

// GET /v1/models is a rare route (fastqps/frontdoor/rare_routes.py). /openai: as KServe's runtimes have these routes.
void add_openai(Methods& m) {
  auto& embeddings = m.items(m.make<EmbeddingsReader>(m.routes, m.path.items_max), kEmbeddingsWriter, kEmbeddings);
  for (const char* path : {"/v1/embeddings", "/openai/v1/embeddings", "/embeddings"})  // the last: as TEI has it
    m.post(path, embeddings, kEmbeddings, write_openai_error);
  auto& completions = m.items(m.make<CompletionsReader>(m.path.items_max), kCompletionsWriter, kCompletions);
  for (const char* path : {"/v1/completions", "/openai/v1/completions"})
    m.post(path, completions, kCompletions, write_openai_error);
  auto& chat = m.items(m.make<ChatReader>(m.path.items_max), kCompletionsWriter, kChatCompletions);
  for (const char* path : {"/v1/chat/completions", "/openai/v1/chat/completions"})
    m.post(path, chat, kChatCompletions, write_openai_error);
}

void add_vllm(Methods& m) {
  const auto post = [&](std::initializer_list<const char*> paths, service::RequestReader& reader,
                        const service::AnswerWriter& writer, Rpc rpc) {
    auto& method = m.items(reader, writer, rpc);
    for (const char* path : paths) m.post(path, method, rpc, write_openai_error);
  };
  const u32 items_max = m.path.items_max;
  const PoolingTask* classify = std::ranges::find(kPoolingTasks, Task::kClassify, &PoolingTask::task);
  post({"/classify"}, m.make<PoolingReader>(m.routes, items_max, classify), kClassifyWriter, kClassify);
  post({"/pooling"}, m.make<PoolingReader>(m.routes, items_max), kPoolingWriter, kPooling);
  post({"/score", "/v1/score"}, m.make<ScoreReader>(m.routes, items_max), kScoreWriter, kScore);
}

// What reads one request of each kind that Vertex AI can send several of.
struct ItemReaders {
  EmbedJsonReader &embed, &sparse;
  PredictJsonReader& predict;
  EntitiesReader& entities;
  RerankJsonReader& rerank;
};

// Info and Tokenize are rare calls (fastqps/frontdoor/text_embeddings.py).
void add_tei_rpcs(Methods& m) {
  auto &embed = m.make<EmbedReader>(m.routes), &sparse = m.make<EmbedReader>(m.routes, Task::kEmbedSparse),
       &all = m.make<EmbedReader>(m.routes, Task::kEmbedMulti);
  auto &predict = m.make<PredictReader>(m.routes, false), &pair = m.make<PredictReader>(m.routes, true);
  m.unary("/tei.v1.Embed/Embed", embed, kEmbedWriter, kTeiEmbed);
  m.stream("/tei.v1.Embed/EmbedStream", embed, kEmbedWriter, kTeiEmbed, GroupKind::kInOrder);
  m.unary("/tei.v1.Embed/EmbedSparse", sparse, kSparseWriter, kTeiEmbed);
  m.stream("/tei.v1.Embed/EmbedSparseStream", sparse, kSparseWriter, kTeiEmbed, GroupKind::kInOrder);
  m.unary("/tei.v1.Embed/EmbedAll", all, kTokenVectorsWriter, kTeiEmbed);
  m.stream("/tei.v1.Embed/EmbedAllStream", all, kTokenVectorsWriter, kTeiEmbed, GroupKind::kInOrder);
  m.unary("/tei.v1.Predict/Predict", predict, kPredictWriter, kTeiPredict);
  m.unary("/tei.v1.Predict/PredictPair", pair, kPredictWriter, kTeiPredict);
  m.stream("/tei.v1.Predict/PredictStream", predict, kPredictWriter, kTeiPredict, GroupKind::kInOrder);
  m.stream("/tei.v1.Predict/PredictPairStream", pair, kPredictWriter, kTeiPredict, GroupKind::kInOrder);
  m.unary("/tei.v1.Rerank/Rerank", m.make<RerankReader>(m.routes, m.path.items_max), kRerankWriter, kTeiRerank);
  m.stream("/tei.v1.Rerank/RerankStream", m.make<RerankStreamReader>(m.routes), kRerankWriter, kTeiRerank,
           GroupKind::kGathered);
}

// Bodies of Vertex AI, for what the default model can: instances of one of the routes.
JsonFormat vertex_format(Methods& m, const ItemReaders& read) {
  const auto instances = [&](TeiJsonReader& one, const service::AnswerWriter& writer, Rpc rpc) {
    return JsonFormat{m.make<InstancesReader>(one, m.path.items_max), {m.make<InstancesWriter>(writer), rpc}};
  };
  const JsonFormat embed = instances(read.embed, kEmbedJsonWriter, kTeiEmbed);
  const DefaultReader::Choices choices{embed,
                                       instances(read.sparse, kSparseJsonWriter, kTeiEmbed),
                                       embed,  // a similarity has no instances
                                       instances(read.predict, kPredictJsonWriter, kTeiPredict),
                                       instances(read.entities, kEntitiesWriter, kTeiPredict),
                                       instances(read.rerank, kRerankJsonWriter, kTeiRerank)};
  return {m.make<DefaultReader>(m.routes, choices), {embed.answering.writer, kOther}};
}

// /info, /tokenize and /decode are rare routes (fastqps/frontdoor/text_embeddings_http.py).
void add_tei_routes(Methods& m) {
  const u32 items_max = m.path.items_max;
  const ItemReaders read{m.make<EmbedJsonReader>(m.routes, items_max),
                         m.make<EmbedJsonReader>(m.routes, items_max, Task::kEmbedSparse),
                         m.make<PredictJsonReader>(m.routes, items_max), m.make<EntitiesReader>(m.routes, items_max),
                         m.make<RerankJsonReader>(m.routes, items_max)};
  const JsonFormat vertex = vertex_format(m, read);
  const auto post = [&](const char* path, const JsonFormat& format) {
    const auto& [writer, rpc] = format.answering;
    const bool both = path == m.settings.predict_route;  // which Vertex AI calls, too
    JsonReader& reader = both ? m.make<EitherReader>("instances", vertex, format) : format.reader;
    m.post(path, m.items(reader, writer, rpc), rpc, write_tei_error);
  };
  const JsonFormat embed{read.embed, {kEmbedJsonWriter, kTeiEmbed}},
      sparse{read.sparse, {kSparseJsonWriter, kTeiEmbed}},
      similarity{m.make<SimilarityReader>(m.routes, items_max), {kSimilarityWriter, kTeiEmbed}},
      predict{read.predict, {kPredictJsonWriter, kTeiPredict}}, entities{read.entities, {kEntitiesWriter, kTeiPredict}};
  const JsonFormat texts{read.rerank, {kRerankJsonWriter, kTeiRerank}},
      documents{m.make<DocumentsReader>(m.routes, items_max), {kDocumentsWriter, kRerank}},
      rerank{m.make<EitherReader>("documents", documents, texts), texts.answering};  // as /v1/rerank has them
  const DefaultReader::Choices choices{embed, sparse, similarity, predict, entities, rerank};
  const JsonFormat by_model{m.make<DefaultReader>(m.routes, choices), {kEmbedJsonWriter, kOther}};
  post("/embed", embed);
  post("/similarity", similarity);
  post("/predict", predict);
  post("/entities", entities);  // no route of TEI's, which has no such models
  post("/rerank", rerank);
  post("/", by_model);
  post("/invocations", by_model);  // SageMaker's name of it
  post("/embed_sparse", sparse);
  post("/embed_all",
       {m.make<EmbedJsonReader>(m.routes, items_max, Task::kEmbedMulti), {kTokenVectorsJsonWriter, kTeiEmbed}});
  post(kVertexPath, vertex);
}

void add_tei(Methods& m) {
  add_tei_rpcs(m);
  add_tei_routes(m);
}

void add_steps(Methods& m) {
  m.stream(edge::kStepRunPath, m.make<StepMethod>(m.path, m.routes, m.memory, m.version), kSteps);
}

struct ProtocolRow {
  std::string_view name;
  void (*add)(Methods&);
  transport::ErrorWriter errors = transport::write_error_text;
};
constexpr ProtocolRow kProtocols[] = {{"oip", add_open_inference},
                                      {"rerank", add_rerank, write_rerank_error},
                                      {"cohere", add_cohere, write_rerank_error},
                                      {"ollama", add_ollama},
                                      {"openai", add_openai, write_openai_error},
                                      {"vllm", add_vllm, write_openai_error},
                                      {"tei", add_tei, write_tei_error},
                                      {"step", add_steps}};

// Routes of other servers that do not exist here, and what answers instead.
struct Elsewhere {
  const char *path, *instead;
};
constexpr const char *kGenerates = "POST /v1/completions generates", *kLists = "GET /v1/models lists the models",
                     *kEmbeds = "POST /v1/embeddings embeds", *kSays = "GET /version says the version",
                     *kHealthy = "GET /health says whether it serves",
                     *kChats = "POST /v1/chat/completions answers messages";
constexpr Elsewhere kElsewhere[] = {{"/api/generate", kGenerates},
                                    {"/api/chat", kChats},
                                    {"/api/tags", kLists},
                                    {"/api/ps", kLists},
                                    {"/api/show", kLists},
                                    {"/api/version", kSays},
                                    {"/v1/responses", kChats},
                                    {"/chat/completions", kChats},
                                    {"/v1/messages", kChats},
                                    {"/completions", kGenerates},
                                    {"/completion", kGenerates},
                                    {"/generate", kGenerates},
                                    {"/generate_stream", kGenerates},
                                    {"/embedding", kEmbeds},
                                    {"/encode", kEmbeds},
                                    {"/models", kLists},
                                    {"/healthz", kHealthy},
                                    {"/v1/health", kHealthy}};

}  // namespace

void Methods::add_all() {
  for (const ProtocolRow& row : kProtocols) row.add(*this);
  for (const Elsewhere& row : kElsewhere) service_.add_elsewhere(row.path, row.instead);
}

transport::ErrorWriter errors_of(std::string_view protocol) {
  for (const ProtocolRow& row : kProtocols)
    if (row.name == protocol) return row.errors;
  return transport::write_error_text;
}

}  // namespace fastqps::protocols
