// The ops of Muon. Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks";
// Liu et al. 2025, "Muon is Scalable for LLM Training". A matrix is updated by its momentum, which
// is made nearly orthogonal by Newton-Schulz steps. These are matrix products (ops/linear/matmul.h)
// and the elementwise ops below.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "ops/optimizer/optimizer.h"

namespace plimsoll::ops {

struct MuonMomentumOptions {
  double momentum = 0.95;
  bool nesterov = true;
};

// With g the gradient times clip:
//   buffer ← momentum · buffer + g
//   u = buffer, with nesterov g + momentum · buffer
// u has the gradient's shape and compute type. The buffer is persistent and stored as a moment
// (ops/optimizer/optimizer.h); u is made of it before it is rounded. With apply 0 the buffer is
// left unchanged, to the bit, and u is zero.
graph::Value MuonMomentum(graph::Builder& g, graph::Value gradient, StoredMoment buffer,
                          const UpdateInputs& common, const MuonMomentumOptions& options,
                          std::string_view name);

// x / max(norm, 1e-7), rounded to a floating dtype; norm f32[].
graph::Value DivideByNorm(graph::Builder& g, graph::Value x, graph::Value norm, graph::DType dtype,
                          std::string_view name);

// alpha · x + beta · y, for equal floating types, rounded once. alpha and beta are constants of the
// program.
graph::Value WeightedSum(graph::Builder& g, graph::Value x, graph::Value y, double alpha,
                         double beta, std::string_view name);

// The matrices [rows_i, columns], one below the other; all have one floating dtype.
graph::Value StackRows(graph::Builder& g, std::vector<graph::Value> matrices,
                       std::string_view name);

struct NewtonSchulzOptions {
  int64_t steps = 5;
  graph::DType dtype = graph::DType::kFloat32;  // the type of the products and of the result
  bool tf32 = false;                            // whether products in float32 round to TF32
  double factor = 1;                            // multiplies the result
};

// Emits the nodes that make u [rows, columns] nearly orthogonal: with X = u / max(‖u‖, 1e-7),
// repeats `steps` (at least 1) times
//   A = X·Xᵀ,   X ← a·X + (b·A + c·A·A)·X        (a, b, c) = (3.4445, −4.7750, 2.0315)
// Returns factor · X. For a matrix with more rows than columns, A = Xᵀ·X multiplies from the other
// side, with the result of the transposed matrix. Like torch.optim.Muon, but also in types other
// than bfloat16.
graph::Value NewtonSchulz(graph::Builder& g, graph::Value u, const NewtonSchulzOptions& options);

}  // namespace plimsoll::ops
