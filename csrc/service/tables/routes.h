// The routes of the models: which one serves a name, what its front door has loaded for it, and how many items hold its
// slots.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "contract/card.h"
#include "contract/request_view.h"
#include "contract/settings.h"
#include "core/layout.h"
#include "core/wake.h"
#include "service/tables/door.h"
#include "text/chat_template.h"
#include "text/load/detokenizer.h"
#include "text/tokenizer.h"
#include "transport/rpc/service.h"

namespace fastqps::service {

// Expands and marks the n ids of an input as its role says. There must be room for expanded_to ids. Returns their new
// number.
inline u32 apply_role(const InputRole& role, u32* ids, u32 n) {
  for (; n < role.expanded_to; n++) ids[n] = role.expansion_id;
  if (role.skipped.empty()) return n;
  for (u32 i = 0; i < n; i++)
    if (std::binary_search(role.skipped.begin(), role.skipped.end(), ids[i])) ids[i] |= kNoOwnAnswer;
  return n;
}

// The place of the role that a prompt_name means.
inline u8 role_of(const std::vector<InputRole>& roles, std::string_view prompt_name) {
  for (size_t i = 1; i < roles.size(); i++)
    if (roles[i].name == prompt_name) return u8(i);
  return 0;
}

// How many special tokens a tokenizer puts around a text.
struct SpecialsAround {
  u32 leading = 0, trailing = 0;
};

struct RouteSetup {
  ModelCard card;
  std::optional<text::ChatTemplate> chat;          // none: the card has no table
  std::unique_ptr<text::Tokenizer> tokenizer;      // null: the tokenize queue, or token ids only
  std::shared_ptr<text::Tokenizer> of_long_texts;  // its clone, for the worker's thread
  bool external_tokenizer = false;
  bool check_ids = false;                                // the tokenizer has ids beyond the model's vocabulary
  std::shared_ptr<const text::Detokenizer> detokenizer;  // of a generative model; null: token ids only
  Sampling checkpoint_sampling;                          // of a model that generates: its options' defaults
  SpecialsAround specials;                               // of a model that generates: requests decide about them
  std::vector<u32> forced_ids;                           // forced at an answer's limit; empty: any token
  std::optional<u32> empty_id;                           // for a text without tokens; none: it is refused
  std::string default_prompt;                            // text of what a request gets that names none; empty: none
  std::string version;                                   // NAME@VERSION, for the header
  u32 generation = 0;
  bool dropped = false;  // a setup without content: the previous generation is gone, and there is no other

  // With what follows from it.
  void set_card(ModelCard of) {
    card = std::move(of);
    if (card.empty_id >= 0) empty_id = u32(card.empty_id);
    default_prompt = card.default_prompt_text();
    version = card.name + "@" + card.version;
    if (card.chat && card.chat->table) chat.emplace(std::move(*card.chat->table));
    if (!card.logit_options) return;
    checkpoint_sampling = *card.logit_options;
    forced_ids = card.logit_options->forced();
  }
};

// A front door's own data of each route, such as tokenizers and labels. Another thread loads that of a new generation,
// and the loop takes it over between two turns.
class RouteSetups {
 public:
  RouteSetups(u32 routes, int wake_fd) : wake_fd_(wake_fd), setups_(routes), headers_(routes, 0) {}

  // Loop only.
  RouteSetup& operator[](u32 route) { return setups_[route]; }
  transport::HeaderId& header(u32 route) { return headers_[route]; }
  // Loop only: calls take(route, setup) for each new setup. take returns whether it replaces the current one.
  template <class Take>
  void take(Take take) {
    if (!offered_.load(std::memory_order_acquire)) return;
    {
      std::lock_guard lock(mutex_);
      offered_.store(false, std::memory_order_relaxed);  // under the lock, as in offer()
      for (auto& [route, setup] : offers_) {
        if (!take(route, setup)) continue;
        std::swap(setups_[route], setup);
      }
      discarded_.swap(offers_);  // freed by another thread, because large ones take a while
    }
    taken_.notify_all();
  }

  // Any thread.
  void offer(u32 route, RouteSetup setup) {
    {
      std::lock_guard lock(mutex_);
      discarded_.clear();
      offers_.emplace_back(route, std::move(setup));
      offered_.store(true, std::memory_order_release);
    }
    signal_fd(wake_fd_);
  }
  // Any thread but the loop's: frees replaced setups once the loop has taken the new ones, or after most_ms.
  void free_replaced(int most_ms) {
    Offers replaced;
    {
      std::unique_lock lock(mutex_);
      taken_.wait_for(lock, std::chrono::milliseconds(most_ms), [&] { return !offered_; });
      replaced.swap(discarded_);
    }
  }

 private:
  using Offers = std::vector<std::pair<u32, RouteSetup>>;
  const int wake_fd_;
  std::vector<RouteSetup> setups_;
  std::vector<transport::HeaderId> headers_;  // of each route, for ever: only its value changes
  std::mutex mutex_;
  std::condition_variable taken_;
  std::atomic<bool> offered_ = false;
  Offers offers_, discarded_;
};

class ModelRoutes {
 public:
  static constexpr i32 kUnknown = -1, kStarting = -2;

  ModelRoutes(const DoorMemory& memory, const DoorSettings& settings);

  const Route& operator[](u32 route) const { return memory_.route(route); }
  // The number of the model that has this name, or kUnknown. An empty name is the first model. Any thread.
  i32 number(std::string_view model) const;
  // Returns the route that serves a model, kUnknown, or kStarting if none of its generations serves yet.
  i32 find(std::string_view model) const {
    const i32 found = number(model);
    return found < 0 ? found : serving(u32(found));
  }
  // An empty name is the first model whose route can(route), or else the first one.
  template <class Can>
  i32 find(std::string_view model, Can can) const {
    for (u32 m = 0; model.empty() && m < models(); m++)
      if (const i32 route = serving(m); route >= 0 && can(u32(route))) return route;
    return find(model);
  }
  // The route under which a call of an unknown model is counted.
  u32 first() const { return u32(std::max(find({}), 0)); }
  const char* name(u32 route) const { return memory_.segment.model(route / kGenerations).name; }
  // All models' names and aliases, quoted, for a message.
  std::string names() const {
    std::string all = names([](u32) { return true; });
    for (const auto& [alias, model] : settings_.aliases) all.append(", '").append(alias).append("'");
    return all;
  }
  // Of those whose route can(route).
  template <class Can>
  std::string names(Can can) const {
    std::string names;
    for (u32 m = 0; m < models(); m++)
      if (can(m * kGenerations + memory_.segment.model(m).serving.load(kAcquire)))
        names.append(names.empty() ? "'" : ", '").append(memory_.segment.model(m).name).append("'");
    return names;
  }

  RouteSetup& setup(u32 route) { return setups_[route]; }
  // The most tokens of an input, by its role.
  u32 tokens_max(u32 route, u8 role) {
    const std::vector<InputRole>& roles = setup(route).card.roles;
    return role < roles.size() ? roles[role].max_tokens : (*this)[route].max_input_tokens;
  }
  // Whether an input that is too long is cut, instead of being refused.
  bool cuts(const Truncation& truncation) const {
    return truncation.asked.value_or(settings_.auto_truncate.value_or(truncation.by_api));
  }
  transport::HeaderId header(u32 route) { return setups_.header(route); }
  RouteSetups& setups() { return setups_; }

  // An item of the route holds a slot, until release().
  void hold(u32 route) { held_[route]++; }
  void release(u32 route) { held_[route]--; }

  // Called once a turn: takes the setups that another thread has loaded for a model's next generation.
  void take_setups(transport::LoopControl* loop);
  // Called at the end of a turn: while a generation is being replaced, reports to the supervisor how many items each
  // route holds.
  void report_held();

 private:
  u32 models() const { return memory_.segment.sizes().models; }
  // The route of a model, or kStarting.
  i32 serving(u32 model) const;

  const DoorMemory& memory_;
  const DoorSettings settings_;
  RouteSetups setups_;
  std::vector<u32> held_;  // by route: items that have a slot
  u32 flips_seen_ = 0;
  bool draining_ = false;
};

}  // namespace fastqps::service
