// Parses the requests of one HTTP/1.1 connection, one after another, with Boost.Beast. Nothing else includes Beast,
// because it takes seconds to compile.
//
// Beast accepts some requests that another server on the way may read differently. Those are refused here: folded
// headers, repeated or unusual lengths, other transfer codings, long chunk extensions.
#pragma once
#include <memory>
#include <string_view>

#include "contract/types.h"

namespace fastqps::transport {

// The events of a request, in order. A function that returns false ends the parse with kStopped.
class RequestSink {
 public:
  struct Framing {
    bool keep_alive;  // by version and Connection
    bool http11;
    bool chunked;
    bool length_known;
    u64 length;
  };
  virtual bool on_request_line(std::string_view verb, std::string_view target) = 0;
  virtual bool on_field(std::string_view name, std::string_view value) = 0;  // the name in lower case
  virtual bool on_head(const Framing& framing) = 0;
  virtual bool on_body(const u8* data, u32 bytes) = 0;
  virtual bool on_end() = 0;

 protected:
  ~RequestSink() = default;
};

class RequestParser {
 public:
  enum class Result : u8 {
    kMore,     // it needs more bytes, those that it has not taken among them
    kDone,     // the request is complete
    kBad,      // the request is not HTTP; why() says how
    kStopped,  // by the sink
  };

  explicit RequestParser(RequestSink& sink);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;

  // A new request follows.
  void begin();
  // Returns the number of bytes that it has taken. After kMore the rest comes again, with more behind it.
  u32 feed(const u8* data, u32 bytes, Result* result);
  // Whether the request's head has been parsed.
  bool in_body() const;
  const char* why() const;

 private:
  struct Beast;
  const std::unique_ptr<Beast> beast_;
};

}  // namespace fastqps::transport
