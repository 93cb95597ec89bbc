#include "service/tables/generation.h"

#include <algorithm>

#include "contract/utf8.h"

namespace fastqps::service {

static_assert(kStopStringsMax == text::StopStrings::kStringsMax && kTextBytesMax == text::StopStrings::kBytesMax);

u32 stop_ids(const RequestView& request, const text::Detokenizer* detokenizer, StopIds& ids) {
  const std::span<const u32> given = request.generate.stop_ids.all();
  std::copy(given.begin(), given.end(), ids.begin());
  u32 n = u32(given.size());
  if (!detokenizer || !request.generate.stop.count) return n;
  std::string_view stops[kStopStringsMax];
  texts_of(request, &GenerateOptions::stop, stops);
  for (u32 i = 0; i < request.generate.stop.count; i++) {
    const std::optional<u32> id = detokenizer->special_id(stops[i]);
    if (id && std::find(ids.begin(), ids.begin() + n, *id) == ids.begin() + n) ids[n++] = *id;
  }
  return n;
}

void Generation::begin(AnswerStart start) {
  detokenizer_ = start.detokenizer;
  max_tokens_ = start.max_tokens, top_ = start.top;
  choices_ = std::move(start.choices);
  prompt_ = std::move(start.prompt);
  stream_ = start.stream;
  keeps_stop_ = start.keeps_stop;
  (void)stops_.assign(start.stops, keeps_stop_);  // check_request() has checked the limits
  begun = false;
  restart();
}

void Generation::restart() {
  state_ = prompt_ ? prompt_->state : text::DetokenizerState();
  stops_.restart();
  taken_ = 0;
  characters_ = prompt_ ? prompt_->characters : 0;
  stopped_ = false;
}

void Generation::end() { stops_ = {}, piece_ = {}, choices_ = {}, prompt_ = {}; }

// The answer's text goes on where the prompt's ends. In one that was given no character is left to be completed.
void Generation::read_prompt(std::span<const u32> ids) {
  if (!detokenizer_) return;
  PromptPart& prompt = *prompt_;
  std::string text;
  u32 characters = 0;
  for (const u32& id : ids) {
    prompt.offsets.push_back(characters);
    const size_t before = text.size();
    detokenizer_->append(prompt.state, &id, 1, text);
    characters += text::count_chars(std::string_view(text).substr(before));
  }
  if (prompt.text.empty()) {
    if (prompt.alone) detokenizer_->finish(prompt.state, text);
    prompt.text = std::move(text);
  } else {
    prompt.state.n_held = 0;
    prompt.state.bytes.clear();
  }
  prompt.characters = text::count_chars(prompt.text);
  for (u32& offset : prompt.offsets) offset = std::min(offset, prompt.characters);
  restart();
}

void Generation::read(std::span<const u32> ids, Finish finish, std::string& text, std::vector<u32>* offsets) {
  if (!detokenizer_) {
    if (offsets) offsets->resize(offsets->size() + ids.size());
    return void(taken_ += u32(ids.size()));
  }
  std::string& out = stops_.empty() ? text : piece_;
  for (size_t i = 0; i < ids.size() && !stopped_; i++) {
    taken_++;
    if (offsets) offsets->push_back(characters_);
    if (finish == Finish::kStop && i + 1 == ids.size()) {  // the token that ended it
      if (keeps_stop_) read_stop(ids[i], out);
      break;
    }
    const size_t before = out.size();
    detokenizer_->append(state_, &ids[i], 1, out);
    if (offsets) characters_ += text::count_chars(std::string_view(out).substr(before));
    stopped_ = pass_piece(text);
  }
  if (finish == Finish::kNot || stopped_) return;
  detokenizer_->finish(state_, out);
  stopped_ = pass_piece(text);
  stops_.finish(text);
}

// A special token has no text but where it is one of the stop strings.
void Generation::read_stop(u32 id, std::string& out) {
  detokenizer_->append(state_, &id, 1, out);
  const std::string_view spelled = detokenizer_->special(id);
  if (spelled.empty() || !stops_.has(spelled)) return;
  detokenizer_->finish(state_, out);
  out += spelled;
}

// Returns whether a stop string is complete.
bool Generation::pass_piece(std::string& text) {
  if (stops_.empty()) return false;
  const bool matched = stops_.feed(piece_, text);
  piece_.clear();
  return matched;
}

Generation& Generations::open(u32 slot) {
  if (free_.empty()) {
    free_.push_back(u32(all_.size()));
    all_.emplace_back();
  }
  of_slot_[slot] = free_.back();
  free_.pop_back();
  return all_[of_slot_[slot]];
}

void Generations::close(u32 slot) {
  if (of_slot_[slot] == kNone) return;
  all_[of_slot_[slot]].end();
  free_.push_back(of_slot_[slot]);
  of_slot_[slot] = kNone;
}

}  // namespace fastqps::service
