// How far the beginning of a text reaches in what normalizers make of it.
#pragma once
#include <cstddef>

namespace fastqps::text {

// Metaspace with prepend_scheme "first" asks whether a word begins where the text began. A normalizer may have made
// several characters of the text's first one, or have removed it: n_bytes of the normalized text stem from it.
struct Lead {
  std::size_t n_bytes = 0;
};

}  // namespace fastqps::text
