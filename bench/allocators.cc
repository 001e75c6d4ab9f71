// bazel run //bench:allocators -- [RUN.yaml] [--steps N] [--set key=value …]
//
// Compares the planned arena with the caching allocator, on the same model in the same process:
// bytes (allocated, reserved, fragmentation) and step time with the cache emptied never, every 10
// steps and every step. Each round runs one step of every variant, so that a slow phase of the
// machine affects all of them; times are compared within rounds. Default:
// configs/models/gpt2-124m.yaml with 2 sequences of 128 tokens.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>

#include "base/bytes.h"
#include "base/error.h"
#include "bench/training.h"
#include "trainer/config/load.h"
#include "trainer/settle/from_config.h"
#include "trainer/step/caching.h"
#include "trainer/step/session.h"

namespace plimsoll::bench {
namespace {

using trainer::CachingOptions;
using trainer::CompiledStep;
using trainer::Session;

struct Arguments {
  std::string file;
  std::vector<std::string> sets;
  int steps = 20;
};

struct Variant {
  std::string name;
  std::optional<CachingOptions> caching = std::nullopt;
  std::unique_ptr<Session> session = nullptr;
  std::vector<double> seconds = {};
};

// Seconds of a step, and of emptying the cache before it if that is due.
double TimeStep(Variant& variant, int64_t step) {
  const auto start = std::chrono::steady_clock::now();
  const int64_t every = variant.caching ? variant.caching->empty_cache_every : 0;
  if (every > 0 && step % every == 0) variant.session->caching()->EmptyCache();
  RunStep(*variant.session, step);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

void PrintBytes(const CompiledStep& compiled) {
  fmt::print("{:<44} {:>10} {:>10} {:>14} {:>9}\n", "bytes", "in use", "reserved", "fragmentation",
             "segments");
  auto line = [](std::string_view name, int64_t in_use, int64_t reserved, double fragmentation,
                 int64_t segments) {
    fmt::print("{:<44} {:>10} {:>10} {:>12.2f} % {:>9}\n", name, FormatBytes(in_use),
               FormatBytes(reserved), 100 * fragmentation, segments);
  };
  const memory::MemoryPlan& plan = compiled.plan;
  line("planned", plan.max_live_bytes, plan.arena_bytes, plan.fragmentation, 1);
  auto replay = [&](std::string_view name, const CachingOptions& options) {
    const runtime::CachingStats stats = Replay(compiled, options).device;
    line(name, stats.peak_allocated, stats.peak_reserved, stats.fragmentation(), stats.segments);
  };
  replay("caching", {});
  replay("caching, nothing shared in place", {.in_place = false});
}

void Run(const Arguments& arguments) {
  const config::Loaded loaded = trainer::LoadRun(arguments.file, arguments.sets);
  const auto model = trainer::ModelFrom(loaded.config);
  const trainer::CompileOptions options = trainer::CompileFrom(loaded.config, *model);
  fmt::print("{}\n{} sequences of {} tokens, {} micro-steps, {} threads\n\n", arguments.file,
             options.micro_batch, options.sequence, options.accumulate, options.threads);
  PrintBytes(trainer::Compile(*model, options));
  if (arguments.steps == 0) return;

  ThreadPool pool(options.threads);
  std::vector<Variant> variants;
  variants.push_back({"planned"});
  variants.push_back({"caching, never emptied", CachingOptions{}});
  variants.push_back({"caching, emptied every 10 steps", CachingOptions{.empty_cache_every = 10}});
  variants.push_back({"caching, emptied every step", CachingOptions{.empty_cache_every = 1}});
  for (Variant& variant : variants) {
    variant.session = std::make_unique<Session>(trainer::Compile(*model, options), pool,
                                                runtime::ExecutorOptions{}, variant.caching);
    variant.session->Initialize(*model, 1);
    FillBatch(*variant.session, loaded.config, *model);
    TimeStep(variant, 0);  // touches every page once
  }
  for (int step = 1; step <= arguments.steps; ++step) {
    for (Variant& variant : variants) variant.seconds.push_back(TimeStep(variant, step));
  }

  fmt::print("\n{:<44} {:>10} {:>10} {:>18} {:>16}\n", fmt::format("{} steps", arguments.steps),
             "mean ms", "median ms", "median of ratios", "segments a step");
  for (const Variant& variant : variants) {
    std::vector<double> ratios;
    for (size_t i = 0; i < variant.seconds.size(); ++i) {
      ratios.push_back(variant.seconds[i] / variants[0].seconds[i]);
    }
    const double segments =
        variant.caching
            ? static_cast<double>(variant.session->caching()->stats().segments_reserved) /
                  (arguments.steps + 1)
            : 0;
    fmt::print("{:<44} {:>10.1f} {:>10.1f} {:>18.3f} {:>16.1f}\n", variant.name,
               1e3 * Mean(variant.seconds), 1e3 * Median(variant.seconds), Median(ratios),
               segments);
  }
  for (const Variant& variant : variants) {
    if (variant.session->Metrics().loss != variants[0].session->Metrics().loss) {
      throw InternalError("the loss differs with " + variant.name);
    }
  }
  fmt::print("\nloss after the last step, equal to the bit in all: {}\n",
             variants[0].session->Metrics().loss);
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  using namespace plimsoll;
  bench::Arguments arguments;
  CLI::App app{"Compares the planned arena with the caching allocator."};
  app.add_option("run.yaml", arguments.file);
  app.add_option("--set", arguments.sets)->allow_extra_args(false);
  app.add_option("--steps", arguments.steps, "0: bytes only")->check(CLI::NonNegativeNumber);
  CLI11_PARSE(app, argc, argv);
  if (arguments.file.empty()) {
    arguments.file = "configs/models/gpt2-124m.yaml";
    arguments.sets.insert(arguments.sets.begin(), {"train.micro_batch=2", "model.sequence=128"});
  }
  return bench::RunBenchmark([&] { bench::Run(arguments); });
}
