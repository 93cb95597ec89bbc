// Readers of bodies that are one JSON object: of one format, or of several, which are told apart after the one parse.
#pragma once
#include "protocols/json/json_body.h"
#include "service/formats/protocol.h"

namespace fastqps::protocols {

class JsonReader : public service::RequestReader {
 public:
  FieldError read(std::span<const u8> message, const transport::CallInfo& info, ReasonText& reason) final {
    JsonObject body;
    const FieldError error = body_.parse(message, &body, reason);
    return error ? error : read_body(body, info, reason);
  }
  // The body's values are valid until the next one is parsed.
  virtual FieldError read_body(const JsonObject& body, const transport::CallInfo& info, ReasonText& reason) = 0;

 private:
  JsonBody body_;
};

struct JsonFormat {
  JsonReader& reader;
  service::Answering answering;
};

// Reads each body as one of several formats.
class ChoosingReader : public JsonReader {
 public:
  FieldError read_body(const JsonObject& body, const transport::CallInfo& info, ReasonText& reason) final {
    chosen_ = &choose(body);
    return chosen_->reader.read_body(body, info, reason);
  }
  u32 items() const final { return chosen_->reader.items(); }
  FieldError item(u32 index, RequestView& view) final { return chosen_->reader.item(index, view); }
  std::string_view context() const final { return chosen_->reader.context(); }
  Output wants() const final { return chosen_->reader.wants(); }
  u32 candidates() const final { return chosen_->reader.candidates(); }
  bool streams() const final { return chosen_->reader.streams(); }
  const service::Answering* answering() const final {
    const service::Answering* inner = chosen_->reader.answering();
    return inner ? inner : &chosen_->answering;
  }

 protected:
  virtual const JsonFormat& choose(const JsonObject& body) = 0;

 private:
  const JsonFormat* chosen_ = nullptr;
};

// Chooses by a field that bodies of one format have and those of the other have not.
class EitherReader final : public ChoosingReader {
 public:
  // field: a literal.
  EitherReader(const char* field, const JsonFormat& with, const JsonFormat& without)
      : field_(field), with_(with), without_(without) {}

 private:
  const JsonFormat& choose(const JsonObject& body) override {
    JsonValue value;
    return body[field_].get(value) || value.is_null() ? without_ : with_;
  }

  const char* const field_;
  const JsonFormat with_, without_;
};

}  // namespace fastqps::protocols
