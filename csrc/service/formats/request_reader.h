// Reads the requests of one protocol: a message has items, and each item is a RequestView.
#pragma once
#include <span>

#include "contract/request_view.h"
#include "contract/response_view.h"
#include "transport/rpc/method.h"

namespace fastqps::service {

class RequestReader {
 public:
  virtual ~RequestReader() = default;

  // Of a stream: the context of the messages before. Called before each read().
  virtual void follow([[maybe_unused]] std::string_view context) {}
  // Reads a message up to its items. What item() and context() return may lie in its bytes, or in memory of this
  // reader: it is valid until the next read(). A message of which only a part was taken is read again.
  virtual FieldError read(std::span<const u8> message, const transport::CallInfo& info, ReasonText& reason) = 0;
  // The number of its items.
  virtual u32 items() const = 0;
  // After an error `view` holds the fields that could be read.
  virtual FieldError item(u32 index, RequestView& view) = 0;
  // What the writer of the answer must know of the request. It is copied. That of a stream's message is appended to
  // that of the messages before.
  virtual std::string_view context() const { return {}; }
  // The kind of answer that this method is for; kNone: any.
  virtual Output wants() const { return Output::kNone; }
  // Whether the one item, a generation, is answered piece by piece.
  virtual bool streams() const { return false; }
};

}  // namespace fastqps::service
