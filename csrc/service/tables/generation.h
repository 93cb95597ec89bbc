// How far the front door has read each running generation, and the text that it holds back.
#pragma once
#include <algorithm>
#include <array>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/request_view.h"
#include "core/layout.h"
#include "text/load/detokenizer.h"
#include "text/stop_strings.h"

namespace fastqps::service {

// The ids of a request's stop tokens, and of those of its stop strings that are special tokens: these have no text in
// which a string could be found. Returns how many: more than IdList::kMax are refused.
using StopIds = std::array<u32, IdList::kMax + kStopStringsMax>;
u32 stop_ids(const RequestView& request, const text::Detokenizer* detokenizer, StopIds& ids);

// Tokens that an answer may have.
inline u32 answer_limit(const GenerateOptions& options, const Route& route) {
  return options.max_tokens ? std::min(options.max_tokens, route.max_output_tokens) : route.max_output_tokens;
}

// The state of one request's reader. The tokens stay in the slot. In the steady state nothing is allocated, and the
// text held back is shorter than the longest stop string.
class Generation {
 public:
  // detokenizer: null for token ids only; otherwise it must outlive this object. The stop strings are copied.
  // keeps_stop: the text has the stop string, or the stop token, that ends it.
  void begin(const text::Detokenizer* detokenizer, std::span<const std::string_view> stops, bool stream,
             bool keeps_stop = false);
  // Discards the tokens read so far.
  void restart();
  // Prepares the object for another request.
  void end();

  // Reads the next tokens and appends their text to `text`, in whole characters. It stops after the token that
  // completes a stop string. `finish`: whether and how the last token ended the generation. A stop token has no text,
  // unless it is kept.
  void read(std::span<const u32> ids, Finish finish, std::string& text);

  u32 taken() const { return taken_; }       // tokens read
  bool stopped() const { return stopped_; }  // by a stop string: later tokens are not read
  bool stream() const { return stream_; }    // sent token by token
  bool begun = false;                        // the client has a part of it

 private:
  bool pass_piece(std::string& text);
  void read_stop(u32 id, std::string& out);

  const text::Detokenizer* detokenizer_ = nullptr;
  text::DetokenizerState state_;
  text::StopStrings stops_;
  std::string piece_;  // text of one token, before stops_ has checked it
  u32 taken_ = 0;
  bool stream_ = false, stopped_ = false, keeps_stop_ = false;
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
