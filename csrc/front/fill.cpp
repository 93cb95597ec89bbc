// A request's ids, into its slot: its own, or those of its text.
#include <algorithm>
#include <cstring>

#include "front/predict_service.h"

namespace fastqps::front {

// Writes the request's ids into the slot, or its text into the tokenize queue.
PredictService::Refusal PredictService::fill(const RequestView& view, u32 r, u32 slot, Item& item) {
  const Route& route = segment_.route(r);
  if (view.input == Input::kTokenIds) return fill_ids(view, route, slot, item);
  RouteSetup& setup = setups_[r];
  const bool pair = view.input == Input::kPair;
  if (setup.external_tokenizer) {
    TokenizeJob job{slot, r, pair, std::string(pair ? view.pair_first : view.text), std::string(view.pair_second)};
    if (!tokenize_.push(std::move(job))) {
      bump(stats_->rejected[kRejectQueueFull]);
      Refusal refusal = refuse(StatusCode::kResourceExhausted, "too much text waits for this model's tokenizer");
      refusal.retry_after_ms = 100;
      return refusal;
    }
    item.tokenizing = true;
    tokenizing_++;
    return {};
  }
  if (!setup.tokenizer)
    return refuse(StatusCode::kInvalidArgument, "text: this model has no tokenizer; send token_ids");
  Slot& s = slab_.slot(slot);
  u32* ids = segment_.ids(s);
  text::Encoded encoded =
      pair ? setup.tokenizer->encode_pair(view.pair_first, view.pair_second, ids, route.max_input_tokens)
           : setup.tokenizer->encode(view.text, ids, route.max_input_tokens);
  if (encoded.truncated && !view.truncate)
    return too_long(pair ? "pair" : "text", encoded.n_total, route.max_input_tokens);
  if (!encoded.n_tokens) return refuse(StatusCode::kInvalidArgument, "text: no tokens");
  if (setup.check_ids)
    if (Refusal refusal = check_ids(pair ? "pair" : "text", ids, encoded.n_tokens, route)) return refusal;
  s.first_len = encoded.first_len;
  s.n_tokens.store(encoded.n_tokens, kRelaxed);
  item.truncated = encoded.truncated;
  return {};
}

PredictService::Refusal PredictService::fill_ids(const RequestView& view, const Route& route, u32 slot, Item& item) {
  Slot& s = slab_.slot(slot);
  u32 n = std::min(view.token_count, route.max_input_tokens);
  if (!n) return refuse(StatusCode::kInvalidArgument, "token_ids: at least one id");
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

// Texts that worker threads have tokenized since the last turn.
void PredictService::finish_tokenizing() {
  for (TokenizeResult& result : tokenize_.take()) {
    Item& item = items_[result.slot];
    const Route& route = segment_.route(item.route);
    item.tokenizing = false;
    tokenizing_ -= !item.answered;
    if (item.parsed_ns) {
      const u64 took = transport_->turn_ns() - std::min(transport_->turn_ns(), item.parsed_ns);
      item.tokenize_us = u32(took / 1000);
      if (item.sampled) sample(kTokenize, took);
    }
    Refusal refusal;
    const bool cut = result.n_total > result.ids.size();
    if (!result.failed && result.n_total == 0) {
      refusal = refuse(StatusCode::kInvalidArgument, "text: no tokens");
    } else if (result.failed || result.ids.empty() || result.ids.size() > route.max_input_tokens) {
      refusal = refuse(StatusCode::kInvalidArgument, "text: the tokenizer refused it");
    } else if (cut && !item.truncate) {
      refusal = too_long("text", result.n_total, route.max_input_tokens);
    } else {
      refusal = check_ids("text", result.ids.data(), u32(result.ids.size()), route);
    }
    const Item kept = item;
    if (refusal || item.answered) {  // answered: expired or cancelled meanwhile
      released(result.slot, 0);
      slab_.give_back(result.slot);
    } else {
      Slot& s = slab_.slot(result.slot);
      std::memcpy(segment_.ids(s), result.ids.data(), result.ids.size() * sizeof(u32));
      s.first_len = std::min(result.first_len, u32(result.ids.size()));
      s.n_tokens.store(u32(result.ids.size()), kRelaxed);
      item.truncated = cut;
      refusal = queue(result.slot, item.route);
    }
    if (refusal && !kept.answered) report(kept, refusal);
  }
}

}  // namespace fastqps::front
