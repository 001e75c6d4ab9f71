#include "gpu/measure_ceilings.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "gpu/check.h"

namespace plimsoll::gpu {
namespace {

constexpr int64_t kScratchBytes = int64_t{1} << 30;
constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;
constexpr int kRuns = 10;

class Memory {
 public:
  explicit Memory(int64_t bytes) { Check(cudaMalloc(&data_, bytes), "cudaMalloc"); }
  ~Memory() { cudaFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  char* data() const { return static_cast<char*>(data_); }

 private:
  void* data_ = nullptr;
};

// A stream, and a timer for work enqueued on it.
class Timer {
 public:
  Timer() {
    Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    for (cudaEvent_t& event : events_) Check(cudaEventCreate(&event), "cudaEventCreate");
  }
  ~Timer() {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
    cudaStreamDestroy(stream_);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  cudaStream_t stream() const { return stream_; }

  // The median time of several runs, after two warm-up runs.
  template <typename Enqueue>
  double Seconds(const Enqueue& enqueue) {
    std::array<float, kRuns> milliseconds;
    enqueue();
    enqueue();
    for (float& time : milliseconds) {
      Check(cudaEventRecord(events_[0], stream_), "cudaEventRecord");
      enqueue();
      Check(cudaEventRecord(events_[1], stream_), "cudaEventRecord");
      Check(cudaEventSynchronize(events_[1]), "cudaEventSynchronize");
      Check(cudaEventElapsedTime(&time, events_[0], events_[1]), "cudaEventElapsedTime");
    }
    std::nth_element(milliseconds.begin(), milliseconds.begin() + kRuns / 2, milliseconds.end());
    return milliseconds[kRuns / 2] * 1e-3;
  }

 private:
  cudaStream_t stream_ = nullptr;
  std::array<cudaEvent_t, 2> events_{};
};

// Fills the memory with repetitions of `values`.
template <typename T>
void Fill(const Memory& memory, int64_t bytes, const std::vector<T>& values) {
  int64_t filled = std::min<int64_t>(bytes, static_cast<int64_t>(values.size() * sizeof(T)));
  Check(cudaMemcpy(memory.data(), values.data(), filled, cudaMemcpyHostToDevice), "cudaMemcpy");
  while (filled < bytes) {
    const int64_t more = std::min(filled, bytes - filled);
    Check(cudaMemcpy(memory.data() + filled, memory.data(), more, cudaMemcpyDeviceToDevice),
          "cudaMemcpy");
    filled += more;
  }
  Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

std::vector<float> RandomFloats() {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<float> values((1 << 20) + 1);  // odd: rows of a power of two elements differ
  for (float& value : values) value = normal(generator);
  return values;
}

// The values as bf16, truncated: the upper two bytes of each float.
std::vector<uint16_t> HighHalves(const std::vector<float>& values) {
  std::vector<uint16_t> halves(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t bits;
    static_assert(sizeof(bits) == sizeof(values[i]));
    __builtin_memcpy(&bits, &values[i], sizeof(bits));
    halves[i] = static_cast<uint16_t>(bits >> 16);
  }
  return halves;
}

// Measures the FLOP/s of C = Aᵀ·B, all n × n. The three matrices fit in the scratch memory.
double ProductRate(Libraries& libraries, Timer& timer, const Memory& scratch,
                   const Memory& workspace, int64_t n, cudaDataType_t type,
                   cublasComputeType_t compute) {
  const int64_t bytes = n * n * (type == CUDA_R_32F ? 4 : 2);
  char* const a = scratch.data();
  char* const b = a + bytes;
  char* const c = b + bytes;
  cublasLtMatmulDesc_t product;
  cublasLtMatrixLayout_t matrix;
  cublasLtMatmulPreference_t preference;
  Check(cublasLtMatmulDescCreate(&product, compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
  const cublasOperation_t transpose = CUBLAS_OP_T;
  Check(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &transpose,
                                       sizeof(transpose)),
        "cublasLtMatmulDescSetAttribute");
  Check(cublasLtMatrixLayoutCreate(&matrix, type, n, n, n), "cublasLtMatrixLayoutCreate");
  Check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const size_t limit = kWorkspaceBytes;
  Check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &limit, sizeof(limit)),
        "cublasLtMatmulPreferenceSetAttribute");
  // Keeps the fastest of the library's suggestions.
  std::array<cublasLtMatmulHeuristicResult_t, 4> suggestions;
  int count = 0;
  Check(cublasLtMatmulAlgoGetHeuristic(libraries.cublas_lt(), product, matrix, matrix, matrix,
                                       matrix, preference, static_cast<int>(suggestions.size()),
                                       suggestions.data(), &count),
        "cublasLtMatmulAlgoGetHeuristic");
  const float one = 1, zero = 0;
  double best = 0;
  for (int i = 0; i < count; ++i) {
    const double seconds = timer.Seconds([&] {
      Check(cublasLtMatmul(libraries.cublas_lt(), product, &one, a, matrix, b, matrix, &zero, c,
                           matrix, c, matrix, &suggestions[i].algo, workspace.data(),
                           kWorkspaceBytes, timer.stream()),
            "cublasLtMatmul");
    });
    const double side = static_cast<double>(n);
    best = std::max(best, 2 * side * side * side / seconds);
  }
  cublasLtMatmulPreferenceDestroy(preference);
  cublasLtMatrixLayoutDestroy(matrix);
  cublasLtMatmulDescDestroy(product);
  return best;
}

}  // namespace

Ceilings MeasureCeilings(Libraries& libraries) {
  const Memory scratch(kScratchBytes), workspace(kWorkspaceBytes);
  Timer timer;
  const std::vector<float> values = RandomFloats();
  Ceilings ceilings;
  Fill(scratch, kScratchBytes, HighHalves(values));
  const double copy = timer.Seconds([&] {
    Check(cudaMemcpyAsync(scratch.data() + kScratchBytes / 2, scratch.data(), kScratchBytes / 2,
                          cudaMemcpyDeviceToDevice, timer.stream()),
          "cudaMemcpyAsync");
  });
  ceilings.copy_bytes = static_cast<double>(kScratchBytes) / copy;
  ceilings.bf16_flops =
      ProductRate(libraries, timer, scratch, workspace, 8192, CUDA_R_16BF, CUBLAS_COMPUTE_32F);
  Fill(scratch, kScratchBytes, values);
  ceilings.tf32_flops = ProductRate(libraries, timer, scratch, workspace, 8192, CUDA_R_32F,
                                    CUBLAS_COMPUTE_32F_FAST_TF32);
  ceilings.fp32_flops =
      ProductRate(libraries, timer, scratch, workspace, 4096, CUDA_R_32F, CUBLAS_COMPUTE_32F);
  return ceilings;
}

}  // namespace plimsoll::gpu
