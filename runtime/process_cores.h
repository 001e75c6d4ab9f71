// The processor cores that this process may use, and the process's share of cores that several
// processes of a host use.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace plimsoll::runtime {

struct ProcessCores {
  static constexpr double kNoLimit = std::numeric_limits<double>::infinity();

  // The numbers of the cores on which the process may run, in increasing order. taskset, mpirun
  // --bind-to or a batch system may have restricted them. Never empty.
  std::vector<int> numbers = {0};
  // The processor time that the process's control group gets, in cores. It is the smallest quota of
  // the group and its ancestors: a container's (docker --cpus) or a batch job's.
  double quota = kNoLimit;
  uint64_t group_id = 0;  // the same for all processes of the machine that share this quota

  // The number of cores that the process may keep busy if no other process uses them. At least 1; a
  // part of a core counts as one.
  int count() const;
};

// Measures this process. `root`: a folder in place of "/", for the files of control groups in
// tests.
ProcessCores MeasureProcessCores(const char* root = "");

// The number of cores that one of several processes of a host may keep busy, at least 1, if all
// processes share each core, and each quota, evenly.
int ShareOfCores(std::span<const ProcessCores> processes, size_t process);

}  // namespace plimsoll::runtime
