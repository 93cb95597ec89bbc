// PredictRequest and PredictBatchRequest, read in place: no protobuf library, no allocation, no copy.
//
// A RequestView holds views into the message; it is valid as long as the message's bytes are. The rules are protobuf's:
// unknown fields and known fields of the wrong wire type are skipped, the last scalar wins, the last member of a oneof
// wins and clears the others, a submessage given twice is merged, repeated numbers may be packed or not and may come in
// pieces. A message is accepted if and only if the protobuf runtime accepts it (tests/api/test_wire.py holds the two
// together; an item of a batch may nest one level deeper than there); what the values may be is checked by
// check_request(), separately.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "contract/chat.h"
#include "contract/options.h"
#include "contract/status.h"

namespace fastqps {
struct SpanContext;
}

namespace fastqps {

// The fault of a request, for an INVALID_ARGUMENT. `field` is a literal, a path such as "pair.first", or empty
// when the bytes are damaged outside any field. `reason` is a literal or lies in the caller's ReasonText. True if there
// is an error.
struct FieldError {
  const char* field = nullptr;
  const char* reason = nullptr;
  FieldFault fault = FieldFault::kValue;
  explicit operator bool() const { return reason != nullptr; }
};

// Room for a reason that names the given value and the limit. Only a refusal writes to it.
struct ReasonText {
  char text[160];
  // Returns the text, cut to the room.
  const char* print(const char* format, ...) __attribute__((format(printf, 2, 3)));
};
// For `%.*s`: how much of a client's name a message shows.
inline int shown(std::string_view name) { return int(std::min<size_t>(name.size(), 60)); }

// kStep: the ids of an edge's item, which were taken from a text there.
enum class Input : u8 { kNone, kText, kTokenIds, kPair, kStep, kChat };

inline constexpr u32 kTenantBytesMax = 256;
inline constexpr u32 kGroupBytesMax = 128;

// Whether an input that is too long is cut. See ModelRoutes::cuts().
struct Truncation {
  std::optional<bool> asked = {};  // by the request
  bool by_api = false;             // the request's API cuts where a request does not say
};

// A conversation; read its messages with chat_messages().
struct ChatView {
  u32 count = 0;  // of messages
  ChatMode mode = ChatMode::kGenerate;
  std::string_view variables;  // of the template: a JSON object; empty: none
  std::string_view pieces;     // parts of a PredictRequest that are read a second time, or of other protocols:
  std::span<const ChatMessage> messages;
};

struct RequestView {
  std::string_view model;        // empty: the default model
  std::string_view text;         // input == kText; valid UTF-8
  std::string_view pair_first;   // input == kPair
  std::string_view pair_second;  // input == kPair
  std::string_view prompt_name;  // empty: the model's default prompt, if it has one
  std::string_view tenant;       // empty: the call's
  std::string_view group;        // empty: the call's
  u64 request_id = 0;
  u64 timeout_us = 0;    // 0: none
  i32 priority = 0;      // as sent; check_request() refuses what is not a Priority
  u32 token_count = 0;   // input == kTokenIds or kStep; read them with token_ids()
  u32 first_tokens = 0;  // input == kStep: those of a pair's first text, or all
  Input input = Input::kNone;
  ChatView chat;  // input == kChat
  Truncation truncation;
  bool keep_second = false;  // input == kPair: only the first text is cut
  bool has_output = false;
  bool has_generate = false;
  OutputOptions output;
  GenerateOptions generate;

  // The repeated fields, for token_ids(), texts_of() and logit_bias(): as parts of a PredictRequest that are read a
  // second time, or, of other protocols, as they are.
  std::string_view token_pieces;
  std::string_view generate_pieces;
  std::span<const u32> tokens;
  std::span<const TokenBias> biases;
  const SpanContext* span = nullptr;           // input == kStep: that of the edge which traces it; nullptr: none
  std::string_view trace_state;                // of such a span
  std::span<const std::string_view> attached;  // input == kStep: the parts of its item, as they lie beside a slot
};

inline constexpr Sampling kNoSampling{};

// Reads a serialized PredictRequest into *out, whatever was in it before. On error *out is unspecified.
FieldError parse_request(std::string_view message, RequestView* out);

// Checks the values that have a limit of their own: priority, tenant, group, output.*, generate.*, and that there is an
// input. Limits that depend on the model (tokens, dimensions, labels) are the caller's. A refusal names the value and
// the limit. checkpoint: of an edge's item, whose options may be those of the checkpoint, whatever they are.
FieldError check_request(const RequestView& request, ReasonText& reason, const Sampling& checkpoint = kNoSampling);

// Copies the token ids of a parsed request to out[0 .. request.token_count).
void token_ids(const RequestView& request, u32* out);

// Fills `out` with the messages of a parsed request.
void chat_messages(const RequestView& request, std::vector<ChatMessage>& out);

// Copies views of a list's texts, such as GenerateOptions::stop, to out[0 .. count). After check_request() they are at
// most kTextsMax.
void texts_of(const RequestView& request, OptionTexts GenerateOptions::*list, std::string_view* out);

// Copies the entries of logit_bias to out[0 .. generate.logit_bias.count). After check_request() they are at most
// kLogitBiasMax, of different tokens.
void logit_bias(const RequestView& request, TokenBias* out);

// Splits a serialized PredictBatchRequest into its serialized items, in order. Fills items[0 .. *count). More items
// than fit (the refusal names their number), or damage outside the items, is an error for the whole call; a damaged
// item is found by parse_request() and concerns that item alone.
FieldError split_batch(std::string_view message, std::span<std::string_view> items, std::size_t* count,
                       ReasonText& reason);

}  // namespace fastqps
