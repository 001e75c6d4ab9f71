// Calibration: times the ops of programs on this device, so that the cost model predicts this
// machine. Each distinct call (memory/cost_model.h: its signature) is timed once: its kernel runs
// on scratch memory with plausible numbers. The timings are kept in a file for this device (the
// processor's name and the number of threads, or the GPU's name), this version of the calibration
// and this version of the program.
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

#include "base/compute_capability.h"
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
  // The timer takes at most `most_bytes` of memory, and frees it in its destructor.
  CallTimer(ThreadPool& pool, int64_t most_bytes);

  // Returns the median time in seconds of a few runs of the node's kernel, with small positive
  // numbers and with token ids within the tables. A long kernel runs fewer times. The caches are
  // swept before each run, because in a step other nodes run between two uses of the arguments.
  // Returns a negative number if the arguments don't fit in most_bytes, or if the kernel refuses
  // such numbers.
  double Time(const graph::Program& program, const graph::Node& node);

 private:
  std::byte* Reserve(int64_t bytes);
  void Sweep(std::byte* data, int64_t bytes);

  ThreadPool& pool_;
  int64_t most_bytes_;
  // The arguments of a call, followed by the bytes that are written to sweep the caches.
  std::unique_ptr<runtime::Arena> memory_;
};

struct CalibrationOptions {
  std::string folder;  // the calibration file's folder; empty means that no file is read or written
  bool fixed = false;  // use the file unchanged, time nothing
  // The most memory that timing may take. 0 means half of a GPU's free memory, or a quarter of a
  // CPU's available memory. Times of calls that need more memory are scaled from smaller calls.
  int64_t scratch_bytes = 0;
  double call_seconds = 1.0;  // calls predicted to take longer than this are not timed
  // The limit of the time for all timing. Times of calls left untimed are scaled from timed calls.
  double total_seconds = 30;
  std::function<void(const std::string&)> say;  // prints warnings and progress; may be empty
};

// $XDG_CACHE_HOME/plimsoll or $HOME/.cache/plimsoll; empty when neither variable is set.
std::string CalibrationFolder();
// The folder of a run's calibration: memory.calibration if it is set, else CalibrationFolder().
std::string CalibrationFolder(const config::RunConfig& config);
// The path of a device's file in `folder`: "FOLDER/link-NVIDIA-H200-4-ranks.json". Empty if
// `folder` is empty.
std::string CalibrationPath(const std::string& folder, const std::string& kind,
                            const std::string& device, const std::string& more = "");

// Returns a cost model that knows the calls of `programs`, as far as these can be timed. Calls that
// are not in the file are timed.
memory::CostModel Calibrate(std::span<const graph::Program* const> programs, ThreadPool& pool,
                            const CalibrationOptions& options);

// Calibrates for the GPU, if this build can use one. Otherwise the model knows the calls in the
// file of a GPU of that name, and has built-in rates for all other calls.
memory::CostModel CalibrateGpu(std::span<const graph::Program* const> programs,
                               const std::string& gpu, ComputeCapability capability,
                               const CalibrationOptions& options);

// Returns a cost model that knows the calls in the file; times nothing.
memory::CostModel LoadCalibration(int threads, const CalibrationOptions& options);

}  // namespace plimsoll::trainer
