// CUDA kernels for convolutions that libraries compute slowly or not at all. Arguments are those of
// the ops (ops/convolution/conv.h).
#pragma once

#include <cstdint>
#include <optional>

#include "ops/convolution/conv_geometry.h"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {

// Transposed convolutions, which are dx of convolutions, as matrix products: each input pixel gives
// a tile of the result.
//
// A call of conv_transpose or conv_dx with its first two arguments. `geometry` is that of the
// convolution from the result to the input.
struct ConvTiles {
  ConvGeometry geometry;
  bool overlap = true;         // whether tiles overlap; then they are summed in float32
  const void* bias = nullptr;  // the bias of each channel of y
  void* y = nullptr;
  int64_t workspace_bytes = 0;  // size of the call's scratch memory, all of which may be used
};

// The tiles of a conv_transpose for which cuDNN is slower or has no engine; nullopt for others.
std::optional<ConvTiles> TilesOf(const CudaContext& ctx, const ConvGeometry& geometry);
// The tiles without bias, even if cuDNN has an engine. nullopt: the scratch memory cannot hold one
// image's tiles, or there are groups.
std::optional<ConvTiles> OverlappingTiles(const CudaContext& ctx, const ConvGeometry& geometry,
                                          void* y, int64_t workspace_bytes);

void RunTiles(const CudaContext& ctx, const ConvTiles& tiles);
// Chooses the algorithms of the matrix products.
void PrepareTiles(const CudaContext& ctx, const ConvTiles& tiles);

// Convolutions of single pixels that have few outputs, such as the head of a model that gives each
// pixel a class. They are too narrow for tensor cores, and libraries' products reach a tenth to a
// third of what their bytes allow.
//
// Whether the three functions below compute a call of conv, conv_dx or conv_dw with that geometry.
bool HasFewOutputs(const CudaContext& ctx, const ConvGeometry& geometry);

void ConvFewOutputs(const CudaContext& ctx, const ConvGeometry& geometry);
void ConvDxFewOutputs(const CudaContext& ctx, const ConvGeometry& geometry);
// Computes dweight only. Needs LinearDwWorkspace bytes of scratch memory.
void ConvDwFewOutputs(const CudaContext& ctx, const ConvGeometry& geometry);

}  // namespace plimsoll::ops
