// Freelists for one thread, because requests allocate the same few sizes again and again, here and inside nghttp2.
#pragma once
#include <nghttp2/nghttp2.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "contract/types.h"

namespace fastqps::transport {

// Blocks are aligned to 8 bytes. Up to 4 KiB they come from freelists in steps of 32 bytes; a list keeps at most 8 MiB,
// all of them together at most 64 MiB.
class Allocator {
 public:
  Allocator() {
    nghttp2_ = {
        this, [](size_t n, void* self) { return static_cast<Allocator*>(self)->allocate(n); },
        [](void* p, void* self) { static_cast<Allocator*>(self)->release(p); },
        [](size_t n, size_t size, void* self) { return static_cast<Allocator*>(self)->allocate_zeroed(n * size); },
        [](void* p, size_t n, void* self) { return static_cast<Allocator*>(self)->reallocate(p, n); }};
  }
  Allocator(const Allocator&) = delete;
  ~Allocator() {
    for (Free*& list : free_)
      while (list) std::free(std::exchange(list, list->next));
  }

  // nullptr: out of memory.
  void* allocate(size_t bytes) {
    const size_t total = bytes + kHeader;
    const size_t size_class = (total + kStep - 1) / kStep;
    if (size_class >= kClasses) return hand_out(std::malloc(total), total);
    if (Free* block = free_[size_class]) {
      free_[size_class] = block->next;
      __builtin_prefetch(block->next);  // the next request of this size reads it
      kept_[size_class]--;
      kept_bytes_ -= block->bytes;
      return reinterpret_cast<u8*>(block) + kHeader;  // its header still holds its size
    }
    return hand_out(std::malloc(size_class * kStep), size_class * kStep);
  }

  void release(void* pointer) {
    if (!pointer) return;
    auto* block = reinterpret_cast<Free*>(static_cast<u8*>(pointer) - kHeader);
    const size_t size_class = block->bytes / kStep;
    if (kPlain || block->bytes >= kClasses * kStep || kept_[size_class] >= kKeptBytes / block->bytes ||
        kept_bytes_ + block->bytes > kKeptBytesOfAll) {
      std::free(block);
      return;
    }
    block->next = free_[size_class];
    free_[size_class] = block;
    kept_[size_class]++;
    kept_bytes_ += block->bytes;
  }

  // The memory of a block, its header included.
  static size_t size_of(void* pointer) {
    return reinterpret_cast<const Free*>(static_cast<u8*>(pointer) - kHeader)->bytes;
  }

  void* allocate_zeroed(size_t bytes) {
    void* block = allocate(bytes);
    if (block) std::memset(block, 0, bytes);
    return block;
  }

  void* reallocate(void* pointer, size_t bytes) {
    if (!pointer) return allocate(bytes);
    const size_t room = reinterpret_cast<Free*>(static_cast<u8*>(pointer) - kHeader)->bytes - kHeader;
    if (bytes <= room) return pointer;
    void* grown = allocate(bytes);
    if (!grown) return nullptr;
    std::memcpy(grown, pointer, room);
    release(pointer);
    return grown;
  }

  // The bytes of the blocks that wait to be used again.
  size_t kept_bytes() const { return kept_bytes_; }

  nghttp2_mem* nghttp2() { return &nghttp2_; }

 private:
  struct Free {
    size_t bytes;  // of the block with this header; a multiple of kStep, or large
    Free* next;    // overlays the user's bytes while the block is free
  };
  static constexpr size_t kHeader = sizeof(size_t), kStep = 32, kClasses = 129, kKeptBytes = 8 << 20,
                          kKeptBytesOfAll = 64 << 20;
#if defined(__SANITIZE_ADDRESS__)
  static constexpr bool kPlain = true;  // so that the sanitizer sees uses after release
#else
  static constexpr bool kPlain = false;
#endif

  static void* hand_out(void* block, size_t bytes) {
    if (!block) return nullptr;
    static_cast<Free*>(block)->bytes = bytes;
    return static_cast<u8*>(block) + kHeader;
  }

  Free* free_[kClasses] = {};
  u32 kept_[kClasses] = {};
  size_t kept_bytes_ = 0;
  nghttp2_mem nghttp2_;
};

}  // namespace fastqps::transport
