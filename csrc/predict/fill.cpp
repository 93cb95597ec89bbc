// A request's ids, into its slot: its own, or those of its text.
#include <algorithm>
#include <cstring>

#include "predict/predict_service.h"

namespace fastqps::front {

namespace {

constexpr size_t kTextBytesAlways = 64 << 10;  // that a text may have, however few tokens the model takes
constexpr size_t kBytesPerToken = 128;         // beyond that; the longest tokens of usual vocabularies have as many
constexpr size_t kLoopTextBytes = 4 << 10;     // longer texts are tokenized by another thread

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// The text up to the last white space in the second half of its first `bytes`, without that white space: the words in
// front of it have the tokens that they have in the whole text. Empty: there is none.
std::string_view cut_at_space(std::string_view text, size_t bytes) {
  size_t end = bytes;
  while (end > bytes / 2 && !is_space(text[end])) end--;
  while (end > bytes / 2 && is_space(text[end - 1])) end--;
  return text.substr(0, end > bytes / 2 ? end : 0);
}

}  // namespace

// Writes the request's ids into the slot, or hands its text to another thread.
PredictService::Refusal PredictService::fill(const RequestView& view, u32 r, u32 slot, Item& item) {
  const Route& route = segment_.route(r);
  if (view.input == Input::kTokenIds) return fill_ids(view, route, slot, item);
  RouteSetup& setup = setups_[r];
  if (!setup.external_tokenizer && !setup.tokenizer)
    return refuse_field(view.input == Input::kPair ? "pair" : "text", "the model '%s' has no tokenizer; send token_ids",
                        model_name(r));
  if (setup.pairs_only && view.input == Input::kText)
    return refuse_field("text",
                        "the model '%s' scores pairs of texts; send a pair, or start the server with "
                        "--allow-single-texts",
                        model_name(r));
  item.pair = view.input == Input::kPair;
  std::string_view text = item.pair ? view.pair_first : view.text;
  if (Refusal refusal = bound_text(view, route, text, item)) return refusal;
  if (setup.external_tokenizer || text.size() + view.pair_second.size() > kLoopTextBytes) {
    TokenizeJob job{slot, r, item.pair, std::string(text), std::string(view.pair_second)};
    job.tokenizer = setup.of_long_texts, job.tokens_max = route.max_input_tokens;
    return hand_over(std::move(job), !setup.external_tokenizer, item);
  }
  Slot& s = slab_.slot(slot);
  u32* ids = segment_.ids(s);
  const text::Encoded encoded = item.pair
                                    ? setup.tokenizer->encode_pair(text, view.pair_second, ids, route.max_input_tokens)
                                    : setup.tokenizer->encode(text, ids, route.max_input_tokens);
  if (Refusal refusal = check_tokens(item, encoded.n_tokens, encoded.n_total, route)) return refusal;
  if (setup.check_ids)
    if (Refusal refusal = check_ids(item.pair ? "pair" : "text", ids, encoded.n_tokens, route)) return refusal;
  s.first_len = encoded.first_len;
  s.n_tokens.store(encoded.n_tokens, kRelaxed);
  item.truncated = encoded.truncated;
  return {};
}

// Refuses or cuts a text that is longer than any that the model could take. Without it one message of some MiB takes
// seconds to tokenize, for a few hundred tokens or for a refusal.
PredictService::Refusal PredictService::bound_text(const RequestView& view, const Route& route, std::string_view& text,
                                                   Item& item) {
  const size_t bytes = text.size() + view.pair_second.size();
  const size_t most = std::max(kTextBytesAlways, kBytesPerToken * route.max_input_tokens);
  if (bytes <= most) return {};
  const char* field = item.pair ? "pair" : "text";
  if (item.pair || !view.truncate)
    return refuse_field(field, "%zu bytes, at most %zu for a model of at most %u tokens%s", bytes, most,
                        route.max_input_tokens, item.pair ? "" : "; set truncate to have it cut");
  text = cut_at_space(text, most);
  item.cut = true;
  if (!text.empty()) return {};
  return refuse_field(field, "%zu bytes, at most %zu, and no white space at which it could be cut", bytes, most);
}

PredictService::Refusal PredictService::hand_over(TokenizeJob job, bool native, Item& item) {
  const ConnectionId from = item.connection;
  const TextLane lane = job.first.size() + job.second.size() > kLoopTextBytes ? TextLane::kLong : TextLane::kUsual;
  if (!(native ? text_worker_.push(from, std::move(job)) : tokenize_.push(from, std::move(job), lane)))
    return tokenizer_busy(TokenizeQueue::kNoRoom);
  item.tokenizing = true;
  tokenizing_++;
  return {};
}

PredictService::Refusal PredictService::tokenizer_busy(const char* why) {
  bump(stats_->rejected[kRejectQueueFull]);
  Refusal refusal = refuse(StatusCode::kResourceExhausted, "%s", why);
  refusal.retry_after_ms = 100;
  return refusal;
}

// n_tokens: those that were written; n_total: of the whole text.
PredictService::Refusal PredictService::check_tokens(const Item& item, u32 n_tokens, u32 n_total, const Route& route) {
  const char* field = item.pair ? "pair" : "text";
  if (!n_total) return refuse_field(field, "0 tokens, at least 1");
  if (n_total > n_tokens && !item.truncate) return too_long(field, n_total, route.max_input_tokens);
  if (item.cut && n_total <= route.max_input_tokens)
    return refuse_field(field, "its first %zu bytes have only %u tokens, and bytes behind them are not read",
                        std::max(kTextBytesAlways, kBytesPerToken * route.max_input_tokens), n_total);
  if (!n_tokens) return refuse_field(field, "0 tokens, at least 1");
  return {};
}

PredictService::Refusal PredictService::fill_ids(const RequestView& view, const Route& route, u32 slot, Item& item) {
  Slot& s = slab_.slot(slot);
  u32 n = std::min(view.token_count, route.max_input_tokens);
  if (!n) return refuse_field("token_ids", "0 ids, at least 1");
  if (view.token_count > n && !view.truncate) return too_long("token_ids", view.token_count, route.max_input_tokens);
  u32* ids = segment_.ids(s);
  if (view.token_count > n) {
    scratch_ids_.resize(view.token_count);  // bounded by the size of a message
    token_ids(view, scratch_ids_.data());
    std::memcpy(ids, scratch_ids_.data(), n * sizeof(u32));
    item.truncated = true;
  } else {
    token_ids(view, ids);
  }
  if (Refusal refusal = check_ids("token_ids", ids, n, route)) return refusal;
  s.first_len = n;
  s.n_tokens.store(n, kRelaxed);
  return {};
}

// An id beyond the model's vocabulary would break the batch that it came into.
PredictService::Refusal PredictService::check_ids(const char* field, const u32* ids, u32 n, const Route& route) {
  const u32 largest = *std::max_element(ids, ids + n);
  if (largest < route.vocab_size) return {};
  return refuse_field(field, "id %u, the vocabulary has %u", largest, route.vocab_size);
}

PredictService::Refusal PredictService::too_long(const char* field, u32 tokens, u32 limit) {
  return refuse_field(field, "%u tokens, at most %u; set truncate to have it cut", tokens, limit);
}

// Nobody waits any more for a text that another thread has.
void PredictService::drop_text(u32 slot) {
  tokenizing_--;
  if (setups_[items_[slot].route].external_tokenizer) {
    tokenize_.drop(slot);
  } else {
    text_worker_.drop(slot);
  }
}

// A text that another thread has tokenized, or dropped because nobody waits for it.
void PredictService::finish_tokenizing(const TokenizeResult& result) {
  Item& item = items_[result.slot];
  const Route& route = segment_.route(item.route);
  item.tokenizing = false;
  tokenizing_ -= !item.answered;
  if (item.stamped) {
    const u64 begun_ns = item_times_[result.slot].parse_ended_ns;
    const u64 took = transport_->turn_ns() - std::min(transport_->turn_ns(), begun_ns);
    item.tokenize_us = u32(took / 1000);
    if (item.sampled) sample(kTokenize, took);
  }
  const u32 n_tokens = u32(result.ids.size());
  Refusal refusal;
  if (result.busy) {
    refusal = tokenizer_busy(result.failure.c_str());
  } else if (!result.failure.empty()) {
    refusal = refuse_field(item.pair ? "pair" : "text", "%s", result.failure.c_str());
  } else if (n_tokens > route.max_input_tokens) {
    refusal = refuse_field(item.pair ? "pair" : "text", "the tokenizer did not cut it");
  } else if (!(refusal = check_tokens(item, n_tokens, result.n_total, route))) {
    refusal = check_ids(item.pair ? "pair" : "text", result.ids.data(), n_tokens, route);
  }
  const Item kept = item;
  if (refusal || item.answered) {  // answered: expired or cancelled meanwhile
    released(result.slot, 0);
    slab_.give_back(result.slot);
  } else {
    Slot& s = slab_.slot(result.slot);
    std::copy(result.ids.begin(), result.ids.end(), segment_.ids(s));
    s.first_len = std::min(result.first_len, n_tokens);
    s.n_tokens.store(n_tokens, kRelaxed);
    item.truncated = result.n_total > n_tokens;
    refusal = queue(result.slot, item.route);
  }
  if (refusal && !kept.answered) report(kept, refusal);
}

}  // namespace fastqps::front
