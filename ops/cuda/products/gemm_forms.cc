#include "ops/cuda/products/gemm_forms.h"

#include "gpu/capability.h"
#include "gpu/check.h"

namespace plimsoll::ops {
namespace {

int Multiprocessors() {
  int device = 0, value = 0;
  gpu::Check(cudaGetDevice(&device), "cudaGetDevice");
  gpu::Check(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, device),
             "cudaDeviceGetAttribute");
  return value;
}

}  // namespace

std::span<const GemmForm> GemmForms() {
  static const std::vector<GemmForm> forms = [] {
    std::vector<GemmForm> all;
    for (const auto some : {RoundedForms(), GradientForms()}) {
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }();
  return forms;
}

bool FormTakes(int form, const GemmProblem& problem, const GemmBuffers& buffers) {
  return form >= 0 && form < static_cast<int>(GemmForms().size()) && gpu::OnHopper() &&
         GemmForms()[static_cast<size_t>(form)].takes(problem, buffers, Multiprocessors());
}

std::vector<int> FormsFor(const GemmProblem& problem, const GemmBuffers& buffers) {
  std::vector<int> forms;
  for (int form = 0; form < static_cast<int>(GemmForms().size()); ++form) {
    if (FormTakes(form, problem, buffers)) forms.push_back(form);
  }
  return forms;
}

void RunForm(int form, cudaStream_t stream, const GemmProblem& problem,
             const GemmBuffers& buffers) {
  GemmForms()[static_cast<size_t>(form)].run(stream, problem, buffers, Multiprocessors());
}

}  // namespace plimsoll::ops
