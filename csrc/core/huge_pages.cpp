#include "core/huge_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "core/round_up.h"

namespace fastqps {

namespace {
constexpr u64 kHugePage = 2 << 20;
constexpr int kCollapse = 25;  // MADV_COLLAPSE, which older headers lack
}  // namespace

void* map_for_huge_pages(int fd, u64 bytes) {
  const u64 page = u64(sysconf(_SC_PAGESIZE));
  const u64 reserved = round_up(bytes, page) + kHugePage;
  void* space = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) return nullptr;
  const u64 begin = reinterpret_cast<uintptr_t>(space);
  const u64 at = round_up(begin, kHugePage);
  void* mapped = mmap(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  if (mapped == MAP_FAILED) return munmap(space, reserved), nullptr;
  const u64 end = at + round_up(bytes, page);
  if (at > begin) munmap(space, at - begin);
  munmap(reinterpret_cast<void*>(end), begin + reserved - end);
  return mapped;
}

int make_huge_pages(int fd, u64 bytes) {
  void* mapped = map_for_huge_pages(fd, bytes);
  if (!mapped) return errno;
  const int error = madvise(mapped, bytes, kCollapse) ? errno : 0;
  munmap(mapped, bytes);
  return error;
}

std::string why_no_huge_pages() {
  const int fd = memfd_create("fastqps-huge-page", MFD_CLOEXEC);
  if (fd < 0) return std::string("memfd_create: ") + std::strerror(errno);
  int error = posix_fallocate(fd, 0, off_t(kHugePage));
  if (!error) error = make_huge_pages(fd, kHugePage);
  close(fd);
  return error ? std::strerror(error) : "";
}

}  // namespace fastqps
