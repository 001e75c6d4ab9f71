// bazel run --config=cuda //bench:cuda_step -- RUN.yaml [--set key=value …] [--steps N] [--ops N]
//                                              [--json FILE]
//
// Times whole training steps of a run file on a GPU, on one batch of its data; one of pictures or
// volumes stays on the GPU. First as in a run, recorded into CUDA graphs: ms a step, tokens/s, MFU,
// memory. Then node by node with events around each node: the time by op, and by op and shapes,
// next to the time that this GPU needs at best (FLOPs at the rate of a large product, bytes at the
// rate of a copy, both measured first in the same run).
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/error.h"
#include "bench/training.h"
#include "gpu/installation.h"
#include "gpu/nvml.h"
#include "memory/report.h"
#include "trainer/record/profile.h"
#include "trainer/resolve/run_device.h"
#include "trainer/step/session.h"
#include "trainer/step/step_speed.h"

namespace plimsoll::bench {
namespace {

using nlohmann::json;
using trainer::Session;

struct Arguments {
  std::string file;
  std::vector<std::string> sets;
  int warmup = 5, steps = 20;
  int profiled = 5;  // steps node by node; 0: none
  size_t rows = 40;
  std::string json;
};

// Bytes on the GPU of this process, or, if the driver doesn't tell, of all processes.
struct GpuBytes {
  int64_t process = 0, all = 0;
};

GpuBytes BytesHeld() {
  GpuBytes bytes;
  const gpu::Nvml* nvml = gpu::Nvml::Get();
  const auto device = nvml == nullptr ? std::nullopt : nvml->Find(gpu::FirstBusId());
  if (!device) return bytes;
  bytes.all = device->memory().used;
  bytes.process = device->bytes_of(getpid()).value_or(0);
  return bytes;
}

struct Timing {
  std::vector<double> seconds;  // of each step
  double throughout = 0;        // seconds a step over all steps, with the host running ahead
};

// Runs the steps as in a run: the host hands in the next step while the device works.
Timing TimeSteps(Session& session, const Arguments& arguments) {
  int64_t step = 0;
  for (int i = 0; i < arguments.warmup; ++i) RunStep(session, step++);
  Timing timing;
  for (int i = 0; i < arguments.steps; ++i) timing.seconds.push_back(RunStep(session, step++));
  timing.throughout = RunSteps(session, step, arguments.steps) / arguments.steps;
  return timing;
}

std::vector<trainer::ProgramRun> ProfileSteps(Session& session, int steps) {
  RunStep(session, 0);
  RunStep(session, 1);
  trainer::ProfileCollector collector(session);
  for (int64_t step = 2; step < 2 + steps; ++step) {
    BeginStep(session);
    for (int64_t run = 0; run < session.compiled().step.runs(); ++run) {
      collector.Before(run);
      session.Run(step, run);
      collector.After(step, run);
    }
  }
  return collector.runs();
}

json GroupsJson(const std::vector<trainer::OpGroup>& groups) {
  json list = json::array();
  for (const trainer::OpGroup& group : groups) {
    list.push_back({{"op", group.op},
                    {"phase", graph::Name(group.phase)},
                    {"shapes", group.shapes},
                    {"nodes", group.nodes},
                    {"ms", group.seconds * 1e3},
                    {"flops", group.flops},
                    {"bytes", group.bytes},
                    {"floor_ms", group.floor_seconds * 1e3}});
  }
  return list;
}

void PrintProfile(const trainer::Profile& profile, size_t rows) {
  fmt::print(
      "\nnode by node, {} steps: {:.2f} ms a step, nodes {:.2f} ms, their floor {:.2f} ms\n\n{}",
      profile.steps, profile.step_seconds * 1e3, profile.node_seconds() * 1e3,
      profile.floor_seconds() * 1e3, trainer::ProfileTable(profile, profile.ByOp(), rows));
  fmt::print("\n{}", trainer::ProfileTable(profile, profile.groups, rows));
}

void Run(const Arguments& arguments) {
  const int64_t held_before = BytesHeld().all;
  const auto [config, model, options] = LoadTraining(arguments.file, arguments.sets);
  ThreadPool pool(options.threads);
  const std::unique_ptr<runtime::Device> device = trainer::MakeDevice(config, pool);
  const runtime::Ceilings ceilings = runtime::MeasureCeilings(device->kind());
  fmt::print(
      "{}: copies {:.0f} GB/s, products {:.0f} TFLOP/s in bf16, {:.0f} in tf32, {:.1f} in "
      "fp32\n",
      device->name(), ceilings.copy_bytes * 1e-9, ceilings.bf16_flops * 1e-12,
      ceilings.tf32_flops * 1e-12, ceilings.fp32_flops * 1e-12);

  Timing timing;
  GpuBytes held;
  int64_t arena = 0;
  double flops = 0;  // of the model, per token
  double peak = 0;
  {
    trainer::CompiledStep compiled = trainer::Compile(*model, options);
    arena = compiled.plan.arena_bytes;
    flops = trainer::ModelFlopsPerToken(compiled);
    peak = trainer::PeakFlops(compiled, *device);
    fmt::print("{}\n{} sequences of {} tokens, {} micro-steps\n{}\n", arguments.file,
               options.micro_batch, options.sequence, options.accumulate,
               memory::Summary(compiled.plan));
    Session session(std::move(compiled), *device);
    session.Initialize(*model, 1);
    FillBatch(session, config, *model);
    timing = TimeSteps(session, arguments);
    held = BytesHeld();
  }
  const auto [fastest, slowest] = std::minmax_element(timing.seconds.begin(), timing.seconds.end());
  const double tokens =
      static_cast<double>(options.micro_batch * options.sequence * options.accumulate);
  const double step = timing.throughout;
  const int64_t process = held.process > 0 ? held.process : held.all - held_before;
  fmt::print(
      "\nstep    {:.2f} ms over {} steps one after the other; alone {:.2f} ms, median "
      "({:.2f} to {:.2f})\n"
      "        {:.0f} tokens/s, MFU {} ({:.4g} FLOPs a token)\n"
      "memory  arena {}, process {} on the GPU ({})\n",
      step * 1e3, arguments.steps, Median(timing.seconds) * 1e3, *fastest * 1e3, *slowest * 1e3,
      tokens / step,
      peak > 0 ? fmt::format("{:.1f} %", 100 * flops * tokens / step / peak) : "unknown", flops,
      FormatBytes(arena), FormatBytes(process),
      held.process > 0 ? "as the driver counts it" : "what the card holds more than before");

  json result = {{"step_ms", step * 1e3},
                 {"step_alone_ms", Median(timing.seconds) * 1e3},
                 {"tokens_per_s", tokens / step},
                 {"model_flops_per_token", flops},
                 {"arena_bytes", arena},
                 {"process_bytes", process},
                 {"device", device->name()},
                 {"copy_gb_per_s", ceilings.copy_bytes * 1e-9},
                 {"bf16_tflops", ceilings.bf16_flops * 1e-12}};
  if (arguments.profiled > 0) {
    Session session(trainer::Compile(*model, options), *device, {.profile = true});
    session.Initialize(*model, 1);
    FillBatch(session, config, *model);
    const auto runs = ProfileSteps(session, arguments.profiled);
    const trainer::Profile profile = MakeProfile(session.compiled(), runs, ceilings);
    PrintProfile(profile, arguments.rows);
    result["floor_ms"] = profile.floor_seconds() * 1e3;
    result["node_by_node_ms"] = profile.step_seconds * 1e3;
    result["ops"] = GroupsJson(profile.groups);
  }
  if (!arguments.json.empty()) WriteText(arguments.json, result.dump());
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  using namespace plimsoll;
  bench::Arguments arguments;
  CLI::App app{"Times training steps on a GPU."};
  app.add_option("run.yaml", arguments.file)->required();
  app.add_option("--set", arguments.sets)->allow_extra_args(false);
  app.add_option("--warmup", arguments.warmup, "steps that don't count")
      ->check(CLI::PositiveNumber);
  app.add_option("--steps", arguments.steps)->check(CLI::PositiveNumber);
  app.add_option("--profile-steps", arguments.profiled, "steps node by node; 0: none")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--ops", arguments.rows, "rows of each table");
  app.add_option("--json", arguments.json, "also write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  return bench::RunBenchmark([&] { bench::Run(arguments); });
}
