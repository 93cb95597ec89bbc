// Messages as clients compress them.
#pragma once
#include <zlib.h>

#include <string>

#include "contract/types.h"
#include "tests/check.h"

namespace fastqps::fuzz {

inline std::string compressed(const std::string& text, bool gzip, int level) {
  z_stream stream = {};
  CHECK_EQ(deflateInit2(&stream, level, Z_DEFLATED, gzip ? 31 : 15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = u32(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = u32(out.size());
  CHECK_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace fastqps::fuzz
