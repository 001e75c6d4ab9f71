// bazel run --config=cuda //bench:cuda_convolutions -- RUN.yaml [--set key=value …] [--any-engine]
//
// What workspace buys: for each distinct convolution of a run file's training step that cuDNN
// computes, and for several limits, the fastest plan that keeps to the limit and the first one that
// the library names: microseconds, bytes of workspace, and engine. At the end their sums over the
// step, for the plan of the memory has the largest workspace once and the step has every
// convolution's time. With --any-engine also what engines would give that are left out because of
// their bits (ops/cuda/cudnn_convolution.h).
//
// Operands are normally distributed. The plans of a problem take turns under load, several calls to
// a timing; of calls shorter than some 10 µs the host's part shows.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/low_precision.h"
#include "bench/training.h"
#include "gpu/check.h"
#include "gpu/libraries.h"
#include "ops/cuda/cudnn_convolution_choice.h"
#include "ops/cuda/products/gemm.h"
#include "trainer/step/compile.h"

namespace plimsoll::bench {
namespace {

using ops::ConvBuffers;
using ops::ConvGeometry;
using ops::ConvPass;
using ops::ConvProblem;
using ops::CudnnConvolution;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kLimits[] = {0, 16 * kMiB, 64 * kMiB, 256 * kMiB, 1024 * kMiB};
constexpr double kTurn = 600;  // µs of one timing, about
constexpr int kMostCalls = 50;
constexpr int kTurns = 11;
// Plans slower than the fastest by more than this factor are timed only once.
constexpr double kHopeless = 1.5;

struct Arguments {
  std::string file;
  std::vector<std::string> sets;
  bool any_engine = false;
};

// nullopt for nodes of other ops, and for convolutions that are matrix products. The limit of the
// workspace is left open.
std::optional<ConvProblem> ProblemOf(const graph::Program& program, const graph::Node& node) {
  static const std::map<std::string, ConvPass> passes = {{"conv", ConvPass::kForward},
                                                         {"conv_dx", ConvPass::kDx},
                                                         {"conv_dw", ConvPass::kDw},
                                                         {"conv_transpose", ConvPass::kDx}};
  const auto pass = passes.find(node.op->name);
  if (pass == passes.end()) return std::nullopt;
  const graph::Program::Call args = program.CallOf(node);
  const graph::OpCall call = args.get();
  if (!call.has_output(0)) return std::nullopt;
  const ConvGeometry geometry = ops::GeometryOf(call);
  if (geometry.linear()) return std::nullopt;
  const graph::DType dtype = call.input(0).dtype;
  return ConvProblem{.pass = pass->second,
                     .dtype = dtype,
                     .tf32 = ops::UsesTf32(node.attributes, dtype),
                     .geometry = geometry};
}

// How often a step has each.
std::map<ConvProblem, int64_t> ProblemsOf(const trainer::CompiledStep& compiled) {
  std::map<ConvProblem, int64_t> problems;
  for (const trainer::StepEntry& entry : compiled.step.entries) {
    const graph::Program& program = *compiled.programs[entry.program];
    for (const graph::Node& node : program.nodes()) {
      if (const auto problem = ProblemOf(program, node)) problems[*problem] += entry.times;
    }
  }
  return problems;
}

// Bytes of x, weight and y.
struct Sizes {
  int64_t x, weight, y;
};

Sizes SizesOf(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const int64_t element = graph::ByteSize(problem.dtype);
  return {g.rows_in() * g.in_channels * element, g.out_channels * g.patch() * element,
          g.rows_out() * g.out_channels * element};
}

// GPU memory that lives as long as this.
class Region {
 public:
  explicit Region(int64_t bytes) : bytes_(bytes) {
    gpu::Check(cudaMalloc(&data_, static_cast<size_t>(std::max<int64_t>(bytes, 1))), "cudaMalloc");
  }
  ~Region() { cudaFree(data_); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  void* data() const { return data_; }

  void Fill(const std::vector<char>& pattern) const {
    const auto step = static_cast<int64_t>(pattern.size());
    for (int64_t at = 0; at < bytes_; at += step) {
      gpu::Check(
          cudaMemcpy(static_cast<char*>(data_) + at, pattern.data(),
                     static_cast<size_t>(std::min(step, bytes_ - at)), cudaMemcpyHostToDevice),
          "cudaMemcpy");
    }
  }

 private:
  void* data_ = nullptr;
  int64_t bytes_;
};

// Normally distributed numbers of this type.
std::vector<char> Numbers(graph::DType dtype) {
  std::mt19937 generator(7);
  std::normal_distribution<float> normal;
  std::vector<char> pattern(static_cast<size_t>(8 * kMiB));
  const auto put = [&](size_t at, const auto& value) {
    std::memcpy(&pattern[at], &value, sizeof(value));
  };
  for (size_t i = 0; i < pattern.size(); i += static_cast<size_t>(graph::ByteSize(dtype))) {
    const float value = normal(generator);
    if (dtype == graph::DType::kBFloat16) {
      put(i, ToBf16(value));
    } else if (dtype == graph::DType::kFloat16) {
      put(i, ToF16(value));
    } else {
      put(i, value);
    }
  }
  return pattern;
}

// The largest operands of all problems, and the largest workspace.
class Memory {
 public:
  explicit Memory(const std::map<ConvProblem, int64_t>& problems) {
    Sizes largest{0, 0, 0};
    for (const auto& [problem, count] : problems) {
      const Sizes sizes = SizesOf(problem);
      largest = {std::max(largest.x, sizes.x), std::max(largest.weight, sizes.weight),
                 std::max(largest.y, sizes.y)};
    }
    x_ = std::make_unique<Region>(largest.x);
    weight_ = std::make_unique<Region>(largest.weight);
    y_ = std::make_unique<Region>(largest.y);
    workspace_ = std::make_unique<Region>(*std::rbegin(kLimits));
  }

  ConvBuffers BuffersFor(const ConvProblem& problem) const {
    const std::vector<char> numbers = Numbers(problem.dtype);
    for (const Region* region : {x_.get(), weight_.get(), y_.get()}) region->Fill(numbers);
    void* const x = x_->data();
    void* const weight = weight_->data();
    void* const y = y_->data();
    switch (problem.pass) {
      case ConvPass::kForward:
        return {x, weight, y, workspace_->data()};
      case ConvPass::kDx:
        return {y, weight, x, workspace_->data()};
      case ConvPass::kDw:
        break;
    }
    return {x, y, weight, workspace_->data()};
  }

 private:
  std::unique_ptr<Region> x_, weight_, y_, workspace_;
};

class Clock {
 public:
  explicit Clock(cudaStream_t stream) : stream_(stream) {
    gpu::Check(cudaEventCreate(&begin_), "cudaEventCreate");
    gpu::Check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  ~Clock() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;

  // Microseconds of one of several calls.
  template <typename Enqueue>
  double Time(const Enqueue& enqueue, int calls) const {
    gpu::Check(cudaEventRecord(begin_, stream_), "cudaEventRecord");
    for (int i = 0; i < calls; ++i) enqueue();
    gpu::Check(cudaEventRecord(end_, stream_), "cudaEventRecord");
    gpu::Check(cudaEventSynchronize(end_), "cudaEventSynchronize");
    float milliseconds = 0;
    gpu::Check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return 1e3 * milliseconds / calls;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

struct TimedPlan {
  size_t plan;
  std::string name;
  int64_t workspace;
  double microseconds;
};

// All plans of a problem, with the largest workspace, in the order of cuDNN's heuristics.
std::vector<TimedPlan> TimePlans(ConvProblem problem, CudnnConvolution::Engines engines,
                                 gpu::Libraries& libraries, cudaStream_t stream,
                                 const ConvBuffers& buffers) {
  problem.workspace_limit = *std::rbegin(kLimits);
  CudnnConvolution convolution(problem, libraries, engines);
  const Clock clock(stream);
  const auto run = [&](size_t plan) {
    return convolution.Run(plan, libraries, stream, buffers).empty();
  };
  std::vector<TimedPlan> plans;
  double fastest = 0;
  for (size_t plan = 0; plan < convolution.names().size(); ++plan) {
    if (!convolution.Build(plan) || !run(plan)) continue;
    run(plan);
    const double once = clock.Time([&] { run(plan); }, 2);
    plans.push_back({plan, convolution.names()[plan], convolution.WorkspaceBytes(plan), once});
    fastest = plans.size() == 1 ? once : std::min(fastest, once);
  }
  std::vector<TimedPlan*> finalists;
  for (TimedPlan& timed : plans) {
    if (timed.microseconds <= kHopeless * fastest) finalists.push_back(&timed);
  }
  const int calls = std::clamp(static_cast<int>(kTurn / std::max(fastest, 1.0)), 1, kMostCalls);
  std::map<const TimedPlan*, std::vector<double>> turns;
  for (int turn = -kTurns; turn < kTurns; ++turn) {  // half of them warm up
    for (const TimedPlan* timed : finalists) {
      const double time = clock.Time([&] { run(timed->plan); }, calls);
      if (turn >= 0) turns[timed].push_back(time);
    }
  }
  for (TimedPlan* timed : finalists) timed->microseconds = Median(turns[timed]);
  return plans;
}

// Of the plans that a choice would measure under a limit, if all can be recorded; nullptr when
// there is none.
struct Outcome {
  const TimedPlan *fastest = nullptr, *first = nullptr;
};

Outcome Under(int64_t limit, const std::vector<TimedPlan>& plans) {
  Outcome outcome;
  int candidates = 0;
  for (const TimedPlan& timed : plans) {
    if (timed.workspace > limit) continue;
    if (candidates++ == ops::kMostConvPlans) break;
    if (outcome.first == nullptr) outcome.first = &timed;
    if (outcome.fastest == nullptr || timed.microseconds < outcome.fastest->microseconds) {
      outcome.fastest = &timed;
    }
  }
  return outcome;
}

std::string Text(const TimedPlan* timed) {
  if (timed == nullptr) return fmt::format("{:>9} {:>11} {:40}", "none", "", "");
  return fmt::format("{:9.1f} {:>11} {:40}", timed->microseconds, FormatBytes(timed->workspace),
                     timed->name);
}

// Over the convolutions of a step.
struct Total {
  double fastest = 0, first = 0;                       // µs
  int64_t fastest_workspace = 0, first_workspace = 0;  // the largest
  int64_t without = 0;                                 // convolutions that have no plan

  void Add(const Outcome& outcome, int64_t count) {
    if (outcome.first == nullptr) {
      without += count;
      return;
    }
    fastest += static_cast<double>(count) * outcome.fastest->microseconds;
    first += static_cast<double>(count) * outcome.first->microseconds;
    fastest_workspace = std::max(fastest_workspace, outcome.fastest->workspace);
    first_workspace = std::max(first_workspace, outcome.first->workspace);
  }
};

constexpr size_t kLimitCount = std::size(kLimits);

// Prints a problem's lines and adds them to the totals.
void Report(const char* engines, const std::vector<TimedPlan>& plans, int64_t count,
            Total (&totals)[kLimitCount]) {
  std::string last;
  for (size_t i = 0; i < kLimitCount; ++i) {
    const Outcome outcome = Under(kLimits[i], plans);
    totals[i].Add(outcome, count);
    const std::string line = Text(outcome.fastest) + " | " + Text(outcome.first);
    if (line == last) continue;  // a larger limit changes nothing
    last = line;
    fmt::print("  {:>9} {:8} | {}\n", FormatBytes(kLimits[i]), engines, line);
  }
}

void PrintTotals(const char* engines, const Total (&totals)[kLimitCount]) {
  for (size_t i = 0; i < kLimitCount; ++i) {
    const Total& total = totals[i];
    fmt::print(
        "  {:>9} {:8} | {:9.3f} {:>11} | {:9.3f} {:>11}{}\n", FormatBytes(kLimits[i]), engines,
        1e-3 * total.fastest, FormatBytes(total.fastest_workspace), 1e-3 * total.first,
        FormatBytes(total.first_workspace),
        total.without > 0 ? fmt::format(" without {} that have no plan", total.without) : "");
  }
}

void Run(const Arguments& arguments) {
  const Training training = LoadTraining(arguments.file, arguments.sets);
  const std::map<ConvProblem, int64_t> problems =
      ProblemsOf(trainer::Compile(*training.model, training.options));

  gpu::Libraries libraries;
  cudaStream_t stream = nullptr;
  gpu::Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
             "cudaStreamCreateWithFlags");
  fmt::print("{}, cudnn {}: {}, {} distinct convolutions\n", libraries.properties().name,
             cudnnGetVersion(), arguments.file, problems.size());
  const std::string header =
      fmt::format("  {:>9} {:8} | {:>9} {:>11} {:40} | {:>9} {:>11} {}\n", "limit", "engines", "µs",
                  "workspace", "the fastest plan", "µs", "workspace", "the library's first");
  const Memory memory(problems);
  Total allowed[kLimitCount], any[kLimitCount];
  for (const auto& [problem, count] : problems) {
    fmt::print("\n{} times {}\n{}", count, ops::KeyOf(problem), header);
    const ConvBuffers buffers = memory.BuffersFor(problem);
    Report("allowed",
           TimePlans(problem, CudnnConvolution::Engines::kAllowed, libraries, stream, buffers),
           count, allowed);
    if (!arguments.any_engine) continue;
    Report("any", TimePlans(problem, CudnnConvolution::Engines::kAny, libraries, stream, buffers),
           count, any);
  }
  fmt::print("\nall convolutions of a step\n  {:>9} {:8} | {:>9} {:>11} | {:>9} {:>11}\n", "limit",
             "engines", "ms", "workspace", "ms, first", "workspace");
  PrintTotals("allowed", allowed);
  if (arguments.any_engine) PrintTotals("any", any);
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  using namespace plimsoll;
  bench::Arguments arguments;
  CLI::App app{"Times cuDNN's plans for the convolutions of a run, by their workspace."};
  app.add_option("run.yaml", arguments.file)->required();
  app.add_option("--set", arguments.sets)->allow_extra_args(false);
  app.add_flag("--any-engine", arguments.any_engine,
               "also engines that are left out because of their bits");
  CLI11_PARSE(app, argc, argv);
  return bench::RunBenchmark([&] { bench::Run(arguments); });
}
