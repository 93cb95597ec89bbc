// The operations of a step's program, as methods of its class in Python: one function for each group of them.
#pragma once
#include <string>
#include <utility>

#include "bind/bind.h"
#include "step/cpu/program.h"

namespace fastqps::bind {

using ProgramClass = pybind11::class_<step::Program>;

void add_row_operations(ProgramClass& program);
void add_encoder_operations(ProgramClass& program);
void add_decoder_operations(ProgramClass& program);
void register_products(pybind11::module_& m);

step::Activation activation(const std::string& name);  // ValueError if it is none

// What Python names by a text.
template <class Value>
using Names = std::pair<const char*, Value>;

// The value of `name`; ValueError with all names if it is none of them.
template <class Value, size_t n>
Value named(const char* what, const Names<Value> (&names)[n], const std::string& name) {
  std::string all;
  for (const auto& [known, value] : names) {
    if (name == known) return value;
    all.append(all.empty() ? "" : ", ").append(known);
  }
  throw pybind11::value_error(std::string(what) + ": '" + name + "' is none of " + all);
}

// Adds run(job, threads), where the piece says how many rows the job has.
template <class Job>
void add_job(step::Program& program, Job job, u32 Job::*rows, i64 n_rows, void (*run)(const Job&, u32 threads)) {
  program.add([job, rows, n = step::Count(n_rows), run](const step::Piece& piece) {
    Job part = job;
    part.*rows = n.of(piece);
    run(part, piece.threads);
  });
}

// IndexError where a step would read behind a table's last row, or in front of its first one.
void check_indexes(const char* what, const i32* indexes, u32 n, u32 rows, i32 least = 0);

}  // namespace fastqps::bind
