#include "service/answers/generation_calls.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace fastqps::service {

// ---- from a request to its slot

void GenerationCalls::begin(const RequestView& view, u32 r, u32 slot, bool stream,
                            std::unique_ptr<ChoiceTexts> choices) {
  const GenerateOptions& options = view.generate;
  Slot& s = tables_.slots.slot(slot);
  write_sampling(view, r, s.sampling);
  s.flags |= u8((options.ignore_eos ? kIgnoreEos : 0) | (options.logprobs || options.top_logprobs ? kLogprobs : 0) |
                ((stream || options.stop.count) && !choices ? kProgress : 0));
  if (choices) {  // its answer is that of a script
    s.sampling.max_tokens = choices->tree.rows(), s.sampling.top_logprobs = choices->tree.targets_max();
    s.flags |= kLogprobs;
  }
  const u32 n_stops = choices ? 0 : options.stop.count;  // a text that is chosen has no other end
  std::string_view stops[kStopStringsMax];
  if (n_stops) texts_of(view, &GenerateOptions::stop, stops);
  const text::Detokenizer* detokenizer =
      view.input == Input::kStep ? nullptr : tables_.routes.setup(r).detokenizer.get();
  tables_.items.generations.open(slot).begin(detokenizer, {stops, n_stops}, stream, options.include_stop_text,
                                             s.sampling.max_tokens, s.sampling.top_logprobs, std::move(choices));
}

void GenerationCalls::write_sampling(const RequestView& view, u32 r, Sampling& sampling) {
  const GenerateOptions& options = view.generate;
  sampling = options;
  if (!options.has(kSeedField)) sampling.seed = seeds_.next();
  sampling.max_tokens = answer_limit(options, tables_.routes[r]);
  StopIds stops;
  const u32 n = std::min(stop_ids(view, tables_.routes.setup(r).detokenizer.get(), stops), IdList::kMax);
  sampling.stop_ids = {};
  for (u32 i = 0; i < n; i++) sampling.stop_ids.add(stops[i]);
  const Sampling& checkpoint = tables_.routes.setup(r).checkpoint_sampling;
  each_option(kSamplingOptions, [&](const auto& row) {
    if (row.checkpoint && !options.has(row.number)) sampling.*row.member = checkpoint.*row.member;
  });
  // A request's minimum replaces both of the checkpoint's.
  if (options.has(kMinTokensField)) sampling.min_length = options.min_length;
}

// ---- from the slot to the client

void GenerationCalls::read_progress(u32 slot) {
  const Item& item = tables_.items[slot];
  const Generation* generation = tables_.items.generations.find(slot);
  if (!generation || item.answered) return;
  const u32 made =
      tables_.slots.slot(slot).n_made.load(kAcquire);  // pairs with the dispatcher's store: they are readable
  if (made <= generation->taken() || made > answer(slot).max_tokens()) return;  // nothing new, or impossible bytes
  // A chunk of a few bytes takes several times its size in memory. So a client that reads slowly gets the rest in one
  // chunk.
  if (generation->stream() && !answers_.takes_more(item)) return;
  advance(slot, made, Finish::kNot);
}

bool GenerationCalls::finish(u32 slot) {
  const Slot& s = tables_.slots.slot(slot);
  const u32 made = s.n_values;
  const Finish finish = s.finish;
  const bool sound = s.kind == Answer::kTokens && (finish == Finish::kStop || finish == Finish::kLength) &&
                     made > tables_.items.generations.find(slot)->taken() && made <= answer(slot).max_tokens();
  if (sound && tables_.items.generations.find(slot)->choices()) return answer_choice(slot, made);
  if (sound) advance(slot, made, finish);
  return sound;
}

// Answers with the text that is chosen from what the dispatcher has found out. Returns false if that is not sound.
bool GenerationCalls::answer_choice(u32 slot, u32 made) {
  Generation& generation = *tables_.items.generations.find(slot);
  const ChoiceTexts& choices = *generation.choices();
  const TokenAnswer found = answer(slot);
  if (made != choices.tree.rows()) return false;
  const TargetLogprobs logprobs{found.logprobs(0, made), found.top_logprobs(0, made)};
  const std::vector<double> sums = choices.tree.sums(logprobs);
  if (std::any_of(sums.begin(), sums.end(), [](double sum) { return std::isnan(sum); })) return false;
  const Sampling& sampling = tables_.slots.slot(slot).sampling;
  const u32 chosen = choose_text(sums, sampling.temperature, sampling.seed);
  const std::vector<float> scores = shares(sums);
  std::vector<ChoiceScore> views;
  for (u32 i = 0; i < sums.size(); i++) views.push_back({choices.texts[i], float(sums[i]), scores[i]});
  const std::vector<u32> ids = choices.tree.tokens(chosen);
  const std::vector<float> own = choices.tree.logprobs(chosen, logprobs);
  std::vector<u32> offsets;
  text_.clear();
  generation.read(ids, Finish::kLength, text_, &offsets);
  GenerationView view;
  view.text = choices.texts[chosen];
  view.token_ids = ids;
  if (choices.logprobs) view.logprobs = own, view.text_offsets = offsets;
  view.finish_reason = FinishReason::kStop;
  view.choice_scores = views;
  tables_.items.answer(slot);
  send_last(slot, view, true);
  return true;
}

// Reads the first `made` tokens. Sends the new ones to a stream, and answers if the dispatcher or a stop string has
// ended the generation.
void GenerationCalls::advance(u32 slot, u32 made, Finish finish) {
  Generation& generation = *tables_.items.generations.find(slot);
  const bool read_before = generation.taken() > 0;
  GenerationView view = read_tokens(slot, made, finish);
  if (finish == Finish::kNot && !generation.stopped()) {
    if (generation.stream()) send_chunk(slot, view);
    return;
  }
  if (!generation.stream() && read_before) {  // these tokens were read only to find a stop string
    generation.restart();
    view = read_tokens(slot, made, finish);
  }
  view.finish_reason = generation.stopped() || finish == Finish::kStop ? FinishReason::kStop : FinishReason::kLength;
  tables_.items.answer(slot);
  send_last(slot, view, finish != Finish::kNot);
  if (finish == Finish::kNot) tables_.slots.cancel(slot, Control::kStop);  // no matter whether it has just ended
}

TokenAnswer GenerationCalls::answer(u32 slot) {
  return tables_.items.generations.find(slot)->answer(tables_.memory.segment.answer_room(tables_.slots.slot(slot)));
}

// Returns the unread tokens up to the made-th, or up to the one that completes a stop string. It copies ids, because
// the dispatcher's process could change them between two reads.
GenerationView GenerationCalls::read_tokens(u32 slot, u32 made, Finish finish) {
  Generation& generation = *tables_.items.generations.find(slot);
  const TokenAnswer answer = this->answer(slot);
  const u32 from = generation.taken();
  const std::span<const u32> ids = answer.ids(from, made - from);
  ids_.assign(ids.begin(), ids.end());
  text_.clear();
  offsets_.clear();
  const bool logprobs = tables_.slots.slot(slot).flags & kLogprobs;
  generation.read(ids_, finish, text_, logprobs ? &offsets_ : nullptr);
  const u32 n = generation.taken() - from;
  GenerationView view;
  view.text = text_;
  view.token_ids = {ids_.data(), n};
  if (!logprobs) return view;
  view.logprobs = answer.logprobs(from, n);
  const std::span<const u32> top = answer.top_ids(from, n);
  top_ids_.assign(top.begin(), top.end());
  view.top = {top_ids_, answer.top_logprobs(from, n)};
  view.text_offsets = offsets_;
  return view;
}

void GenerationCalls::send_chunk(u32 slot, const GenerationView& view) {
  const Item item = tables_.items[slot];  // a copy: the call may end meanwhile
  // So far. GenerateChunk has it in the last chunk alone; a writer of another protocol takes it where it is asked for.
  const Usage so_far = reader_.read_usage(slot, tables_.items.generations.find(slot)->taken());
  const Usage* usage = item.group == Groups::kNone ? nullptr : &so_far;
  if (!answers_.send_chunk(item, {item.request_id, view, usage, nullptr, item.index}))
    return;  // on_gone() has been called
  if (!std::exchange(tables_.items.generations.find(slot)->begun, true)) tables_.slots.begun(slot);
}

// done: the dispatcher ended the generation.
void GenerationCalls::send_last(u32 slot, const GenerationView& view, bool done) {
  const Item& item = tables_.items[slot];
  const Generation& generation = *tables_.items.generations.find(slot);
  records_.answered(slot, done ? ItemRecords::Ended::kByDispatcher : ItemRecords::Ended::kByDoor);
  tables_.items.shares.generated(tables_.items.tenant(slot), generation.taken());
  const Usage usage = reader_.read_usage(slot, generation.taken());
  const Timings timings = reader_.read_timings(slot, done);
  const Timings* asked = tables_.slots.slot(slot).flags & kWantTimings ? &timings : nullptr;
  if (generation.stream()) return answers_.answer(item, ChunkView{item.request_id, view, &usage, asked, item.index});
  ResponseView response;
  response.request_id = item.request_id;
  response.output = Output::kGeneration;
  response.generation = view;
  response.usage = &usage;
  response.timings = asked;
  answers_.answer(item, response);
}

}  // namespace fastqps::service
