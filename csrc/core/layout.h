// The shared segment, byte by byte: what is where, who writes each field, and what a crash leaves behind.
// docs/shared-memory.md is the prose of this file; csrc/model holds the checked models of the protocol that runs over
// it.
//
//   Header | Model × models | Route × routes | SupervisorLine | LoadLine | DoorLine × doors
//   | DispatcherLine × dispatchers | DeviceLine × devices | DoorRoute [door][route]
//   | request rings [door][route][class] | output rings [dispatcher][door] | control rings [door][dispatcher]
//   | Stats × (doors + dispatchers) | TenantTable × doors | UpstreamTable × dispatchers of an edge
//   | busy rings [dispatcher] | trace rings [door] | cards [route] | slots [door][slot, then canary slot of each
//   dispatcher] | large answers [door]
//
// Rules: offsets, never pointers; trivially copyable data only; every word has one writer, or is changed by
// compare-and-swap as a whole; no process ever waits for another that may be dead.
//
// Writers, in brackets behind each field: D the front door that owns it, d the dispatcher that owns it, S the
// supervisor (of a dead process's words only after waitid has reaped it). A crash leaves: of D, slots in any state and
// rings with old entries (its next incarnation adopts and consumes them); of d, CLAIMED and LAUNCHED slots (each door
// settles its own once the death is published) and DONE slots without a hint (found by the same settling); of S,
// nothing: every child dies with it.
#pragma once
#include "core/histogram.h"
#include "core/tenant_table.h"
#include "core/types.h"
#include "core/upstream_table.h"
#include "core/word.h"

namespace fastqps {

inline constexpr u64 kMagic = 0x0053505154534146;  // "FASTQPS\0", little-endian
inline constexpr u32 kFormat = 16;                 // grows with every change of this file

inline constexpr u32 kDoorsMax = 32;
inline constexpr u32 kDispatchersMax = 64;  // one bit each in Route::dispatchers
inline constexpr u32 kModelsMax = 16;
inline constexpr u32 kDevicesMax = 64;
inline constexpr u32 kGenerations = 2;  // of one model: the one that serves and the one that is warming or draining
inline constexpr u32 kNameBytes = 64;
inline constexpr u32 kCardBytes = 256 << 10;
inline constexpr u32 kControlEntries = 1024;
inline constexpr u32 kPoisonEntries = 32;
inline constexpr u32 kBusyEntries = 4096;  // at 10,000 steps a second, what the supervisor must read every 0.4 s

// Request rings: three priorities and the suspects (requests whose dispatcher died twice), which run alone.
enum Class : u32 { kHigh = 0, kNormal = 1, kLow = 2, kSuspect = 3, kClasses = 4 };
inline constexpr u32 kPriorities = kSuspect;
inline constexpr const char* kPriorityNames[kPriorities] = {"high", "normal", "low"};
inline constexpr const char* kClassNames[kClasses] = {"high", "normal", "low", "suspect"};

// The stages of a request, the same words everywhere.
enum Stage : u32 {
  kReceive = 0,
  kParse,
  kTokenize,
  kQueue,
  kGather,
  kLaunch,
  kDevice,
  kScatter,
  kDrain,
  kSend,
  kStages
};
inline constexpr const char* kStageNames[kStages] = {"receive", "parse",  "tokenize", "queue", "gather",
                                                     "launch",  "device", "scatter",  "drain", "send"};

enum class Task : u32 {
  kEmbed = 0,
  kClassify = 1,
  kGenerate = 2,
  kClassifyTokens = 3,
  kEmbedSparse = 4,
  kEmbedMulti = 5
};
// Whether a device puts out a row for each token of a request, not one for the whole.
constexpr bool rows_by_token(Task task) { return task == Task::kClassifyTokens || task == Task::kEmbedMulti; }
enum class Activation : u32 { kIdentity = 0, kSoftmax = 1, kSigmoid = 2 };

// All sizes of a segment, and what else is settled with it. Everything else follows from these.
struct Sizes {
  u32 doors = 1;
  u32 dispatchers = 1;
  u32 models = 1;
  u32 devices = 1;
  u32 slots = 8192;      // per front door, a power of two
  u32 max_tokens = 512;  // ids that fit into a slot
  // Room for an answer in every slot: 4 × dimensions for an embedding, 8 × weights + 4 for a sparse one, 8 × labels for
  // a classifier, 8 × tokens for a generator. Answers whose length depends on the input may need more. Those that do
  // take a large answer each.
  u64 answer_bytes = 0;
  u64 large_answers = 0;  // per front door
  u64 large_answer_bytes = 0;
  // Parts of the tokens that go to the classes in which requests wait. Suspects have none: they run alone.
  u32 class_weights[kClasses] = {16, 4, 1, 0};
  // Of an edge, whose dispatchers send their steps to other servers; else 0.
  u32 caller_bytes = 0;  // room in every slot for the names of its tenant and group: sizeof(CallerNames)
  u32 upstreams = 0;     // 1: each dispatcher has an UpstreamTable
  u32 routes() const { return models * kGenerations; }
  // Of a front door: those of requests, and behind them one for a canary of each dispatcher.
  u32 all_slots() const { return slots + dispatchers; }
  bool is_canary(u32 slot) const { return slot >= slots; }
};

struct Header {
  u64 magic;
  u32 format;
  u32 header_bytes;
  u64 layout_hash;  // of every struct's size and every offset: a stale extension beside a newer one is refused
  u64 boot_id[2];   // random, made with the segment
  u64 total_bytes;
  Sizes sizes;
  u64 models, routes, supervisor, load, door_lines, dispatcher_lines, device_lines;  // offsets from the segment's start
  u64 door_routes;
  u64 request_rings, output_rings, control_rings, stats, tenant_tables, upstream_tables, busy_rings, trace_rings;
  u64 cards, slots;
  u64 slot_stride, ids_offset, answer_offset, caller_offset;  // within a slot
  u64 large_answers;                                          // offset from the segment's start
};

struct alignas(64) Model {
  char name[kNameBytes];     // [S], before any route of it serves
  std::atomic<u32> serving;  // [S] which generation answers: route = model * kGenerations + serving
  std::atomic<u32> ready;    // [S] 0 until the first generation serves
};

// One generation of one model: its limits, and how its answers are computed. S writes it while kWarming; then it is
// constant, except for what its first dispatcher chooses before it is ready.
enum class RouteState : u32 { kEmpty = 0, kWarming = 1, kServing = 2, kDraining = 3 };
struct alignas(64) Route {
  std::atomic<RouteState> state;
  std::atomic<u64> dispatchers;  // [S] bit d: dispatcher d serves this route
  u32 generation;                // grows with every reload of the model
  Task task;
  Activation activation;  // classification: turns logits into scores
  u32 normalize;          // embeddings: L2, unless the request says otherwise
  u32 dimensions;         // floats in a row of the device's output: embedding width, or number of labels
  u32 vocab_size;         // ids at or above it are refused
  u32 max_input_tokens;
  u32 max_queue_items;                // limit of waiting items, over all doors
  std::atomic<u32> max_batch_items;   // [S, or D once before it is ready] 0: its dispatchers have not chosen it yet
  std::atomic<u32> max_batch_tokens;  // [as max_batch_items]
  u64 max_batch_delay_ns;
  u32 position_offset;           // position id of a first token; RoBERTa: padding id + 1, and padding is not counted
  u32 pair_type_id;              // token type of a pair's second text
  u32 max_output_tokens;         // generators: room for them in a slot's answer
  u32 prefix_tokens;             // generators: ids in front of every prompt, kept in no slot
  std::atomic<u32> cache_slots;  // [as max_batch_items] generators: sequences that one dispatcher can run
  u32 card_bytes;
  char version[16];  // 12 hex digits
};

// kLameDuck: the server serves as before but reports not ready, so that clients leave before it refuses them.
enum class Phase : u32 { kStarting = 0, kServing = 1, kLameDuck = 2, kDraining = 3, kStopping = 4 };
struct alignas(64) SupervisorLine {
  std::atomic<u32> deaths;   // [S] grows at every published death of a dispatcher; doors settle when it changes
  std::atomic<Phase> phase;  // [S]
  std::atomic<u64> drain_deadline_ns;  // [S]
  std::atomic<u32> flips;              // [S] grows whenever another generation of a model begins to serve
  std::atomic<u64> poison_until_ns;    // [D, by compare-and-swap] end of the doors' last PoisonMark; 0: none
};

// The load of the whole server, for load reports. Written ten times a second. Each value is read whole, and none is
// older than updated_ns.
struct alignas(64) LoadLine {
  std::atomic<double> utilization;         // [S] of the server's capacity, mean of 10 s; above 1 beyond it
  std::atomic<double> cpu_utilization;     // [S] of the server's CPUs, 0 to 1
  std::atomic<double> memory_utilization;  // [S] of the container's or the machine's memory, 0 to 1
  std::atomic<double> requests_per_second, errors_per_second;  // [S] items; errors that are not the clients' fault
  std::atomic<double> queue_wait_s;                            // [S] p95 of the last 10 s
  std::atomic<double> items_waiting, items_running;            // [S] now
  std::atomic<u64> updated_ns;                                 // [S] stored last, with release; 0: never written
};
static_assert(std::atomic<double>::is_always_lock_free);

// A process's sleep word: sleeps so far << 2 | mode. Only the sleeper changes it (S once the process is reaped).
enum Mode : u64 { kBusy = 0, kHungry = 1, kAsleep = 2 };

struct alignas(64) PoisonMark {
  std::atomic<u64> fingerprint, until_ns;
};

// Processes of a front door whose tokenizers are not native: one that loads them, and one for each lane of texts.
inline constexpr u32 kTokenizerProcesses = 3;

struct alignas(64) DoorLine {
  std::atomic<u64> sleep;                     // [D]
  alignas(64) std::atomic<u64> heartbeat_ns;  // [D] its heartbeat thread
  std::atomic<u32> connections;               // [D] open now; S sets 0 when it is dead
  std::atomic<u32> live;                      // [S] 1 from start to reaping
  std::atomic<u32> ready;                     // [D] serves
  std::atomic<u32> slots_used;                // [D]
  std::atomic<u32> running;                   // [D] requests that it has seen claimed by a dispatcher
  std::atomic<u32> pid;                       // [S]
  std::atomic<u64> turn_started_ns;           // [D] start of its loop's turn; 0 while it sleeps. Reveals a hung loop
  std::atomic<u32> flips_seen;  // [D] value of flips; new requests go to the generations that it made serve
  std::atomic<u64> lost_items;  // [D] accepted, ended UNAVAILABLE; S adds those of a dead door. All incarnations
  std::atomic<u32> tokenizers[kTokenizerProcesses];  // [D] their pids; 0: none
  PoisonMark poison[kPoisonEntries];  // [D] fingerprints of requests that killed dispatchers; all doors read them
};

// The state of a route at a front door. S sets all of a dead door's to 0.
struct alignas(64) DoorRoute {
  std::atomic<u32> loaded;   // [D] 1 + the generation whose requests it can take and answer
  std::atomic<u32> refused;  // [D] 1 + the generation whose files it could not use
  std::atomic<u32> held;     // [D] its items of this route, claimed or not. Written while a route is draining
  // [D] by class: items that wait for a place in its ring. A dispatcher that takes entries wakes a door that has any.
  std::atomic<u32> held_back[kPriorities];
};

struct alignas(64) DispatcherLine {
  std::atomic<u64> sleep;                     // [d]
  alignas(64) std::atomic<u32> dead_epoch;    // [S] incarnations up to this one are dead and reaped
  std::atomic<u32> epoch;                     // [S] the incarnation that runs, set before it starts
  std::atomic<u32> route;                     // [S]
  std::atomic<u32> pid;                       // [S]
  std::atomic<u32> device;                    // [S] index of the device that it runs on
  alignas(64) std::atomic<u64> heartbeat_ns;  // [d] its heartbeat thread
  std::atomic<u64> step_started_ns;           // [d] oldest step on the device; 0: none
  std::atomic<u32> ready;                     // [d] has run a real batch
  std::atomic<u64> items_done;                // [d] all incarnations; doors take the completion rate from it
  std::atomic<u64> step_usual_ns;             // [d] moving average, from claim to answer
  std::atomic<u32> running;                   // [d] sequences that generate now
  std::atomic<u64> steps_done;                // [d] all incarnations, with canaries; growth is forward progress
  std::atomic<u64> canary_ns;                 // [d] how long its newest canary took, from claim to answer
};

// The state of a device that its dispatchers share.
struct alignas(64) DeviceLine {
  std::atomic<u64> sim_until_ns;  // [d, by compare-and-swap] a modelled device's work is reserved up to here
};

// The newest intervals in which a dispatcher's device ran a step. The supervisor computes their union over dispatchers.
struct alignas(64) BusyRing {
  std::atomic<u64> count;  // [d] entries written so far
  struct Entry {
    std::atomic<u64> start_ns, end_ns;
  };
  alignas(64) Entry entry[kBusyEntries];  // [d] entry i at i % kBusyEntries, before the count says so
};

// A traced call that has ended, or an item of a call with many. The supervisor turns records into spans.
inline constexpr u32 kTraceEntries = 128;  // read five times a second; records without room are dropped and counted
inline constexpr u32 kTraceStateBytes = 256;
inline constexpr u16 kTraceUnknown = 0xffff;
enum class TraceKind : u8 { kCall = 0, kItem = 1 };
struct TraceRecord {
  u8 trace_id[16];
  u8 parent_id[8];  // of the client's span, or of the call that this is an item of; all 0: of none
  u8 span_id[8];
  u64 at_ns[kStages + 1];  // stage k from at_ns[k] to at_ns[k + 1]; 0: it was not reached
  u32 items;               // of a call
  u32 input_tokens, output_tokens;
  u32 batch_items;        // how many shared its batch; 0: not known
  u16 model, dispatcher;  // kTraceUnknown: none
  TraceKind kind;
  u8 method;  // Rpc
  u8 code;    // gRPC's
  u16 state_bytes;
  char state[kTraceStateBytes];  // the client's tracestate
};

// The records of one front door, on their way to the supervisor.
struct alignas(64) TraceRing {
  std::atomic<u64> tail;              // [D]
  std::atomic<u64> dropped_spans;     // [D] all incarnations
  alignas(64) std::atomic<u64> head;  // [S]
  TraceRecord record[kTraceEntries];  // [D] record i at i % kTraceEntries, before the tail says so
};

// Rings have positions of 64 bits that never wrap, and 2 × slots entries.
struct alignas(64) RingLine {
  std::atomic<u64> tail;              // producer
  alignas(64) std::atomic<u64> head;  // consumer; of a request ring by compare-and-swap
  alignas(64) std::atomic<u64> entry[1];
};

// Options of a request's answer.
enum SlotFlag : u8 {
  kNormalizeSet = 1,
  kNormalize = 2,
  kRawScores = 4,
  kWantTimings = 8,
  kIgnoreEos = 16,
  kLogprobs = 32,
  kProgress = 64,  // the dispatcher leaves a hint for every token, not only for the last
};
// kRefusal: the answer's bytes are why there is none: u32 retry_after_ms, and n_values bytes of UTF-8.
enum class Answer : u8 {
  kNone = 0,
  kFloats = 1,
  kRaw = 2,
  kLabels = 3,
  kTokens = 4,
  kTokenLabels = 5,
  kSparse = 6,
  kRefusal = 7
};
enum class Finish : u8 { kNot = 0, kStop = 1, kLength = 2 };  // why a generation has ended
struct LabelScore {
  u32 index;
  float score;
};

// A sparse embedding in a slot: u32 how many weights the model gives, u32 ids[n_values], float weights[n_values],
// largest weight first, equal ones by id. An output row has room for this many (ModelCard in fastqps/models/card.py).
constexpr u32 sparse_weights(u32 row_width) { return (row_width - 1) / 2; }

// What a token classifier gives a label to: with the first two each token, with the others each word, whose label is
// that of its first token, of its tokens' mean, or of its surest token.
enum class Aggregation : u8 { kNone = 1, kSimple = 2, kFirst = 3, kAverage = 4, kMax = 5 };  // fastqps.v1.Aggregation
constexpr bool labels_words(Aggregation aggregation) { return aggregation >= Aggregation::kFirst; }
// In the ids of a slot whose answer is by token: the token has no answer of its own. It continues a word, or is one of
// those to which the model gives no vector. No vocabulary is so large.
inline constexpr u32 kNoOwnAnswer = u32(1) << 31;

// The bytes of a number of a vector, by its fastqps.v1.DType.
constexpr u64 value_bytes(u8 dtype) { return dtype == 2 ? 2 : dtype == 3 ? 1 : 4; }

// The bytes of an encoder's answer in a slot; 0: there is no such answer.
constexpr u64 answer_bytes(Answer kind, u8 dtype, u64 n_values) {
  switch (kind) {
    case Answer::kFloats:
      return n_values * sizeof(float);
    case Answer::kRaw:
      return n_values * value_bytes(dtype);
    case Answer::kLabels:
    case Answer::kTokenLabels:
      return n_values * sizeof(LabelScore);
    case Answer::kSparse:
      return (1 + 2 * n_values) * sizeof(u32);
    case Answer::kNone:
    case Answer::kTokens:
    case Answer::kRefusal:
      break;
  }
  return 0;
}

// The bytes of the answer to an input of this many tokens, of any model but a generator; `width` of an output row.
constexpr u64 answer_bytes(Task task, u32 width, u32 n_tokens) {
  if (task == Task::kClassifyTokens) return u64(n_tokens) * sizeof(LabelScore);
  if (task == Task::kEmbedMulti) return u64(n_tokens) * width * sizeof(float);
  return u64(width) * (task == Task::kClassify ? sizeof(LabelScore) : sizeof(float));
}

// How a generator chooses a request's tokens. The defaults of the last fields change no logits.
inline constexpr u32 kStopIdsMax = 8;
inline constexpr u32 kSuppressIdsMax = 8;
struct alignas(64) Sampling {
  u64 seed;           // of its random numbers: the same again when the request has to run again
  float temperature;  // 0: greedy
  float top_p;        // in (0, 1]
  u32 top_k;          // 0: all
  u32 max_tokens;     // 1 to Route::max_output_tokens
  u32 n_stop_ids;
  u32 stop_ids[kStopIdsMax];
  float repetition_penalty = 1;  // above 0; 1: off
  u32 no_repeat_ngram_size = 0;  // 0: off
  u32 min_tokens = 0;            // no end-of-text token is chosen before this many tokens of the answer
  u32 min_length = 0;            // the same, for prefix, prompt and answer together
  u32 n_suppress_ids = 0;
  u32 suppress_ids[kSuppressIdsMax] = {};  // never chosen
};
static_assert(sizeof(Sampling) == 128);

// A generator's answer in a slot: u32 ids[max_output_tokens], then float logprobs[max_output_tokens]. While LAUNCHED
// its dispatcher appends tokens and then raises n_made; the front door may read the first n_made. The last token comes
// with DONE and is never counted by n_made.
inline constexpr u32 kTokenBytes = sizeof(u32) + sizeof(float);
//
// A canary is a request of one token that a front door sends to one dispatcher, to check that it makes progress. It
// uses the slot that is reserved for this pair and has no ring entry: an idle dispatcher reads its canary slots.
struct alignas(64) Slot {
  std::atomic<u64> state;      // D: FREE→QUEUED→FREE, requeue, DONE→FREE. d: QUEUED→CLAIMED→LAUNCHED→DONE
  std::atomic<u64> queued_ns;  // D; others use it as a hint (which ring's head is oldest)
  std::atomic<u32> n_tokens;   // D; a hint until claimed, then exact
  u32 first_len;               // D: tokens of the first text; the rest has token type Route::pair_type_id
  u64 deadline_ns;             // D: 0 for none
  u32 dimensions;              // D: 0 for all of them; of a sparse embedding, the most weights
  u16 top_labels;              // D: 0 for all of them
  u8 dtype;                    // D: fastqps.v1.DType
  u8 flags;                    // D: SlotFlag
  u32 strikes;                 // D: deaths of dispatchers that held it: 1 claimed, 2 launched (1 with n_made)
  Aggregation aggregation;     // D: token classifiers only
  u32 large_answer;            // D: 1 + the number of the large answer that it holds; 0: the answer is in the slot

  // The owning dispatcher while CLAIMED or LAUNCHED; the front door reads at DONE, and n_made at any time.
  alignas(64) u16 status;  // gRPC code; 0: the answer follows
  Answer kind;
  u8 answer_dtype;
  u32 n_values;                                                         // floats, raw elements, labels, or tokens
  u64 claimed_ns, gathered_ns, launched_ns, finished_ns, scattered_ns;  // the whole batch's, except claimed_ns
  std::atomic<u32> n_made;  // tokens so far, possibly fewer; D sets it to 0 when it queues the slot
  Finish finish;
  u32 batch_items;  // items in its batch; for a generation, when it joined
  u32 upstream_us;  // of an edge: time that it was neither here nor in the server that answered it

  Sampling sampling;  // D: generators only
};
static_assert(sizeof(Slot) == 256 && alignof(Slot) == 64);

// Of an edge: whom a slot's request belongs to, behind its answer.
struct CallerNames {
  u16 tenant_bytes, group_bytes;  // D; 0: none
  char tenant[256], group[128];   // D
};

// The same of an answer by token, in the form that the slot's request asks for.
inline u64 answer_bytes(const Route& route, const Slot& slot, u32 n_tokens) {
  if (route.task != Task::kEmbedMulti) return answer_bytes(route.task, route.dimensions, n_tokens);
  const u32 dimensions = slot.dimensions && slot.dimensions < route.dimensions ? slot.dimensions : route.dimensions;
  return u64(n_tokens) * dimensions * value_bytes(slot.dtype);
}

// What a request counts where the service is shared: its tokens, and those that it may generate; at least 1.
// relaxed: its front door may read it any time, a dispatcher only guesses until it has claimed the request.
inline u64 cost_of(Task task, const Slot& slot) {
  const u64 made = task == Task::kGenerate ? slot.sampling.max_tokens : 0;
  return std::max<u64>(1, slot.n_tokens.load(std::memory_order_relaxed) + made);
}

// One block per process, which alone writes it. Front door i has index i; dispatcher j has index doors + j.
enum Rpc : u8 {
  kPredict = 0,
  kPredictBatch,
  kPredictStream,
  kGenerate,
  kModelInfer,
  kModelStreamInfer,
  kTeiEmbed,
  kTeiPredict,
  kTeiRerank,
  kEmbeddings,
  kCompletions,
  kRerank,
  kSteps,
  kOther,
  kMethods
};
inline constexpr const char* kMethodNames[kMethods] = {
    "Predict",          "PredictBatch", "PredictStream", "Generate",   "ModelInfer",
    "ModelStreamInfer", "tei.Embed",    "tei.Predict",   "tei.Rerank", "embeddings",
    "completions",      "rerank",       "Steps",         "other"};
inline constexpr u32 kCodes = 17;
enum Reject : u32 {
  kRejectQueueFull = 0,
  kRejectSlots,
  kRejectPredictedMiss,
  kRejectPoison,
  kRejectTenant,
  kRejectEvicted,
  kRejects
};
inline constexpr const char* kRejectNames[kRejects] = {"queue_full", "slots",  "predicted_miss",
                                                       "poison",     "tenant", "evicted"};
// Why a device was idle: no request waited; a batch waited for more requests; a step was being prepared; a step was
// being launched; it waited on the device for other dispatchers' steps; the previous step's answers were being copied
// out.
enum Idle : u32 { kIdleNoWork = 0, kIdleDelay, kIdleGather, kIdleLaunch, kIdleShared, kIdleScatter, kIdles };
inline constexpr const char* kIdleNames[kIdles] = {"no_work", "batch_delay", "gather", "launch", "shared", "scatter"};

// Counters of the HTTP/2 layer.
enum TransportCount : u32 {
  kAccepted = 0,
  kClosed,
  kRefused,
  kAcceptErrors,
  kHttp1,
  kTlsOnPlaintext,
  kTimeouts,
  kProtocolErrors,
  kFloods,
  kGoaways,
  kClientResets,
  kLostCalls,
  kRefusedStreams,
  kNotRead,
  kBytesIn,
  kBytesOut,
  kReads,
  kWrites,
  kTurns,
  kSleeps,
  kTlsHandshakes,
  kTlsFailures,
  kPlaintextOnTls,
  kUnauthenticated,
  kTlsDropped,
  kHttp11Good,
  kHttp11ClientErrors,
  kHttp11ServerErrors,
  kHttp2Good,
  kHttp2ClientErrors,
  kHttp2ServerErrors,
  kTransports
};
inline constexpr const char* kTransportNames[kTransports] = {
    "accepted",         "closed",       "refused",          "accept_errors",   "http1",
    "tls_on_plaintext", "timeouts",     "protocol_errors",  "floods",          "goaways",
    "client_resets",    "lost_calls",   "refused_streams",  "not_read",        "bytes_in",
    "bytes_out",        "reads",        "writes",           "turns",           "sleeps",
    "tls_handshakes",   "tls_failures", "plaintext_on_tls", "unauthenticated", "tls_dropped",
    "http1_2xx",        "http1_4xx",    "http1_5xx",        "http2_2xx",       "http2_4xx",
    "http2_5xx"};

struct alignas(64) Stats {
  Histogram stage[kStages];
  Histogram class_wait[kClasses];       // dispatcher: stage kQueue of the items of each class
  Histogram batch_items, batch_tokens;  // dispatcher
  // door: from reading the headers to submitting the answer, for the methods that a model serves
  Histogram request[kModelsMax][kOther];
  std::atomic<u64> requests[kModelsMax][kMethods][kCodes];  // door
  std::atomic<u64> items[kModelsMax][kCodes];               // door
  std::atomic<u64> rejected[kRejects];                      // door
  std::atomic<u64> expired[kStages];                        // door: by the stage in which the deadline passed
  std::atomic<u64> queue_wait_ns, inflight_ns;              // door: integrals
  std::atomic<u64> canaries[kDispatchersMax];               // door: answered canaries, by dispatcher
  std::atomic<u64> busy_ns, idle_ns[kIdles];                // dispatcher
  std::atomic<u64> awake_ns;                                // time in which its loop did not sleep
  std::atomic<u64> steps, step_items, step_tokens, step_capacity_tokens;  // dispatcher
  // dispatcher: sums over steps of the time on the device, of tokens squared, and of tokens times time. The last two
  // wrap.
  std::atomic<u64> step_ns, step_tokens_squared, step_tokens_times_ns;
  std::atomic<u64> generated_tokens;  // dispatcher
  std::atomic<u64> claimed, stale_entries, lost_hints, requeued, suspects, poisoned;
  std::atomic<u64> transport[kTransports];  // door: copied once a second
  std::atomic<u64> tokenizer_restarts;      // door: tokenizer processes that were killed because of a text, or died
};

// A counter without labels. Python reads all of them by name. Those with a metric appear on the metrics page.
struct CounterRow {
  const char* name;
  std::atomic<u64> Stats::*counter;
  const char* metric = "";  // without "fastqps_" and "_total"
  const char* help = "";
  double scale = 1;
};
inline constexpr CounterRow kCounters[] = {
    {"queue_wait_ns", &Stats::queue_wait_ns, "queue_wait_seconds", "Time that items waited.", 1e-9},
    {"inflight_ns", &Stats::inflight_ns, "inflight_seconds", "Integral of items in flight.", 1e-9},
    {"busy_ns", &Stats::busy_ns},
    {"awake_ns", &Stats::awake_ns},
    {"steps", &Stats::steps},
    {"step_items", &Stats::step_items},
    {"step_tokens", &Stats::step_tokens},
    {"step_capacity_tokens", &Stats::step_capacity_tokens},
    {"step_ns", &Stats::step_ns},
    {"generated_tokens", &Stats::generated_tokens},
    {"requeued", &Stats::requeued, "requeued", "Items run again because their dispatcher died."},
    {"suspects", &Stats::suspects, "suspects", "Items that ran alone after their dispatcher died."},
    {"poisoned", &Stats::poisoned, "poisoned", "Items rejected because they ended each dispatcher that ran them."},
    {"stale_entries", &Stats::stale_entries},
    {"lost_hints", &Stats::lost_hints},
    {"tokenizer_restarts", &Stats::tokenizer_restarts, "tokenizer_restarts",
     "Processes of tokenizers that are not native that were killed because of a text, or died."},
};

}  // namespace fastqps
