// bazel run //bench:step -- RUN.yaml [--steps N] [--set key=value …] [--json FILE]
//
// Times whole training steps of a run file on its data: tokens/s, the share of this machine's
// float32 GEMM rate (measured in the same run), the time of each op next to its prediction, and the
// memory used. Default: configs/models/gpt2-124m.yaml with 4 sequences of 256 tokens.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/bytes.h"
#include "base/error.h"
#include "bench/gemm_peak.h"
#include "bench/training.h"
#include "memory/report.h"
#include "runtime/process_memory.h"
#include "trainer/config/load.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/resolved_run.h"
#include "trainer/resolve/run_costs.h"
#include "trainer/step/session.h"

namespace plimsoll::bench {
namespace {

using trainer::Session;

struct Arguments {
  std::string file;  // empty: GPT-2 124M with 4 sequences of 256 tokens
  std::vector<std::string> sets;
  int steps = 6;
  std::string json;
};

struct OpWork {
  double flops = 0, predicted_seconds = 0;
};

// Of one step, by op.
std::map<std::string, OpWork> WorkByOp(const trainer::CompiledStep& compiled,
                                       const memory::CostModel& cost) {
  std::map<std::string, OpWork> work;
  for (int64_t run = 0; run < compiled.step.runs(); ++run) {
    const graph::Program& program = *compiled.programs[compiled.step.At(run).program];
    const std::vector<double> seconds = cost.NodeSeconds(program);
    for (size_t n = 0; n < seconds.size(); ++n) {
      const graph::Node& node = program.nodes()[n];
      OpWork& of_op = work[node.op->name];
      of_op.flops += graph::CostOf(program.CallOf(node).get()).flops;
      of_op.predicted_seconds += seconds[n];
    }
  }
  return work;
}

void PrintOps(Session& session, int steps, double step_seconds, double peak,
              const memory::CostModel& cost) {
  std::map<std::string, double> seconds;
  for (size_t i = 0; i < session.compiled().programs.size(); ++i) {
    if (!session.compiled().step.Runs(static_cast<int>(i))) continue;
    for (const auto& op : session.executor(static_cast<int>(i)).op_times()) {
      seconds[op.op] += static_cast<double>(op.nanoseconds) * 1e-9 / steps;
    }
  }
  std::vector<std::pair<double, std::string>> longest;
  for (const auto& [op, s] : seconds) longest.emplace_back(s, op);
  std::sort(longest.rbegin(), longest.rend());
  const std::map<std::string, OpWork> work = WorkByOp(session.compiled(), cost);
  fmt::print("\n{:<30} {:>10} {:>10} {:>8} {:>10} {:>12}\n", "op", "ms a step", "predicted",
             "share", "GFLOP/s", "of GEMM rate");
  for (const auto& [s, op] : longest) {
    const double rate = work.at(op).flops / s;
    fmt::print("{:<30} {:>10.2f} {:>10.2f} {:>7.1f}% {:>10.1f} {:>11.0f}%\n", op, s * 1e3,
               work.at(op).predicted_seconds * 1e3, 100 * s / step_seconds, rate * 1e-9,
               100 * rate / peak);
  }
}

// Measures the machine's GEMM rate in a process of its own, so that the libraries' memory does not
// count as ours. Must be made before this process has threads.
class PeakMeter {
 public:
  explicit PeakMeter(int threads) {
    int ask[2], answer[2];
    if (pipe(ask) != 0 || pipe(answer) != 0) throw UserError("cannot make a pipe");
    const pid_t child = fork();
    if (child < 0) throw UserError("cannot start a process");
    ask_ = ask[1];
    answer_ = answer[0];
    if (child == 0) {
      close(ask[1]);
      close(answer[0]);
      Serve(threads, ask[0], answer[1]);
    }
    close(ask[0]);
    close(answer[1]);
  }
  ~PeakMeter() {
    close(ask_);
    close(answer_);
    wait(nullptr);
  }

  GemmRate Measure() {
    char text[128] = {};
    if (write(ask_, "m", 1) != 1 || read(answer_, text, sizeof(text) - 1) <= 0) {
      throw UserError("the measurement of the GEMM rate failed");
    }
    GemmRate peak;
    std::istringstream(text) >> peak.gflops >> peak.library;
    return peak;
  }

 private:
  [[noreturn]] static void Serve(int threads, int ask, int answer) {
    // The libraries' threads must not stay awake while a step is timed.
    setenv("OMP_WAIT_POLICY", "passive", 1);
    ThreadPool pool(threads);
    char request;
    while (read(ask, &request, 1) == 1) {
      const GemmRate peak = MeasureGemmPeak(pool, 0.1);
      const std::string text = fmt::format("{} {}", peak.gflops, peak.library);
      if (write(answer, text.data(), text.size()) < 0) break;
    }
    _exit(0);
  }

  int ask_, answer_;
};

void Run(const Arguments& arguments) {
  const config::Loaded loaded = config::Load(arguments.file, arguments.sets);
  const auto model = trainer::ModelFrom(loaded.config);
  trainer::CompileOptions options = trainer::ResolveRun(loaded.config, *model).options;
  options.evaluate = false;
  PeakMeter meter(options.threads);
  ThreadPool pool(options.threads);

  trainer::CompiledStep compiled;
  const double compile_seconds = SecondsOf([&] { compiled = trainer::Compile(*model, options); });
  fmt::print(
      "{}\n{} sequences of {} tokens, {} micro-steps, {} threads; compiled in {:.0f} ms\n{}\n",
      arguments.file, options.micro_batch, options.sequence, options.accumulate, pool.size(),
      compile_seconds * 1e3, memory::Report(compiled.plan));

  std::vector<const graph::Program*> programs;
  for (const auto& program : compiled.programs) programs.push_back(program.get());
  const memory::CostModel cost = trainer::CostModelFor(loaded.config, programs);
  const double predicted = trainer::PredictSeconds(compiled, cost);

  Session session(std::move(compiled), pool, {.profile = true});
  session.Initialize(*model, 1);
  FillBatch(session, loaded.config, *model);
  RunStep(session, 0);  // touches every page once
  for (size_t i = 0; i < session.compiled().programs.size(); ++i) {
    session.executor(static_cast<int>(i)).ResetProfile();
  }
  // Clocks drift by a tenth, and by more on shared machines: each step is compared with GEMM rates
  // measured directly before and after it.
  std::vector<double> seconds, shares, peaks;
  GemmRate peak = meter.Measure();
  for (int i = 0; i < arguments.steps; ++i) {
    const double before = peak.gflops;
    seconds.push_back(RunStep(session, i + 1));
    peak = meter.Measure();
    peaks.push_back((before + peak.gflops) / 2);
    shares.push_back(session.compiled().flops_per_step / seconds.back() * 1e-9 / peaks.back());
  }
  const int64_t resident = runtime::MeasureProcessMemory().peak_resident_bytes;
  const double median = Median(seconds), share = Median(shares), gemm = Median(peaks);
  double total = 0;
  for (double s : seconds) total += s;
  PrintOps(session, arguments.steps, total / arguments.steps, gemm * 1e9, cost);

  const double tokens =
      static_cast<double>(options.micro_batch * options.sequence * options.accumulate);
  const double rate = session.compiled().flops_per_step / median;
  const auto [fastest, slowest] = std::minmax_element(seconds.begin(), seconds.end());
  fmt::print(
      "\nstep      {:.1f} ms median of {} ({:.1f} to {:.1f}), {:.1f} tokens/s\n"
      "predicted {:.1f} ms, {:+.1f} %\n"
      "rate      {:.1f} GFLOP/s; {:.1f} % of the best float32 GEMM beside it ({:.1f}, {}), median "
      "of "
      "{} pairs\n"
      "memory    arena {}, process peak {}\n",
      median * 1e3, arguments.steps, *fastest * 1e3, *slowest * 1e3, tokens / median,
      predicted * 1e3, 100 * (predicted / median - 1), rate * 1e-9, 100 * share, gemm, peak.library,
      arguments.steps, FormatBytes(session.compiled().plan.arena_bytes), FormatBytes(resident));
  if (!arguments.json.empty()) {
    const nlohmann::json json = {{"step_ms", median * 1e3},
                                 {"predicted_step_ms", predicted * 1e3},
                                 {"tokens_per_s", tokens / median},
                                 {"gflops", rate * 1e-9},
                                 {"gemm_gflops", gemm},
                                 {"share_of_gemm", share},
                                 {"arena_bytes", session.compiled().plan.arena_bytes},
                                 {"peak_resident_bytes", resident}};
    WriteText(arguments.json, json.dump());
  }
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  using namespace plimsoll;
  bench::Arguments arguments;
  CLI::App app{"Times training steps."};
  app.add_option("run.yaml", arguments.file);
  app.add_option("--set", arguments.sets)->allow_extra_args(false);
  app.add_option("--steps", arguments.steps)->check(CLI::PositiveNumber);
  app.add_option("--json", arguments.json, "also write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  if (arguments.file.empty()) {
    arguments.file = "configs/models/gpt2-124m.yaml";
    arguments.sets.insert(arguments.sets.begin(), {"train.micro_batch=4", "model.sequence=256"});
  }
  return bench::RunBenchmark([&] { bench::Run(arguments); });
}
