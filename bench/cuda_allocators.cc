// bazel run --config=cuda //bench:cuda_allocators -- RUN.yaml [--set key=value …] [--steps N]
//
// Compares the planned arena with the caching allocator on a GPU: the allocator's segments are
// cudaMalloc's, and go back by cudaFree when the cache is emptied. Replays the allocations of
// several steps of the run file's programs, without the evaluation; the arena is one cudaMalloc. No
// kernel runs, and no data is loaded: bytes are those of a run, since tensors come and go in the
// same order, and the times are those of the calls alone. In a run, cudaFree also waits for the
// kernels under way. Tensors that are placed on the host take no memory here.
//
// Prints for the plan and each way to use the cache: bytes in use and reserved at the peak,
// fragmentation, segments; what the driver counts for the process; calls of cudaMalloc and cudaFree
// and their milliseconds, in the first step (with the persistent tensors) and in each later one.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"
#include "bench/cuda_segments.h"
#include "bench/training.h"
#include "gpu/first_device.h"
#include "memory/caching_replay.h"
#include "runtime/gpu_memory.h"
#include "trainer/step/caching.h"

namespace plimsoll::bench {
namespace {

using trainer::CompiledStep;

struct Arguments {
  std::string file;
  std::vector<std::string> sets;
  int steps = 10;
};

struct CacheUse {
  std::string name;
  bool empty_each_step = false;
  int64_t preallocate_bytes = 0;  // 0: grows from nothing
  bool in_place = true;
};

struct Row {
  std::string name;
  int64_t in_use = 0, reserved = 0;
  double fragmentation = 0;
  int64_t segments = 0, retries = 0;
  int64_t process_bytes = 0;  // with all segments of a step held
  CudaCalls first;
  std::vector<CudaCalls> later = {};  // by step, with what emptying the cache before it takes
};

int64_t ProcessBytes(const std::optional<runtime::GpuMeter>& meter) {
  return meter ? meter->MeasureProcess().bytes : 0;
}

Row AllocateArena(const memory::MemoryPlan& plan, const std::optional<runtime::GpuMeter>& meter) {
  CudaSegments segments;
  const uintptr_t arena = segments.Reserve(plan.arena_bytes);
  if (arena == 0) {
    throw UserError(fmt::format("the GPU has no {} for the arena: choose a smaller batch",
                                FormatBytes(plan.arena_bytes)));
  }
  Row row{.name = "planned",
          .in_use = plan.max_live_bytes,
          .reserved = plan.arena_bytes,
          .fragmentation = plan.fragmentation,
          .segments = 1,
          .process_bytes = ProcessBytes(meter),
          .first = segments.TakeCalls()};
  segments.Return(arena, plan.arena_bytes);
  return row;
}

void PlayStep(const std::vector<const graph::Program*>& programs,
              const std::vector<memory::ProgramRuns>& round,
              const std::vector<runtime::TensorMemory*>& memories) {
  for (const memory::ProgramRuns& runs : round) {
    const int nodes = static_cast<int>(programs[runs.program]->nodes().size());
    for (int64_t i = 0; i < runs.times; ++i) {
      memories[runs.program]->BeforeRun();
      for (int node = 0; node < nodes; ++node) {
        memories[runs.program]->BeforeNode(node);
        memories[runs.program]->AfterNode(node);
      }
    }
  }
}

Row PlaySteps(const CompiledStep& compiled, const CacheUse& use, int steps,
              const std::optional<runtime::GpuMeter>& meter) {
  const std::vector<const graph::Program*> programs = trainer::Programs(compiled);
  const std::vector<memory::ProgramRuns> round = trainer::Round(compiled);
  CudaSegments segments;
  runtime::CachingMemory memory({.preallocate_bytes = use.preallocate_bytes,
                                 .simulated = true,
                                 .device_segments = &segments});
  const std::vector<runtime::TensorMemory*> memories =
      memory::FillCachingMemory(programs, compiled.plan, use.in_place, memory);
  PlayStep(programs, round, memories);
  Row row{.name = use.name, .first = segments.TakeCalls()};
  for (int step = 1; step < steps; ++step) {
    if (use.empty_each_step) memory.EmptyCache();
    PlayStep(programs, round, memories);
    row.later.push_back(segments.TakeCalls());
  }
  row.process_bytes = ProcessBytes(meter);
  const runtime::CachingStats& stats = memory.stats();
  row.in_use = stats.peak_allocated;
  row.reserved = stats.peak_reserved;
  row.fragmentation = stats.fragmentation();
  row.segments = stats.segments;
  row.retries = stats.retries;
  return row;
}

void PrintBytes(const std::vector<Row>& rows) {
  fmt::print("{:<36} {:>10} {:>10} {:>14} {:>9} {:>10}\n", "bytes", "in use", "reserved",
             "fragmentation", "segments", "process");
  for (const Row& row : rows) {
    fmt::print(
        "{:<36} {:>10} {:>10} {:>12.2f} % {:>9} {:>10}{}\n", row.name, FormatBytes(row.in_use),
        FormatBytes(row.reserved), 100 * row.fragmentation, row.segments,
        FormatBytes(row.process_bytes),
        row.retries > 0 ? fmt::format("  (refused {} times, then emptied)", row.retries) : "");
  }
}

double MedianOf(const std::vector<CudaCalls>& steps, double CudaCalls::*seconds) {
  std::vector<double> values;
  for (const CudaCalls& calls : steps) values.push_back(calls.*seconds);
  return values.empty() ? 0 : Median(values);
}

// Counts are of the last step, times medians over the steps behind the first.
void PrintCalls(const std::vector<Row>& rows) {
  auto calls = [](int64_t count, double seconds) {
    return count == 0 ? std::string("none") : fmt::format("{} in {:.3f} ms", count, seconds * 1e3);
  };
  fmt::print("\n{:<36} {:>24} {:>24} {:>18}\n", "calls", "first step: cudaMalloc",
             "later steps: cudaMalloc", "cudaFree");
  for (const Row& row : rows) {
    const CudaCalls last = row.later.empty() ? CudaCalls{} : row.later.back();
    fmt::print("{:<36} {:>24} {:>24} {:>18}\n", row.name,
               calls(row.first.mallocs, row.first.malloc_seconds),
               calls(last.mallocs, MedianOf(row.later, &CudaCalls::malloc_seconds)),
               calls(last.frees, MedianOf(row.later, &CudaCalls::free_seconds)));
  }
}

void Run(const Arguments& arguments) {
  const auto meter = runtime::GpuMeter::Find();  // before this process holds anything
  const Training training = LoadTraining(arguments.file, arguments.sets);
  const trainer::CompileOptions& options = training.options;
  const CompiledStep compiled = trainer::Compile(*training.model, options);

  gpu::UseFirstDevice();
  // The first call of each kind pays for more than itself.
  CudaSegments warm;
  warm.Return(warm.Reserve(1 << 21), 1 << 21);
  const int64_t context = ProcessBytes(meter);
  fmt::print("{}\n{} samples, {} micro-steps, {} steps replayed; the process without segments: {}",
             arguments.file, options.micro_batch, options.accumulate, arguments.steps,
             FormatBytes(context));
  const bool by_driver = meter && meter->MeasureProcess().by_driver;
  fmt::print(" ({})\n\n",
             by_driver ? "as the driver counts it" : "what the card holds more than before");

  std::vector<Row> rows = {AllocateArena(compiled.plan, meter)};
  const CacheUse uses[] = {
      {.name = "caching"},
      {.name = "caching, emptied each step", .empty_each_step = true},
      {.name = "caching, arena's bytes preallocated",
       .preallocate_bytes = compiled.plan.arena_bytes},
      {.name = "caching, nothing shared in place", .in_place = false},
  };
  for (const CacheUse& use : uses) {
    rows.push_back(PlaySteps(compiled, use, arguments.steps, meter));
  }
  PrintBytes(rows);
  PrintCalls(rows);
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  using namespace plimsoll;
  bench::Arguments arguments;
  CLI::App app{"Compares the planned arena with the caching allocator on a GPU."};
  app.add_option("run.yaml", arguments.file)->required();
  app.add_option("--set", arguments.sets)->allow_extra_args(false);
  app.add_option("--steps", arguments.steps, "the first one included")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return bench::RunBenchmark([&] { bench::Run(arguments); });
}
