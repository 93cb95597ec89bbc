// Which version and which sources an extension was built from. setup.py writes the definitions, one file for each
// extension; fastqps/_native.py compares them when the extension is imported.
#pragma once
#include <pybind11/pybind11.h>

namespace fastqps::bind {

extern const char* const kBuiltVersion;
extern const char* const kBuiltSources;

// First of all in a module: throws ImportError if the extension is not the one of the Python code around it.
inline void check_identity(const char* name) {
  pybind11::module_::import("fastqps._native").attr("check")(name, kBuiltVersion, kBuiltSources);
}

}  // namespace fastqps::bind
