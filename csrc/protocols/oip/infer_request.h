// An inference request, over gRPC and HTTP alike: named tensors and parameters, which become items.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "contract/types.h"
#include "protocols/oip/output_tensors.h"
#include "service/formats/options.h"
#include "service/tables/routes.h"

namespace fastqps::protocols {

// Empties a list that a reader keeps, without memory for many elements: most requests have few.
template <class T>
void empty(std::vector<T>& elements) {
  constexpr size_t kKept = 1 << 16;
  if (elements.capacity() > kKept) elements = {};
  elements.clear();
}

using service::OptionLists;
using service::OptionValue;

// The parameters of a tensor that this server reads.
struct TensorParameters {
  std::optional<u64> binary_data_size;  // HTTP: the contents are so many bytes behind the JSON
  std::optional<bool> binary_data;      // HTTP: the output is to be sent behind the JSON
};

// Reads one parameter of an input or of a requested output. where: "inputs" or "outputs", for errors. An unknown name
// is ignored, as clients annotate tensors for themselves; what Triton has and this server has not is an error.
FieldError set_tensor_parameter(std::string_view name, const OptionValue& value, const char* where,
                                TensorParameters& parameters, ReasonText& reason);

// Writes one parameter of a request into the view that all items of the request share. An unknown name, or a value of a
// wrong kind or range, is an error. lists: what the view's lists refer to.
FieldError set_parameter(std::string_view name, const OptionValue& value, RequestView& view, OptionLists& lists,
                         ReasonText& reason);

// An input of a request, over gRPC and HTTP alike.
struct InputTensor {
  bool given = false;
  std::string_view datatype = {};
  std::vector<u64> shape = {};               // as many dimensions as were sent
  std::vector<std::string_view> texts = {};  // of BYTES
  std::vector<i64> numbers = {};             // of INT32 and INT64

  void clear();
  bool holds_text() const { return datatype == "BYTES"; }
  // Reads raw contents: numbers in little-endian, strings behind their lengths of 4 bytes. Returns false if they end
  // inside an element. The contents of a datatype that no input has are not read.
  bool read_raw(std::string_view raw);
};

enum class InputName : u8 { kText, kTextPair, kInputIds, kAttentionMask, kCount };
inline constexpr const char* kInputNames[] = {"text", "text_pair", "input_ids", "attention_mask"};

class InferRequest {
 public:
  InferRequest(service::ModelRoutes& routes, u32 items_max) : routes_(routes), items_max_(items_max) {}

  // Forgets the last request. The rest is then called for what the message has; finish() is the last.
  void clear();
  // version: empty for any.
  void set_model(std::string_view name, std::string_view version) {
    base_.model = name;
    version_ = version;
  }
  void set_id(std::string_view id) { id_ = id; }
  // The tensor of a name, which is given from now on; nullptr: no input has it, or it was given before.
  InputTensor* open_input(std::string_view name, FieldError& error, ReasonText& reason);
  // bit: which output it is.
  FieldError ask_for(std::string_view output, OutputBit& bit, ReasonText& reason);
  FieldError set(std::string_view parameter, const OptionValue& value, ReasonText& reason) {
    return set_parameter(parameter, value, base_, lists_, reason);
  }
  // For the arrays among its parameters.
  OptionLists& lists() { return lists_; }
  // Checks everything that concerns the request as a whole.
  FieldError finish(ReasonText& reason);

  // The candidates of an input stand side by side.
  u32 items() const { return texts_ * candidates(); }
  u32 candidates() const { return base_.generate.candidates(); }
  BestOf choices() const { return BestOf::of(base_.generate); }
  // Whether the model generates text.
  bool generates() const;
  // After finish().
  FieldError item(u32 index, RequestView& view, ReasonText& reason);
  // Empty if it is too long or not UTF-8. Also where finish() was not reached.
  std::string_view id() const;
  OutputSet outputs() const { return outputs_; }
  // The output that is of half precision, if one is.
  OutputSet half_precision() const {
    return base_.output.dtype == i32(DType::kFloat16) ? model_outputs_ & (kOutEmbedding | kOutTokenEmbedding) : 0;
  }

 private:
  InputTensor& input(InputName name) { return inputs_[u32(name)]; }
  FieldError check_texts(InputName name, ReasonText& reason);
  FieldError check_numbers(InputName name, ReasonText& reason);
  FieldError check_model(ReasonText& reason);
  FieldError check_outputs(u32 route, ReasonText& reason);
  FieldError take_ids(u32 index, RequestView& view, ReasonText& reason);

  service::ModelRoutes& routes_;
  const u32 items_max_;
  RequestView base_;
  OptionLists lists_;
  std::string_view version_, id_;
  InputTensor inputs_[u32(InputName::kCount)];
  OutputSet outputs_ = 0, model_outputs_ = 0;  // asked for, and those that the model has
  u32 texts_ = 0;                              // or lists of ids
  std::vector<u32> ids_;                       // of the item that was taken last
};

}  // namespace fastqps::protocols
