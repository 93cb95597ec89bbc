// An inference request, over gRPC and HTTP alike: named tensors and parameters, which become items.
#pragma once
#include <string_view>
#include <vector>

#include "oip/input_tensor.h"
#include "oip/output_tensors.h"
#include "oip/parameters.h"
#include "predict/tables/model_routes.h"

namespace fastqps::front {

enum class InputName : u8 { kText, kTextPair, kInputIds, kAttentionMask, kCount };
inline constexpr const char* kInputNames[] = {"text", "text_pair", "input_ids", "attention_mask"};

class InferRequest {
 public:
  InferRequest(ModelRoutes& routes, u32 items_max) : routes_(routes), items_max_(items_max) {}

  // Forgets the last request. The rest is then called for what the message has; finish() is the last.
  void clear();
  void set_model(std::string_view name) { base_.model = name; }
  void set_version(std::string_view version) { version_ = version; }
  void set_id(std::string_view id) { id_ = id; }
  // The tensor to fill in; nullptr: no input has this name, or it was given before.
  InputTensor* open_input(std::string_view name, FieldError& error, ReasonText& reason);
  // bit: which output it is.
  FieldError ask_for(std::string_view output, OutputBit& bit, ReasonText& reason);
  FieldError set(std::string_view parameter, const OptionValue& value, ReasonText& reason) {
    return set_parameter(parameter, value, base_, lists_, reason);
  }
  // Checks everything that concerns the request as a whole.
  FieldError finish(ReasonText& reason);

  u32 items() const { return items_; }
  // Whether the model generates text.
  bool generates() const;
  // After finish().
  FieldError item(u32 index, RequestView& view, ReasonText& reason);
  // Empty if it is too long or not UTF-8. Also where finish() was not reached.
  std::string_view id() const;
  u8 outputs() const { return outputs_; }
  bool half_precision() const { return base_.output.dtype == i32(DType::kFloat16); }

 private:
  InputTensor& input(InputName name) { return inputs_[u32(name)]; }
  FieldError check_texts(InputName name, ReasonText& reason);
  FieldError check_numbers(InputName name, ReasonText& reason);
  FieldError check_model(ReasonText& reason);
  FieldError take_ids(u32 index, RequestView& view, ReasonText& reason);

  ModelRoutes& routes_;
  const u32 items_max_;
  RequestView base_;
  OptionLists lists_;
  std::string_view version_, id_;
  InputTensor inputs_[u32(InputName::kCount)];
  u8 outputs_ = 0;
  u32 items_ = 0;
  std::vector<u32> ids_;  // of the item that was taken last
};

}  // namespace fastqps::front
