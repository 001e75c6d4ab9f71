// Convolutions of single pixels that have few outputs, such as the head of a model that gives each
// pixel a class: too narrow for tensor cores, and libraries' products reach a tenth to a third of
// what their bytes allow. Arguments are those of the ops (ops/convolution/conv.h).
#pragma once

#include "ops/convolution/conv_geometry.h"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {

// Whether the three below compute a call of conv, conv_dx or conv_dw with that geometry.
bool HasFewOutputs(const CudaContext& ctx, const ConvGeometry& geometry);

void ConvFewOutputs(const CudaContext& ctx, const ConvGeometry& geometry);
void ConvDxFewOutputs(const CudaContext& ctx, const ConvGeometry& geometry);
// dweight alone. Its scratch memory is of LinearDwWorkspace bytes.
void ConvDwFewOutputs(const CudaContext& ctx, const ConvGeometry& geometry);

}  // namespace plimsoll::ops
