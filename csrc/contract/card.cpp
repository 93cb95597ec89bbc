#include "contract/card.h"

#include <algorithm>

#include "contract/json_fields.h"

namespace fastqps {

namespace {

// Python writes a byte of a path that is not UTF-8 as half of a surrogate pair, which simdjson takes for a fault. It
// becomes U+FFFD, because no path is read here.
std::string without_raw_bytes(std::string_view json) {
  std::string out(json);
  for (size_t at = 0; (at = out.find('\\', at)) != std::string::npos;) {
    const auto half = [&](std::string_view digits) {
      return !out.compare(at, 3, "\\ud") && at + 3 < out.size() && digits.find(out[at + 3]) != digits.npos;
    };
    if (half("cdef")) out.replace(at, 6, "\\ufffd");
    at += half("89ab") ? 12 : 2;
  }
  return out;
}

}  // namespace

std::vector<u32> CheckpointOptions::forced() const {
  std::vector<u32> kept = forced_eos_token_id;
  std::erase_if(kept, [&](u32 id) { return std::ranges::find(suppress_tokens, id) != suppress_tokens.end(); });
  return kept;
}

std::string_view ModelCard::default_prompt_text() const {
  for (const auto& [name, text] : prompts)
    if (!default_prompt.empty() && name == default_prompt) return text;
  return {};
}

std::string read_card(std::string_view json, ModelCard& to) { return json::parse(without_raw_bytes(json), to); }

}  // namespace fastqps
