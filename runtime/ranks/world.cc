#include "runtime/ranks/world.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <sstream>
#include <utility>

#include "base/amounts.h"
#include "base/error.h"
#include "base/message.h"
#include "runtime/ranks/mpi_world.h"

namespace plimsoll::runtime {
namespace {

// The number that the text holds; 0 if it is no number.
int Number(const char* text) {
  if (text == nullptr) return 0;
  int value = 0;
  std::from_chars(text, text + std::string_view(text).size(), value);
  return value;
}

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

}  // namespace

int LaunchedRanks(const std::function<const char*(const char*)>& environment) {
  for (const char* size : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    if (const int ranks = Number(environment(size)); ranks > 0) return ranks;
  }
  // SLURM_NTASKS is set in a job's batch script, too. Only tasks of srun belong to a job step with
  // several tasks.
  const int tasks = Number(environment("SLURM_STEP_NUM_TASKS"));
  if (tasks <= 1 || environment("SLURM_PROCID") == nullptr) return 1;
  for (const char* found : {"PMIX_RANK", "PMI_RANK", "PMI_FD"}) {
    if (environment(found) != nullptr) return tasks;
  }
  throw UserError(
      fmt::format("srun: {} tasks were started without a way to find each other; use srun "
                  "--mpi=pmix (srun --mpi=list shows what this cluster has), mpirun, or one task",
                  tasks));
}

World::World(double patience) : host_(HostName()), exceptions_(std::uncaught_exceptions()) {
  const int launched = LaunchedRanks([](const char* name) { return std::getenv(name); });
  if (launched == 1) {
    all_ = MakeGroupOfOne();
    return;
  }
  if (patience > 0) Watch(patience, [] { return "while the ranks look for each other"; });
  MpiRanks ranks = StartMpi();
  mpi_ = true;
  all_ = std::move(ranks.all);
  local_rank_ = ranks.local_rank;
  local_size_ = ranks.local_size;
  host_leader_ = ranks.host_leader;
  if (all_->size() != launched) {
    const int found = all_->size();
    all_.reset();
    FinishMpi();
    throw UserError(
        fmt::format("mpirun: the launcher started {}, and MPI finds {}; launch with the mpirun "
                    "of Open MPI (mpirun --version), which belongs to the library that is loaded",
                    Counted(launched, "rank"), found));
  }
}

World::~World() {
  if (!mpi_ || std::uncaught_exceptions() > exceptions_) return;
  all_.reset();
  FinishMpi();
}

std::string World::Broadcast(std::string_view text, int root) {
  std::string result = all_->Broadcast(text, root);
  Progress();
  return result;
}

std::vector<std::string> World::Gather(std::string_view text) {
  std::vector<std::string> result = all_->Gather(text);
  Progress();
  return result;
}

void World::Barrier() {
  all_->Barrier();
  Progress();
}

void World::ChooseOwnGpu() const {
  if (local_size_ <= 1) return;
  std::string own = std::to_string(local_rank_);
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    std::vector<std::string> gpus;
    std::istringstream list(visible);
    for (std::string gpu; std::getline(list, gpu, ',');) gpus.push_back(gpu);
    if (gpus.size() <= 1) return;
    const auto at = static_cast<size_t>(local_rank_);
    own = at < gpus.size() ? gpus[at] : "";
  }
  setenv("CUDA_VISIBLE_DEVICES", own.c_str(), 1);
}

void World::Watch(double patience, std::function<std::string()> doing) {
  if (all_ != nullptr && size() == 1) return;
  const std::lock_guard lock(watched_);
  watchdog_.emplace(patience, [this, patience, doing = std::move(doing)] {
    PrintError(fmt::format(
        "{}: parallel.timeout: no progress for {}, {}: a rank or its GPU hangs, or what "
        "it does takes longer than that; ending all ranks",
        all_ != nullptr ? fmt::format("rank {}", rank()) : host_,
        Counted(fmt::format("{:g}", patience), "second"), doing()));
    Abort(1);
  });
}

void World::Progress() {
  const std::lock_guard lock(watched_);
  if (watchdog_) watchdog_->Progress();
}

void World::StopWatching() {
  const std::lock_guard lock(watched_);
  watchdog_.reset();
}

void World::Abort(int code) {
  std::fflush(nullptr);
  if (mpi_) AbortMpi(code);
  std::_Exit(code);
}

}  // namespace plimsoll::runtime
