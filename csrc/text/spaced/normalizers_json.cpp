// The part of SpacedReader that reads normalizers.
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "contract/types.h"
#include "text/spaced/spaced_json.h"

namespace fastqps::text {

namespace {

std::optional<std::string> base64_decode(std::string_view text) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() % 4 != 0) return std::nullopt;
  u32 n_padding = 0;
  while (n_padding < 2 && text.ends_with('=')) {
    text.remove_suffix(1);
    ++n_padding;
  }
  std::string out;
  out.reserve(text.size() / 4 * 3 + 2);
  u32 held = 0, n_bits = 0;
  for (const char c : text) {
    const std::size_t digit = kAlphabet.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    held = held << 6 | static_cast<u32>(digit);
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    out.push_back(static_cast<char>(held >> n_bits));
    held &= (1u << n_bits) - 1;
  }
  // The bits behind the last byte are zero: another spelling of the same bytes is refused, as the package does.
  return held == 0 ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace

bool NormalizersReader::read(const Json& at, std::vector<NormalizerStep>& steps) {
  if (at.is_null()) return true;
  if (!has_type(at, "Sequence")) return step(at, steps);
  if (!known_keys(at, "normalizer", {"type", "normalizers"})) return false;
  if (!at["normalizers"].is_array()) return refuse("normalizer: normalizers is not a list");
  for (const Json& each : at["normalizers"])
    if (!read(each, steps)) return false;
  return true;
}

bool NormalizersReader::step(const Json& at, std::vector<NormalizerStep>& steps) {
  if (has_type(at, "Replace")) return replace(at, steps);
  if (has_type(at, "Precompiled")) return precompiled(at, steps);
  if (has_type(at, "Strip")) return strip(at, steps);
  if (has_type(at, "Prepend")) {
    if (!known_keys(at, "normalizer", {"type", "prepend"})) return false;
    if (!at["prepend"].is_string()) return refuse("normalizer: Prepend of something else than text");
    steps.emplace_back(Prepend{at["prepend"].get<std::string>()});
    return true;
  }
  const auto plain = [&](const char* type, auto value) {
    if (!has_type(at, type)) return false;
    steps.emplace_back(value);
    return true;
  };
  const bool known = plain("NFC", &NormalForm::c()) || plain("NFD", &NormalForm::d()) ||
                     plain("NFKC", &NormalForm::kc()) || plain("NFKD", &NormalForm::kd()) ||
                     plain("Lowercase", &ByCharacter::lowercase()) ||
                     plain("StripAccents", &ByCharacter::strip_accents()) || plain("Nmt", &ByCharacter::nmt());
  if (known) return known_keys(at, "normalizer", {"type"});
  const bool named = at.is_object() && member(at, "type").is_string();
  return refuse("normalizer: " + (named ? at["type"].get<std::string>() : "one without a type") + " is not native");
}

bool NormalizersReader::replace(const Json& at, std::vector<NormalizerStep>& steps) {
  if (!known_keys(at, "normalizer", {"type", "pattern", "content"})) return false;
  const Json& pattern = at["pattern"];
  if (!at["content"].is_string() || !pattern.is_object() || pattern.size() != 1 || !pattern.begin()->is_string())
    return refuse("normalizer: a Replace that is not understood");
  const std::string& text = pattern.begin()->get_ref<const std::string&>();
  auto content = at["content"].get<std::string>();
  if (pattern.begin().key() == "String") {
    if (text.empty()) return refuse("normalizer: a Replace of nothing");
    steps.emplace_back(Replace::of_text(text, std::move(content)));
    return true;
  }
  auto found = Replace::of_regex(text, std::move(content));
  if (pattern.begin().key() != "Regex" || !found)
    return refuse("normalizer: a Replace of the regular expression " + text + " is not native");
  steps.emplace_back(*std::move(found));
  return true;
}

bool NormalizersReader::strip(const Json& at, std::vector<NormalizerStep>& steps) {
  if (!known_keys(at, "normalizer", {"type", "strip_left", "strip_right"})) return false;
  if (!at["strip_left"].is_boolean() || !at["strip_right"].is_boolean())
    return refuse("normalizer: a flag of Strip is not true or false");
  steps.emplace_back(Strip{at["strip_left"].get<bool>(), at["strip_right"].get<bool>()});
  return true;
}

bool NormalizersReader::precompiled(const Json& at, std::vector<NormalizerStep>& steps) {
  if (!known_keys(at, "normalizer", {"type", "precompiled_charsmap"})) return false;
  const Json& spelled = at["precompiled_charsmap"];
  if (!spelled.is_string()) return refuse("normalizer: precompiled_charsmap is not text");
  const auto bytes = base64_decode(spelled.get_ref<const std::string&>());
  if (!bytes) return refuse("normalizer: precompiled_charsmap is not base64");
  std::string why;
  auto map = CharMap::read(*bytes, &why);
  if (!map) return refuse(why);
  steps.emplace_back(*std::move(map));
  return true;
}

void normalize(const Normalizers& normalizers, std::vector<AddedToken>& tokens) {
  Normalizers::Scratch scratch;
  for (AddedToken& token : tokens) {
    Lead lead;
    token.pattern = std::string(normalizers.run(token.pattern, scratch, lead));
  }
}

}  // namespace fastqps::text
