// A segment of a test's own, attached.
#pragma once
#include <string>

#include "core/segment.h"
#include "tests/check.h"

namespace fastqps::test {

inline Segment made_segment(const Sizes& sizes) {
  const auto made = Segment::create(sizes);
  CHECK_EQ(made.error, "");
  std::string error;
  const Segment segment = Segment::attach(made.fd, &error);
  CHECK_EQ(error, "");
  return segment;
}

}  // namespace fastqps::test
