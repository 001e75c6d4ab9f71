// runtime/stored_parameter.h on the GPU, with the same bits. All work is enqueued on the stream.
#pragma once

#include <cuda_runtime_api.h>

#include "base/initial_draws.h"
#include "base/stripe.h"
#include "runtime/stored_parameter.h"

namespace plimsoll::runtime {

// Sets element i of `to`, which lies in GPU memory or in pinned memory, to draw from.Number(i).
void EnqueueDraws(const StoredParameter& to, const Stripe& from, const InitialDraws& draws,
                  cudaStream_t stream);

// Sets element i of `to` to value from.Number(i). The values lie in GPU memory or in pinned memory,
// each at an address that is a multiple of its size.
void EnqueueValues(const StoredParameter& to, const Stripe& from, const TypedElements& values,
                   cudaStream_t stream);

// Loads the kernels, so that later calls take no GPU memory.
void LoadStores();

}  // namespace plimsoll::runtime
