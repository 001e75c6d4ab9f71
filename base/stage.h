// Where the time of a process's start goes: stages, which have names, may lie within one another, and
// may run on several threads at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll {

// The process is in this stage of its start for as long as the object lives; on the thread that
// made it, which ends the stages within it first. Costs next to nothing once EndStart() was called.
class Stage {
 public:
  explicit Stage(std::string name);
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

 private:
  int64_t number_;  // -1: the start is over
};

// Seconds since the system started the process; under `bazel run`, since the first call.
double SecondsInProcess();

struct StageTime {
  std::string name;
  double begin = 0, end = 0;  // SecondsInProcess()
  int thread = 0;             // 0: the main one
  int depth = 0;              // stages around it on its thread
};

// In the order in which they began; one that has not ended ends now.
std::vector<StageTime> StageTimes();

// No stage begins any more. The process's first start counts: later ones, in tests, change nothing.
void EndStart();

// "started in 4.8 s: program 0.2, data 0.3, …": until the first stage began, then the outermost stages
// of the main thread, those of one name together, and what lies between them as "other". What is
// below a twentieth of a second counts as other.
std::string StartText();

}  // namespace plimsoll
