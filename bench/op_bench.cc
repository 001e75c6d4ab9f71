// bazel run [--config=cuda] //bench:op -- [WORD…] [--device cpu | cuda] [--csv]
//
// Times ops, a row for each case whose text contains one of the words: microseconds, GB/s, TFLOP/s,
// and the share of the time that this device needs at best: its bytes at the rate of a copy or, if
// that takes longer, a product's FLOPs at the rate of a large product of its type. Both rates are
// measured first; bytes and FLOPs are those of the ops' cost rules. The cases (bench/op_case.h) are
// those of bench/op_cases_cuda.json or bench/op_cases_cpu.json, or
//
//   --cases FILE                        of another file
//   --run RUN.yaml [--set KEY=VALUE]    the calls of a run file's training step, and their sum
//   --examples                          the examples of all ops by which kernels are tested
//
// --list prints the cases, and how many each op has. On a CPU --libraries compares products with
// the fastest library at their shapes. On a GPU --workspace BYTES times only the convolutions that
// cuDNN computes, within that workspace.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>

#include "bench/gemm_peak.h"
#include "bench/op_device.h"
#include "bench/training.h"
#include "trainer/record/profile.h"
#include "trainer/resolve/run_device.h"

namespace plimsoll::bench {
namespace {

struct Arguments {
  std::vector<std::string> words, sets;
  std::string device = "cpu", cases, run, type, products = "all";
  bool examples = false, list = false, csv = false, libraries = false;
  int threads = trainer::OwnCores();
  std::optional<int64_t> workspace;
};

std::vector<OpCase> CasesFor(const Arguments& arguments) {
  std::vector<OpCase> cases;
  if (!arguments.run.empty()) {
    const Training training = LoadTraining(arguments.run, arguments.sets);
    cases = StepCases(trainer::Compile(*training.model, training.options));
  } else if (arguments.examples) {
    cases = ExampleCases();
  } else {
    const std::string file = "bench/op_cases_" + arguments.device + ".json";
    const std::string type = arguments.device == "cpu" ? "f32" : "bf16";
    cases = LoadCases(arguments.cases.empty() ? file : arguments.cases,
                      arguments.type.empty() ? type : arguments.type);
  }
  std::erase_if(cases, [&](const OpCase& of) {
    const auto found = [&](const std::string& word) { return of.text.find(word) != of.text.npos; };
    return (!arguments.words.empty() && std::ranges::none_of(arguments.words, found)) ||
           (arguments.workspace && !IsConvolution(of.calls[0]));
  });
  return cases;
}

// The seconds that the fastest library takes for a `linear` op in float32, or `otherwise`.
double LibrarySeconds(const CaseCall& call, int threads, double otherwise) {
  const TypedCall typed(call);
  const bool dx = typed.op.name == "linear_dx", dw = typed.op.name == "linear_dw";
  if (typed.op.name != "linear" && !dx && !dw) return otherwise;
  const graph::Shape &a = typed.inputs[0].shape, &b = typed.inputs[1].shape;
  const int64_t rows = a.rows(), columns = a.dim(-1), others = dx || dw ? b.dim(-1) : b.dim(0);
  const GemmShape shape = dw ? GemmShape{true, false, others, columns, rows}
                             : GemmShape{false, !dx, rows, others, columns};
  ThreadPool pool(threads);
  double best = 0;
  for (const GemmRate& rate : MeasureGemm(pool, shape, 0.5)) {
    if (rate.library != "plimsoll") best = std::max(best, rate.gflops);
  }
  return 2e-9 * static_cast<double>(rows * columns * others) / best;
}

void Run(const Arguments& arguments) {
  const std::vector<OpCase> cases = CasesFor(arguments);
  if (arguments.list) {
    for (const OpCase& of : cases) fmt::print("{}\n", of.text);
    fmt::print("\n{}", CountsByOp(cases));
    return;
  }
  const OpDevice device = arguments.device == "cpu"
                              ? CpuOps(arguments.threads)
                              : CudaOps(arguments.products, arguments.workspace);
  const auto& [copy, bf16, tf32, fp32] = device.ceilings;
  fmt::print(
      "# {}: copies {:.0f} GB/s, products {:.3g} TFLOP/s in 16 bits, {:.3g} in tf32, {:.3g} in "
      "f32\n",
      device.name, copy * 1e-9, bf16 * 1e-12, tf32 * 1e-12, fp32 * 1e-12);
  const char* const format =
      arguments.csv ? "{},{},{},{},{},\"{}\"\n" : "{:>5} {:>10} {:>7} {:>8} {:>6}  {}\n";
  const auto print = [&](const auto&... columns) {
    fmt::print(fmt::runtime(format), columns...);
    std::fflush(stdout);
  };
  print("times", "us", "GB/s", "TFLOP/s", "share", "case");
  double seconds_in_all = 0, floor_in_all = 0, logarithms = 0, rows = 0;
  for (const OpCase& of : cases) {
    trainer::Work work;
    for (const CaseCall& call : of.calls) work.Add(TypedCall(call).get(), device.ceilings);
    double floor = std::max(work.seconds_for_flops, work.bytes / copy);
    if (arguments.libraries) floor = LibrarySeconds(of.calls[0], arguments.threads, floor);
    double seconds = 0;
    try {
      seconds = device.seconds(of);
    } catch (const std::exception& error) {  // too little memory, or a call that is refused
      fmt::print("# {}: {}\n", of.text, error.what());
      continue;
    }
    const double share = floor / seconds;
    print(of.times, fmt::format("{:.1f}", seconds * 1e6),
          fmt::format("{:.0f}", work.bytes / seconds * 1e-9),
          fmt::format("{:.3g}", work.flops / seconds * 1e-12), fmt::format("{:.3f}", share),
          of.text);
    seconds_in_all += static_cast<double>(of.times) * seconds;
    floor_in_all += static_cast<double>(of.times) * floor;
    logarithms += std::log(share);
    ++rows;
  }
  fmt::print("# {:.3f} ms in all, at best {:.3f} ms; geometric mean of the shares {:.3f}\n",
             seconds_in_all * 1e3, floor_in_all * 1e3, std::exp(logarithms / rows));
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  using namespace plimsoll;
  bench::Arguments arguments;
  CLI::App app{"Times ops next to what the device could do."};
  app.add_option("word", arguments.words, "only cases that contain one of the words");
  app.add_option("--device", arguments.device)->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--cases", arguments.cases, "a file of cases");
  app.add_option("--run", arguments.run, "a run file, for the calls of its step");
  app.add_option("--set", arguments.sets, "of the run file")->allow_extra_args(false);
  app.add_flag("--examples", arguments.examples, "by which kernels are tested");
  app.add_option("--type", arguments.type, "of cases that name none: bf16, f16, f32 or tf32");
  app.add_flag("--list", arguments.list, "print the cases and how many each op has");
  app.add_flag("--csv", arguments.csv);
  app.add_option("--threads", arguments.threads, "on a CPU")->check(CLI::PositiveNumber);
  app.add_flag("--libraries", arguments.libraries, "on a CPU: products next to libraries'");
  app.add_option("--products", arguments.products, "on a GPU: all, library (cuBLASLt) or ours")
      ->check(CLI::IsMember({"all", "library", "ours"}));
  app.add_option("--workspace", arguments.workspace, "of cuDNN; only convolutions")
      ->transform(CLI::AsSizeValue(false));
  CLI11_PARSE(app, argc, argv);
  return bench::RunBenchmark([&] { bench::Run(arguments); });
}
