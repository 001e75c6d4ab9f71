// Spectral normalization of weights (Miyato et al. 2018, "Spectral Normalization for Generative
// Adversarial Networks", algorithm 1), as torch.nn.utils.parametrizations.spectral_norm has it.
//
//   power_iteration   u' = W·v / max(‖W·v‖, ε),   v' = Wᵀ·u' / max(‖Wᵀ·u'‖, ε),   ε = 1e-12
//   spectral_norm     σ = uᵀ·W·v,   y = W / σ
//                     dW = (dy − ⟨dy, y⟩ · u·vᵀ) / σ
//
// W is a weight[O,…] as a matrix, its first dimension against all others; u[O] and v[…] come to its
// first singular vectors, σ to its largest singular value. A weight of one float dtype S and y of
// the same; u and v are float32, and constants where a loss is differentiated.
//
// u and v are PyTorch's `_u` and `_v`; that one is flat, in the order of PyTorch's weight. PyTorch
// takes the outputs of a transposed convolution for O, which are the last dimension of such a
// weight here: that is not supported.
// Errors: InternalError on shapes that do not fit. The norm of a weight of zeros is NaN, as
// PyTorch's.
#pragma once

#include <string_view>

#include "base/thread_pool.h"
#include "graph/builder.h"

namespace plimsoll::ops {

struct SingularVectors {
  graph::Value u = graph::kNoTensor, v = graph::kNoTensor;  // f32[O], f32[…]
};
// One iteration from v; the algorithm of the paper begins between both steps, with u.
SingularVectors PowerIteration(graph::Builder& g, graph::Value weight, graph::Value v,
                               std::string_view name = "");

// weight / σ.
graph::Value SpectralNorm(graph::Builder& g, graph::Value weight, const SingularVectors& vectors,
                          std::string_view name = "");

// As PyTorch's spectral_norm makes its vectors: how often it iterates when it is made.
inline constexpr int kFirstPowerIterations = 15;

// On the host, before a program runs: makes `count` power iterations of a float32 weight[O,…] from
// v, and leaves u[O] and v[…]. Their numbers do not depend on the number of threads.
void PowerIterations(ThreadPool& pool, const graph::Shape& weight_shape, const float* weight,
                     int count, float* u, float* v);

}  // namespace plimsoll::ops
