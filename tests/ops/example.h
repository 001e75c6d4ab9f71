// Example cases of ops. The registry test (registry_test.cc) runs every op through its examples, in
// every floating type: finite-difference gradients, guarded outputs and workspaces, in-place pairs.
// An op without an example fails it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op.h"

namespace plimsoll::ops {

// The contents of an example input, with the word of each in a table.
enum class Fill {
  kNormal,    // no word: standard normal
  kSmall,     // small: normal × 0.1
  kPositive,  // positive: uniform in [0.5, 1.5)
  kTokens,    // tokens N: i32, uniform in [0, N)
  kTargets,   // targets N: as tokens, every fifth is -100 (ignored)
  kNumbers,   // numbers: uniform in [0, 1), every fifth is NaN (no target)
  kCounter,   // counter: i32 scalar or rng pair: 3, 4, …
  kPlaces,  // places N: i32, positions in documents of N tokens, which follow one another in a row
  kBits,    // bits: any bytes: codes and remainders
  kAbsent,  // _: an optional input that is not given
};

struct ExampleInput {
  graph::Shape shape;
  Fill fill = Fill::kNormal;
  int64_t limit = 0;
  // Default: the dtype under test. A rule gives no gradient of some inputs that are always f32.
  std::optional<graph::DType> dtype = std::nullopt;
  // In the op's compute type, float32 for the 16-bit ones: statistics, losses, sums of gradients
  // (graph::ComputeType).
  bool compute_type = false;
};

struct Example {
  std::string op;
  std::string label;  // distinguishes examples of one op: "causal, 2 of 4 kv heads"
  std::vector<ExampleInput> inputs;
  graph::Attributes attributes = {};
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

// The examples of all tables. InternalError when a table is malformed.
const std::vector<Example>& Examples();

// A table of examples, at namespace scope in examples_*.cc:
//
//   const ExampleTable kExamples(R"(
//     layer_norm "without bias"([5,40], [40], _) {eps=1e-05}
//     cast "to f32"([3,7,5]) {dtype="f32"} tolerance=0.1 dtypes=f32,f64   // a comment
//   )");
//
// An input is a shape, after its type if that isn't the one under test ("f32[7]", "compute[7]"),
// before its fill. Attributes are written as in a program's text. The members from `tolerance` on
// follow by name. A line may end between any two words.
struct ExampleTable {
  explicit ExampleTable(std::string_view text);
};

}  // namespace plimsoll::ops
