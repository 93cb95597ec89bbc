// The rows of contract/options.h for Python.
#include "contract/options.h"

#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <vector>

#include "bind/bind.h"

namespace py = pybind11;

namespace fastqps::bind {
namespace {

struct OptionRow {
  const char* path;
  u32 number;
  const char* kind;
  double high;
  bool above_zero;
  double low;
  u8 traits;
  std::optional<std::string_view> checkpoint;

  std::string_view name() const { return std::string_view(path).substr(std::string_view(path).find('.') + 1); }
  template <OptionTrait trait>
  bool is() const {
    return traits & trait;
  }
};

constexpr const char* kind_of(u32) { return "uint32"; }
constexpr const char* kind_of(u64) { return "uint64"; }
constexpr const char* kind_of(i32) { return "enum"; }
constexpr const char* kind_of(float) { return "float"; }
constexpr const char* kind_of(bool) { return "bool"; }
constexpr const char* kind_of(std::optional<bool>) { return "bool"; }
constexpr const char* kind_of(const IdList&) { return "ids"; }
constexpr const char* kind_of(BiasCount) { return "biases"; }
constexpr const char* kind_of(const OptionTexts&) { return "texts"; }
constexpr const char* kind_of(std::string_view) { return "text"; }

}  // namespace

void register_options(py::module_& m) {
  py::class_<OptionRow>(m, "OptionRow", "An option of requests; see csrc/contract/options.h.")
      .def_readonly("path", &OptionRow::path, "generate. or output., and the name.")
      .def_property_readonly("name", &OptionRow::name)
      .def_readonly("number", &OptionRow::number, "In the .proto.")
      .def_readonly("kind", &OptionRow::kind, "uint32, uint64, enum, float, bool, ids, texts, biases or text.")
      .def_readonly("high", &OptionRow::high, "The most that it can be, or how many; inf: no limit.")
      .def_readonly("above_zero", &OptionRow::above_zero, "0 is below its range, too.")
      .def_readonly("low", &OptionRow::low, "The least that it can be.")
      .def_readonly("checkpoint", &OptionRow::checkpoint,
                    "The member of LogitOptions whose value holds where a request gives none.")
      .def_property_readonly("optional", &OptionRow::is<kOptional>, "As in the .proto.")
      .def_property_readonly("zero_is_absent", &OptionRow::is<kZeroIsAbsent>)
      .def_property_readonly("by_name", &OptionRow::is<kByName>,
                             "OpenAI's API and the Open Inference Protocol take it.")
      .def_property_readonly("all_is_minus_one", &OptionRow::is<kAllIsMinusOne>, "These take -1 for 0.")
      .def_property_readonly("changes_logits", &OptionRow::is<kChangesLogits>, "Any value but the default does.");
  std::vector<OptionRow> rows;
  const auto add = [&rows](const auto& row) {
    const typename std::decay_t<decltype(row)>::Value value{};
    rows.push_back({row.path, row.number, kind_of(value), row.range.high, row.range.above_zero, row.range.low,
                    row.traits, row.checkpoint ? std::optional<std::string_view>(row.checkpoint) : std::nullopt});
  };
  each_option(kGenerateOptions, add);
  each_option(kOutputOptions, add);
  m.attr_with_type_hint<py::typing::Tuple<OptionRow, py::ellipsis>>("OPTIONS") = py::tuple(py::cast(rows));
}

}  // namespace fastqps::bind
