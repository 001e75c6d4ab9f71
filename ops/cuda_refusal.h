// Calls of an op that its CUDA kernel cannot run yet, or has not been tested with, and the CPU's
// can. Programs with such a call are planned for a GPU as others are, and refused where kernels are
// bound, before the first step; calibration does not time the call. Deleting a registration is all
// that a new kernel needs: the executor and tests ask here.
#pragma once

#include <string>
#include <string_view>

#include "graph/op.h"

namespace plimsoll::ops {

// Why the op's CUDA kernel cannot run such a call, and the way out; "" if it can.
std::string CudaRefusal(const graph::OpCall& call);

// Whether the op refuses any calls; one without a CUDA kernel refuses all.
bool HasCudaRefusal(std::string_view op);

// UserError with that reason.
void CheckCudaRuns(const graph::OpCall& call);

// At namespace scope in ops/KIND/NAME.cc:   const CudaRefusalRegistration kRefusal("sum", &Reason);
struct CudaRefusalRegistration {
  CudaRefusalRegistration(std::string op, std::string (*reason)(const graph::OpCall&));
};

}  // namespace plimsoll::ops
