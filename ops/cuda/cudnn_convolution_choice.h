// Chooses which of cuDNN's plans computes a convolution. The same problem on the same GPU model
// with the same cuDNN gets the same plan in every run, and so the same bits: measurements are
// stored (ops/cuda/choices/choice_store.h, as ChoiceOptions say). A choice depends only on the
// problem. The workspace limit is a function of the call (ops/convolution/conv_workspace.h), so
// budgets and recomputation don't change it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "ops/cuda/cudnn_convolution.h"

namespace plimsoll::ops {

// The number of plans that are measured: the first ones that can be built. The heuristics list
// dozens.
inline constexpr int kMostConvPlans = 12;

struct ChosenConvolution {
  std::unique_ptr<CudnnConvolution> convolution;
  size_t plan = 0;  // the index of the plan that is built

  const std::string& name() const { return convolution->names()[plan]; }
};

// The plan that ChooseConvolution found for this problem on the current device, else cuDNN's first;
// nullptr when cuDNN has no plan. If no plan was chosen, it must not be called during a stream
// capture. Valid until the next SetChoices().
const ChosenConvolution* FindConvolution(const ConvProblem& problem, gpu::Libraries& libraries);

// Chooses the plan, once per process: from the file of earlier choices, or by timing candidates on
// the given buffers. Overwrites the result and the workspace. Must not be called during a stream
// capture.
void ChooseConvolution(const ConvProblem& problem, gpu::Libraries& libraries, cudaStream_t stream,
                       const ConvBuffers& buffers);

// The problem in one word, as in files of choices.
std::string KeyOf(const ConvProblem& problem);

}  // namespace plimsoll::ops
