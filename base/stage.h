// Measures where the time of a process's start goes. The start consists of named stages, which may
// be nested, and may run on several threads at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll {

// A stage of the process's start, which lasts as long as the object lives, on the thread that made
// it. Nested stages must end first. Costs next to nothing once EndStart() was called.
class Stage {
 public:
  explicit Stage(std::string name);
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

 private:
  int64_t number_;  // -1: the start has ended
};

// Seconds since the system started the process; under `bazel run`, since the first call.
double SecondsInProcess();

struct StageTime {
  std::string name;
  double begin = 0, end = 0;  // as SecondsInProcess()
  int thread = 0;             // 0: the main thread
  int depth = 0;              // number of enclosing stages on its thread
};

// All stages in the order in which they began. The end of a stage that has not ended is now.
std::vector<StageTime> StageTimes();

// Ends the start: later stages are not recorded. Only the process's first start counts: later ones,
// in tests, change nothing.
void EndStart();

// A text like "started in 4.8 s: program 0.2, data 0.3, …". "program" is the time until the first
// stage began. The others are the outermost stages of the main thread; stages of one name are
// added. Time between stages, and stages below a twentieth of a second, count as "other".
std::string StartText();

}  // namespace plimsoll
