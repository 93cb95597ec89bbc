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

// The logarithm of the sum of all likelihoods at temperature 1.
template <class T>
inline double log_of_sum(float* weights, const T* logits, u32 n, float top) {
  return __builtin_log(fill_likelihoods(weights, logits, n, top, 1.0f));
}

// The log probability of a logit. log_sum: logarithm of the likelihoods' sum.
inline float log_probability(float logit, float top, double log_sum) {
  return float(double(logit) - double(top) - log_sum);
}

// The logit from which on a token's likelihood is at least min_p.
inline double floor_of(float top, float temperature, float min_p) {
  return min_p > 0 ? double(top) + double(temperature) * __builtin_log(double(min_p)) : -__builtin_inf();
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

// The likelihoods of the candidates, and their sum. Where the likeliest is infinite, only its equals have any.
struct Likelihoods {
  double of[kCandidates];
  double all = 0;
};
inline void weigh(Likelihoods& w, const Candidates& c, float temperature) {
  for (u32 i = 0; i < c.n; i++) {
    const double x = (double(c.logits[i]) - double(c.logits[0])) / double(temperature);
    w.of[i] = x == x ? __builtin_exp(x) : c.logits[i] == c.logits[0];
    w.all += w.of[i];
  }
}

// The first candidate whose cumulative likelihood is above `target`; -1 if all of them together are not.
inline i32 draw_candidate(const Candidates& c, const Likelihoods& w, double target) {
  double sum = 0;
  for (u32 i = 0; i < c.n; i++) {
    sum += w.of[i];
    if (sum > target) return c.tokens[i];
  }
  return -1;
}

// How much the likeliest candidates have together that reach `need`, or all of them, of those that are at least
// `floor`.
inline double kept_likelihood(const Candidates& c, const Likelihoods& w, double need, double floor) {
  double kept = 0;
  for (u32 i = 0; i < c.n && !(i && (kept >= need || double(c.logits[i]) < floor)); i++) kept += w.of[i];
  return kept;
}

// Floats as integers of the same order. Zeros are equal.
inline i32 order_of(float x) {
  const i32 bits = __builtin_bit_cast(i32, x == 0 ? 0.0f : x);
  return bits ^ (bits >> 31 & 0x7fffffff);
}
inline float of_order(i32 order) { return __builtin_bit_cast(float, order ^ (order >> 31 & 0x7fffffff)); }

// The least float that is at least x.
inline float float_from(double x) {
  const float near = float(x);
  return double(near) < x ? of_order(order_of(near) + 1) : near;
}

// The sum of `weights`, the likelihoods of `logits`, where the logit is at least `least`.
template <class T>
inline double likelihood_from(const float* weights, const T* logits, u32 n, float least) {
  double all = 0;
  for (u32 i = 0; i < n; i += kWholes) {
    Vec sum{};
    const u32 end = n - i < kWholes ? n : i + kWholes;
    u32 j = i;
    for (; j + kLanes <= end; j += kLanes) sum += load_vec(logits + j) >= least ? load(weights + j) : Vec{};
    all += total(sum);
    for (; j < end; j++) all += load_one(logits + j) >= least ? double(weights[j]) : 0.0;
  }
  return all;
}

// Where in the order of likelihood a cumulative likelihood lies: at the logits that equal `logit`.
struct Place {
  float logit;
  double above;  // the likelihood of all that are larger
  double each;   // of one that equals it
};

// The largest logit from which on the likelihood is above `need`. That of the logits above `high` is not.
template <class T>
inline Place find_place(const float* weights, const T* logits, u32 n, Top top, float temperature, float high,
                        double need) {
  i64 low = order_of(-__builtin_inff()), end = i64(order_of(high)) + 1;
  while (end - low > 1) {
    const i64 middle = (low + end) >> 1;
    (likelihood_from(weights, logits, n, of_order(i32(middle))) > need ? low : end) = middle;
  }
  const float logit = of_order(i32(low));
  return {logit, likelihood_from(weights, logits, n, of_order(i32(low + 1))),
          double(likelihood(splat(logit), top.logit, temperature)[0])};
}

// The equal of place `p` whose cumulative likelihood is above `target`.
template <class T>
inline i32 draw_equal(const Place& p, const T* logits, u32 n, Top top, double target) {
  i32 token = top.token;  // only what rounding left is above `target`
  double sum = p.above;
  for (u32 i = 0; i < n && p.each > 0; i++) {
    if (load_one(logits + i) != p.logit) continue;
    token = i32(i);
    if ((sum += p.each) > target) break;
  }
  return token;
}

// Of the `limit` likeliest, the fewest that reach `top_p` of their likelihood, if they are at least `floor`.
template <class T>
inline i32 draw_from_likeliest(const T* logits, u32 n, float temperature, float top_p, double floor, u32 limit,
                               float u) {
  Candidates c;
  c.n = 0, c.limit = limit;
  find_candidates(c, logits, n);
  Likelihoods w;
  weigh(w, c, temperature);
  const i32 token = draw_candidate(c, w, u * kept_likelihood(c, w, double(top_p) * w.all, floor));
  return token >= 0 ? token : c.n ? c.tokens[0] : 0;
}

// Of the whole vocabulary, the fewest of the likeliest that reach `top_p` of its likelihood. Most often they are among
// the candidates; where they are not, nothing is sorted: a place in the order is found by halving the range of logits.
// Logits below `floor` count in the whole, and are not drawn.
template <class T>
inline i32 draw_from_nucleus(float* weights, const T* logits, u32 n, Top top, float temperature, float top_p,
                             double floor, float u) {
  Candidates c;
  c.n = 0, c.limit = kCandidates;
  find_candidates(c, logits, n);
  Likelihoods w;
  weigh(w, c, temperature);
  // None of the others is likelier than the last candidate. Often that is all one has to know of them.
  const double most = double(top_p) * (w.all + (c.n < kCandidates ? 0 : w.of[c.n - 1] * (n - c.n)));
  double need = double(top_p) * w.all, kept = kept_likelihood(c, w, need, floor);
  bool more = false;
  if (kept < most) {
    const double sum = fill_likelihoods(weights, logits, n, top.logit, temperature);
    more = sum > w.all;
    if (more) kept = kept_likelihood(c, w, need = double(top_p) * sum, floor);
  }
  const float least = c.n ? c.logits[c.n - 1] : 0;
  if (more && kept < need && double(least) >= floor) {
    kept = floor > -__builtin_inf() ? likelihood_from(weights, logits, n, float_from(floor)) : need + 1;
    if (kept > need) {
      const Place p = find_place(weights, logits, n, top, temperature, least, need);
      kept = p.above + (p.each > 0 ? __builtin_ceil((need - p.above) / p.each) * p.each : 0);
    }
  }
  const double target = u * kept;
  const i32 token = draw_candidate(c, w, target);
  if (token >= 0 || !more) return token >= 0 ? token : c.n ? c.tokens[0] : 0;
  return draw_equal(find_place(weights, logits, n, top, temperature, least, target), logits, n, top, target);
}

// ---- the most typical tokens

// Keeps the weights of the logits above `edge`, and of the first `equals` of those that equal it; the others become 0.
// Returns the sum of those that are left.
template <class T>
inline double keep_likeliest(float* weights, const T* logits, u32 n, float edge, u32 equals) {
  double all = 0;
  for (u32 i = 0; i < n; i++) {
    const float x = load_one(logits + i);
    if (!(x > edge || (x == edge && equals && equals--))) weights[i] = 0;
    all += double(weights[i]);
  }
  return all;
}

// What top_k, top_p and min_p leave of the whole vocabulary, as weights. Returns their sum.
template <class T>
inline double fill_left(float* weights, const T* logits, u32 n, Top top, float temperature, u32 top_k, float top_p,
                        double floor) {
  double all = fill_likelihoods(weights, logits, n, top.logit, temperature);
  if (top_k) {
    Candidates c;
    c.n = 0, c.limit = top_k < kCandidates ? top_k : kCandidates;
    find_candidates(c, logits, n);
    const float edge = c.logits[c.n - 1];
    u32 equals = 0;
    while (equals < c.n && c.logits[c.n - 1 - equals] == edge) equals++;
    all = keep_likeliest(weights, logits, n, edge, equals);
  }
  if (top_p < 1) {
    const double need = double(top_p) * all;
    const Place p = find_place(weights, logits, n, top, temperature, top.logit, need);
    const double equals = p.each > 0 ? __builtin_ceil((need - p.above) / p.each) : 0;
    all = keep_likeliest(weights, logits, n, p.logit, equals < n ? u32(equals) : n);
  }
  return floor > -__builtin_inf() ? keep_likeliest(weights, logits, n, float_from(floor), n) : all;
}

// The logit of the expected log-probability: the mean of logits by weight.
template <class T>
inline float mean_logit(const float* weights, const T* logits, u32 n, float top, double all) {
  double sum = 0;
  for (u32 i = 0; i < n; i++)
    if (weights[i] > 0) sum += double(weights[i]) * (double(load_one(logits + i)) - double(top));
  return float(double(top) + sum / all);
}

// The sum of the weights whose logits are at most `distance` from `centre`.
template <class T>
inline double weight_within(const float* weights, const T* logits, u32 n, float centre, float distance) {
  double all = 0;
  for (u32 i = 0; i < n; i += kWholes) {
    Vec sum{};
    const u32 end = n - i < kWholes ? n : i + kWholes;
    u32 j = i;
    for (; j + kLanes <= end; j += kLanes) {
      const Vec off = load_vec(logits + j) - centre;
      sum += (off < 0.0f ? -off : off) <= splat(distance) ? load(weights + j) : Vec{};
    }
    all += total(sum);
    for (; j < end; j++) all += __builtin_fabsf(load_one(logits + j) - centre) <= distance ? double(weights[j]) : 0.0;
  }
  return all;
}

// Of what is left, the tokens whose log-probability is closest to the expected one, until they reach `typical_p` of its
// weight. Nothing is sorted: how far one may be off is found by halving.
template <class T>
inline i32 draw_from_typical(float* weights, const T* logits, u32 n, Top top, double all, float typical_p, float u) {
  const float centre = mean_logit(weights, logits, n, top.logit, all);
  const double need = double(typical_p) * all;
  i32 low = order_of(0.0f) - 1, end = order_of(__FLT_MAX__);
  while (end - low > 1) {
    const i32 middle = low + (end - low) / 2;
    (weight_within(weights, logits, n, centre, of_order(middle)) >= need ? end : low) = middle;
  }
  const float distance = of_order(end);
  const double target = u * weight_within(weights, logits, n, centre, distance);
  double sum = 0;
  i32 token = top.token;
  for (u32 i = 0; i < n; i++) {
    if (!(weights[i] > 0) || !(__builtin_fabsf(load_one(logits + i) - centre) <= distance)) continue;
    token = i32(i);
    if ((sum += double(weights[i])) > target) break;
  }
  return token;
}

inline float as_float(i32 word) { return __builtin_bit_cast(float, word); }

inline bool contains(const i32* ids, u32 n, i32 id) {
  for (u32 i = 0; i < n; i++)
    if (ids[i] == id) return true;
  return false;
}

template <class T>
inline i32 choose(const T* logits, u32 n, Top top, const i32* params, i32 made, float* scratch) {
  const float temperature = as_float(params[kParam<&Sampling::temperature>]);
  const float top_p = as_float(params[kParam<&Sampling::top_p>]);
  const u32 top_k = u32(params[kParam<&Sampling::top_k>]);
  if (!(temperature > 0)) return top.token;
  const i32* seed = params + kParam<&Sampling::seed>;
  const float u = uniform(u32(seed[0]), u32(seed[1]), u32(made));
  const float min_p = as_float(params[kParam<&Sampling::min_p>]);
  const float typical_p = as_float(params[kParam<&Sampling::typical_p>]);
  if (typical_p < 1) {
    if (!(__builtin_fabsf(top.logit) < __builtin_inff())) return top.token;
    const double left =
        fill_left(scratch, logits, n, top, temperature, top_k, top_p, floor_of(top.logit, temperature, min_p));
    return draw_from_typical(scratch, logits, n, top, left, typical_p, u);
  }
  if (!top_k && top_p >= 1 && !(min_p > 0)) return draw_from_all(scratch, logits, n, top, temperature, u);
  const double floor = floor_of(top.logit, temperature, min_p);
  if (!top_k) return draw_from_nucleus(scratch, logits, n, top, temperature, top_p, floor, u);
  return draw_from_likeliest(logits, n, temperature, top_p, floor, top_k < kCandidates ? top_k : kCandidates, u);
}

// Writes the `asked` likeliest tokens, and their log probabilities. Where fewer can be chosen, 0 and -inf stand for the
// rest.
template <class T>
inline void write_likeliest(i32* out, const T* logits, u32 n, u32 asked, float top, double log_sum) {
  Candidates c;
  c.n = 0, c.limit = asked < kTopLogprobsMax ? asked : kTopLogprobsMax;
  find_candidates(c, logits, n);
  for (u32 i = 0; i < c.limit; i++) {
    const bool possible = i < c.n && c.logits[i] > -__builtin_inff();
    out[i] = possible ? c.tokens[i] : 0;
    out[kTopLogprobsMax + i] =
        __builtin_bit_cast(i32, possible ? log_probability(c.logits[i], top, log_sum) : -__builtin_inff());
  }
}

// The log-probabilities of a run's targets, the first of which stands for its token; of more than one in its row of
// `top`, too.
template <class T>
inline void sample_targets(const Draw& job, u32 r, const T* logits, const i32* targets, float* scratch) {
  const i32* params = job.params + u64(job.kv_slots[job.starts[r]]) * kAdmittedWords;
  const Top top = top_logit(logits, job.vocab);
  const double log_sum = log_of_sum(scratch, logits, job.vocab, top.logit);
  const auto logprob = [&](i32 token) {
    const float logit = load_one(logits + token);
    return logit < __builtin_inff() ? log_probability(logit, top.logit, log_sum) : __builtin_nanf("");
  };
  const u32 n = u32(targets[0]), asked = u32(params[kParam<&Sampling::top_logprobs>]);
  job.finish[r] = i32(Finish::kNot);
  job.tokens[r] = targets[1];
  job.logprobs[r] = logprob(targets[1]);
  if (!job.top) return;
  i32* out = job.top + u64(r) * kTopWords;
  if (n == 1 && asked) return write_likeliest(out, logits, job.vocab, asked, top.logit, log_sum);
  for (u32 i = 0; i < n; i++) {
    out[i] = targets[1 + i];
    out[kTopLogprobsMax + i] = __builtin_bit_cast(i32, logprob(targets[1 + i]));
  }
}

// Draws for run `r` from its logits.
template <class T>
inline void sample_run(const Draw& job, u32 r, const T* logits, float* scratch) {
  const i32 slot = job.kv_slots[job.starts[r]];
  const i32* params = job.params + u64(slot) * kAdmittedWords;
  const Top top = top_logit(logits, job.vocab);
  const i32 token = choose(logits, job.vocab, top, params, job.made[r], scratch);
  const bool eos = !(u32(params[kParamFlags]) & kParamIgnoreEos) && contains(job.eos_ids, job.n_eos, token);
  const bool stop = eos || contains(params + kParam<&Sampling::stop_ids>, IdList::kMax, token);
  const bool full = i64(job.made[r]) + 1 >= i64(params[kParam<&Sampling::max_tokens>]);
  job.finish[r] = i32(stop ? Finish::kStop : full ? Finish::kLength : Finish::kNot);
  job.tokens[r] = job.last_token[slot] = token;
  const bool finite = load_one(logits + token) < __builtin_inff();  // false of NaN, too
  job.logprobs[r] = finite ? 0.0f : __builtin_nanf("");
  if (!finite || !(u32(params[kParamFlags]) & kParamLogprobs)) return;
  const double log_sum = log_of_sum(scratch, logits, job.vocab, top.logit);
  job.logprobs[r] = log_probability(load_one(logits + token), top.logit, log_sum);
  const u32 asked = u32(params[kParam<&Sampling::top_logprobs>]);
  if (job.top && asked) write_likeliest(job.top + u64(r) * kTopWords, logits, job.vocab, asked, top.logit, log_sum);
}

template <class T>
inline void sample_runs(const Draw& job, float* scratch) {
  for (u32 r = 0; r < job.n_runs; r++) {
    const i32* params = job.params + u64(job.kv_slots[job.starts[r]]) * kAdmittedWords;
    const u64 at = u64(r) * job.vocab;
    if (const i32* targets = job.targets.of(r))
      sample_targets(job, r, (const T*)job.logits + at, targets, scratch);
    else if (job.changed && (job.all_changed || has_logit_options(params) || is_masked(params)))
      sample_run(job, r, job.changed + at, scratch);
    else
      sample_run(job, r, (const T*)job.logits + at, scratch);
  }
}
