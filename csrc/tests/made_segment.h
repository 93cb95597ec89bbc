// A segment of a test's own, attached.
#pragma once
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "core/segment.h"
#include "core/wake.h"
#include "tests/check.h"

namespace fastqps::test {

inline Segment made_segment(const Sizes& sizes) {
  const auto made = Segment::create(sizes);
  CHECK_EQ(made.error, "");
  std::string error;
  const Segment segment = Segment::attach(made.fd, &error);
  CHECK_EQ(error, "");
  close(made.fd);
  return segment;
}

// The same with what wakes its processes, for as long as it lives.
struct OwnSegment {
  explicit OwnSegment(const Sizes& sizes) : segment(made_segment(sizes)) {
    for (u32 i = 0; i < sizes.doors; i++) fds.door[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    for (u32 i = 0; i < sizes.dispatchers; i++) fds.dispatcher[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  }
  OwnSegment(const OwnSegment&) = delete;
  ~OwnSegment() {
    for (const int fd : fds.door) close(fd);
    for (const int fd : fds.dispatcher) close(fd);
    munmap(&segment.header(), segment.header().total_bytes);
  }
  Segment segment;
  WakeFds fds;
};

// A front door's side of its slab, which hears nothing but answers.
struct SlabHost {
  void progress(u32, u64) {}
  void restarted(u32, u64) {}
  void released(u32, u64) {}
  void expect(u32) {}
  void expect_item(u32) {}
};

}  // namespace fastqps::test
