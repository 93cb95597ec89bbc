// The memory of the fake devices: an anonymous file each, so that another process can map it too.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>

#include "fake_cuda.h"

namespace fake {
namespace {

struct Block {
  size_t bytes;
  int fd;
  Device* device;
};
struct Import {
  std::string name;
  size_t bytes;
  int users;
};
struct Handle {
  int64_t pid;
  int fd;
  size_t bytes;
};
static_assert(sizeof(Handle) <= 64);

std::mutex& mutex = *new std::mutex;
auto& blocks = *new std::map<const char*, Block>;
auto& pinned = *new std::map<const char*, size_t>;
auto& imports = *new std::map<const char*, Import>;

}  // namespace

void* allocate(size_t bytes) {
  Device& device = current();
  if (device.used_bytes.fetch_add(int64_t(bytes)) + int64_t(bytes) > knobs["memory_bytes"]) {
    device.used_bytes -= int64_t(bytes);
    return nullptr;
  }
  const int fd = memfd_create("fake cuda", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, off_t(bytes))) return nullptr;
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return nullptr;
  const std::lock_guard lock(mutex);
  blocks[static_cast<char*>(at)] = {bytes, fd, &device};
  return at;
}

bool release(void* pointer) {
  const std::lock_guard lock(mutex);
  const auto found = blocks.find(static_cast<char*>(pointer));
  if (found == blocks.end()) return false;
  const Block block = found->second;
  munmap(pointer, block.bytes);
  close(block.fd);
  block.device->used_bytes -= int64_t(block.bytes);
  blocks.erase(found);
  return true;
}

int export_memory(char (&bytes)[64], void* pointer) {
  const std::lock_guard lock(mutex);
  const auto found = blocks.find(static_cast<char*>(pointer));
  if (found == blocks.end()) return kInvalidValue;
  const Handle handle{getpid(), found->second.fd, found->second.bytes};
  std::memcpy(bytes, &handle, sizeof handle);
  return 0;
}

int import_memory(void** pointer, const char (&bytes)[64]) {
  Handle handle;
  std::memcpy(&handle, bytes, sizeof handle);
  if (handle.pid == getpid()) return kInvalidContext;  // as CUDA: a process cannot open its own
  const std::string name = "/proc/" + std::to_string(handle.pid) + "/fd/" + std::to_string(handle.fd);
  const std::lock_guard lock(mutex);
  for (auto& [at, import] : imports) {
    if (import.name != name) continue;
    import.users++;
    *pointer = const_cast<char*>(at);
    return 0;
  }
  const int fd = open(name.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return kInvalidValue;
  void* at = mmap(nullptr, handle.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (at == MAP_FAILED) return kInvalidValue;
  imports[static_cast<char*>(at)] = {name, handle.bytes, 1};
  *pointer = at;
  return 0;
}

bool close_import(void* pointer) {
  const std::lock_guard lock(mutex);
  const auto found = imports.find(static_cast<char*>(pointer));
  if (found == imports.end()) return false;
  if (--found->second.users) return true;
  munmap(pointer, found->second.bytes);
  imports.erase(found);
  return true;
}

void remember_pinned(void* pointer, size_t bytes) {
  const std::lock_guard lock(mutex);
  pinned[static_cast<char*>(pointer)] = bytes;
}

bool forget_pinned(void* pointer) {
  const std::lock_guard lock(mutex);
  return pinned.erase(static_cast<char*>(pointer)) == 1;
}

bool is_pinned(const void* pointer, size_t bytes) {
  const std::lock_guard lock(mutex);
  const char* at = static_cast<const char*>(pointer);
  auto found = pinned.upper_bound(at);
  if (found == pinned.begin()) return false;
  --found;
  return at + bytes <= found->first + found->second;
}

}  // namespace fake
