// Which of cuDNN's plans computes a convolution. The same problem on the same GPU model with the
// same cuDNN gets the same plan in every run, and so the same bits: measurements are kept
// (ops/cuda/choices/choice_store.h, as ChoiceOptions say). The problem is all that a choice depends
// on: its workspace limit is a function of the call (ops/convolution/conv_workspace.h), so budgets
// and recomputation change nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "ops/cuda/cudnn_convolution.h"

namespace plimsoll::ops {

// Plans that are measured, the first ones that can be built; the heuristics list dozens.
inline constexpr int kMostConvPlans = 12;

struct ChosenConvolution {
  std::unique_ptr<CudnnConvolution> convolution;
  size_t plan = 0;  // the one that is built

  const std::string& name() const { return convolution->names()[plan]; }
};

// The plan that ChooseConvolution found for this problem on the current device, else cuDNN's first;
// nullptr when it has none. Without a choice it must not be called during a stream capture. Valid
// until the next SetChoices().
const ChosenConvolution* FindConvolution(const ConvProblem& problem, gpu::Libraries& libraries);

// Chooses the plan, once per process: from the file of earlier choices, or by timing candidates on
// the given buffers. Overwrites the result and the workspace. Not during a stream capture.
void ChooseConvolution(const ConvProblem& problem, gpu::Libraries& libraries, cudaStream_t stream,
                       const ConvBuffers& buffers);

// The problem in one word, as files of choices have it.
std::string KeyOf(const ConvProblem& problem);

}  // namespace plimsoll::ops
