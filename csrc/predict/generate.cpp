// What differs for a model that generates: its options, and tokens that are read while they are made.
//
// Predict reads a generation once, at its end, unless it has stop strings; Generate and whoever has stop strings are
// told by progress(). Tokens wait in the slot until they are read, so a client that does not read its chunks costs
// nothing: it gets the rest in one.
#include <algorithm>
#include <utility>

#include "predict/predict_service.h"

namespace fastqps::front {

static_assert(kStopTokensMax == kStopIdsMax && kSuppressTokensMax == kSuppressIdsMax, "a slot has room for them");

// ---- from a request to its slot

// What this model cannot do. Limits that hold for every model: check_request().
PredictService::Refusal PredictService::check_generator(const RequestView& view, u32 r) {
  const Route& route = segment_.route(r);
  const GenerateOptions& options = view.generate;
  const OutputOptions& output = view.output;
  const char* name = model_name(r);
  if (view.input == Input::kPair)
    return refuse_field("pair", "2 texts, at most 1 for the model '%s', which generates", name);
  const auto meaningless = [&](const char* field, u32 value) {
    return refuse_field(field, "%u, but the model '%s' generates text; leave it unset", value, name);
  };
  if (output.dtype) return meaningless("output.dtype", u32(output.dtype));
  if (output.dimensions) return meaningless("output.dimensions", output.dimensions);
  if (output.has_normalize) return meaningless("output.normalize", output.normalize);
  if (output.top_labels) return meaningless("output.top_labels", output.top_labels);
  if (output.raw_scores) return meaningless("output.raw_scores", 1);
  if (options.max_tokens > route.max_output_tokens)
    return refuse_field("generate.max_tokens", "%u, at most %u", options.max_tokens, route.max_output_tokens);
  const u32 max_tokens = options.max_tokens ? options.max_tokens : route.max_output_tokens;
  if (options.min_tokens > max_tokens)
    return refuse_field("generate.min_tokens", "%u, at most max_tokens, %u", options.min_tokens, max_tokens);
  if (options.stop_count && !setups_[r].detokenizer)
    return refuse_field("generate.stop",
                        "the model '%s' has no tokenizer, so stop strings cannot be found; use stop_token_ids", name);
  return check_token_options(view, r);
}

PredictService::Refusal PredictService::check_token_options(const RequestView& view, u32 r) {
  const u32 vocab = segment_.route(r).vocab_size;
  u32 ids[std::max(kStopTokensMax, kSuppressTokensMax)];
  const auto unknown = [vocab](u32 id) { return id >= vocab; };
  stop_tokens(view, ids);
  const u32* end = ids + view.generate.stop_token_count;
  if (const u32* id = std::find_if<const u32*>(ids, end, unknown); id != end)
    return refuse_field("generate.stop_token_ids", "id %u, the vocabulary has %u", *id, vocab);
  suppress_tokens(view, ids);
  end = ids + view.generate.suppress_token_count;
  if (const u32* id = std::find_if<const u32*>(ids, end, unknown); id != end)
    return refuse_field("generate.suppress_token_ids", "id %u, the vocabulary has %u", *id, vocab);
  const std::vector<u32>& forced = setups_[r].forced_ids;
  const auto suppressed = [&](u32 id) { return std::find<const u32*>(ids, end, id) != end; };
  if (!forced.empty() && std::all_of(forced.begin(), forced.end(), suppressed))
    return refuse_field(
        "generate.suppress_token_ids",
        "%zu ids, with all %zu that the checkpoint's forced_eos_token_id forces; leave one of those out",
        size_t(end - ids), forced.size());
  return {};
}

// Only for a request that check_generator() let pass. The slot's flags for scatter are written before.
void PredictService::begin_generation(const RequestView& view, u32 r, u32 slot, bool stream) {
  const GenerateOptions& options = view.generate;
  Slot& s = slab_.slot(slot);
  Sampling& sampling = s.sampling;
  sampling.seed = options.has_seed ? options.seed : seeds_.next();
  sampling.temperature = options.temperature;
  sampling.top_p = options.has_top_p ? options.top_p : 1;
  sampling.top_k = options.top_k;
  sampling.max_tokens = options.max_tokens ? options.max_tokens : segment_.route(r).max_output_tokens;
  sampling.n_stop_ids = options.stop_token_count;
  stop_tokens(view, sampling.stop_ids);
  const LogitDefaults& checkpoint = setups_[r].logit_defaults;
  sampling.repetition_penalty =
      options.has_repetition_penalty ? options.repetition_penalty : checkpoint.repetition_penalty;
  sampling.no_repeat_ngram_size =
      options.has_no_repeat_ngram_size ? options.no_repeat_ngram_size : checkpoint.no_repeat_ngram_size;
  sampling.min_tokens = options.has_min_tokens ? options.min_tokens : checkpoint.min_tokens;
  sampling.min_length = options.has_min_tokens ? 0 : checkpoint.min_length;
  sampling.n_suppress_ids = options.suppress_token_count;
  suppress_tokens(view, sampling.suppress_ids);
  s.flags |= u8((options.ignore_eos ? kIgnoreEos : 0) | (options.logprobs ? kLogprobs : 0) |
                (stream || options.stop_count ? kProgress : 0));
  std::string_view stops[kStopStringsMax];
  stop_strings(view, stops);
  generations_.open(slot).begin(setups_[r].detokenizer.get(), {stops, options.stop_count}, stream);
}

// ---- from the slot to the client

// The slab's word that more tokens have come.
void PredictService::progress(u32 slot, u64) {
  const Item& item = items_[slot];
  const Generation* generation = generations_.find(slot);
  if (!generation || item.answered) return;
  const u32 made = slab_.slot(slot).n_made.load(kAcquire);  // pairs with the dispatcher's store: the tokens are there
  if (made <= generation->taken() || made > token_room(slot)) return;  // nothing new, or bytes that nobody should write
  // Chunks of a few bytes take several times their size in memory: who does not read them gets the rest in one.
  if (generation->stream() && !transport_->caught_up(item.call)) return;
  advance(slot, made, Finish::kNot);
}

// The slab's word that the request will run again. Nothing of it is with its client.
void PredictService::restarted(u32 slot, u64) {
  Item& item = items_[slot];
  if (!std::exchange(item.waits, true)) shares_.wait(item.connection, item.route);
  if (Generation* generation = generations_.find(slot)) generation->restart();
}

// `made` tokens are there. Sends what is new to a stream, and answers if the generation has ended: as its dispatcher
// says, or by a stop string.
void PredictService::advance(u32 slot, u32 made, Finish finish) {
  Generation& generation = *generations_.find(slot);
  const bool read_before = generation.taken() > 0;
  GenerationView view = read_tokens(slot, made, finish);
  if (finish == Finish::kNot && !generation.stopped()) {
    if (generation.stream()) send_chunk(slot, view);
    return;
  }
  if (!generation.stream() && read_before) {  // that was only to find a stop string
    generation.restart();
    view = read_tokens(slot, made, finish);
  }
  view.finish_reason = generation.stopped() || finish == Finish::kStop ? FinishReason::kStop : FinishReason::kLength;
  items_[slot].answered = true;
  deadlines_.clear(slot);
  end_generation(slot, view, finish != Finish::kNot);
  if (finish == Finish::kNot) slab_.cancel(slot, Control::kStop);  // whether it has just ended or not: it is answered
}

// How many tokens the slot's answer can hold.
u32 PredictService::token_room(u32 slot) const {
  return u32(
      std::min<u64>(segment_.route(items_[slot].route).max_output_tokens, segment_.sizes().answer_bytes / kTokenBytes));
}

// The tokens from the first unread one up to the made-th, or to the one that completes a stop string. Ids are copied:
// their size and their bytes must be of one moment, whatever the dispatcher's process does.
GenerationView PredictService::read_tokens(u32 slot, u32 made, Finish finish) {
  Generation& generation = *generations_.find(slot);
  Slot& s = slab_.slot(slot);
  const u32* ids = reinterpret_cast<const u32*>(segment_.answer(s));
  const float* logprobs = reinterpret_cast<const float*>(ids + segment_.route(items_[slot].route).max_output_tokens);
  const u32 from = generation.taken();
  scratch_ids_.assign(ids + from, ids + made);
  text_.clear();
  generation.read(scratch_ids_, finish, text_);
  const u32 n = generation.taken() - from;
  GenerationView view;
  view.text = text_;
  view.token_ids = {scratch_ids_.data(), n};
  if (s.flags & kLogprobs) view.logprobs = {logprobs + from, n};
  return view;
}

void PredictService::send_chunk(u32 slot, const GenerationView& view) {
  const Item& item = items_[slot];
  Generation& generation = *generations_.find(slot);
  const ChunkView chunk{item.request_id, view, nullptr, nullptr};
  const size_t size = chunk_size(chunk);
  u8* out = transport_->begin_message(item.call, size);
  if (!out) return;  // on_gone() has been called
  write_chunk(chunk, out);
  if (!std::exchange(generation.begun, true)) {
    slab_.begun(slot);
    transport_->set_header(item.call, setups_.header(item.route));
  }
  transport_->commit_message(item.call, size);
}

// A dispatcher's answer that has come in full. False: these bytes cannot be one.
bool PredictService::finish_generation(u32 slot) {
  const Slot& s = slab_.slot(slot);
  const u32 made = s.n_values;
  const Finish finish = s.finish;
  const bool sound = s.kind == Answer::kTokens && (finish == Finish::kStop || finish == Finish::kLength) &&
                     made > generations_.find(slot)->taken() && made <= token_room(slot);
  if (sound) advance(slot, made, finish);
  return sound;
}

void PredictService::end_generation(u32 slot, const GenerationView& view, bool done) {
  const Item& item = items_[slot];
  const Generation& generation = *generations_.find(slot);
  count_answer(slot, done);
  const Usage usage = usage_of(slot, generation.taken());
  const Timings timings = timings_of(slot, done);
  const Timings* asked = slab_.slot(slot).flags & kWantTimings ? &timings : nullptr;
  if (generation.stream()) return report(item, ChunkView{item.request_id, view, &usage, asked});
  ResponseView response;
  response.request_id = item.request_id;
  response.output = Output::kGeneration;
  response.generation = view;
  response.usage = &usage;
  response.timings = asked;
  report(item, response);
}

}  // namespace fastqps::front
