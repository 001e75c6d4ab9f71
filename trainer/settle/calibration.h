// Calibration: times the ops of programs on this device, so that the cost model predicts what this
// machine does. Each distinct call (memory/cost_model.h: its signature) is timed once by its kernel
// on scratch memory with plausible numbers, and kept in a file for this device (the processor's
// name and the number of threads, or the GPU's name), this version of the calibration and of the
// program.
//
//   ${XDG_CACHE_HOME:-~/.cache}/plimsoll/calibration-….json
//
// The file is checked before it is used; a bad file is ignored with a warning and replaced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/thread_pool.h"
#include "graph/program.h"
#include "memory/cost_model.h"
#include "runtime/arena.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// Bytes of scratch memory that the node's arguments and workspace take.
int64_t ScratchBytes(const graph::Program& program, const graph::Node& node, int threads);

class CallTimer {
 public:
  // It takes `most_bytes` of memory at most, and gives them back when it goes.
  CallTimer(ThreadPool& pool, int64_t most_bytes);

  // Seconds that the node's kernel takes with small positive numbers, and token ids within the
  // tables. The median of a few runs, fewer if they are long. The caches are swept before each run:
  // in a step, other nodes have run since the arguments were last touched. Negative when the
  // arguments don't fit most_bytes, or the kernel refuses such numbers.
  double Time(const graph::Program& program, const graph::Node& node);

 private:
  std::byte* Reserve(int64_t bytes);
  void Sweep(std::byte* data, int64_t bytes);

  ThreadPool& pool_;
  int64_t most_bytes_;
  // The arguments of a call, then what sweeps the caches.
  std::unique_ptr<runtime::Arena> memory_;
};

struct CalibrationOptions {
  std::string folder;  // of the file; empty: nothing is read or kept
  bool fixed = false;  // the file is used as it is, and nothing is timed
  // The memory that timing takes at most; 0: half of what is free on a GPU, a quarter of what is
  // available on a CPU. Calls that need more are scaled from smaller ones.
  int64_t scratch_bytes = 0;
  double call_seconds = 1.0;  // calls that surely take longer are not timed
  double total_seconds = 30;  // limit of the timing; other calls are scaled from the timed ones
  std::function<void(const std::string&)> say;  // for warnings and progress; may be empty
};

// $XDG_CACHE_HOME/plimsoll or $HOME/.cache/plimsoll; empty when neither is set.
std::string CalibrationFolder();
// The folder of a run: memory.calibration, or that.
std::string CalibrationFolder(const config::RunConfig& config);
// The file of a device there: "FOLDER/link-NVIDIA-H200-4-ranks.json"; empty where the folder is.
std::string CalibrationPath(const std::string& folder, const std::string& kind,
                            const std::string& device, const std::string& more = "");

// A model that knows the calls of `programs`, as far as they can be timed: it times the calls that
// the file lacks.
memory::CostModel Calibrate(std::span<const graph::Program* const> programs, ThreadPool& pool,
                            const CalibrationOptions& options);

// The same on the GPU, if this build can use one. Otherwise the model has the calls in the file of
// a GPU of that name, and at least the built-in rates.
memory::CostModel CalibrateGpu(std::span<const graph::Program* const> programs,
                               const std::string& gpu, const CalibrationOptions& options);

// A model with the calls in the file, without timing anything.
memory::CostModel LoadCalibration(int threads, const CalibrationOptions& options);

}  // namespace plimsoll::trainer
