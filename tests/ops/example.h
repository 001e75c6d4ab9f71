// Example cases of ops. The registry test (registry_test.cc) runs every op through its examples:
// finite-difference gradients, guarded outputs and workspaces, in-place pairs. An op without an
// example fails it.
#pragma once

#include <string>
#include <vector>

#include "graph/op.h"

namespace plimsoll::ops {

// What an example input is filled with.
enum class Fill {
  kNormal,    // standard normal
  kSmall,     // normal × 0.1
  kPositive,  // uniform in [0.5, 1.5)
  kTokens,    // i32, uniform in [0, Input::limit)
  kTargets,   // as kTokens, every fifth is -100 (ignored)
  kCounter,   // i32 scalar or rng pair: 3, 4, …
  kAbsent,    // an optional input that is not given
};

struct ExampleInput {
  graph::Shape shape;
  Fill fill = Fill::kNormal;
  int64_t limit = 0;
};

struct Example {
  std::string op;
  std::string label;  // tells examples of one op apart: "causal, 2 of 4 kv heads"
  std::vector<ExampleInput> inputs;
  graph::Attributes attributes = {};
  // Floating inputs that are f32 scalars by definition (lr, scale) whatever the dtype under test.
  std::vector<int> float32_inputs = {};
  // Finite differences in float64: |numeric − analytic| ≤ tolerance · (1 + |numeric|). A tolerance
  // above 1e-6 needs a reason at the example.
  double tolerance = 1e-6;
  // float32 against float64 on the same inputs: |Δ| ≤ float32_tolerance · max(1, max |value|).
  double float32_tolerance = 1e-4;
};

std::vector<Example>& Examples();

// At namespace scope in examples_*.cc:   const ExampleRegistration kGelu({…});
struct ExampleRegistration {
  explicit ExampleRegistration(Example example) { Examples().push_back(std::move(example)); }
};

}  // namespace plimsoll::ops
