// Spectral normalization of weights (Miyato et al. 2018, "Spectral Normalization for Generative
// Adversarial Networks", algorithm 1), as in torch.nn.utils.parametrizations.spectral_norm.
//
//   power_iteration   u' = W·v / max(‖W·v‖, ε),   v' = Wᵀ·u' / max(‖Wᵀ·u'‖, ε),   ε = 1e-12
//   spectral_norm     σ = uᵀ·W·v,   y = W / σ
//                     dW = (dy − ⟨dy, y⟩ · u·vᵀ) / σ
//
// W is a weight[O,…] as a matrix, its first dimension by all others. u[O] and v[…] converge to its
// first singular vectors, σ to its largest singular value. The weight and y have one float dtype; u
// and v are float32, and constants when a loss is differentiated.
//
// u and v are PyTorch's `_u` and `_v`, but `_v` is flat, in the order of PyTorch's weight. For a
// transposed convolution, PyTorch's O is the outputs, which are the last dimension of such a weight
// here: that is not supported.
// Errors: InternalError on shapes that do not fit. The norm of a weight of zeros is NaN, as in
// PyTorch.
#pragma once

#include <string_view>

#include "base/thread_pool.h"
#include "graph/builder.h"

namespace plimsoll::ops {

struct SingularVectors {
  graph::Value u = graph::kNoTensor, v = graph::kNoTensor;  // f32[O], f32[…]
};
// One iteration: computes u' from v, then v' from u'. The paper's iteration begins with u instead:
// it computes v first, then u.
SingularVectors PowerIteration(graph::Builder& g, graph::Value weight, graph::Value v,
                               std::string_view name = "");

// Returns weight / σ.
graph::Value SpectralNorm(graph::Builder& g, graph::Value weight, const SingularVectors& vectors,
                          std::string_view name = "");

// The number of iterations with which PyTorch's spectral_norm initializes its vectors.
inline constexpr int kFirstPowerIterations = 15;

// Runs on the host, before a program. Makes `count` power iterations of a float32 weight[O,…]
// beginning with v, and leaves the results in u[O] and v[…]. Their values do not depend on the
// number of threads.
void PowerIterations(ThreadPool& pool, const graph::Shape& weight_shape, const float* weight,
                     int count, float* u, float* v);

}  // namespace plimsoll::ops
