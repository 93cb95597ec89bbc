#include "contract/card.h"

#include <algorithm>

#include "contract/json_fields.h"
#include "contract/strip.h"

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

std::string_view trimmed(std::string_view text) { return strip_end(strip_begin(text, kPythonSpaces), kPythonSpaces); }

}  // namespace

void TextTemplate::fill(const Parts& parts, std::string_view first, std::string_view second, std::string& to) {
  to.clear();
  for (const auto& [fixed, slot] : parts) {
    const std::string_view text = slot.starts_with("first") ? first : second;
    to.append(fixed).append(slot.empty() ? std::string_view() : slot.ends_with(" trimmed") ? trimmed(text) : text);
  }
}

bool ModelCard::ranks() const {
  return labels.size() == 2 && label_ids.size() == 2 && (templates.empty() || !templates[0].pair.empty());
}

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
