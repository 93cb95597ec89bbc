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

// What Python's str.strip takes off a text.
constexpr std::string_view kSpaces[] = {" ",
                                        "\n",
                                        "\t",
                                        "\r",
                                        "\v",
                                        "\f",
                                        "\x1c",
                                        "\x1d",
                                        "\x1e",
                                        "\x1f",
                                        "\xc2\x85",
                                        "\xc2\xa0",
                                        "\xe1\x9a\x80",
                                        "\xe2\x80\x80",
                                        "\xe2\x80\x81",
                                        "\xe2\x80\x82",
                                        "\xe2\x80\x83",
                                        "\xe2\x80\x84",
                                        "\xe2\x80\x85",
                                        "\xe2\x80\x86",
                                        "\xe2\x80\x87",
                                        "\xe2\x80\x88",
                                        "\xe2\x80\x89",
                                        "\xe2\x80\x8a",
                                        "\xe2\x80\xa8",
                                        "\xe2\x80\xa9",
                                        "\xe2\x80\xaf",
                                        "\xe2\x81\x9f",
                                        "\xe3\x80\x80"};

std::string_view trimmed(std::string_view text) {
  const auto begins = [&](std::string_view space) { return text.starts_with(space); };
  const auto ends = [&](std::string_view space) { return text.ends_with(space); };
  for (auto at = std::ranges::find_if(kSpaces, begins); at != std::end(kSpaces);
       at = std::ranges::find_if(kSpaces, begins))
    text.remove_prefix(at->size());
  for (auto at = std::ranges::find_if(kSpaces, ends); at != std::end(kSpaces); at = std::ranges::find_if(kSpaces, ends))
    text.remove_suffix(at->size());
  return text;
}

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
