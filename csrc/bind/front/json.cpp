// The reader of JSON bodies as a Python function, for tests/api/test_json.py, which holds it against Python's json.
// Nothing else calls it.
#include <stdexcept>
#include <string>

#include "bind/bind.h"
#include "protocols/json/json_body.h"

namespace fastqps::bind {
namespace {

namespace py = pybind11;
using namespace fastqps::protocols;
using namespace fastqps::service;
using namespace fastqps::transport;

py::object object_of(const simdjson::dom::element& value);

py::object scalar_of(const simdjson::dom::element& value) {
  const service::OptionValue scalar = protocols::option_value(value);
  switch (scalar.kind) {
    case service::OptionValue::Kind::kBool:
      return py::bool_(scalar.boolean);
    case service::OptionValue::Kind::kInt:
      return py::int_(scalar.integer);
    case service::OptionValue::Kind::kUint:
      return py::int_(scalar.unsigned_integer);
    case service::OptionValue::Kind::kDouble:
      return py::float_(scalar.number);
    case service::OptionValue::Kind::kString:
      return py::str(scalar.text.data(), scalar.text.size());
    case service::OptionValue::Kind::kOther:
    case service::OptionValue::Kind::kList:
      break;
  }
  return py::none();
}

// The last of several fields with one name counts, as in the readers.
py::dict dict_of(const simdjson::dom::object& fields) {
  py::dict found;
  for (const auto [name, value] : fields) found[py::str(name.data(), name.size())] = object_of(value);
  return found;
}

py::object object_of(const simdjson::dom::element& value) {
  if (value.is_object()) return dict_of(simdjson::dom::object(value));
  if (!value.is_array()) return scalar_of(value);
  py::list found;
  for (const simdjson::dom::element& each : simdjson::dom::array(value)) found.append(object_of(each));
  return found;
}

py::dict parse_json(std::string_view body) {
  static protocols::JsonBody reader;  // one for all bodies, as in a front door
  ReasonText reason;
  simdjson::dom::object fields;
  if (const FieldError error = reader.parse({reinterpret_cast<const u8*>(body.data()), body.size()}, &fields, reason))
    throw std::invalid_argument(error.reason);
  return dict_of(fields);
}

}  // namespace

void register_json(py::module_& wire) {
  wire.def(
      "parse_json", [](const py::bytes& body) { return parse_json(std::string_view(body)); }, py::arg("body"),
      "A body as a dict. Raises ValueError.");
}

}  // namespace fastqps::bind
