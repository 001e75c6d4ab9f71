// Matrix products on the GPU at the shapes of real models: TFLOP/s of cuBLAS's own first choice, of
// the cuBLASLt algorithm that we measure and keep, of the best of many, and of the best of our own
// kernels; the cost of epilogues; the column sums of a bias's gradient compared with the bandwidth
// of a copy.
//
//   cuda_gemm [--candidates] [WORD…]     only cases with one of the words in their names: 124M,
//                                        logits, epilogues, sums, f32; --candidates: lists all
//
// Operands are normally distributed: on zeros a GPU runs faster. All are larger than the caches, or
// take turns.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/low_precision.h"
#include "gpu/check.h"
#include "gpu/libraries.h"
#include "ops/cuda/choices/choice_options.h"
#include "ops/cuda/column_sums.h"
#include "ops/cuda/products/gemm.h"
#include "ops/cuda/products/gemm_call.h"
#include "ops/cuda/products/gemm_choice.h"
#include "ops/cuda/products/gemm_forms.h"

namespace plimsoll::bench {
namespace {

using graph::DType;
using ops::GemmBuffers;
using ops::GemmCall;
using ops::GemmEpilogue;
using ops::GemmProblem;

constexpr int64_t kRegion = int64_t{3} << 30;  // bytes of each operand's memory
constexpr int kMostCandidates = 32;
constexpr double kTiming = 5e-3;  // seconds
constexpr int kRounds = 3;
// Candidates take turns as short as this, so that all run at the clock that the GPU keeps under
// load.
constexpr double kTurn = 6e-4;  // seconds
constexpr int kTurns = 21;

class Device {
 public:
  Device() {
    gpu::Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
               "cudaStreamCreateWithFlags");
    gpu::Check(cudaEventCreate(&begin_), "cudaEventCreate");
    gpu::Check(cudaEventCreate(&end_), "cudaEventCreate");
    for (void** region : {&a, &b, &c, &d, &aux}) {
      gpu::Check(cudaMalloc(region, kRegion), "cudaMalloc");
    }
    gpu::Check(cudaMalloc(&vector, 1 << 24), "cudaMalloc");
    gpu::Check(cudaMalloc(&workspace, ops::kGemmWorkspaceBytes), "cudaMalloc");
    Fill(DType::kBFloat16);
  }

  // Fills all operands with normally distributed numbers of this type.
  void Fill(DType dtype) {
    std::mt19937 generator(7);
    std::normal_distribution<float> normal;
    std::vector<char> pattern(32 << 20);
    for (size_t i = 0; i < pattern.size(); i += static_cast<size_t>(graph::ByteSize(dtype))) {
      const float value = normal(generator);
      if (dtype == DType::kFloat32) {
        std::memcpy(&pattern[i], &value, sizeof(value));
      } else {
        const BFloat16 low{ToBf16(value)};
        std::memcpy(&pattern[i], &low, sizeof(low));
      }
    }
    gpu::Check(cudaMemcpy(a, pattern.data(), pattern.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    const auto step = static_cast<int64_t>(pattern.size());
    for (void* region : {a, b, c, d, aux}) {
      for (int64_t at = 0; at < kRegion; at += step) {
        gpu::Check(cudaMemcpy(static_cast<char*>(region) + at, a, step, cudaMemcpyDeviceToDevice),
                   "cudaMemcpy");
      }
    }
    gpu::Check(cudaMemcpy(vector, a, 1 << 24, cudaMemcpyDeviceToDevice), "cudaMemcpy");
  }

  // Seconds of one of several calls.
  double Time(const std::function<void()>& call, int calls) {
    gpu::Check(cudaEventRecord(begin_, stream), "cudaEventRecord");
    for (int i = 0; i < calls; ++i) call();
    gpu::Check(cudaEventRecord(end_, stream), "cudaEventRecord");
    gpu::Check(cudaEventSynchronize(end_), "cudaEventSynchronize");
    float milliseconds = 0;
    gpu::Check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return 1e-3 * milliseconds / calls;
  }

  double Median(const std::function<void()>& call) {
    call();
    const int calls = std::max(2, static_cast<int>(kTiming / Time(call, 2)));
    std::vector<double> times;
    for (int i = 0; i < kRounds; ++i) times.push_back(Time(call, calls));
    std::sort(times.begin(), times.end());
    return times[kRounds / 2];
  }

  gpu::Libraries libraries;
  cudaStream_t stream = nullptr;
  void *a = nullptr, *b = nullptr, *c = nullptr, *d = nullptr, *aux = nullptr;
  void* vector = nullptr;  // bias or sums
  void* workspace = nullptr;

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

// One product of a model.
struct Shape {
  std::string label;
  enum Kind { kForward, kDx, kDw } kind;
  int64_t rows, in, out;
  bool add = false;  // adds to the existing result
  GemmEpilogue epilogue = GemmEpilogue::kNone;
  DType operands = DType::kBFloat16;
  bool tf32 = false;

  GemmProblem problem() const {
    GemmProblem p;
    p.trans_a = kind == kDw;
    p.trans_b = kind == kForward;
    p.m = kind == kDw ? out : rows;
    p.n = kind == kForward ? out : in;
    p.k = kind == kForward ? in : kind == kDx ? out : rows;
    p.lda = p.trans_a ? p.m : p.k;
    p.ldb = p.trans_b ? p.k : p.n;
    p.ldc = p.n;
    p.operands = operands;
    p.result = kind == kDw ? DType::kFloat32 : operands;
    p.tf32 = tf32;
    p.beta = add ? 1 : 0;
    p.epilogue = epilogue;
    return p;
  }
  double flops() const { return 2.0 * rows * in * out; }
};

GemmBuffers BuffersOf(const Device& device, const Shape& shape) {
  GemmBuffers buffers;
  buffers.a = device.a;
  buffers.b = device.b;
  buffers.c = shape.add ? device.d : nullptr;
  buffers.d = device.d;
  switch (shape.epilogue) {
    case GemmEpilogue::kNone:
      break;
    case GemmEpilogue::kSums:
      buffers.sums = static_cast<float*>(device.vector);
      break;
    case GemmEpilogue::kGeluGradient:
      buffers.aux = device.aux;
      break;
    default:
      buffers.bias = device.vector;
  }
  buffers.workspace = device.workspace;
  buffers.workspace_bytes = ops::kGemmWorkspaceBytes;
  return buffers;
}

uint32_t Config(const cublasLtMatmulAlgo_t& algorithm,
                cublasLtMatmulAlgoConfigAttributes_t attribute) {
  uint32_t value = 0;
  size_t size = 0;
  cublasLtMatmulAlgoConfigGetAttribute(
      &algorithm, attribute, &value,
      attribute == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID ? 2 : sizeof(value), &size);
  return value;
}

std::string Describe(const cublasLtMatmulAlgo_t& algorithm) {
  if (const auto form = GemmCall::FormOf(algorithm)) {
    return ops::GemmForms()[static_cast<size_t>(*form)].name;
  }
  char text[128];
  std::snprintf(
      text, sizeof(text), "id %u tile %u cluster %u stages %u split %u swizzle %u custom %u",
      Config(algorithm, CUBLASLT_ALGO_CONFIG_ID), Config(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID),
      Config(algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID),
      Config(algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID),
      Config(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
      Config(algorithm, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
      Config(algorithm, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION));
  return text;
}

// True if two runs give the same bits (in the first 8 MiB).
bool Repeats(Device& device, const GemmCall& call, const cublasLtMatmulAlgo_t& algorithm) {
  constexpr size_t kBytes = 8 << 20;
  std::vector<char> results[2];
  for (std::vector<char>& result : results) {
    call.Run(device.libraries.cublas_lt(), device.stream, algorithm);
    gpu::Check(cudaStreamSynchronize(device.stream), "cudaStreamSynchronize");
    result.resize(kBytes);
    gpu::Check(cudaMemcpy(result.data(), device.d, kBytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  }
  return results[0] == results[1];
}

void Measure(Device& device, const Shape& shape, bool list) {
  const GemmProblem problem = shape.problem();
  const GemmBuffers buffers = BuffersOf(device, shape);
  const GemmCall call(problem, buffers);
  cublasLtHandle_t handle = device.libraries.cublas_lt();
  std::vector<cublasLtMatmulAlgo_t> candidates = call.Candidates(handle, kMostCandidates);
  if (candidates.empty()) {
    std::printf("%-34s no algorithm\n", shape.label.c_str());
    return;
  }
  ops::PrepareGemm(device.libraries, device.stream, problem, buffers);
  const auto chosen = ops::ChosenAlgorithm(device.libraries, call);
  const auto is_chosen = [&](const cublasLtMatmulAlgo_t& algorithm) {
    return std::memcmp(&algorithm, &*chosen, sizeof(algorithm)) == 0;
  };
  if (std::none_of(candidates.begin(), candidates.end(), is_chosen)) candidates.push_back(*chosen);
  const size_t theirs = candidates.size();
  for (const cublasLtMatmulAlgo_t& form : call.Forms()) candidates.push_back(form);
  int unsteady = 0;
  std::vector<bool> steady;
  for (const cublasLtMatmulAlgo_t& algorithm : candidates) {
    steady.push_back(shape.add || Repeats(device, call, algorithm));
    unsteady += !steady.back();
  }
  const auto run = [&](size_t i) { call.Run(handle, device.stream, candidates[i]); };
  const double one = device.Time([&] { run(0); }, 3);
  const int calls = std::max(1, static_cast<int>(kTurn / one));
  for (int i = 0; i < 50 * calls; ++i) run(0);
  std::vector<std::vector<double>> turns(candidates.size());
  for (int turn = 0; turn < kTurns; ++turn) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      turns[i].push_back(device.Time([&] { run(i); }, calls));
    }
  }
  std::vector<double> times;
  for (std::vector<double>& of : turns) {
    std::sort(of.begin(), of.end());
    times.push_back(of[kTurns / 2]);
  }
  const auto c = static_cast<size_t>(std::find_if(candidates.begin(), candidates.end(), is_chosen) -
                                     candidates.begin());
  const auto best_of = [&](size_t begin, size_t end) {
    return static_cast<size_t>(std::min_element(times.begin() + static_cast<std::ptrdiff_t>(begin),
                                                times.begin() + static_cast<std::ptrdiff_t>(end)) -
                               times.begin());
  };
  const size_t best = best_of(0, theirs);
  if (list) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      std::printf("    %2zu %8.4f ms %6.1f TFLOP/s %s%s\n", i, times[i] * 1e3,
                  shape.flops() / times[i] * 1e-12, Describe(candidates[i]).c_str(),
                  steady[i] ? "" : "  OTHER BITS IN A SECOND RUN");
    }
  }
  const auto rate = [&](size_t i) { return shape.flops() / times[i] * 1e-12; };
  std::printf("%-30s %6ld %6ld %6ld | %8.4f %6.1f | %8.4f %6.1f #%-2zu | %8.4f %6.1f #%-2zu of %zu",
              shape.label.c_str(), static_cast<long>(problem.m), static_cast<long>(problem.n),
              static_cast<long>(problem.k), times[0] * 1e3, rate(0), times[c] * 1e3, rate(c), c,
              times[best] * 1e3, rate(best), best, theirs);
  if (theirs < candidates.size()) {
    const size_t ours = best_of(theirs, candidates.size());
    std::printf(" | %8.4f %6.1f %s", times[ours] * 1e3, rate(ours),
                Describe(candidates[ours]).c_str());
  }
  std::printf(unsteady > 0 ? " %d UNSTEADY\n" : "\n", unsteady);
  std::fflush(stdout);
}

std::vector<Shape> ModelShapes(const std::string& model, int64_t rows, int64_t width,
                               int64_t hidden, int64_t qkv, int64_t up, int64_t vocabulary,
                               bool bias) {
  std::vector<Shape> shapes;
  const auto layer = [&](const std::string& name, int64_t in, int64_t out) {
    const std::string label = model + " " + name;
    shapes.push_back({label, Shape::kForward, rows, in, out, false,
                      bias ? GemmEpilogue::kBias : GemmEpilogue::kNone});
    shapes.push_back({label + " dx", Shape::kDx, rows, in, out});
    shapes.push_back({label + " dw", Shape::kDw, rows, in, out});
    if (bias) {
      shapes.push_back(
          {label + " dw, sums", Shape::kDw, rows, in, out, false, GemmEpilogue::kSums});
    }
  };
  layer("qkv", width, qkv);
  layer("proj", width, width);
  layer("up", width, up);
  layer("down", hidden, width);
  shapes.push_back({model + " up dw add", Shape::kDw, rows, width, up, true});
  for (const int64_t chunk : {1024, 2048, 4096, 8192}) {
    const std::string of = " of " + std::to_string(chunk);
    shapes.push_back({model + " logits" + of, Shape::kForward, chunk, width, vocabulary});
    shapes.push_back({model + " logits dx" + of, Shape::kDx, chunk, width, vocabulary});
    shapes.push_back({model + " logits dw add" + of, Shape::kDw, chunk, width, vocabulary, true});
  }
  return shapes;
}

void MeasureEpilogues(Device& device, const std::string& model, int64_t rows, int64_t width,
                      int64_t hidden) {
  const struct {
    const char* label;
    Shape::Kind kind;
    GemmEpilogue epilogue;
  } cases[] = {
      {"up, none", Shape::kForward, GemmEpilogue::kNone},
      {"up, bias", Shape::kForward, GemmEpilogue::kBias},
      {"down dx, none", Shape::kDx, GemmEpilogue::kNone},
      {"down dx, gelu gradient", Shape::kDx, GemmEpilogue::kGeluGradient},
      {"up dw, none", Shape::kDw, GemmEpilogue::kNone},
      {"up dw, sums", Shape::kDw, GemmEpilogue::kSums},
  };
  for (const auto& c : cases) {
    const bool down = c.kind == Shape::kDx;
    Measure(device,
            {model + " " + c.label, c.kind, rows, down ? hidden : width, down ? width : hidden,
             false, c.epilogue},
            false);
  }
}

// Seconds of replaying the work that `enqueue` puts on the stream.
double TimeGraph(Device& device, const std::function<void()>& enqueue) {
  gpu::Check(cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeThreadLocal),
             "cudaStreamBeginCapture");
  enqueue();
  cudaGraph_t graph;
  gpu::Check(cudaStreamEndCapture(device.stream, &graph), "cudaStreamEndCapture");
  cudaGraphExec_t executable;
  gpu::Check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  const double seconds = device.Median(
      [&] { gpu::Check(cudaGraphLaunch(executable, device.stream), "cudaGraphLaunch"); });
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  return seconds;
}

void MeasureColumnSums(Device& device) {
  const double copy_seconds = device.Median([&] {
    gpu::Check(cudaMemcpyAsync(device.d, device.a, int64_t{1} << 30, cudaMemcpyDeviceToDevice,
                               device.stream),
               "cudaMemcpyAsync");
  });
  const double copy = 2.0 * (int64_t{1} << 30) / copy_seconds;
  std::printf("column sums (a copy reads and writes %.0f GB/s)\n", copy * 1e-9);
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{32768, 768},
                                                                              {32768, 2304},
                                                                              {32768, 3072},
                                                                              {16384, 1600},
                                                                              {16384, 4800},
                                                                              {16384, 6400},
                                                                              {32768, 1152},
                                                                              {32768, 2048}}) {
    const int64_t bytes = rows * columns * 2;
    const int64_t places = kRegion / bytes;
    const double seconds =
        TimeGraph(device,
                  [&] {
                    for (int64_t place = 0; place < places; ++place) {
                      ops::ColumnSums(device.stream, DType::kBFloat16,
                                      static_cast<char*>(device.a) + place * bytes, rows, columns,
                                      nullptr, static_cast<float*>(device.vector),
                                      device.workspace);
                    }
                  }) /
        static_cast<double>(places);
    std::printf("  %6ld x %-6ld %7.1f us %6.0f GB/s %5.1f %%\n", static_cast<long>(rows),
                static_cast<long>(columns), seconds * 1e6, bytes / seconds * 1e-9,
                100 * bytes / seconds / copy);
  }
}

int Run(const std::vector<std::string>& arguments) {
  const bool list = std::count(arguments.begin(), arguments.end(), "--candidates") > 0;
  const bool all = arguments.size() == static_cast<size_t>(list);
  const auto asked = [&](const std::string& label) {
    return all || std::any_of(arguments.begin(), arguments.end(), [&](const std::string& word) {
             return label.find(word) != label.npos;
           });
  };
  ops::SetChoices({.measure = true, .folder = "", .gemm_forms = false, .warn = {}});
  Device device;
  size_t free_before = 0, free_after = 0, total = 0;
  device.libraries.cublas_lt();
  gpu::Check(cudaMemGetInfo(&free_before, &total), "cudaMemGetInfo");
  std::printf("%s, cublasLt %zu\n", device.libraries.properties().name, cublasLtGetVersion());
  std::printf("%-30s %6s %6s %6s | %15s | %19s | %s\n", "ms and TFLOP/s", "m", "n", "k",
              "cuBLAS's first", "chosen of cuBLASLt's", "best of cuBLASLt's, and of ours");
  Measure(device, {"8192^3", Shape::kForward, 8192, 8192, 8192}, list);
  std::vector<Shape> shapes = ModelShapes("124M", 32768, 768, 3072, 2304, 3072, 50304, true);
  for (const auto& more : {ModelShapes("1558M", 16384, 1600, 6400, 4800, 6400, 50304, true),
                           ModelShapes("0.5B", 32768, 896, 4864, 1152, 9728, 151936, false),
                           ModelShapes("1.5B", 32768, 1536, 8960, 2048, 17920, 151936, false)}) {
    shapes.insert(shapes.end(), more.begin(), more.end());
  }
  for (const Shape& shape : shapes) {
    if (asked(shape.label)) Measure(device, shape, list);
  }
  if (asked("epilogues")) {
    MeasureEpilogues(device, "124M", 32768, 768, 3072);
    MeasureEpilogues(device, "1558M", 16384, 1600, 6400);
  }
  gpu::Check(cudaMemGetInfo(&free_after, &total), "cudaMemGetInfo");
  std::printf("memory that kernels and library took: %.1f MiB\n",
              static_cast<double>(free_before - free_after) / (1 << 20));
  if (asked("sums")) MeasureColumnSums(device);
  if (!asked("f32")) return 0;
  device.Fill(DType::kFloat32);
  for (const bool tf32 : {false, true}) {
    const std::string name = tf32 ? "tf32" : "f32";
    for (const auto kind : {Shape::kForward, Shape::kDx, Shape::kDw}) {
      Measure(device,
              {name + " 124M up" +
                   (kind == Shape::kDx   ? " dx"
                    : kind == Shape::kDw ? " dw"
                                         : ""),
               kind, 32768, 768, 3072, false, GemmEpilogue::kNone, DType::kFloat32, tf32},
              list);
    }
  }
  return 0;
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  try {
    return plimsoll::bench::Run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
