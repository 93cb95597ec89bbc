// A front door's own data of each route, such as tokenizers and labels. Another thread loads that of a new generation,
// and the loop takes it over between two turns.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contract/options.h"
#include "core/wake.h"
#include "service/tables/input_roles.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "transport/rpc/service.h"

namespace fastqps::service {

// How many special tokens a tokenizer puts around a text.
struct SpecialsAround {
  u32 leading = 0, trailing = 0;
};

struct RouteSetup {
  std::unique_ptr<text::Tokenizer> tokenizer;      // null: the tokenize queue, or token ids only
  std::shared_ptr<text::Tokenizer> of_long_texts;  // its clone, for the worker's thread
  bool external_tokenizer = false;
  bool cuts_left = false;                                    // an input that is too long keeps its end
  bool pairs_only = false;                                   // a cross-encoder: one text is refused
  bool check_ids = false;                                    // the tokenizer has ids beyond the model's vocabulary
  std::shared_ptr<const text::Detokenizer> detokenizer;      // of a generative model; null: token ids only
  Sampling checkpoint_sampling;                              // of a model that generates: its options' defaults
  SpecialsAround specials;                                   // of a model that generates: requests decide about them
  std::vector<u32> forced_ids;                               // forced at an answer's limit; empty: any token
  u32 characters_max = 0;                                    // of a text; 0: any number
  std::optional<u32> empty_id;                               // for a text without tokens; none: it is refused
  std::vector<std::pair<std::string, std::string>> prompts;  // name and text
  std::string default_prompt;                                // text of what a request gets that names none; empty: none
  std::vector<InputRole> roles;                              // of a model with a vector for each token; else empty
  std::vector<std::string> labels;
  std::string version;  // NAME@VERSION, for the header
  u32 generation = 0;
  bool dropped = false;  // a setup without content: the previous generation is gone, and there is no other
};

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

}  // namespace fastqps::service
