// Mixed precision's policy: in which type each op kind works. A table, which a run may override.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op.h"

namespace plimsoll::amp {

struct AmpOptions {
  graph::DType dtype = graph::DType::kFloat32;  // of the low ops; float32: no mixed precision
  // Matrix products of float32 tensors on a GPU's matrix units, operands rounded to TF32; with
  // dtype float32.
  bool tf32 = false;
  std::vector<std::string> low_ops;   // op kinds that work in `dtype`, whatever the table says
  std::vector<std::string> fp32_ops;  // op kinds that work in float32, whatever the table says

  // Parameters that stay float32 in every program, as Float32Parameters (amp/mixed_precision.h)
  // finds them. Not given: those that it finds in the program at hand.
  std::optional<std::set<std::string>> fp32_parameters;
  // What the host reads, float32 always, where a program has it.
  std::vector<std::string> results = {"loss", "logits"};

  bool enabled() const { return graph::IsLowPrecision(dtype); }
};

enum class Precision {
  kLow,         // operands and results in the low type, products summed in float32
  kLowStorage,  // operands and results in the low type, the arithmetic between them in float32
  kFloat32,     // operands and results in float32
  kAsInput,     // whatever type the input has: nothing is computed
};

// "low", "low storage", "fp32", "as its input".
std::string_view Name(Precision precision);

struct PolicyRow {
  std::string_view op;
  Precision precision;
  std::string_view reason;
};

// Sorted by precision, then by op. Op kinds that are not in it work in float32.
const std::vector<PolicyRow>& PolicyTable();

// The table for docs/mixed_precision.md.
std::string PolicyMarkdown();

// Why low_ops or fp32_ops can't be followed: the field at fault, and a reason that says what would
// do.
struct OptionsProblem {
  std::string field;
  std::string reason;
};
std::optional<OptionsProblem> FindProblem(const AmpOptions& options);

// The precision of an op kind under these options.
Precision PrecisionOf(const graph::OpDef& op, const AmpOptions& options);

}  // namespace plimsoll::amp
