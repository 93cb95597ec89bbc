#include "service/answers/generation_calls.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace fastqps::service {

namespace {

std::unique_ptr<PromptPart> prompt_part(const RequestView& view) {
  const GenerateOptions& options = view.generate;
  if (!options.scores_prompt() && !options.echo) return {};
  const bool given = options.echo && view.input == Input::kText;
  return std::make_unique<PromptPart>(PromptPart{.logprobs = options.scores_prompt(),
                                                 .echo = options.echo,
                                                 .alone = options.prompt_alone(),
                                                 .answer_logprobs = options.logprobs || options.top_logprobs,
                                                 .top = options.prompt_logprobs,
                                                 .answer_top = options.top_logprobs,
                                                 .text = std::string(given ? view.text : "")});
}

}  // namespace

// ---- from a request to its slot

void GenerationCalls::begin(const RequestView& view, u32 r, u32 slot, bool stream,
                            std::unique_ptr<ChoiceTexts> choices) {
  const GenerateOptions& options = view.generate;
  Slot& s = tables_.slots.slot(slot);
  write_sampling(view, r, s.sampling);
  std::unique_ptr<PromptPart> prompt = view.input == Input::kStep ? nullptr : prompt_part(view);
  const bool progress = (stream || options.stop.count) && !choices && !options.prompt_alone();
  const bool logprobs = options.logprobs || options.top_logprobs || options.scores_prompt();
  s.flags |= u8((options.ignore_eos ? kIgnoreEos : 0) | (logprobs ? kLogprobs : 0) | (progress ? kProgress : 0) |
                (options.scores_prompt() ? kPromptLogprobs : 0));
  if (prompt) s.sampling.top_logprobs = std::max(prompt->top, prompt->answer_top);
  if (choices) {  // its answer is that of a script
    s.sampling.max_tokens = choices->tree.rows(), s.sampling.top_logprobs = choices->tree.targets_max();
    s.flags |= kLogprobs;
  }
  const u32 n_stops = choices ? 0 : options.stop.count;  // a text that is chosen has no other end
  std::string_view stops[kStopStringsMax];
  if (n_stops) texts_of(view, &GenerateOptions::stop, stops);
  const text::Detokenizer* detokenizer =
      view.input == Input::kStep ? nullptr : tables_.routes.setup(r).detokenizer.get();
  tables_.items.generations.open(slot).begin({detokenizer,
                                              {stops, n_stops},
                                              stream,
                                              options.include_stop_text,
                                              s.sampling.max_tokens,
                                              s.sampling.top_logprobs,
                                              std::move(choices),
                                              std::move(prompt)});
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
  const u32 before = scored(slot);
  const u32 made =
      tables_.slots.slot(slot).n_made.load(kAcquire);  // pairs with the dispatcher's store: they are readable
  // Nothing new, or impossible bytes.
  if (made <= before || made - before <= generation->taken() || made > answer(slot).max_tokens()) return;
  // A chunk of a few bytes takes several times its size in memory. So a client that reads slowly gets the rest in one
  // chunk.
  if (generation->stream() && !answers_.takes_more(item)) return;
  advance(slot, made - before, Finish::kNot);
}

bool GenerationCalls::finish(u32 slot) {
  const Slot& s = tables_.slots.slot(slot);
  const u32 before = scored(slot), made = s.n_values - std::min(s.n_values, before);
  const Finish finish = s.finish;
  const bool sound = s.kind == Answer::kTokens && (finish == Finish::kStop || finish == Finish::kLength) &&
                     made > tables_.items.generations.find(slot)->taken() && made <= answer(slot).max_tokens() - before;
  if (sound && tables_.items.generations.find(slot)->choices()) return answer_choice(slot, made);
  const PromptPart* prompt = tables_.items.generations.find(slot)->prompt();
  if (sound && prompt && prompt->alone) return answer_alone(slot), true;
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
  if (generation.prompt() && !generation.begun) view.prompt = read_prompt(slot);
  if (finish == Finish::kNot && !generation.stopped()) {
    if (generation.stream()) send_chunk(slot, view);
    return;
  }
  if (!generation.stream() && read_before) {  // these tokens were read only to find a stop string
    generation.restart();
    const PromptView prompt = view.prompt;
    view = read_tokens(slot, made, finish);
    view.prompt = prompt;
  }
  view.finish_reason = generation.stopped() || finish == Finish::kStop ? FinishReason::kStop : FinishReason::kLength;
  tables_.items.answer(slot);
  send_last(slot, view, finish != Finish::kNot);
  if (finish == Finish::kNot) tables_.slots.cancel(slot, Control::kStop);  // no matter whether it has just ended
}

// Of a request that wants its prompt alone: the token that was made is left out.
void GenerationCalls::answer_alone(u32 slot) {
  GenerationView view;
  view.finish_reason = FinishReason::kLength;
  begin_echo(slot);
  view.prompt = read_prompt(slot);
  tables_.items.answer(slot);
  send_last(slot, view, true);
}

// An edge's item has them in its answer, as the edge's own slot.
u32 GenerationCalls::scored(u32 slot) const {
  const Slot& s = tables_.slots.slot(slot);
  const bool own = tables_.items.generations.find(slot)->prompt();
  return own ? scored_tokens(s, s.n_tokens.load(kRelaxed)) : 0;  // relaxed: our own word
}

TokenAnswer GenerationCalls::answer(u32 slot) {
  Slot& s = tables_.slots.slot(slot);
  return tables_.items.generations.find(slot)->answer(tables_.memory.segment.answer_room(s),
                                                      scored_tokens(s, s.n_tokens.load(kRelaxed)));
}

// The first `columns` of the likeliest tokens. The ids are copied, as all are.
TopView GenerationCalls::top(const TokenAnswer& answer, u32 from, u32 n, u32 columns, TopRows& rows) {
  const std::span<const u32> ids = answer.top_ids(from, n);
  const std::span<const float> logprobs = answer.top_logprobs(from, n);
  columns = std::min(columns, answer.top());
  if (columns == answer.top()) return rows.ids.assign(ids.begin(), ids.end()), TopView{rows.ids, logprobs};
  rows.ids.clear(), rows.logprobs.clear();
  for (u32 i = 0; i < n; i++) {
    const u32 at = i * answer.top();
    rows.ids.insert(rows.ids.end(), ids.begin() + at, ids.begin() + at + columns);
    rows.logprobs.insert(rows.logprobs.end(), logprobs.begin() + at, logprobs.begin() + at + columns);
  }
  return {rows.ids, rows.logprobs};
}

// Before the answer's first token is read: its text goes on where the prompt's ends. What was cut is not repeated.
void GenerationCalls::begin_echo(u32 slot) {
  Generation& generation = *tables_.items.generations.find(slot);
  PromptPart* part = generation.prompt();
  if (!part || !part->echo || generation.taken() || !part->offsets.empty()) return;
  if (tables_.items[slot].truncated) part->text.clear();
  Slot& s = tables_.slots.slot(slot);
  generation.read_prompt({tables_.memory.segment.ids(s), s.n_tokens.load(kRelaxed)});  // relaxed: our own word
}

PromptView GenerationCalls::read_prompt(u32 slot) {
  const PromptPart& part = *tables_.items.generations.find(slot)->prompt();
  Slot& s = tables_.slots.slot(slot);
  const u32* ids = tables_.memory.segment.ids(s);
  prompt_ids_.assign(ids, ids + s.n_tokens.load(kRelaxed));  // relaxed: our own word
  PromptView view{.token_ids = prompt_ids_};
  if (part.echo) view.text = part.text, view.text_offsets = part.offsets;
  if (!part.logprobs) return view;
  const u32 n = scored(slot);
  const TokenAnswer answer = this->answer(slot);
  view.logprobs = answer.logprobs(0, n);
  view.top = top(answer, 0, n, part.top, prompt_top_);
  return view;
}

// Returns the unread tokens up to the made-th, or up to the one that completes a stop string. It copies ids, because
// the dispatcher's process could change them between two reads.
GenerationView GenerationCalls::read_tokens(u32 slot, u32 made, Finish finish) {
  begin_echo(slot);
  Generation& generation = *tables_.items.generations.find(slot);
  const TokenAnswer answer = this->answer(slot);
  const u32 before = scored(slot), from = generation.taken();
  const std::span<const u32> ids = answer.ids(before + from, made - from);
  ids_.assign(ids.begin(), ids.end());
  text_.clear();
  offsets_.clear();
  const PromptPart* prompt = generation.prompt();
  const bool logprobs = prompt ? prompt->answer_logprobs : tables_.slots.slot(slot).flags & kLogprobs;
  generation.read(ids_, finish, text_, logprobs ? &offsets_ : nullptr);
  const u32 n = generation.taken() - from;
  GenerationView view;
  view.text = text_;
  view.token_ids = {ids_.data(), n};
  if (!logprobs) return view;
  view.logprobs = answer.logprobs(before + from, n);
  view.top = top(answer, before + from, n, prompt ? prompt->answer_top : answer.top(), top_);
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
