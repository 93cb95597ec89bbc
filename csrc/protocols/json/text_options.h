// The options of a request for predictions as a client sent them.
#pragma once
#include <optional>
#include <string_view>

#include "contract/request_view.h"

namespace fastqps::protocols {

enum class TruncationDirection : i32 { kRight = 0, kLeft = 1 };

struct TextOptions {
  std::string_view model = {};  // empty: the first one that can do it, which TEI's own API always means
  Truncation truncation = {};
  TruncationDirection direction = TruncationDirection::kRight;  // may hold any number
  std::string_view prompt_name = {};                            // empty: the default one
  std::optional<bool> normalize = {};                           // of Embed; not given: true
  std::optional<u32> dimensions = {};                           // of Embed; not given: all
  bool raw_scores = false;                                      // of Predict and Rerank
  bool takes_empty = false;                                     // an empty text is one
};

// Those of a body of JSON.
struct JsonOptions {
  TextOptions text;
  RequestView base;  // what all items have
  bool return_text = false;

  // cuts: texts that are too long, where a request does not say. timings: they are in the answer's headers.
  static JsonOptions of_api(bool cuts, bool timings, bool takes_empty = false) {
    JsonOptions options;
    options.text.truncation.by_api = cuts;
    options.text.takes_empty = takes_empty;
    options.base.output.timings = timings;
    return options;
  }
};

}  // namespace fastqps::protocols
