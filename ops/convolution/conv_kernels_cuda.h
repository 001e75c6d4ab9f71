// CUDA kernels for convolutions that libraries compute slowly or not at all. Arguments are those of
// the ops (ops/convolution/conv.h).
#pragma once

#include <cstdint>
#include <optional>

#include "ops/convolution/conv_geometry.h"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {

// Transposed convolutions, which are dx of convolutions, as matrix products: each pixel of what
// they read gives a tile of the result.
//
// A call of conv_transpose or conv_dx with its first two arguments. `geometry` is that of the
// convolution from y to what is read.
struct ConvTiles {
  ConvGeometry geometry;
  bool overlap = true;         // they are summed in float32
  const void* bias = nullptr;  // [channels of y]
  void* y = nullptr;
  int64_t workspace_bytes = 0;  // of the call's scratch memory, which it may use
};

// Of a conv_transpose, where cuDNN is slower or has no engine.
std::optional<ConvTiles> TilesOf(const CudaContext& ctx, const ConvGeometry& geometry);
// Without bias, whatever cuDNN has; nullopt: the scratch memory holds no image's tiles, or there
// are groups.
std::optional<ConvTiles> OverlappingTiles(const CudaContext& ctx, const ConvGeometry& geometry,
                                          void* y, int64_t workspace_bytes);

void RunTiles(const CudaContext& ctx, const ConvTiles& tiles);
// Chooses its matrix products' algorithms.
void PrepareTiles(const CudaContext& ctx, const ConvTiles& tiles);

// Convolutions of single pixels that have few outputs, such as the head of a model that gives each
// pixel a class: too narrow for tensor cores, and libraries' products reach a tenth to a third of
// what their bytes allow.
//
// Whether the three below compute a call of conv, conv_dx or conv_dw with that geometry.
bool HasFewOutputs(const CudaContext& ctx, const ConvGeometry& geometry);

void ConvFewOutputs(const CudaContext& ctx, const ConvGeometry& geometry);
void ConvDxFewOutputs(const CudaContext& ctx, const ConvGeometry& geometry);
// dweight alone. Its scratch memory is of LinearDwWorkspace bytes.
void ConvDwFewOutputs(const CudaContext& ctx, const ConvGeometry& geometry);

}  // namespace plimsoll::ops
