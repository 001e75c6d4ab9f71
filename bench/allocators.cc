// bazel run [--config=cuda] //bench:allocators -- [RUN.yaml] [--rounds N] [--set key=value …]
//
// Compares the planned arena with the caching allocator, on the same model in the same process, on
// the device that the run file names: bytes (allocated, reserved, fragmentation), the first steps,
// in which the cache grows, and the time of later ones, with the cache emptied never, every 10
// steps and every step, with as many bytes preallocated as the plan's arena has, and with nothing
// shared in place. On a GPU the plan is measured as it is launched otherwise, recorded, and node by
// node, as the others must be.
//
// Each round runs some steps of every variant in turn, so that a slow phase of the machine affects
// all of them; times are compared within rounds. All variants are in memory at once. The losses are
// equal to the bit, or the program fails. Default: configs/models/gpt2-124m.yaml with 2 sequences
// of 128 tokens.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "bench/training.h"
#include "runtime/caching_allocator/caching_allocation.h"
#include "trainer/resolve/run_device.h"
#include "trainer/step/session.h"

namespace plimsoll::bench {
namespace {

using runtime::CachingOptions;
using runtime::Launch;
using trainer::CompiledStep;
using trainer::Session;

constexpr int64_t kFirstSteps = 10;

struct Arguments {
  std::string file;
  std::vector<std::string> sets;
  int64_t rounds = 20;
};

struct Variant {
  std::string name;
  Launch launch = Launch::kByNode;
  std::optional<CachingOptions> caching = std::nullopt;
  std::unique_ptr<Session> session = nullptr;
  int64_t steps = 0;                           // so far
  std::vector<double> first = {}, later = {};  // seconds a step

  bool EmptiesBefore(int64_t step) const {
    const int64_t every = caching ? caching->empty_cache_every : 0;
    return every > 0 && step % every == 0;
  }
};

std::vector<Variant> Variants(const CompiledStep& compiled, bool gpu) {
  std::vector<Variant> variants;
  if (gpu) variants.push_back({"planned, recorded", Launch::kRecorded});
  variants.push_back({gpu ? "planned, node by node" : "planned"});
  const auto add = [&](std::string name, CachingOptions options) {
    variants.push_back({.name = "caching, " + std::move(name), .caching = options});
  };
  add("never emptied", {});
  add("emptied every 10 steps", {.empty_cache_every = 10});
  add("emptied every step", {.empty_cache_every = 1});
  add("the plan's bytes preallocated", {.preallocate_bytes = compiled.plan.arena_bytes});
  add("nothing shared in place", {.in_place = false});
  return variants;
}

// Seconds of so many steps and of emptying the cache before those for which that is due, with the
// host as far ahead of the device as in a run.
double RunMore(Variant& variant, int64_t steps) {
  return SecondsOf([&] {
    for (const int64_t end = variant.steps + steps; variant.steps < end;) {
      variant.session->memory().BeforeStep(variant.steps);
      int64_t together = 1;
      while (variant.steps + together < end && !variant.EmptiesBefore(variant.steps + together)) {
        ++together;
      }
      RunSteps(*variant.session, variant.steps, together);
      variant.steps += together;
    }
  });
}

void PrintBytes(const CompiledStep& compiled, const std::vector<Variant>& variants) {
  fmt::print("{:<44} {:>10} {:>10} {:>14} {:>9}\n", "bytes", "in use", "reserved", "fragmentation",
             "segments");
  for (const Variant& variant : variants) {
    const runtime::AllocatorStats stats = variant.caching
                                              ? Replay(compiled.planned(), *variant.caching).device
                                              : compiled.plan.stats(graph::Place::kDevice);
    fmt::print("{:<44} {:>10} {:>10} {:>12.2f} % {:>9}\n", variant.name,
               FormatBytes(stats.peak_allocated), FormatBytes(stats.peak_reserved),
               100 * stats.fragmentation(), stats.segments);
  }
}

int64_t SegmentsReserved(const Variant& variant) {
  return variant.session->memory().stats(graph::Place::kDevice).segments_reserved;
}

// Segments that a later step reserves, and returns before it.
double SegmentsAStep(const Variant& variant, int64_t first_segments) {
  return static_cast<double>(SegmentsReserved(variant) - first_segments) /
         static_cast<double>(variant.steps - kFirstSteps);
}

void Run(const Arguments& arguments) {
  const Training training = LoadTraining(arguments.file, arguments.sets);
  const trainer::CompileOptions& options = training.options;
  fmt::print("{}\n{} samples, {} micro-steps, {}\n\n", arguments.file, options.micro_batch,
             options.accumulate, Name(options.device));
  const bool gpu = options.device == runtime::DeviceKind::kCuda;
  ThreadPool pool(options.threads);
  std::unique_ptr<runtime::Device> device;
  std::vector<Variant> variants;  // with sessions on the device
  {
    const CompiledStep compiled = trainer::Compile(*training.model, options);
    variants = Variants(compiled, gpu);
    PrintBytes(compiled, variants);
  }
  if (arguments.rounds == 0) return;

  device = trainer::MakeDevice(training.config, pool);
  std::vector<int64_t> first_segments;
  for (Variant& variant : variants) {
    variant.session = std::make_unique<Session>(
        trainer::Compile(*training.model, options), *device,
        runtime::ExecutorOptions{.launch = variant.launch},
        variant.caching ? runtime::CachingAllocation(*variant.caching) : memory::Allocation());
    variant.session->Initialize(*training.model, 1);
    FillBatch(*variant.session, training.config, *training.model);
    for (int64_t i = 0; i < kFirstSteps; ++i) variant.first.push_back(RunMore(variant, 1));
    first_segments.push_back(SegmentsReserved(variant));
  }
  // Long enough on a GPU that handing in the first step of a block counts for little.
  const int64_t block = gpu ? 10 : 1;
  for (int64_t round = 0; round < arguments.rounds; ++round) {
    for (Variant& variant : variants) {
      variant.later.push_back(RunMore(variant, block) / static_cast<double>(block));
    }
  }

  fmt::print("\n{:<44} {:>10} {:>10} {:>10} {:>17} {:>15}\n", "ms", "first step", "2nd to 10th",
             "later", "median of ratios", "segments a step");
  for (size_t v = 0; v < variants.size(); ++v) {
    const Variant& variant = variants[v];
    std::vector<double> ratios;
    for (size_t i = 0; i < variant.later.size(); ++i) {
      ratios.push_back(variant.later[i] / variants[0].later[i]);
    }
    fmt::print(
        "{:<44} {:>10.2f} {:>11.2f} {:>10.2f} {:>17.4f} {:>15.1f}\n", variant.name,
        1e3 * variant.first[0], 1e3 * Median({variant.first.begin() + 1, variant.first.end()}),
        1e3 * Median(variant.later), Median(ratios), SegmentsAStep(variant, first_segments[v]));
  }
  const double loss = variants[0].session->Metrics().loss;
  fmt::print("\nloss after {} steps: {}", variants[0].steps, loss);
  std::string others;
  for (const Variant& variant : variants) {
    const double other = variant.session->Metrics().loss;
    if (other != loss) others += fmt::format("; {} with {}", other, variant.name);
  }
  fmt::print("{}\n", others.empty() ? ", equal to the bit in all" : others);
  if (!others.empty()) throw UserError("the loss differs");
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  using namespace plimsoll;
  bench::Arguments arguments;
  CLI::App app{"Compares the planned arena with the caching allocator."};
  app.add_option("run.yaml", arguments.file);
  app.add_option("--set", arguments.sets)->allow_extra_args(false);
  app.add_option("--rounds", arguments.rounds, "of steps in turn; 0: bytes only")
      ->check(CLI::NonNegativeNumber);
  CLI11_PARSE(app, argc, argv);
  if (arguments.file.empty()) {
    arguments.file = "configs/models/gpt2-124m.yaml";
    arguments.sets.insert(arguments.sets.begin(), {"train.micro_batch=2", "model.sequence=128"});
  }
  return bench::RunBenchmark([&] { bench::Run(arguments); });
}
