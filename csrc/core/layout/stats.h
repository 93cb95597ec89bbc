// The counters of each process, in a block that it alone writes: front door i in block i, dispatcher j in block doors +
// j.
#pragma once
#include <iterator>

#include "contract/status.h"
#include "core/layout/histogram.h"
#include "core/layout/limits.h"

namespace fastqps {

// The methods that are counted by name.
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
  kChatCompletions,
  kRerank,
  kClassify,
  kPooling,
  kScore,
  kSteps,
  kOther,
  kMethods
};
inline constexpr const char* kMethodNames[kMethods] = {
    "Predict",   "PredictBatch", "PredictStream", "Generate",   "ModelInfer",  "ModelStreamInfer",
    "tei.Embed", "tei.Predict",  "tei.Rerank",    "embeddings", "completions", "chat.completions",
    "rerank",    "classify",     "pooling",       "score",      "Steps",       "other"};
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

// Where the time of a process's start goes: importing Python modules; waiting for other processes that start on the
// same device; opening the device; loading weights; testing kernels; capturing graphs; the first steps; measuring what
// is chosen; loading tokenizers.
inline constexpr const char* kStartStageNames[] = {"other",   "imports", "waiting",     "device",  "weights",
                                                   "kernels", "graphs",  "first_steps", "choices", "tokenizers"};
inline constexpr u32 kStartStages = u32(std::size(kStartStageNames));

// Counters of the transport, in the order of CounterCopy::copy_transport.
inline constexpr const char* kTransportNames[] = {
    "accepted",         "closed",       "refused",          "accept_errors",   "http1",
    "tls_on_plaintext", "timeouts",     "protocol_errors",  "floods",          "goaways",
    "client_resets",    "lost_calls",   "refused_streams",  "not_read",        "bytes_in",
    "bytes_out",        "reads",        "writes",           "turns",           "sleeps",
    "tls_handshakes",   "tls_failures", "plaintext_on_tls", "unauthenticated", "tls_dropped",
    "made_room",        "http1_2xx",    "http1_4xx",        "http1_5xx",       "http2_2xx",
    "http2_4xx",        "http2_5xx"};
inline constexpr u32 kTransports = u32(std::size(kTransportNames));

struct alignas(64) Stats {
  Histogram stage[kStages];
  Histogram class_wait[kClasses];       // dispatcher: stage kQueue of the items of each class
  Histogram batch_items, batch_tokens;  // dispatcher
  // door: from reading the headers to submitting the answer, for the methods that a model serves
  Histogram request[kModelsMax][kOther];
  std::atomic<u64> requests[kModelsMax][kMethods][kStatusCodes];  // door
  std::atomic<u64> items[kModelsMax][kStatusCodes];               // door
  std::atomic<u64> failed_ns[kModelsMax];       // door: the part of the sums of `request` of failed calls
  std::atomic<u64> answered_at_ns[kModelsMax];  // door: when it read the latest good answer; 0: none yet
  std::atomic<u64> rejected[kRejects];          // door
  std::atomic<u64> expired[kStages];            // door: by the stage in which the deadline passed
  std::atomic<u64> queue_wait_ns, inflight_ns;  // door: integrals
  std::atomic<u64> canaries[kDispatchersMax];   // door: answered canaries, by dispatcher
  std::atomic<u64> busy_ns, idle_ns[kIdles];    // dispatcher
  std::atomic<u64> awake_ns;                    // time in which its loop did not sleep
  std::atomic<u64> steps, step_items, step_tokens, step_capacity_tokens;  // dispatcher
  // dispatcher: sums over steps of the time on the device, of tokens squared, and of tokens times time. The last two
  // wrap.
  std::atomic<u64> step_ns, step_tokens_squared, step_tokens_times_ns;
  std::atomic<u64> generated_tokens;  // dispatcher
  std::atomic<u64> claimed, stale_entries, lost_hints, requeued, suspects, poisoned;
  std::atomic<u64> transport[kTransports];  // door: copied once a second
  std::atomic<u64> tokenizer_restarts;      // door: tokenizer processes that were killed because of a text, or died
  std::atomic<u64> start_ns[kStartStages];  // of the process that runs now, written once when it is ready
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
