// The operations of a step's program, as methods of its class in Python: one function for each group of them.
#pragma once
#include "bind/bind.h"
#include "step/cpu/program.h"

namespace fastqps::bind {

using ProgramClass = pybind11::class_<step::Program>;

void add_row_operations(ProgramClass& program);
void add_encoder_operations(ProgramClass& program);
void add_decoder_operations(ProgramClass& program);
void register_products(pybind11::module_& m);

// Adds run(job, threads), where the piece says how many rows the job has.
template <class Job>
void add_job(step::Program& program, Job job, u32 Job::*rows, i64 n_rows, void (*run)(const Job&, u32 threads)) {
  program.add([job, rows, n = step::Count(n_rows), run](const step::Piece& piece) mutable {
    job.*rows = n.of(piece);
    run(job, piece.threads);
  });
}

// IndexError where a step would read behind a table's last row, or in front of its first one.
void check_indexes(const char* what, const i32* indexes, u32 n, u32 rows, i32 least = 0);

}  // namespace fastqps::bind
