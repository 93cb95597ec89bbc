// Teams of threads: every task once, all its effects seen, exceptions, sleeping threads, other processes.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "step/team.h"
#include "tests/check.h"

using namespace fastqps;
using namespace fastqps::step;

namespace {

// Works of random sizes, one behind the other as in a step; sometimes the threads have gone to sleep.
void run_works(u32 threads, u32 works, u32 seed) {
  std::mt19937 random(seed);
  std::vector<u32> counts(64), sums(64);
  for (u32 work = 1; work <= works; work++) {
    const u32 n = random() % 65;
    std::fill(counts.begin(), counts.end(), 0);
    team_run(1 + random() % threads, n, [&](u32 i) {
      for (u32 k = 0; k < 20 * (i % 7); k++) asm volatile("" ::: "memory");
      counts[i]++, sums[i] += work;  // plain numbers: each task is one thread's
    });
    CHECK_EQ(u32(std::accumulate(counts.begin(), counts.end(), 0u)), n);
    for (u32 i = 0; i < n; i++) CHECK_EQ(counts[i], 1u);
    if (work % 100 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
  }
}

}  // namespace

TEST(every_task_runs_once) {
  for (u32 cores : {64u, 1u})  // spinning, and sleeping at once
    for (u32 threads : {1u, 2u, 3u, 8u}) {
      Team::set_cores(cores);
      std::thread([=] {
        const Team::Scope scope(threads);
        run_works(threads, 1000, threads);
      }).join();
    }
  Team::set_cores(0);
}

TEST(two_threads_have_teams_of_their_own) {
  std::vector<std::thread> owners;
  for (u32 owner = 0; owner < 3; owner++)
    owners.emplace_back([=] {
      const Team::Scope scope(3);
      run_works(3, 500, owner);
    });
  for (std::thread& owner : owners) owner.join();
}

TEST(an_exception_leaves_when_all_tasks_have_run) {
  Team team(3);
  for (u32 round = 0; round < 200; round++) {
    std::atomic<u32> ran{0};
    const auto task = [&](u32 i) {
      ran++;
      if (i % 3 == 1) throw std::runtime_error("task " + std::to_string(i));
    };
    std::string said;
    try {
      team.run(
          3, 10, [](const void* data, u32 i) { (*static_cast<const decltype(task)*>(data))(i); }, &task);
    } catch (const std::runtime_error& error) { said = error.what(); }
    CHECK_EQ(ran.load(), 10u);
    CHECK(said == "task 1" || said == "task 4" || said == "task 7");
  }
}

TEST(a_task_computes_the_tasks_that_it_starts) {
  const auto nested = [](u32 threads) {
    std::vector<u32> counts(40);
    team_run(threads, 8, [&](u32 i) {
      const std::thread::id own = std::this_thread::get_id();
      team_run(threads, 5, [&](u32 k) {
        CHECK(std::this_thread::get_id() == own);
        counts[5 * i + k]++;
      });
    });
    for (u32 count : counts) CHECK_EQ(count, 1u);
  };
  std::thread([&] {
    for (u32 round = 0; round < 50; round++) {
      const Team::Scope scope(3);
      nested(3), run_works(3, 2, round);  // the thread is no longer in a task
    }
  }).join();
  nested(1);
}

// Both threads must be in the work at the same time: one alone would wait for ever.
TEST(threads_that_sleep_are_woken) {
  for (u32 cores : {64u, 1u}) {
    Team::set_cores(cores);
    Team team(2);
    for (u32 round = 0; round < 20; round++) {
      if (round % 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::atomic<u32> arrived{0};
      const auto task = [&](u32) {
        arrived++;
        while (arrived < 2) std::this_thread::yield();
      };
      team.run(
          2, 2, [](const void* data, u32 i) { (*static_cast<const decltype(task)*>(data))(i); }, &task);
      CHECK_EQ(arrived.load(), 2u);
    }
  }
  Team::set_cores(0);
}

TEST(no_team_spins_while_all_of_them_have_more_threads_than_cores) {
  u32 cores = 2;  // of this team and of those of other tests
  while (Team::set_cores(cores), !Team(2).spins()) cores++;
  Team::set_cores(cores + 1);
  const Team first(2);
  CHECK(first.spins());
  {
    const Team second(2);
    CHECK(!first.spins() && !second.spins());
  }
  CHECK(first.spins());
  Team::set_cores(0);
}

// More than a team has, too: where the system starts fewer threads, it does so each time.
TEST(a_scope_keeps_a_team_of_fewer_threads_than_are_wanted) {
  const auto threads_of_process = [] {
    std::set<std::string> ids;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ids.insert(entry.path());
    return ids;
  };
  std::thread([&] {
    for (u32 wanted : {2u, 1000u}) {
      { const Team::Scope scope(wanted); }
      const std::set<std::string> before = threads_of_process();
      { const Team::Scope scope(wanted); }
      CHECK(threads_of_process() == before);
    }
  }).join();
}

#ifndef __SANITIZE_THREAD__  // it starts no threads in a child
TEST(a_scope_keeps_its_team_and_a_child_process_has_its_own) {
  std::thread([] {
    {
      const Team::Scope scope(2);
      run_works(2, 50, 1);
    }
    const pid_t child = fork();
    if (!child) {
      std::thread other([] {});  // it may have the handle that a thread of the old team had
      Team::set_cores(2);
      CHECK(Team(2).spins());  // nobody else's threads need the cores
      {
        const Team::Scope scope(2);
        run_works(2, 50, 2);
      }
      Team::set_cores(3);
      CHECK(!Team(2).spins());  // but those of the scope's team do
      other.join();
      _exit(0);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    const Team::Scope scope(2);
    run_works(2, 50, 3);
  }).join();
}
#endif
