// A slot: one request, how it is to be answered, and its answer. In brackets: who writes a word (layout.h).
#pragma once
#include <algorithm>

#include "contract/options.h"
#include "contract/types.h"
#include "core/layout/route.h"
#include "core/layout/token_answer.h"

namespace fastqps {

// The slot's state word: seq:32 | epoch:20 | owner:8 | state:4, always changed as a whole by compare-and-swap.
//
// The word alone decides about a slot; every ring entry and every eventfd is only a hint to look at it. It names the
// owner of the slot's bytes: the front door while FREE, QUEUED or DONE, dispatcher `owner` of incarnation `epoch` while
// CLAIMED or LAUNCHED. `seq` grows at every QUEUED, so that an old ring entry can never claim a slot's next request.
enum class State : u32 { kFree = 0, kQueued = 1, kClaimed = 2, kLaunched = 3, kDone = 4 };

struct Word {
  u64 bits = 0;

  static constexpr Word make(State state, u32 seq, u32 owner = 0, u32 epoch = 0) {
    return {u64(seq) << 32 | u64(epoch & kEpochMask) << 12 | u64(owner & 0xff) << 4 | u64(state)};
  }
  constexpr State state() const { return State(bits & 15); }
  constexpr u32 owner() const { return u32(bits >> 4) & 0xff; }
  constexpr u32 epoch() const { return u32(bits >> 12) & kEpochMask; }
  constexpr u32 seq() const { return u32(bits >> 32); }

  static constexpr u32 kEpochMask = 0xfffff;
};
static_assert(sizeof(Word) == 8);

// A dispatcher's incarnations count from 1; 2^20 - 1 restarts of one dispatcher end the server rather than wrap.
inline constexpr u32 kEpochMax = Word::kEpochMask;

// Places where the native stress test lets a process die or linger; nothing in a product build.
#ifdef FASTQPS_POINTS
void point(int n);
#define FASTQPS_POINT(n) ::fastqps::point(n)
#else
#define FASTQPS_POINT(n) ((void)0)
#endif

// Options of a request's answer.
enum SlotFlag : u8 {
  kNormalizeSet = 1,
  kNormalize = 2,
  kRawScores = 4,
  kWantTimings = 8,
  kIgnoreEos = 16,
  kLogprobs = 32,
  kProgress = 64,         // the dispatcher leaves a hint for every token, not only for the last
  kPromptLogprobs = 128,  // those of the prompt's tokens, but for the first, stand in front of the answer's
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

// Parts of a request that have no size of their own, each in its front door's attachments: a byte of Structure and its
// text; TokenBias[], by id; the words of a script.
enum class AttachmentKind : u32 { kStructure = 0, kLogitBias = 1, kScript = 2 };
inline constexpr u32 kAttachmentKinds = 3;
struct Attached {
  u32 begin, bytes;  // bytes 0: there is none
};

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
constexpr u64 value_bytes(u8 dtype) { return dtype == 2 ? 2 : dtype > 2 ? 1 : 4; }
// How many of them a vector of so many dimensions has: of DTYPE_BINARY and DTYPE_UBINARY a byte for each eight.
constexpr u64 row_values(u8 dtype, u64 dimensions) { return dtype > 4 ? (dimensions + 7) / 8 : dimensions; }

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

// The bytes of the longest answer to an input of this many tokens. width: of an output row; max_output_tokens: of a
// generator, without anything of the prompt.
constexpr u64 answer_bytes(Task task, u32 width, u32 n_tokens, u32 max_output_tokens) {
  const TaskTraits& of = traits(task);
  if (of.form == AnswerForm::kTokens) return TokenAnswer::bytes(max_output_tokens, 0);
  if (of.form == AnswerForm::kLabels) return u64(of.by_token ? n_tokens : width) * sizeof(LabelScore);  // one a token
  return u64(of.by_token ? n_tokens : 1) * width * sizeof(float);
}

// The same of a generator, with the prompt's tokens, and as many likeliest ones as can be in the place of each.
constexpr u64 largest_generation_bytes(u32 n_tokens, u32 max_output_tokens) {
  return TokenAnswer::bytes(n_tokens - 1 + max_output_tokens, kTopLogprobsMax);
}

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
  std::atomic<u32> opening;    // D: leading ids that are its model's opening; fewer than n_tokens, a hint as that is

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

  alignas(64) Sampling sampling;        // D: generators only
  Attached attached[kAttachmentKinds];  // D: by AttachmentKind; generators only
};
static_assert(sizeof(Slot) == 320 && alignof(Slot) == 64);

// A span as other servers know it, byte for byte as W3C Trace Context has it; span_id all 0: none.
struct SpanContext {
  u8 trace_id[16], span_id[8];
};

// Only for an edge: whom a slot's request belongs to, and the span in which it is sent on, behind its answer.
struct CallerContext {
  u16 tenant_bytes, group_bytes;  // D; 0: none
  u16 state_bytes;                // D; of a request with a span
  char tenant[256], group[128];   // D
  SpanContext span;               // D
  char state[kTraceStateBytes];   // D
};
// The same of an answer by token, in the form that the slot's request asks for.
inline u64 answer_bytes(const Route& route, const Slot& slot, u32 n_tokens) {
  if (traits(route.task).form != AnswerForm::kVector) return answer_bytes(route.task, route.dimensions, n_tokens, 0);
  const u32 dimensions = slot.dimensions && slot.dimensions < route.dimensions ? slot.dimensions : route.dimensions;
  return u64(n_tokens) * row_values(slot.dtype, dimensions) * value_bytes(slot.dtype);
}

// Of a generator's request with so many tokens: those of its prompt that stand in its answer.
inline u32 scored_tokens(const Slot& slot, u32 n_tokens) {
  return slot.flags & kPromptLogprobs ? std::max(n_tokens, 1u) - 1 : 0;
}

// The tokens of a request that its device computes: without those that it shares with others.
// relaxed: its front door may read them any time, a dispatcher only guesses until it has claimed the request.
inline u32 computed_tokens(const Slot& slot) {
  const u32 n = slot.n_tokens.load(std::memory_order_relaxed), opening = slot.opening.load(std::memory_order_relaxed);
  return opening < n ? n - opening : n;
}

// The cost of a request where the service is shared: the tokens that are computed, and those that it may generate; at
// least 1.
inline u64 cost_of(Task task, const Slot& slot) {
  const u64 made = generates(task) ? slot.sampling.max_tokens : 0;
  return std::max<u64>(1, computed_tokens(slot) + made);
}

}  // namespace fastqps
