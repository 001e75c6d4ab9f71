// What runtime/stored_parameter.h does, on the GPU and with the same bits. All is enqueued on the
// stream.
#pragma once

#include <cuda_runtime_api.h>

#include "base/initial_draws.h"
#include "base/stripe.h"
#include "runtime/stored_parameter.h"

namespace plimsoll::runtime {

// Element i of `to`, which lies in the GPU's memory or in pinned memory, becomes draw
// from.Number(i).
void EnqueueDraws(const StoredParameter& to, const Stripe& from, const InitialDraws& draws,
                  cudaStream_t stream);

// Element i becomes value from.Number(i). The values lie in the GPU's memory or in pinned memory,
// each at an address that is a multiple of its size.
void EnqueueValues(const StoredParameter& to, const Stripe& from, const TypedElements& values,
                   cudaStream_t stream);

// Loads the kernels, so that these calls take no more of the GPU's memory.
void LoadStores();

}  // namespace plimsoll::runtime
