// The processor cores of this process, and its share where processes of a host have the same ones.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace plimsoll::runtime {

struct ProcessCores {
  static constexpr double kNoLimit = std::numeric_limits<double>::infinity();

  // The numbers of the cores on which it may run, in increasing order: as taskset, mpirun --bind-to
  // or a batch system has bound it. Never empty.
  std::vector<int> numbers = {0};
  // The processor time that its control group gets, in cores: the least of it and of those around
  // it, which are a container's (docker --cpus) or a batch job's.
  double quota = kNoLimit;
  uint64_t group_id = 0;  // the same for all processes of the machine that share this quota

  // The cores that it may keep busy if it shares them with nobody: at least 1; a part of a core
  // counts as one.
  int count() const;
};

// `root`: a folder in place of "/", for the files of control groups in tests.
ProcessCores MeasureProcessCores(const char* root = "");

// The cores that one of several processes of a host may keep busy, at least 1, when all of them
// share each core, and each quota, evenly.
int ShareOfCores(std::span<const ProcessCores> processes, size_t process);

}  // namespace plimsoll::runtime
