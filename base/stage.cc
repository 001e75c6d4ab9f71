#include "base/stage.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <utility>

namespace plimsoll {
namespace {

double Now() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The start of the process, in seconds since the system started. It is the current time if the
// system doesn't report it, and under `bazel run`, where the process was bazel's own during the
// build.
double ProcessBegin() {
  if (std::getenv("BUILD_WORKSPACE_DIRECTORY") != nullptr) return Now();
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  // Finds the 20th number after the program's name, which is in brackets and may contain spaces.
  const size_t name = text.rfind(')');
  if (name == text.npos) return Now();
  size_t at = name + 1;
  for (int field = 0; field < 19 && at != text.npos; ++field) at = text.find(' ', at + 1);
  if (at == text.npos) return Now();
  return std::strtod(text.c_str() + at, nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

struct Start {
  std::mutex mutex;
  std::vector<StageTime> stages;
  int threads = 1;  // threads so far; the main thread is the first
  bool over = false;
};

Start& TheStart() {
  static Start start;
  return start;
}

// State of the calling thread.
thread_local int thread_number = -1;
thread_local int stages_around = 0;

}  // namespace

double SecondsInProcess() {
  static const double begin = ProcessBegin();
  return Now() - begin;
}

Stage::Stage(std::string name) : number_(-1) {
  Start& start = TheStart();
  const std::lock_guard lock(start.mutex);
  if (start.over) return;
  if (thread_number < 0) thread_number = gettid() == getpid() ? 0 : start.threads++;
  number_ = std::ssize(start.stages);
  start.stages.push_back(
      {std::move(name), SecondsInProcess(), /*end=*/0, thread_number, stages_around++});
}

Stage::~Stage() {
  if (number_ < 0) return;
  --stages_around;
  Start& start = TheStart();
  const std::lock_guard lock(start.mutex);
  if (!start.over) start.stages[static_cast<size_t>(number_)].end = SecondsInProcess();
}

std::vector<StageTime> StageTimes() {
  Start& start = TheStart();
  const std::lock_guard lock(start.mutex);
  std::vector<StageTime> stages = start.stages;
  for (StageTime& stage : stages) {
    if (stage.end == 0) stage.end = SecondsInProcess();
  }
  return stages;
}

void EndStart() {
  Start& start = TheStart();
  const std::lock_guard lock(start.mutex);
  if (std::exchange(start.over, true)) return;
  for (StageTime& stage : start.stages) {
    if (stage.end == 0) stage.end = SecondsInProcess();
  }
}

std::string StartText() {
  constexpr double kShort = 0.05;
  std::vector<std::pair<std::string, double>> parts;
  const std::vector<StageTime> stages = StageTimes();
  double end = 0, in_stages = 0;
  if (!stages.empty()) parts.emplace_back("program", stages.front().begin);
  for (const StageTime& stage : stages) {
    if (stage.thread != 0 || stage.depth != 0) continue;
    end = std::max(end, stage.end);
    const auto known = std::ranges::find(parts, stage.name, &std::pair<std::string, double>::first);
    const double seconds = stage.end - stage.begin;
    if (known != parts.end()) {
      known->second += seconds;
    } else {
      parts.emplace_back(stage.name, seconds);
    }
  }
  std::string text = fmt::format("started in {:.2f} s:", end);
  for (const auto& [name, seconds] : parts) {
    if (seconds < kShort) continue;
    text += fmt::format(" {} {:.2f},", name, seconds);
    in_stages += seconds;
  }
  return text + fmt::format(" other {:.2f}", std::max(0.0, end - in_stages));
}

}  // namespace plimsoll
