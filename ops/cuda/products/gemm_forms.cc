#include "ops/cuda/products/gemm_forms.h"

#include "gpu/check.h"

namespace plimsoll::ops {
namespace {

int Attribute(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  gpu::Check(cudaGetDevice(&device), "cudaGetDevice");
  gpu::Check(cudaDeviceGetAttribute(&value, attribute, device), "cudaDeviceGetAttribute");
  return value;
}

}  // namespace

bool OnHopper() {
  return Attribute(cudaDevAttrComputeCapabilityMajor) == 9 &&
         Attribute(cudaDevAttrComputeCapabilityMinor) == 0 && HasHopperGemm();
}

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
  return form >= 0 && form < static_cast<int>(GemmForms().size()) && OnHopper() &&
         GemmForms()[static_cast<size_t>(form)].takes(problem, buffers,
                                                      Attribute(cudaDevAttrMultiProcessorCount));
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
  GemmForms()[static_cast<size_t>(form)].run(stream, problem, buffers,
                                             Attribute(cudaDevAttrMultiProcessorCount));
}

}  // namespace plimsoll::ops
