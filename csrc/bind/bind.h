// csrc/bind is the only place that sees pybind11. One register_ function for each type or noun; module files call them
// in order.
#pragma once
#include <pybind11/pybind11.h>
#include <pybind11/typing.h>

#include <string>

#include "core/segment.h"
#include "core/wake.h"
#include "step/cpu/cpu_ops.h"
#include "text/tokenizer.h"

namespace fastqps::bind {

void register_segment(pybind11::module_& m);
void register_processes(pybind11::module_& m);
void register_load(pybind11::module_& m);
void register_upstreams(pybind11::module_& m);
void register_models(pybind11::module_& m);
void register_load_window(pybind11::module_& m);
void register_step(pybind11::module_& m);
void register_options(pybind11::module_& m);
void register_decode(pybind11::module_& m);
void register_sim(pybind11::module_& m);
void register_cuda(pybind11::module_& m);
void register_cpu(pybind11::module_& m);
void register_program(pybind11::module_& m);
void register_text(pybind11::module_& m);
void register_trace(pybind11::module_& m);
void register_edge(pybind11::module_& m);
void register_chat(pybind11::module_& m);

// The segment as Python holds it.
struct SegmentHandle {
  Segment segment;
};

// Which version and which sources an extension was built from. setup.py writes the definitions, one file for each
// extension; fastqps/_native.py compares them when the extension is imported.
extern const char* const kBuiltVersion;
extern const char* const kBuiltSources;

// First of all in a module: throws ImportError if the extension is not the one of the Python code around it.
inline void check_identity(const char* name) {
  pybind11::module_::import("fastqps._native").attr("check")(name, kBuiltVersion, kBuiltSources);
}

// Special tokens as Python names them.
inline text::SpecialTokens special_tokens(const std::string& name) {
  const auto found = text::special_tokens_named(name);
  if (!found) throw pybind11::value_error("special_tokens: '" + name + "' is none of all, none, trailing");
  return *found;
}

// A name of a few, with a py::typing::Literal of them for stubs.
template <class Literal>
Literal one_of(std::string_view name) {
  return pybind11::reinterpret_steal<Literal>(pybind11::str(name.data(), name.size()).release());
}

// An array that Python gives by its address, and the type of its numbers.
template <class T = void>
T* address(u64 value) {
  return reinterpret_cast<T*>(value);
}

inline step::Number number(bool bfloat16) { return bfloat16 ? step::Number::kBfloat16 : step::Number::kFloat32; }

}  // namespace fastqps::bind
