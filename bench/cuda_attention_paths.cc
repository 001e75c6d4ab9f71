// Every path that attention takes on a GPU: types × head widths × masks × dropout, forward and
// backward, at one number of tokens and one width of the model. Whatever kernel serves a problem,
// its time is put beside the shortest that this GPU could need: FLOPs at the rate of a large
// product of that type, or bytes at the rate of a copy, whichever takes longer, both measured first
// in the same run. Counted are the scores that the mask leaves: 4 FLOPs for each of them and each
// element of a head forward, 10 backward, which include the scores that are computed again.
//
//   cuda_attention_paths [--types bf16 …] [--widths 64 …] [--json FILE]
//
// bench/attention_peer.py times PyTorch at the shapes in the file and makes one table of both.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/cuda_timing.h"
#include "bench/repeated_values.h"
#include "bench/training.h"
#include "gpu/libraries.h"
#include "gpu/measure_ceilings.h"
#include "tests/ops/cuda_op_runner.h"

namespace plimsoll::bench {
namespace {

using graph::DType;
using nlohmann::json;
using ops::CudaOpRunner;
using ops::CudaTensor;

struct Type {
  DType dtype;
  bool tf32 = false;
};
const std::map<std::string, Type> kTypes = {{"bf16", {DType::kBFloat16}},
                                            {"fp16", {DType::kFloat16}},
                                            {"tf32", {DType::kFloat32, true}},
                                            {"fp32", {DType::kFloat32}}};

const std::vector<std::string> kMasks = {"causal", "full", "padded"};

struct Arguments {
  std::vector<std::string> types = {"bf16", "fp16", "tf32"};
  std::vector<int64_t> widths = {40, 64, 96, 128, 192, 256};
  std::vector<double> dropouts = {0, 0.1};
  int64_t batch = 32, length = 1024, model_width = 768;
  std::string json;
};

struct Case {
  std::string type;
  std::string mask;
  int64_t batch, length, heads, width;
  double dropout;
};

// Of padded sequences: from half of the length to all of it.
std::vector<int64_t> LengthsOf(const Case& c) {
  std::vector<int64_t> lengths;
  for (int64_t row = 0; row < c.batch; ++row) {
    const int64_t missing = c.mask == "padded" ? row * 97 % (c.length / 2) : 0;
    lengths.push_back(c.length - missing);
  }
  return lengths;
}

// The scores of one head, in all sequences.
double ScoresOf(const Case& c) {
  double scores = 0;
  for (const int64_t length : LengthsOf(c)) {
    const auto n = static_cast<double>(length);
    scores += c.mask == "causal" ? n * (n + 1) / 2 : n * n;
  }
  return scores;
}

// Milliseconds of one run: the median of batches of runs that follow one another, so that the host
// is ahead of the GPU. Not as a CUDA graph, which cuDNN refuses for some problems with padding.
template <typename Enqueue>
double MedianMilliseconds(cudaStream_t stream, const Enqueue& enqueue) {
  constexpr double kBatch = 5;  // milliseconds
  constexpr int kBatches = 7;
  cudaEvent_t begin, end;
  gpu::Check(cudaEventCreate(&begin), "cudaEventCreate");
  gpu::Check(cudaEventCreate(&end), "cudaEventCreate");
  const auto time = [&](int runs) {
    gpu::Check(cudaEventRecord(begin, stream), "cudaEventRecord");
    for (int i = 0; i < runs; ++i) enqueue();
    gpu::Check(cudaEventRecord(end, stream), "cudaEventRecord");
    gpu::Check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float milliseconds = 0;
    gpu::Check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) / runs;
  };
  time(1);
  const int runs = std::clamp(static_cast<int>(kBatch / time(1)), 1, 50);
  std::vector<double> times;
  for (int i = 0; i < kBatches; ++i) times.push_back(time(runs));
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::ranges::nth_element(times, times.begin() + kBatches / 2);
  return times[kBatches / 2];
}

double ProductRate(const std::string& type, const gpu::Ceilings& ceilings) {
  if (type == "tf32") return ceilings.tf32_flops;
  return type == "fp32" ? ceilings.fp32_flops : ceilings.bf16_flops;
}

json PassJson(double ms, double flops, double bytes, double rate, double copy_rate) {
  const double floor = 1e3 * std::max(flops / rate, bytes / copy_rate);
  return {{"ms", ms}, {"tflops", 1e-9 * flops / ms}, {"floor_ms", floor}, {"share", floor / ms}};
}

json Measure(const Case& c, const gpu::Ceilings& ceilings, gpu::Libraries& libraries,
             cudaStream_t stream) {
  const Type& type = kTypes.at(c.type);
  graph::Attributes attributes{{"heads", c.heads},
                               {"kv_heads", c.heads},
                               {"causal", c.mask == "causal"},
                               {"dropout", c.dropout},
                               {"key", int64_t{1}}};
  if (type.tf32) attributes.Set("tf32", true);
  const CudaTensor qkv = NormalValues(type.dtype, {c.batch, c.length, 3 * c.heads * c.width}, 1);
  const CudaTensor dout = NormalValues(type.dtype, {c.batch, c.length, c.heads * c.width}, 2);
  const CudaTensor seed(ops::Values(DType::kInt32, {2}, {3, 4}));
  const std::vector<int64_t> sizes = LengthsOf(c);
  const CudaTensor lengths_tensor(
      ops::Values(DType::kInt32, {c.batch}, std::vector<double>(sizes.begin(), sizes.end())));
  const CudaTensor* const rng = c.dropout > 0 ? &seed : nullptr;
  const CudaTensor* const lengths = c.mask == "padded" ? &lengths_tensor : nullptr;

  const CudaOpRunner forward("attention", {&qkv, rng, lengths}, attributes);
  forward.Run(libraries);
  const CudaOpRunner backward("attention_backward",
                              {&qkv, &forward.output(0), &forward.output(1), &dout, rng, lengths},
                              attributes);
  backward.Run(libraries);

  const double product = 2 * ScoresOf(c) * static_cast<double>(c.heads * c.width);
  const double rate = ProductRate(c.type, ceilings);
  const auto pass = [&](const CudaOpRunner& op, int products) {
    const double ms = MedianMilliseconds(stream, [&] { op.Enqueue(libraries, stream); });
    return PassJson(ms, products * product, op.bytes(), rate, ceilings.copy_bytes);
  };
  json row = {{"type", c.type},
              {"width", c.width},
              {"mask", c.mask},
              {"dropout", c.dropout},
              {"batch", c.batch},
              {"length", c.length},
              {"heads", c.heads},
              {"forward", pass(forward, 2)},
              {"backward", pass(backward, 5)},
              {"workspace_bytes", backward.workspace_bytes()}};
  if (lengths != nullptr) row["lengths"] = sizes;
  return row;
}

void PrintRow(const json& row) {
  const auto pass = [&](const char* name) {
    const json& p = row[name];
    return fmt::format("{:9.4f} ms {:6.1f} TFLOP/s {:5.1f} %", p["ms"].get<double>(),
                       p["tflops"].get<double>(), 100 * p["share"].get<double>());
  };
  fmt::print("{:<5}{:>5}  {:<7}{:>5}   forward {}   backward {}\n", row["type"].get<std::string>(),
             row["width"].get<int64_t>(), row["mask"].get<std::string>(),
             row["dropout"].get<double>(), pass("forward"), pass("backward"));
  std::fflush(stdout);
}

void Run(const Arguments& arguments) {
  gpu::Libraries libraries;
  const gpu::Ceilings ceilings = gpu::MeasureCeilings(libraries);
  const cudaStream_t stream = NewStream();
  fmt::print(
      "{}, cuDNN {}: copies {:.0f} GB/s, products {:.0f} TFLOP/s in bf16, {:.0f} in tf32, {:.1f} "
      "in fp32\n{} sequences of {} tokens, heads of about {} elements together\n",
      libraries.properties().name, cudnnGetVersion(), ceilings.copy_bytes * 1e-9,
      ceilings.bf16_flops * 1e-12, ceilings.tf32_flops * 1e-12, ceilings.fp32_flops * 1e-12,
      arguments.batch, arguments.length, arguments.model_width);
  json rows = json::array();
  for (const std::string& type : arguments.types) {
    for (const int64_t width : arguments.widths) {
      for (const std::string& mask : kMasks) {
        for (const double dropout : arguments.dropouts) {
          const Case c = {.type = type,
                          .mask = mask,
                          .batch = arguments.batch,
                          .length = arguments.length,
                          .heads = std::max<int64_t>(1, arguments.model_width / width),
                          .width = width,
                          .dropout = dropout};
          rows.push_back(Measure(c, ceilings, libraries, stream));
          PrintRow(rows.back());
        }
      }
    }
  }
  cudaStreamDestroy(stream);
  if (arguments.json.empty()) return;
  const json result = {{"device", libraries.properties().name},
                       {"cudnn", cudnnGetVersion()},
                       {"copy_gb_per_s", ceilings.copy_bytes * 1e-9},
                       {"bf16_tflops", ceilings.bf16_flops * 1e-12},
                       {"tf32_tflops", ceilings.tf32_flops * 1e-12},
                       {"fp32_tflops", ceilings.fp32_flops * 1e-12},
                       {"rows", rows}};
  WriteText(arguments.json, result.dump());
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  using namespace plimsoll;
  bench::Arguments arguments;
  CLI::App app{"Times every path of attention on a GPU."};
  app.add_option("--types", arguments.types, "bf16, fp16, tf32 (the default), fp32")
      ->check(CLI::IsMember(bench::kTypes));
  app.add_option("--widths", arguments.widths, "of a head")->check(CLI::PositiveNumber);
  app.add_option("--dropouts", arguments.dropouts)->check(CLI::Range(0.0, 0.99));
  app.add_option("--batch", arguments.batch, "sequences")->check(CLI::PositiveNumber);
  app.add_option("--length", arguments.length, "tokens of a sequence")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 20));
  app.add_option("--model-width", arguments.model_width, "elements of all heads, about")
      ->check(CLI::PositiveNumber);
  app.add_option("--json", arguments.json, "also write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  return bench::RunBenchmark([&] { bench::Run(arguments); });
}
