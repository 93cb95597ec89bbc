// What a run was, as Python reads it.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include "bind/bind.h"

namespace py = pybind11;
using namespace py::literals;

namespace loadgen {
namespace {

using ByOutcome = py::typing::Dict<py::str, u64>;

template <class Pairs>
ByOutcome by_name(const Pairs& pairs) {
  ByOutcome found;
  for (const auto& [outcome, n] : pairs) found[py::str(outcome_name(outcome))] = n;
  return found;
}

ByOutcome by_name(const OutcomeCounts& counts) {
  SparseCounts pairs;
  for (u32 i = 0; i < kOutcomes; i++)
    if (counts[i]) pairs.emplace_back(i, counts[i]);
  return by_name(pairs);
}

template <class T, class Row, class Read>
py::array_t<T> column(const std::vector<Row>& rows, Read read) {
  py::array_t<T> found(py::ssize_t(rows.size()));
  std::transform(rows.begin(), rows.end(), found.mutable_data(), read);
  return found;
}

struct CallRecords {
  py::array_t<i64> intended_ns, end_ns;
  py::array_t<u32> payload, outcome;
};

CallRecords columns(const std::vector<CallRecord>& calls) {
  return {column<i64>(calls, [](const CallRecord& call) { return call.intended_ns; }),
          column<i64>(calls, [](const CallRecord& call) { return call.end_ns; }),
          column<u32>(calls, [](const CallRecord& call) { return call.payload; }),
          column<u32>(calls, [](const CallRecord& call) { return u32(call.outcome); })};
}

struct ConnectionResult {
  u64 sent, connects;
  ByOutcome losses;
};

struct ThreadResult {
  double cpu_s, wall_s, slept_s, run_delay_s;
};

struct Result {
  RunResult run;
  std::vector<ConnectionResult> connections;
  std::vector<ThreadResult> threads;
};

double seconds(i64 ns) { return double(ns) / 1e9; }

Result result_of(Engine& engine) {
  Result found{engine.result(), {}, {}};
  const u32 threads = engine.options().threads;
  for (u32 i = 0; i < engine.options().connections; i++) {
    const Connection& connection = *engine.workers()[i % threads]->connections()[i / threads];
    found.connections.push_back({connection.sent, connection.connects, by_name(connection.losses)});
  }
  for (size_t i = 0; i < engine.workers().size(); i++) {
    const Worker& worker = *engine.workers()[i];
    const ThreadTime& used = worker.used();
    found.threads.push_back(
        {seconds(used.cpu_ns), seconds(used.wall_ns), seconds(worker.slept_ns()), seconds(used.run_delay_ns)});
  }
  return found;
}

void bind_interval(py::module_& module) {
  py::class_<Interval>(module, "Interval",
                       "What happened in one interval of the run, over all threads. By the time of the event, warm-up "
                       "included.")
      .def_readonly("index", &Interval::index,
                    "The interval [index, index + 1) x interval_ns of the run. The last one may be shorter.")
      .def_readonly("end_ns", &Interval::end_ns)
      .def_readonly("due", &Interval::due,
                    "Arrivals whose intended time lies in the interval. Closed loop: calls started in it.")
      .def_readonly("sent", &Interval::sent, "Calls whose bytes went to the socket.")
      .def_property_readonly(
          "outcomes", [](const Interval& self) { return by_name(self.outcomes); }, "Calls that ended, by outcome.")
      .def_readonly("in_flight", &Interval::in_flight, "Calls sent and not ended, at the end of the interval.")
      .def_readonly("waiting", &Interval::waiting, "Arrivals due and not sent, at the end of the interval.")
      .def_readonly("own_lateness_max_ns", &Interval::own_lateness_max,
                    "Largest lateness of a call sent in the interval that the generator itself caused.")
      .def_property_readonly(
          "response_indexes",
          [](const Interval& self) { return column<u32>(self.response, [](const auto& pair) { return pair.first; }); },
          "Response times of calls that ended OK in it: indexes of the histogram's layout that occur.")
      .def_property_readonly(
          "response_counts",
          [](const Interval& self) { return column<u64>(self.response, [](const auto& pair) { return pair.second; }); },
          "How often each of response_indexes does.");
}

void bind_parts(py::module_& module) {
  py::class_<Sample>(module, "Sample", "An answer that was kept.")
      .def_readonly("payload", &Sample::payload, "Index of the payload that was sent.")
      .def_property_readonly(
          "answer", [](const Sample& self) { return py::bytes(self.answer); },
          "The message; server-stream: all of them, each with its five bytes of gRPC frame.");
  py::class_<CallRecords>(module, "CallRecords",
                          "Measured calls of an open loop, in the order of their ends; arrays of one length.")
      .def_readonly("intended_ns", &CallRecords::intended_ns)
      .def_readonly("end_ns", &CallRecords::end_ns, "The end of the answer, or the giving up.")
      .def_readonly("payload", &CallRecords::payload)
      .def_readonly("outcome", &CallRecords::outcome,
                    "Index in OUTCOMES; from len(OUTCOMES) on: HTTP_<code>, code - 100 further on.");
  py::class_<ConnectionResult>(module, "ConnectionResult")
      .def_readonly("sent", &ConnectionResult::sent, "Measured calls written to it.")
      .def_readonly("connects", &ConnectionResult::connects, "Connections made; 1 unless it was lost.")
      .def_readonly("losses", &ConnectionResult::losses,
                    "Why it ended, other than by the end of the run, and attempts that failed; by outcome.");
  py::class_<ThreadResult>(module, "ThreadResult", "Times are from the thread's start to its end.")
      .def_readonly("cpu_s", &ThreadResult::cpu_s)
      .def_readonly("wall_s", &ThreadResult::wall_s)
      .def_readonly("slept_s", &ThreadResult::slept_s,
                    "In epoll with nothing to do; the spin before a send that is near counts as busy.")
      .def_readonly("run_delay_s", &ThreadResult::run_delay_s,
                    "Ready to run while the kernel ran something else on its CPU; 0 if unknown.");
}

// Reads a member of a run.
template <class T, class Of>
auto read(T Of::*member) {
  return [member](const Result& self) -> const T& {
    if constexpr (std::is_same_v<Of, Tally>)
      return self.run.tally.*member;
    else
      return self.run.*member;
  };
}

auto outcomes(OutcomeCounts Tally::*member) {
  return [member](const Result& self) { return by_name(self.run.tally.*member); };
}

}  // namespace

void bind_histogram(py::module_& module) {
  py::class_<Histogram>(module, "Histogram",
                        "Counts in the layout of HdrHistogram from 1 ns to 1 h (what is above counts there) with three "
                        "significant digits, which loadgen.histogram reads. Sum, max and min are exact; all are 0 when "
                        "the count is 0.")
      .def_property_readonly(
          "counts", [](const Histogram& self) { return column<u64>(self.counts, [](u64 count) { return count; }); })
      .def_readonly("count", &Histogram::count)
      .def_readonly("sum_ns", &Histogram::sum)
      .def_readonly("max_ns", &Histogram::largest)
      .def_readonly("min_ns", &Histogram::smallest);
}

void bind_result(py::module_& module, EngineClass& engine) {
  bind_interval(module);
  bind_parts(module);
  py::class_<Result> result(module, "Result",
                            "What a run was. Measured arrivals are those with an intended time in [measure_from_ns, "
                            "measure_until_ns); closed loop: calls that ended then. All else was warm-up or cool-down. "
                            "Every arrival ends in exactly one outcome.");
  result.def_property_readonly("start_unix_ns", read(&RunResult::start_unix_ns), "The instant 0 of the run.")
      .def_property_readonly("stopped", read(&RunResult::stopped), "stop() was called before the schedule was through.")
      .def_property_readonly("measure_from_ns", read(&RunResult::measure_from_ns))
      .def_property_readonly("measure_until_ns", read(&RunResult::measure_until_ns),
                             "The instant of stop() in a run that was stopped early.")
      .def_property_readonly("outcomes_all", outcomes(&Tally::outcomes_all), "Warm-up included; their sum is due_all.")
      .def_property_readonly("outcomes", outcomes(&Tally::outcomes), "Measured arrivals; their sum is due.")
      .def_property_readonly("samples", read(&Tally::samples))
      .def_property_readonly(
          "calls", [](const Result& self) { return columns(self.run.tally.calls); },
          "Empty without record_calls, and in a closed loop.")
      .def_readonly("connections", &Result::connections)
      .def_readonly("threads", &Result::threads);
  for (const auto& [name, member, about] : kTallyCounts) result.def_property_readonly(name, read(member), about);
  for (const auto& [name, member, about] : kTallyTimes) result.def_property_readonly(name, read(member), about);
  engine
      .def(
          "poll", [](PyEngine& self) { return self.engine.poll(); },
          "Intervals finished since the last call, in order; the last, partial one appears when the run has ended.")
      .def(
          "result", [](PyEngine& self) { return result_of(self.engine); },
          "Everything of the run. Raises RuntimeError until it has ended (`wait` returned True).");
}

}  // namespace loadgen
