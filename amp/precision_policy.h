// Mixed precision's policy: in which type each op kind works. Ops declare it
// (graph::PrecisionRule), and a run may override it.
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
  std::vector<std::string> low_ops;   // op kinds that work in `dtype`, whatever they declare
  std::vector<std::string> fp32_ops;  // op kinds that work in float32, whatever they declare

  // Parameters that stay float32 in every program, as Float32Parameters (amp/mixed_precision.h)
  // finds them. Not given: those that it finds in the program at hand.
  std::optional<std::set<std::string>> fp32_parameters;
  // What the host reads, float32 always, where a program has it.
  std::vector<std::string> results = {"loss", "logits"};

  bool enabled() const { return graph::IsLowPrecision(dtype); }
};

using graph::Precision;

// "low", "low storage", "fp32", "as its input".
std::string_view Name(Precision precision);

struct PolicyRow {
  std::string_view op;
  Precision precision;
  std::string_view reason;
};

// The ops that give a reason, sorted by precision, then by op. Others work in float32.
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
