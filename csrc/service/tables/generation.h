// How far the front door has read each running generation, and the text that it holds back.
#pragma once
#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/request_view.h"
#include "core/choice_tree.h"
#include "core/layout.h"
#include "text/load/detokenizer.h"
#include "text/stop_strings.h"

namespace fastqps::service {

// The ids of a request's stop tokens, and of those of its stop strings that are special tokens: these have no text in
// which a string could be found. Returns how many: more than IdList::kMax are refused.
using StopIds = std::array<u32, IdList::kMax + kStopStringsMax>;
u32 stop_ids(const RequestView& request, const text::Detokenizer* detokenizer, StopIds& ids);

// Tokens that a dispatcher may make: one, which is left out, where nothing is to be generated.
inline u32 answer_limit(const GenerateOptions& options, const Route& route) {
  if (options.prompt_alone()) return 1;
  return options.max_tokens ? std::min(options.max_tokens, route.max_output_tokens) : route.max_output_tokens;
}

// The texts that a request lets the model choose from.
struct ChoiceTexts {
  std::vector<std::string> texts;
  ChoiceTree tree;
  bool logprobs;  // those of the chosen text's tokens are wanted
};

// What a request wants of its prompt, beside an answer or alone.
struct PromptPart {
  bool logprobs = false;         // of its tokens, which stand in front of the answer's in the slot
  bool echo = false;             // the text begins with it
  bool alone = false;            // the token that is made is left out
  bool answer_logprobs = false;  // those of the answer are wanted, too
  u32 top = 0, answer_top = 0;   // likeliest tokens in the place of each of the prompt's tokens, and of the answer's
  std::string text;              // as it was given; empty: its tokens' text stands for it
  // Of an echo, once its tokens are known.
  text::DetokenizerState state = {};  // behind it
  std::vector<u32> offsets = {};      // how many characters are in front of each token
  u32 characters = 0;
};

// How a request is to be answered.
struct AnswerStart {
  const text::Detokenizer* detokenizer;  // null: token ids only; otherwise it must outlive the answer
  std::span<const std::string_view> stops;
  bool stream, keeps_stop;  // keeps_stop: the text has the stop string, or the stop token, that ends it
  u32 max_tokens, top;      // of its answer in the slot, without the prompt's tokens
  std::unique_ptr<ChoiceTexts> choices;
  std::unique_ptr<PromptPart> prompt;
};

// The state of one request's reader. The tokens stay in the slot. In the steady state nothing is allocated, and the
// text held back is shorter than the longest stop string.
class Generation {
 public:
  // The stop strings are copied.
  void begin(AnswerStart start);
  // The tokens of a prompt that its answer repeats. Called before the first read().
  void read_prompt(std::span<const u32> ids);
  // Discards the tokens read so far.
  void restart();
  // Prepares the object for another request.
  void end();

  // Reads the next tokens and appends their text to `text`, in whole characters. It stops after the token that
  // completes a stop string. `finish`: whether and how the last token ended the generation. A stop token has no text,
  // unless it is kept. offsets: null, or where to append for each token how many characters were complete before it.
  void read(std::span<const u32> ids, Finish finish, std::string& text, std::vector<u32>* offsets = nullptr);

  // What its slot has, with so many tokens of the prompt in front.
  TokenAnswer answer(std::span<u8> room, u32 scored) const { return {room, scored + max_tokens_, top_}; }
  PromptPart* prompt() const { return prompt_.get(); }           // null: nothing of it is wanted
  const ChoiceTexts* choices() const { return choices_.get(); }  // null: any text is possible
  u32 taken() const { return taken_; }                           // tokens read
  bool stopped() const { return stopped_; }                      // by a stop string: later tokens are not read
  bool stream() const { return stream_; }                        // sent token by token
  bool begun = false;                                            // the client has a part of it

 private:
  bool pass_piece(std::string& text);
  void read_stop(u32 id, std::string& out);

  const text::Detokenizer* detokenizer_ = nullptr;
  text::DetokenizerState state_;
  text::StopStrings stops_;
  std::string piece_;  // text of one token, before stops_ has checked it
  u32 taken_ = 0, characters_ = 0;
  u32 max_tokens_ = 0, top_ = 0;
  bool stream_ = false, stopped_ = false, keeps_stop_ = false;
  std::unique_ptr<ChoiceTexts> choices_;
  std::unique_ptr<PromptPart> prompt_;
};

// By slot; pooled.
class Generations {
 public:
  explicit Generations(u32 slots) : of_slot_(slots, kNone) {}
  Generation& open(u32 slot);
  Generation* find(u32 slot) { return of_slot_[slot] == kNone ? nullptr : &all_[of_slot_[slot]]; }
  void close(u32 slot);
  u32 open() const { return u32(all_.size() - free_.size()); }

 private:
  static constexpr u32 kNone = ~u32(0);
  std::deque<Generation> all_;  // as many as ever ran at once
  std::vector<u32> free_, of_slot_;
};

}  // namespace fastqps::service
