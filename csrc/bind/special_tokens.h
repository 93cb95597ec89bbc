// Special tokens as Python names them.
#pragma once
#include <pybind11/pybind11.h>

#include <string>

#include "text/tokenizer.h"

namespace fastqps::bind {

inline text::SpecialTokens special_tokens(const std::string& name) {
  const auto found = text::special_tokens_named(name);
  if (!found) throw pybind11::value_error("special_tokens: '" + name + "' is none of all, none, trailing");
  return *found;
}

}  // namespace fastqps::bind
