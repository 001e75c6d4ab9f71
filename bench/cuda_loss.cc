// The cost of the fused loss on a GPU: the op forward and in training, its matrix products alone,
// and the rest, which is the softmax between them, at the shapes of real models.
//
//   cuda_loss [LABEL…]
//
// Labels ending in fp16 have operands in fp16, others in bf16. The lower bound for the softmax is
// one pass over the logits, read and written, at the bandwidth of a copy; where a product computes
// it (ops/cuda/loss_exponentials.h), the bound is 0. The bound for the products is their FLOPs at
// the rate of a product of 8192³.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/cuda_timing.h"
#include "gpu/check.h"
#include "gpu/libraries.h"
#include "ops/cuda/products/gemm.h"
#include "ops/loss/linear_cross_entropy.h"
#include "tests/ops/cuda_op_runner.h"

namespace plimsoll::bench {
namespace {

using graph::DType;
using ops::CudaOpRunner;
using ops::CudaTensor;
using ops::TestTensor;

struct Size {
  std::string label;
  int64_t rows, width, vocabulary;
  DType dtype = DType::kBFloat16;
};

const std::vector<Size> kSizes = {
    {"gpt2-124m", 32768, 768, 50304},      {"gpt2-124m-fp16", 32768, 768, 50304, DType::kFloat16},
    {"gpt2-1558m", 16384, 1600, 50304},    {"qwen2.5-0.5b", 32768, 896, 151936},
    {"qwen2.5-1.5b", 32768, 1536, 151936},
};

// Normal values, a million of them repeated.
CudaTensor Random(DType dtype, const graph::Shape& shape, int seed, double scale) {
  const CudaTensor tensor({dtype, shape});
  const int64_t step = std::min<int64_t>(shape.elements(), 1 << 20);
  const TestTensor pattern = ops::NormalValues(dtype, {step}, seed, scale);
  auto* data = static_cast<char*>(tensor.data());
  const int64_t bytes = pattern.type().bytes();
  for (int64_t at = 0; at < tensor.type().bytes(); at += bytes) {
    gpu::Check(cudaMemcpy(data + at, pattern.data(), std::min(bytes, tensor.type().bytes() - at),
                          cudaMemcpyDefault),
               "cudaMemcpy");
  }
  return tensor;
}

class Bench {
 public:
  Bench() {
    gpu::Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
               "cudaStreamCreateWithFlags");
    workspace_ = ops::CudaMemory(ops::kGemmWorkspaceBytes);
    bandwidth_ = CopyBandwidth(stream_);
    constexpr int64_t kCube = 8192;
    const CudaTensor a = Random(DType::kBFloat16, {kCube, kCube}, 1, 1);
    const CudaTensor b = Random(DType::kBFloat16, {kCube, kCube}, 2, 1);
    const CudaTensor c({DType::kBFloat16, {kCube, kCube}});
    ops::GemmProblem cube{.trans_b = true, .m = kCube, .n = kCube, .k = kCube};
    cube.lda = cube.ldb = cube.ldc = kCube;
    cube.operands = cube.result = DType::kBFloat16;
    rate_ = 2.0 * kCube * kCube * kCube / Product(cube, a.data(), b.data(), c.data());
    std::printf("%s: copies %.0f GB/s (read and written), 8192³ in bf16 %.0f TFLOP/s\n",
                libraries_.properties().name, bandwidth_ * 1e-9, rate_ * 1e-12);
  }

  void Measure(const Size& size) {
    const CudaTensor x = Random(size.dtype, {size.rows, size.width}, 1, 1);
    const CudaTensor weight = Random(size.dtype, {size.vocabulary, size.width}, 2, 0.02);
    TestTensor ids({DType::kInt32, {size.rows}});
    std::mt19937 generator(3);
    for (int64_t i = 0; i < size.rows; ++i) {
      ids.set(i, static_cast<double>(generator() % static_cast<uint64_t>(size.vocabulary)));
    }
    const CudaTensor targets(ids);
    const CudaTensor scale(ops::Values(DType::kFloat32, {}, {1.0 / size.rows}));
    const CudaTensor dloss(ops::Values(DType::kFloat32, {}, {1}));
    const ops::CudaLossLayout layout =
        ops::LayOutCudaLoss(size.rows, size.vocabulary, size.width, size.dtype, {.dx = true});

    const double flops = 2.0 * size.rows * size.width * size.vocabulary;
    const double logits = 2.0 * size.rows * size.vocabulary;
    CudaOpRunner forward("linear_cross_entropy", {&x, &weight, &targets, &scale}, {});
    const double forward_seconds = Time(forward);
    const double train_seconds = TimeTrain(x, weight, targets, scale, dloss, {true, true, true});
    std::printf("%s: %ld rows in chunks of %ld, workspace %.0f MiB\n", size.label.c_str(),
                size.rows, layout.chunk, static_cast<double>(layout.bytes) / (1 << 20));

    const double products = Products(size, layout, x, weight, flops, true);
    Line("forward", forward_seconds, flops / rate_ + logits / bandwidth_);
    Line("train", train_seconds, 3 * flops / rate_ + 2 * logits / bandwidth_);
    std::printf("  train, of that\n");
    const double softmax = TimeTrain(x, weight, targets, scale, dloss, {true, false, false});
    const double with_dx = TimeTrain(x, weight, targets, scale, dloss, {true, true, false});
    Line("logits and softmax", softmax, flops / rate_ + 2 * logits / bandwidth_);
    Line("dx", with_dx - softmax, flops / rate_);
    Line("dweight", train_seconds - with_dx, flops / rate_);
    Line("all but products", train_seconds - products, 2 * logits / bandwidth_);
    for (const int64_t chunk : {2048, 4096, 8192}) {
      ops::CudaLossLayout other = layout;
      other.chunk = chunk;
      const double seconds = Products(size, other, x, weight, flops, false);
      std::printf("  products in chunks of %-6ld %8.3f ms, %.0f MiB of logits\n", chunk,
                  seconds * 1e3, 2.0 * chunk * layout.stride / (1 << 20));
    }
  }

 private:
  static void Line(const char* what, double seconds, double floor) {
    std::printf("  %-28s %8.3f ms  floor %8.3f  %5.1f %%\n", what, seconds * 1e3, floor * 1e3,
                100 * floor / seconds);
  }

  // Measures under steady load: a GPU computes faster for a moment after a rest.
  template <typename Enqueue>
  double Steady(const Enqueue& enqueue) {
    constexpr double kSeconds = 0.15;
    const double once = MedianSeconds(stream_, enqueue, 1);
    const int replays = std::clamp(static_cast<int>(kSeconds / once), 5, 100);
    return MedianSeconds(stream_, enqueue, replays);
  }

  double Time(const CudaOpRunner& runner) {
    runner.Prepare(libraries_, stream_);
    return Steady([&] { runner.Enqueue(libraries_, stream_); });
  }

  // `want`: loss, dx, dweight.
  double TimeTrain(const CudaTensor& x, const CudaTensor& weight, const CudaTensor& targets,
                   const CudaTensor& scale, const CudaTensor& dloss,
                   const std::vector<bool>& want) {
    const CudaOpRunner train("linear_cross_entropy_train",
                             {&x, &weight, &targets, &scale, &dloss, nullptr}, {}, want);
    return Time(train);
  }

  double Product(const ops::GemmProblem& problem, const void* a, const void* b, void* d) {
    ops::GemmBuffers buffers;
    buffers.a = a;
    buffers.b = b;
    buffers.c = buffers.d = d;
    buffers.workspace = workspace_.get();
    buffers.workspace_bytes = ops::kGemmWorkspaceBytes;
    ops::PrepareGemm(libraries_, stream_, problem, buffers);
    return Steady([&] {
             for (int i = 0; i < 3; ++i) ops::Gemm(libraries_, stream_, problem, buffers);
           }) /
           3;
  }

  // Seconds of the products of all chunks.
  double Products(const Size& size, const ops::CudaLossLayout& layout, const CudaTensor& x,
                  const CudaTensor& weight, double flops, bool print) {
    const CudaTensor logits = Random(size.dtype, {layout.chunk, layout.stride}, 4, 1e-3);
    const CudaTensor dx({size.dtype, {layout.chunk, size.width}});
    const CudaTensor dweight({DType::kFloat32, {size.vocabulary, size.width}});
    const double chunks = static_cast<double>(size.rows) / static_cast<double>(layout.chunk);
    ops::GemmProblem problem{.trans_b = true, .m = layout.chunk, .n = size.vocabulary};
    problem.k = problem.lda = problem.ldb = size.width;
    problem.ldc = layout.stride;
    problem.operands = problem.result = size.dtype;
    double total = 0;
    const auto report = [&](const char* what, double seconds, double times) {
      if (print) Line(what, seconds * times, flops / rate_ * times / chunks);
      total += seconds * times;
    };
    report("logits", Product(problem, x.data(), weight.data(), logits.data()), chunks);
    problem = {.m = layout.chunk, .n = size.width, .k = size.vocabulary};
    problem.lda = layout.stride;
    problem.ldb = problem.ldc = size.width;
    problem.operands = problem.result = size.dtype;
    report("dx", Product(problem, logits.data(), weight.data(), dx.data()), chunks);
    problem.trans_a = true;
    problem.m = size.vocabulary;
    problem.k = layout.chunk;
    problem.result = DType::kFloat32;
    report("dweight, written", Product(problem, logits.data(), x.data(), dweight.data()), 1);
    problem.beta = 1;
    if (chunks > 1) {
      report("dweight, added", Product(problem, logits.data(), x.data(), dweight.data()),
             chunks - 1);
    }
    return total;
  }

  gpu::Libraries libraries_;
  cudaStream_t stream_;
  std::shared_ptr<void> workspace_;
  double bandwidth_ = 0, rate_ = 0;
};

void Run(const std::vector<std::string>& only) {
  Bench bench;
  for (const Size& size : kSizes) {
    if (only.empty() || std::find(only.begin(), only.end(), size.label) != only.end()) {
      bench.Measure(size);
    }
  }
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) { return plimsoll::bench::Main(argc, argv, plimsoll::bench::Run); }
