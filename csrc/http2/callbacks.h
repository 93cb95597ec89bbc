// The nghttp2 sessions: how they are set up and which callbacks they call. The callbacks only translate.
#pragma once
#include <nghttp2/nghttp2.h>

#include "net/limits.h"
#include "net/allocator.h"

namespace fastqps::front {

class Connection;

// Options and callbacks, the same for all sessions of a loop.
class SessionFactory {
 public:
  SessionFactory(const Limits& limits, Allocator& allocator);
  ~SessionFactory();
  SessionFactory(const SessionFactory&) = delete;

  // A server session with its SETTINGS and window submitted; nullptr: out of memory.
  nghttp2_session* make(Connection& connection) const;

 private:
  const Limits& limits_;
  Allocator& allocator_;
  nghttp2_session_callbacks* callbacks_ = nullptr;
  nghttp2_option* options_ = nullptr;
};

}  // namespace fastqps::front
