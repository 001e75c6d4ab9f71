// Chooses the instruction set of GEMM's kernels.
#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "ops/cpu/packed_gemm.h"

namespace plimsoll::cpu {
namespace {

GemmKernel ChooseKernel() {
  const bool wide = GemmKernelSupported(GemmKernel::kAvx512);
  const char* const text = std::getenv("PLIMSOLL_GEMM");
  const std::string_view wanted = text == nullptr ? "" : text;
  if (wanted.empty()) return wide ? GemmKernel::kAvx512 : GemmKernel::kAvx2;
  if (wanted == "avx2") return GemmKernel::kAvx2;
  if (wanted == "avx512" && wide) return GemmKernel::kAvx512;
  throw UserError("PLIMSOLL_GEMM=" + std::string(wanted) +
                  (wanted == "avx512" ? ": this processor has no AVX-512; " : ": unknown; ") +
                  "use avx2, " + (wide ? "avx512 " : "") + "or leave it unset");
}

std::atomic<GemmKernel>& KernelChoice() {
  static std::atomic<GemmKernel> choice{ChooseKernel()};
  return choice;
}

}  // namespace

bool GemmKernelSupported(GemmKernel kernel) {
  return kernel == GemmKernel::kAvx2 ||
         (__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
          __builtin_cpu_supports("avx512vl") != 0);
}

GemmKernel ActiveGemmKernel() { return KernelChoice().load(std::memory_order_relaxed); }

void SetGemmKernel(GemmKernel kernel) {
  if (!GemmKernelSupported(kernel)) {
    throw InternalError("SetGemmKernel: this processor has no AVX-512");
  }
  KernelChoice().store(kernel, std::memory_order_relaxed);
}

}  // namespace plimsoll::cpu
