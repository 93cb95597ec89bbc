#include "service/tables/tokenizers.h"

#include "transport/rpc/fair_queue.h"

namespace fastqps::service {

namespace {

TokenizeResult tokenized(const TokenizeJob& job) {
  TokenizeResult result{job.slot, std::vector<u32>(job.tokens_max), 0, 0, ""};
  u32* ids = result.ids.data();
  text::Tokenizer& tokenizer = *job.tokenizer;
  const u32 most = job.tokens_max;
  const text::Encoded encoded = job.rendered ? tokenizer.encode_fixed(job.first, job.fixed, ids, most, job.cut)
                                : job.pair   ? tokenizer.encode_pair(job.first, job.second, ids, most, job.cut)
                                : job.spans  ? tokenizer.encode_spans(job.first, ids, most, result.spans, job.cut)
                                             : tokenizer.encode(job.first, ids, most, job.cut);
  result.ids.resize(encoded.n_tokens);
  result.first_len = encoded.first_len;
  result.n_total = encoded.n_total;
  return result;
}

}  // namespace

Tokenizers::~Tokenizers() {
  native_.close();
  if (thread_.joinable()) thread_.join();
}

bool Tokenizers::push(transport::ConnectionId from, TokenizeJob job, TextLane lane) {
  const bool native = job.tokenizer != nullptr;
  if (!(native ? native_.push(from, std::move(job)) : external_.push(from, std::move(job), lane))) return false;
  if (native && !thread_.joinable()) thread_ = std::thread([this] { work(); });
  wanted_++;
  return true;
}

void Tokenizers::work() {
  transport::work_in_background();
  constexpr int kForEver = -1;
  while (true) {
    std::vector<TokenizeJob> jobs = native_.pop(1, kForEver);
    if (native_.closed()) return;
    for (const TokenizeJob& job : jobs) {
      transport::give_way();
      native_.done({tokenized(job)});
    }
  }
}

}  // namespace fastqps::service
