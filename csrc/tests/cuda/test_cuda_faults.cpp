// What goes wrong on a CUDA device: errors are named, they stay, they concern their device alone, and every wait ends.
#include "core/clock.h"
#include "tests/cuda/fake_cuda_fixture.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

// A lane on a device of its own, which may break. Kept: nothing of a broken device can be given back.
SumLane& lane_on(int device) {
  static DeviceTime& time = *new DeviceTime;
  static auto& lanes = *new std::vector<std::unique_ptr<SumLane>>;
  cuda().use(device);
  return *lanes.emplace_back(new SumLane(time));
}
SumStep& step_on(SumLane& lane) {
  static auto& steps = *new std::vector<std::unique_ptr<SumStep>>;
  std::mt19937 random(5);
  SumStep& step = *steps.emplace_back(new SumStep{lane.step(), {}});
  step.pack(lane.layout, random, 0);
  return step;
}

std::string told(const CudaStatus& status) {
  return std::string(CudaApi::name(status.call)) + " " + std::to_string(status.code) + " " +
         cuda().api->text(status.code);
}

}  // namespace

TEST(a_fault_is_named_and_stays) {
  struct Row {
    const char* knob;
    bool at_launch;  // else it shows once the step runs, in whatever is called then
    const char* told;
  };
  const Row table[] = {
      {"fail_launch", true, "cudaGraphLaunch 719 unspecified launch failure"},
      {"fail_copy", true, "cudaMemcpyAsync 719 unspecified launch failure"},
      {"fail_graph", false, " 700 an illegal memory access was encountered"},
  };
  int device = 1;
  for (const Row& row : table) {
    SumLane &lane = lane_on(device), &neighbour = lane_on(device++);
    SumStep &step = step_on(lane), &twin = step_on(lane), &other = step_on(neighbour);
    CHECK(step.launch() == CudaStep::Launch::kDone && step.wait() && step.right());
    CHECK(cuda().set(row.knob, 1));
    CHECK(step.launch() == CudaStep::Launch::kFault || !row.at_launch);
    CHECK(step.step->wait(test::kPatienceNs, 0) == CudaStep::Progress::kFault);
    const std::string first = told(lane.lane.fault());
    CHECK(first.ends_with(row.told));
    CHECK(first.find("cuda") == 0);
    for (int again = 0; again < 3; again++) {
      CHECK(step.launch() == CudaStep::Launch::kFault);
      CHECK(twin.launch() == CudaStep::Launch::kFault);
      CHECK_EQ(twin.step->due_ns(), 0u);
      CHECK(twin.step->wait(test::kPatienceNs, 0) == CudaStep::Progress::kFault);
      CHECK_EQ(told(lane.lane.fault()), first);
    }
    CHECK(other.launch() == CudaStep::Launch::kFault);  // all that uses the device
    CHECK_EQ(neighbour.lane.fault().code, lane.lane.fault().code);
  }
  cuda().use(0);
  SumStep& safe = step_on(lane_on(0));
  CHECK(safe.launch() == CudaStep::Launch::kDone && safe.wait() && safe.right());
}

TEST(a_fault_in_one_step_is_seen_by_the_next_one_too) {
  SumLane& lane = lane_on(5);
  SumStep &one = step_on(lane), &two = step_on(lane);
  CHECK(cuda().set("graph_ns", 50'000'000));
  CHECK(one.launch() == CudaStep::Launch::kDone && one.wait());  // its time is known
  CHECK(cuda().set("graph_ns", 0) && cuda().set("fail_graph", 2));
  CHECK(one.launch() == CudaStep::Launch::kDone);
  two.launch();
  CHECK(two.step->wait(test::kPatienceNs, 0) == CudaStep::Progress::kFault);
  CHECK_EQ(one.step->due_ns(), 0u);
  CHECK(one.step->wait(test::kPatienceNs, 0) ==
        CudaStep::Progress::kFault);  // its answer may be there: nobody can tell
}

TEST(a_step_that_hangs_does_not_hang_who_waits) {
  SumLane& lane = lane_on(6);
  SumStep &step = step_on(lane), &behind = step_on(lane);
  CHECK(cuda().set("hang_graph", 1));
  CHECK(step.launch() == CudaStep::Launch::kDone && behind.launch() == CudaStep::Launch::kDone);
  const u64 begun = now_ns();
  CHECK(step.step->wait(20'000'000, 200'000) == CudaStep::Progress::kGoesOn);
  CHECK(behind.step->wait(20'000'000, 0) == CudaStep::Progress::kGoesOn);
  CHECK(now_ns() - begun >= 40'000'000);
  for (int i = 0; i < 5; i++) CHECK(step.step->due_ns() <= 1'000'000);
  CHECK(step.launch() == CudaStep::Launch::kRunning);
  cuda().use(0);
}
