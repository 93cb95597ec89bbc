#include "text/spaced/spaced_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace fastqps::text {

bool SpacedReader::is_spaced(const Json& pre_tokenizer) {
  if (pre_tokenizer.is_null() || has_type(pre_tokenizer, "Metaspace") || has_type(pre_tokenizer, "Split")) return true;
  const Json& all = has_type(pre_tokenizer, "Sequence") ? member(pre_tokenizer, "pretokenizers") : Json();
  return all.is_array() && !all.empty() && has_type(all.back(), "Metaspace");
}

bool SpacedReader::spaced(const Json& file) {
  std::string why;
  if (!NormalizersReader(tokens_, why).read(member(file, "normalizer"), steps_)) return refuse(why);
  if (!pre_tokenizer(file["pre_tokenizer"])) return false;
  if (!metaspace_ && !writes_spaces()) return refuse("normalizer: spaces are not written as U+2581");
  if (!tokens_.normalized_tokens.empty()) {
    normalize(Normalizers(steps_), tokens_.normalized_tokens);
  } else if (!metaspace_) {
    fold();
  }
  spaced_.normalizers = Normalizers(std::move(steps_));
  return spaced_.prefix != PrefixSpace::kFirstUnlessThere || spaced_.normalizers.tracks_lead() ||
         refuse("pre_tokenizer: prepend_scheme first behind a normal form");
}

bool SpacedReader::pre_tokenizer(const Json& at) {
  if (at.is_null()) return true;
  if (has_type(at, "Metaspace")) return metaspace(at);
  if (has_type(at, "Split")) return split(at);
  if (has_type(at, "WhitespaceSplit") && !metaspace_) {
    spaced_.white_space_splits = true;
    return known_keys(at, "pre_tokenizer", {"type"});
  }
  if (!has_type(at, "Sequence"))
    return refuse("pre_tokenizer: only Metaspace and WhitespaceSplit in front of it are native");
  if (!known_keys(at, "pre_tokenizer", {"type", "pretokenizers"})) return false;
  const Json& all = at["pretokenizers"];
  if (!all.is_array() || all.empty() || !has_type(all.back(), "Metaspace"))
    return refuse("pre_tokenizer: a Sequence that does not end with Metaspace");
  return std::all_of(all.begin(), all.end(), [&](const Json& each) {
    return has_type(each, "Metaspace") || has_type(each, "WhitespaceSplit")
               ? pre_tokenizer(each)
               : refuse("pre_tokenizer: only Metaspace and WhitespaceSplit in front of it are native");
  });
}

bool SpacedReader::metaspace(const Json& at) {
  if (metaspace_) return refuse("pre_tokenizer: Metaspace twice");
  metaspace_ = true;
  if (!known_keys(at, "pre_tokenizer", {"type", "replacement"},
                  {"prepend_scheme", "split", "add_prefix_space", "str_rep"}))
    return false;
  if (at["replacement"] != kSpelledSpace)
    return refuse("pre_tokenizer: Metaspace that writes spaces as another character");
  const Json &split = member(at, "split"), &add = member(at, "add_prefix_space");
  for (const Json* flag : {&split, &add})
    if (!flag->is_null() && !flag->is_boolean()) return refuse("pre_tokenizer: a flag is not true or false");
  spaced_.split = split != false;
  const Json always = "always";
  const Json& scheme = at.contains("prepend_scheme") ? at["prepend_scheme"] : always;
  if (add == false && scheme != "never") return refuse("pre_tokenizer: add_prefix_space and prepend_scheme differ");
  if (scheme == "always") {
    spaced_.prefix = PrefixSpace::kUnlessThere;
  } else if (scheme == "first") {
    spaced_.prefix = PrefixSpace::kFirstUnlessThere;
  } else if (scheme != "never") {
    return refuse("pre_tokenizer: an unknown prepend_scheme");
  }
  return true;
}

// One that finds nothing to split, as Gemma's: the normalizer has left no space.
bool SpacedReader::split(const Json& at) {
  if (!known_keys(at, "pre_tokenizer", {"type", "pattern", "behavior", "invert"})) return false;
  const Json& pattern = at["pattern"];
  const bool spaces = pattern.is_object() && pattern.size() == 1 && member(pattern, "String") == " ";
  return (spaces && at["invert"] == false && at["behavior"].is_string()) ||
         refuse("pre_tokenizer: a Split at something else than spaces");
}

namespace {

bool is_writing(const NormalizerStep& step) {
  const auto* replace = std::get_if<Replace>(&step);
  return replace && replace->is(" ", kSpelledSpace);
}

bool is_prepending(const NormalizerStep& step) {
  const auto* prepend = std::get_if<Prepend>(&step);
  return prepend && prepend->text == kSpelledSpace;
}

// Whether no space can be in the text behind it that was not there before.
bool brings_no_space(const NormalizerStep& step) {
  if (const auto* prepend = std::get_if<Prepend>(&step)) return prepend->text.find(' ') == std::string::npos;
  const auto* replace = std::get_if<Replace>(&step);
  return replace && replace->content().find(' ') == std::string::npos;
}

}  // namespace

bool SpacedReader::writes_spaces() const {
  const auto last = std::find_if_not(steps_.rbegin(), steps_.rend(),
                                     [](const auto& step) { return !is_writing(step) && brings_no_space(step); });
  return last != steps_.rend() && is_writing(*last);
}

// Spaces at the end of the normalizers are what SpacedText has anyway: no text has to be written for them.
void SpacedReader::fold() {
  bool writes = false;
  while (!steps_.empty()) {
    if (!writes && is_writing(steps_.back())) {
      writes = true;
    } else if (spaced_.prefix == PrefixSpace::kNone && is_prepending(steps_.back())) {
      spaced_.prefix = PrefixSpace::kAlways;
    } else {
      break;
    }
    steps_.pop_back();
  }
}

}  // namespace fastqps::text
