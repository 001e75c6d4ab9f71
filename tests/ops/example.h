// Example cases of ops. The registry test (registry_test.cc) runs every op through its examples, in
// every floating type: finite-difference gradients, guarded outputs and workspaces, in-place pairs.
// An op without an example fails it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/op.h"

namespace plimsoll::ops {

// The contents of an example input.
enum class Fill {
  kNormal,    // standard normal
  kSmall,     // normal × 0.1
  kPositive,  // uniform in [0.5, 1.5)
  kTokens,    // i32, uniform in [0, Input::limit)
  kTargets,   // as kTokens, every fifth is -100 (ignored)
  kNumbers,   // uniform in [0, 1), every fifth is NaN (no target)
  kCounter,   // i32 scalar or rng pair: 3, 4, …
  kBits,      // any bytes: codes and remainders
  kAbsent,    // an optional input that is not given
};

struct ExampleInput {
  graph::Shape shape;
  Fill fill = Fill::kNormal;
  int64_t limit = 0;
  std::optional<graph::DType> dtype = std::nullopt;  // default: the dtype under test
};

struct Example {
  std::string op;
  std::string label;  // distinguishes examples of one op: "causal, 2 of 4 kv heads"
  std::vector<ExampleInput> inputs;
  graph::Attributes attributes = {};
  // Floating inputs that are f32 scalars by definition (lr, scale) for any dtype under test.
  std::vector<int> float32_inputs = {};
  // Floating inputs in the op's compute type, float32 for the 16-bit ones: statistics, losses, sums
  // of gradients (graph::ComputeType).
  std::vector<int> compute_inputs = {};
  // Finite differences in float64: |numeric − analytic| ≤ tolerance · (1 + |numeric|). A tolerance
  // above 1e-6 needs a reason at the example.
  double tolerance = 1e-6;
  // float32 against float64 on the same inputs: |Δ| ≤ float32_tolerance · max(1, max |value|).
  double float32_tolerance = 1e-4;
  // bf16 and f16 against float64 on the same, rounded inputs, in units of the type's rounding
  // (2^-8, 2^-11) times max(1, max |value|): the error allowed in addition to the rounding of the
  // result itself. Zero unless the op rounds intermediate values.
  double low_precision_tolerance = 0;
  // In the same units: the additional error allowed for the CUDA kernel, where it rounds
  // intermediate values and the CPU's kernel does not.
  double cuda_tolerance = 0;
  // The types that the op is tested with. Without f64, finite differences are left out.
  std::vector<graph::DType> dtypes = {graph::DType::kFloat32, graph::DType::kFloat64,
                                      graph::DType::kBFloat16, graph::DType::kFloat16};
};

// For Example::dtypes of ops that have no 16-bit form.
inline std::vector<graph::DType> FullPrecision() {
  return {graph::DType::kFloat32, graph::DType::kFloat64};
}

std::vector<Example>& Examples();

// At namespace scope in examples_*.cc:   const ExampleRegistration kGelu({…});
struct ExampleRegistration {
  explicit ExampleRegistration(Example example) { Examples().push_back(std::move(example)); }
};

}  // namespace plimsoll::ops
