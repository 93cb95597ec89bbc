// Sampling. Logits that are not numbers are never chosen; where nothing can be chosen, the token is 0.

// The largest logit and where it is first; -inf and 0 if there is none.
struct Top {
  float logit;
  i32 token;
};
template <class T>
inline Top top_logit(const T* logits, u32 n) {
  constexpr u32 kVecs = 4;
  Vec most = splat(-__builtin_inff());
  VecInt block{};  // that had the lane's largest logit first
  u32 i = 0;
  for (i32 b = 0; i + kVecs * kLanes <= n; i += kVecs * kLanes, b++) {
    Vec here = load_vec(logits + i);
    here = here == here ? here : most;
    for (u32 k = 1; k < kVecs; k++) {
      const Vec x = load_vec(logits + i + k * kLanes);
      here = x > here ? x : here;
    }
    block = here > most ? VecInt{} + b : block;
    most = here > most ? here : most;
  }
  Top top{-__builtin_inff(), 0};
  i32 first = 0;
  for (u32 k = 0; k < kLanes; k++)
    if (most[k] > top.logit || (most[k] == top.logit && block[k] < first)) top.logit = most[k], first = block[k];
  u32 at = u32(first) * kVecs * kLanes;
  if (top.logit > -__builtin_inff()) {
    while (load_one(logits + at) != top.logit) at++;
    top.token = i32(at);
  }
  for (; i < n; i++)
    if (load_one(logits + i) > top.logit) top = {load_one(logits + i), i32(i)};
  return top;
}

// e^((logit - top) / temperature) of kLanes logits; nothing for those that are not numbers.
inline Vec likelihood(Vec logits, float top, float temperature) {
  const Vec x = (logits - top) / temperature;
  return x == x ? exp_negative(x > 0.0f ? Vec{} : x) : Vec{};
}

constexpr u32 kWholes = 64;  // likelihoods that are added as floats, before sums of them are as doubles

// Fills `weights` with likelihoods, zeros up to a multiple of kLanes, and returns their sum.
template <class T>
inline double fill_likelihoods(float* weights, const T* logits, u32 n, float top, float temperature) {
  double all = 0;
  for (u32 i = 0; i < n; i += kWholes) {
    Vec sum{};
    const u32 end = n - i < kWholes ? n : i + kWholes;
    u32 j = i;
    for (; j + kLanes <= end; j += kLanes) {
      const Vec e = likelihood(load_vec(logits + j), top, temperature);
      sum += e;
      store(weights + j, e);
    }
    if (j < end) {
      Vec last = splat(-__builtin_inff());
      for (u32 k = 0; k < end - j; k++) last[k] = load_one(logits + j + k);
      const Vec e = likelihood(last, top, temperature);
      sum += e;
      store(weights + j, e);
    }
    all += total(sum);
  }
  return all;
}

template <class T>
inline float log_probability(float* weights, const T* logits, u32 n, float top, i32 token) {
  const double all = fill_likelihoods(weights, logits, n, top, 1.0f);
  return float(double(load_one(logits + token)) - double(top) - __builtin_log(all));
}

// The first token whose cumulative likelihood is above `u` of the whole.
template <class T>
inline i32 draw_from_all(float* weights, const T* logits, u32 n, Top top, float temperature, float u) {
  const double target = u * fill_likelihoods(weights, logits, n, top.logit, temperature);
  double sum = 0;
  for (u32 i = 0; i < n; i++) {
    sum += double(weights[i]);
    if (sum > target) return i32(i);
  }
  return top.token;  // only what rounding left is above `u`
}

// Likeliest first; of equals, the one with the lower id.
struct Candidates {
  float logits[kCandidates];
  i32 tokens[kCandidates];
  u32 n, limit;
};
inline void offer(Candidates& c, float logit, i32 token) {
  if (!(logit == logit) || (c.n == c.limit && !(logit > c.logits[c.n - 1]))) return;
  u32 at = c.n < c.limit ? c.n++ : c.n - 1;
  for (; at && logit > c.logits[at - 1]; at--) c.logits[at] = c.logits[at - 1], c.tokens[at] = c.tokens[at - 1];
  c.logits[at] = logit, c.tokens[at] = token;
}

template <class T>
inline void find_candidates(Candidates& c, const T* logits, u32 n) {
  constexpr u32 kVecs = 4;
  u32 i = 0;
  for (; i + kVecs * kLanes <= n; i += kVecs * kLanes) {
    if (c.n == c.limit) {  // nothing here that is better than the last one?
      VecInt better{};
      for (u32 k = 0; k < kVecs; k++) better |= load_vec(logits + i + k * kLanes) > c.logits[c.n - 1];
      i32 any = 0;
      for (u32 k = 0; k < kLanes; k++) any |= better[k];
      if (!any) continue;
    }
    for (u32 k = 0; k < kVecs * kLanes; k++) offer(c, load_one(logits + i + k), i32(i + k));
  }
  for (; i < n; i++) offer(c, load_one(logits + i), i32(i));
}

template <class T>
inline i32 draw_from_likeliest(const T* logits, u32 n, float temperature, float top_p, u32 limit, float u) {
  Candidates c;
  c.n = 0, c.limit = limit;
  find_candidates(c, logits, n);
  double weights[kCandidates], all = 0, kept = 0, sum = 0;
  for (u32 i = 0; i < c.n; i++) {
    const double x = (double(c.logits[i]) - double(c.logits[0])) / double(temperature);
    weights[i] = x == x ? __builtin_exp(x) : c.logits[i] == c.logits[0];
    all += weights[i];
  }
  u32 end = 0;
  while (end < c.n && !(end && kept >= double(top_p) * all)) kept += weights[end++];
  for (u32 i = 0; i < end; i++) {
    sum += weights[i];
    if (sum > u * kept) return c.tokens[i];
  }
  return c.n ? c.tokens[0] : 0;
}

inline float as_float(i32 word) { return __builtin_bit_cast(float, word); }

inline bool contains(const i32* ids, u32 n, i32 id) {
  for (u32 i = 0; i < n; i++)
    if (ids[i] == id) return true;
  return false;
}

template <class T>
inline i32 choose(const T* logits, u32 n, Top top, const i32* params, i32 made, float* scratch) {
  const float temperature = as_float(params[kParamTemperature]), top_p = as_float(params[kParamTopP]);
  const u32 top_k = u32(params[kParamTopK]);
  if (!(temperature > 0)) return top.token;
  const float u = uniform(u32(params[kParamSeedLow]), u32(params[kParamSeedHigh]), u32(made));
  if (!top_k && top_p >= 1) return draw_from_all(scratch, logits, n, top, temperature, u);
  const u32 limit = top_k && top_k < kCandidates ? top_k : kCandidates;
  return draw_from_likeliest(logits, n, temperature, top_p, limit, u);
}

template <class T>
inline void sample_runs(const Draw& job, float* scratch) {
  for (u32 r = 0; r < job.n_runs; r++) {
    const i32 slot = job.kv_slots[job.starts[r]];
    const i32* params = job.params + u64(slot) * kAdmittedWords;
    const T* logits = (const T*)job.logits + u64(r) * job.vocab;
    const Top top = top_logit(logits, job.vocab);
    const i32 token = choose(logits, job.vocab, top, params, job.made[r], scratch);
    const bool eos = !(u32(params[kParamFlags]) & kParamIgnoreEos) && contains(job.eos_ids, job.n_eos, token);
    const bool stop = eos || contains(params + kParamStopIds, kAdmittedWords - kParamStopIds, token);
    const bool full = i64(job.made[r]) + 1 >= i64(params[kParamMaxTokens]);
    job.finish[r] = i32(stop ? Finish::kStop : full ? Finish::kLength : Finish::kNot);
    job.tokens[r] = job.last_token[slot] = token;
    job.logprobs[r] = u32(params[kParamFlags]) & kParamLogprobs
                          ? log_probability(scratch, logits, job.vocab, top.logit, token)
                          : 0.0f;
  }
}
