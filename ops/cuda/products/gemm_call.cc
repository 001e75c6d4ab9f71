#include "ops/cuda/products/gemm_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "gpu/check.h"
#include "ops/cuda/column_sums.h"
#include "ops/cuda/products/gemm_forms.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

cudaDataType_t TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return CUDA_R_32F;
    case DType::kBFloat16:
      return CUDA_R_16BF;
    case DType::kFloat16:
      return CUDA_R_16F;
    case DType::kFloat8E4M3:
      return CUDA_R_8F_E4M3;
    case DType::kFloat8E5M2:
      return CUDA_R_8F_E5M2;
    default:
      throw InternalError("no CUDA matrix product of " + std::string(graph::Name(dtype)));
  }
}

cublasLtEpilogue_t EpilogueOf(GemmEpilogue epilogue) {
  switch (epilogue) {
    case GemmEpilogue::kNone:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case GemmEpilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case GemmEpilogue::kGeluGradient:
      return CUBLASLT_EPILOGUE_DGELU;
    case GemmEpilogue::kSums:
      return CUBLASLT_EPILOGUE_DEFAULT;
  }
  throw InternalError("no such epilogue");
}

const char* Name(GemmEpilogue epilogue) {
  switch (epilogue) {
    case GemmEpilogue::kNone:
      return "none";
    case GemmEpilogue::kBias:
      return "bias";
    case GemmEpilogue::kGeluGradient:
      return "gelu-gradient";
    case GemmEpilogue::kSums:
      return "sums";
  }
  return "?";
}

// "plimsoll": as the first of an algorithm's 8 words, it marks one of our own forms.
constexpr uint64_t kForm = 0x706c696d736f6c6c;
// For products with fewer FLOPs, it is not worth trying more candidates than cuBLASLt names.
constexpr double kWorthMoreCandidates = 1e9;

// The largest alignment that any kernel requires.
constexpr uint32_t kMostAlignment = 16;

// The largest power of two that divides an address and all addresses at multiples of `stride` bytes
// from it.
uint32_t Alignment(const void* address, int64_t stride = 0) {
  const uintptr_t bits = reinterpret_cast<uintptr_t>(address) | static_cast<uintptr_t>(stride);
  return uint32_t{1} << std::countr_zero(bits | kMostAlignment);
}

// Alignments of the matrices, under cuBLASLt's names.
struct Alignments {
  uint32_t a, b, c, d;
};

Alignments AlignmentsOf(const GemmProblem& p, const GemmBuffers& buffers) {
  const auto stride = [&](int64_t elements, DType dtype) {
    return p.batch > 1 ? elements * graph::ByteSize(dtype) : 0;
  };
  const int64_t result = stride(p.stride_c, p.result);
  return {Alignment(buffers.b, stride(p.stride_b, p.type_b)),
          Alignment(buffers.a, stride(p.stride_a, p.type_a)),
          Alignment(p.beta == 0 ? buffers.d : buffers.c, result), Alignment(buffers.d, result)};
}

template <typename T>
void Set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute, T value) {
  gpu::Check(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof(value)),
             "cublasLtMatmulDescSetAttribute");
}

void SetScale(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute,
              const float* scale) {
  if (scale == nullptr) return;
  // Checked here because cuBLASLt reports this error only when the product is enqueued.
  if (Alignment(scale) < kMostAlignment) throw InternalError("a scale off 16 bytes");
  Set(operation, attribute, static_cast<const void*>(scale));
}

template <typename T>
void Set(cublasLtMatmulPreferenceOpaque_t& preference,
         cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  gpu::Check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)),
             "cublasLtMatmulPreferenceSetAttribute");
}

// The layout of the row-major matrix [rows, columns].
cublasLtMatrixLayoutOpaque_t Layout(DType dtype, int64_t rows, int64_t columns, int64_t ld,
                                    int64_t batch, int64_t stride) {
  cublasLtMatrixLayoutOpaque_t layout;
  gpu::Check(cublasLtMatrixLayoutInit(&layout, TypeOf(dtype), static_cast<uint64_t>(columns),
                                      static_cast<uint64_t>(rows), ld),
             "cublasLtMatrixLayoutInit");
  if (batch > 1) {
    const auto count = static_cast<int32_t>(batch);
    gpu::Check(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                                sizeof(count)),
               "cublasLtMatrixLayoutSetAttribute");
    gpu::Check(cublasLtMatrixLayoutSetAttribute(
                   &layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)),
               "cublasLtMatrixLayoutSetAttribute");
  }
  return layout;
}

// "bf16", "f32(tf32)", "e4m3", "e5m2*e4m3(fast)". Files of choices hold these words.
std::string NameOfOperands(const GemmProblem& p) {
  std::string name(graph::Name(p.type_a));
  if (p.type_b != p.type_a) name += fmt::format("*{}", graph::Name(p.type_b));
  if (p.tf32) name += "(tf32)";
  if (p.fast_accumulation) name += "(fast)";
  return name;
}

std::string KeyOf(const GemmProblem& p, const GemmBuffers& buffers) {
  const Alignments align = AlignmentsOf(p, buffers);
  std::string key = fmt::format("{}-{}-{}{}-{}x{}x{}-ld{},{},{}-{}-{}-align{},{},{},{},{},{}",
                                NameOfOperands(p), graph::Name(p.result), p.trans_a ? 't' : 'n',
                                p.trans_b ? 't' : 'n', p.m, p.n, p.k, p.lda, p.ldb, p.ldc,
                                Name(p.epilogue), p.beta == 0 ? "write" : "add", align.a, align.b,
                                align.c, align.d, Alignment(buffers.bias), Alignment(buffers.aux));
  if (p.batch > 1) {
    key += fmt::format("-batch{},{},{},{}", p.batch, p.stride_a, p.stride_b, p.stride_c);
  }
  const bool scaled = buffers.scale_a != nullptr || buffers.scale_b != nullptr;
  if (scaled) {
    const auto mode = [](const float* scale) { return scale == nullptr ? "none" : "tensor"; };
    key += fmt::format("-scales-{},{}", mode(buffers.scale_a), mode(buffers.scale_b));
  }
  return key + fmt::format("-workspace{}", buffers.workspace_bytes);
}

}  // namespace

GemmCall::GemmCall(const GemmProblem& p, const GemmBuffers& buffers)
    : problem_(p),
      buffers_(buffers),
      key_(KeyOf(p, buffers)),
      a_(Layout(p.type_a, p.trans_a ? p.k : p.m, p.trans_a ? p.m : p.k, p.lda, p.batch,
                p.stride_a)),
      b_(Layout(p.type_b, p.trans_b ? p.n : p.k, p.trans_b ? p.k : p.n, p.ldb, p.batch,
                p.stride_b)),
      c_(Layout(p.result, p.m, p.n, p.ldc, p.batch, p.stride_c)) {
  gpu::Check(
      cublasLtMatmulDescInit(
          &operation_, p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
      "cublasLtMatmulDescInit");
  Set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, p.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  Set(operation_, CUBLASLT_MATMUL_DESC_TRANSB, p.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  Set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, EpilogueOf(p.epilogue));
  if (p.epilogue == GemmEpilogue::kSums && !(p.trans_a && p.lda == p.m && p.batch == 1)) {
    throw InternalError("sums of an operand with gaps, or not transposed");
  }
  if (buffers.bias != nullptr) {
    Set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(buffers.bias));
    // By default the bias is bf16 if operands are codes; cuBLASLt then refuses float32.
    if (p.of_codes()) Set(operation_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, TypeOf(p.result));
  }
  // cuBLASLt's A is our B.
  SetScale(operation_, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, buffers.scale_b);
  SetScale(operation_, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, buffers.scale_a);
  if (p.fast_accumulation) Set(operation_, CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1});
  if (buffers.aux != nullptr) {
    Set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, buffers.aux);
    Set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.ldc);
  }
  if (p.beta == 0) buffers_.c = buffers.d;
}

std::vector<cublasLtMatmulAlgo_t> GemmCall::Heuristic(cublasLtHandle_t handle, int most) const {
  cublasLtMatmulPreferenceOpaque_t preference;
  gpu::Check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
  Set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
      static_cast<uint64_t>(buffers_.workspace_bytes));
  // Requests that partial sums are added in their own type, in the workspace, in a fixed order.
  Set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  const Alignments align = AlignmentsOf(problem_, buffers_);
  Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, align.a);
  Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, align.b);
  Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, align.c);
  Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, align.d);
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(most));
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, &operation_, &b_, &a_, &c_, &c_, &preference, most, found.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
  gpu::Check(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < count; ++i) algorithms.push_back(found[static_cast<size_t>(i)].algo);
  return algorithms;
}

std::vector<cublasLtMatmulAlgo_t> GemmCall::Candidates(cublasLtHandle_t handle, int most) const {
  // cuBLASLt requires rows of a multiple of 16 bytes, and computes others with less precision.
  const bool uneven_aux = buffers_.aux != nullptr &&
                          (problem_.ldc % 8 != 0 || Alignment(buffers_.aux) < kMostAlignment);
  if (uneven_aux) return {};
  std::vector<cublasLtMatmulAlgo_t> candidates;
  const auto add = [&](const GemmCall& call) {
    for (const cublasLtMatmulAlgo_t& algorithm : call.Heuristic(handle, most)) {
      const auto same = [&](const cublasLtMatmulAlgo_t& other) {
        return std::memcmp(&other, &algorithm, sizeof(other)) == 0;
      };
      if (std::none_of(candidates.begin(), candidates.end(), same) && Accepts(handle, algorithm)) {
        candidates.push_back(algorithm);
      }
    }
  };
  add(*this);
  if (problem_.epilogue == GemmEpilogue::kBias && flops() >= kWorthMoreCandidates) {
    // Algorithms that are best without an epilogue are often also faster with one, but cuBLASLt
    // does not list them for it. Some algorithms for small products were seen to round before the
    // epilogue, too.
    GemmProblem plain = problem_;
    plain.epilogue = GemmEpilogue::kNone;
    GemmBuffers buffers = buffers_;
    buffers.bias = nullptr;
    add(GemmCall(plain, buffers));
  }
  return candidates;
}

std::vector<cublasLtMatmulAlgo_t> GemmCall::Forms() const {
  std::vector<cublasLtMatmulAlgo_t> forms;
  if (flops() < kWorthMoreCandidates) return forms;
  for (int form : FormsFor(problem_, buffers_)) forms.push_back(AlgorithmOf(form));
  return forms;
}

cublasLtMatmulAlgo_t GemmCall::AlgorithmOf(int form) {
  return {{kForm, static_cast<uint64_t>(form)}};
}

std::optional<int> GemmCall::FormOf(const cublasLtMatmulAlgo_t& algorithm) {
  if (algorithm.data[0] != kForm) return std::nullopt;
  return static_cast<int>(algorithm.data[1]);
}

double GemmCall::flops() const {
  return 2.0 * static_cast<double>(problem_.batch) * static_cast<double>(problem_.m) *
         static_cast<double>(problem_.n) * static_cast<double>(problem_.k);
}

std::optional<GemmCall::Variation> GemmCall::VariationOf(const cublasLtMatmulAlgo_t& algorithm) {
  if (FormOf(algorithm)) return std::nullopt;
  Variation variation{};
  uint16_t cluster = 0;
  size_t size = 0;
  const auto get = [&](cublasLtMatmulAlgoConfigAttributes_t attribute, auto& value) {
    return cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof(value),
                                                &size) == CUBLAS_STATUS_SUCCESS;
  };
  if (!get(CUBLASLT_ALGO_CONFIG_TILE_ID, variation.tile) ||
      !get(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, cluster) ||
      !get(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, variation.order) ||
      cluster == CUBLASLT_CLUSTER_SHAPE_AUTO) {
    return std::nullopt;
  }
  variation.cluster = cluster;
  return variation;
}

std::optional<cublasLtMatmulAlgo_t> GemmCall::Varied(cublasLtHandle_t handle,
                                                     const cublasLtMatmulAlgo_t& algorithm,
                                                     const Variation& variation) const {
  cublasLtMatmulAlgo_t varied = algorithm;
  const auto cluster = static_cast<uint16_t>(variation.cluster);
  const auto set = [&](cublasLtMatmulAlgoConfigAttributes_t attribute, const auto& value) {
    return cublasLtMatmulAlgoConfigSetAttribute(&varied, attribute, &value, sizeof(value)) ==
           CUBLAS_STATUS_SUCCESS;
  };
  if (!set(CUBLASLT_ALGO_CONFIG_TILE_ID, variation.tile) ||
      !set(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, cluster) ||
      !set(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, variation.order) || !Accepts(handle, varied)) {
    return std::nullopt;
  }
  return varied;
}

bool GemmCall::Accepts(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm) const {
  if (const auto form = FormOf(algorithm)) return FormTakes(*form, problem_, buffers_);
  uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_INPLACE;
  size_t size = 0;
  if (cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                           &scheme, sizeof(scheme),
                                           &size) != CUBLAS_STATUS_SUCCESS) {
    return false;
  }
  if (scheme != CUBLASLT_REDUCTION_SCHEME_NONE &&
      scheme != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) {
    return false;
  }
  cublasLtMatmulHeuristicResult_t result{};
  if (cublasLtMatmulAlgoCheck(handle, &operation_, &b_, &a_, &c_, &c_, &algorithm, &result) !=
          CUBLAS_STATUS_SUCCESS ||
      result.state != CUBLAS_STATUS_SUCCESS) {
    return false;
  }
  return result.workspaceSize <= static_cast<size_t>(buffers_.workspace_bytes);
}

std::vector<ResultMemory> GemmCall::Results() const {
  const GemmProblem& p = problem_;
  const auto memory = [](void* data, int64_t elements, DType dtype) {
    return ResultMemory(static_cast<std::byte*>(data),
                        static_cast<size_t>(elements * graph::ByteSize(dtype)));
  };
  std::vector<ResultMemory> results = {
      memory(buffers_.d, (p.batch - 1) * p.stride_c + (p.m - 1) * p.ldc + p.n, p.result)};
  if (p.epilogue == GemmEpilogue::kSums) {
    results.push_back(memory(buffers_.sums, p.m, DType::kFloat32));
  }
  return results;
}

// cuBLASLt rounds 16-bit sums differently if C is not in the memory of D. Results must not depend
// on where tensors are.
void GemmCall::MoveAddend(cudaStream_t stream) const {
  const GemmProblem& p = problem_;
  const int64_t element = graph::ByteSize(p.result);
  const auto pitch = static_cast<size_t>(p.ldc * element);
  for (int64_t i = 0; i < p.batch; ++i) {
    const int64_t offset = i * p.stride_c * element;
    gpu::Check(cudaMemcpy2DAsync(static_cast<std::byte*>(buffers_.d) + offset, pitch,
                                 static_cast<const std::byte*>(buffers_.c) + offset, pitch,
                                 static_cast<size_t>(p.n * element), static_cast<size_t>(p.m),
                                 cudaMemcpyDeviceToDevice, stream),
               "cudaMemcpy2DAsync");
  }
}

void GemmCall::Run(cublasLtHandle_t handle, cudaStream_t stream,
                   const cublasLtMatmulAlgo_t& algorithm) const {
  if (const auto form = FormOf(algorithm)) return RunForm(*form, stream, problem_, buffers_);
  if (problem_.epilogue == GemmEpilogue::kSums) {
    // The column sums and the product use the workspace, one after the other.
    ColumnSums(stream, problem_.type_a, buffers_.a, problem_.k, problem_.m, buffers_.old_sums,
               buffers_.sums, buffers_.workspace);
  }
  if (problem_.beta != 0 && buffers_.c != buffers_.d) MoveAddend(stream);
  gpu::Check(
      cublasLtMatmul(handle, &operation_, &problem_.alpha, buffers_.b, &b_, buffers_.a, &a_,
                     &problem_.beta, buffers_.d, &c_, buffers_.d, &c_, &algorithm,
                     buffers_.workspace, static_cast<size_t>(buffers_.workspace_bytes), stream),
      "cublasLtMatmul");
}

}  // namespace plimsoll::ops
