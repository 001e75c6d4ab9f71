// The policy of mixed precision: the type in which each op kind works. Ops declare it
// (graph::PrecisionRule), and a run may override it.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op.h"

namespace plimsoll::amp {

// Linear layers whose three products multiply 8-bit codes (amp/fp8.h).
struct Fp8Options {
  bool enabled = false;
  // The steps of which the largest magnitudes make the scales of activations' and gradients' codes;
  // 0: each tensor's own does.
  int64_t window = 0;
  double margin = 1;  // a factor on the largest one, before scales are made of it
  graph::DType gradients = graph::DType::kFloat8E4M3;  // of the codes of results' gradients
  std::vector<std::string> skip = {};  // patterns of weights whose layers stay in 16 bits
  int64_t skip_ends = 0;               // blocks at each end that stay in 16 bits
  bool pre_activations = false;        // results that activation functions alone read are codes
  bool counts = false;                 // of values that codes can't hold, as metrics

  bool operator==(const Fp8Options&) const = default;
};

struct AmpOptions {
  graph::DType dtype = graph::DType::kFloat32;  // of the low ops; float32: no mixed precision
  // Whether a GPU's matrix units compute products of float32 tensors with operands rounded to TF32;
  // for dtype float32.
  bool tf32 = false;
  bool low_gradients = false;         // gradients of matrices are bf16 (amp/low_gradients.h)
  std::vector<std::string> low_ops;   // op kinds that work in `dtype`, whatever they declare
  std::vector<std::string> fp32_ops;  // op kinds that work in float32, whatever they declare

  // Parameters that stay float32 in every program, as Float32Parameters (amp/mixed_precision.h)
  // finds them. nullopt: those that it finds in the current program.
  std::optional<std::set<std::string>> fp32_parameters;
  // Results that the host reads, always in float32, if a program has them.
  std::vector<std::string> results = {"loss", "logits"};
  Fp8Options fp8;  // of training programs, in 16 bits

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

// The ops that declare a reason, sorted by precision, then by op. Other ops work in float32.
const std::vector<PolicyRow>& PolicyTable();

// The table for docs/how/mixed_precision.md.
std::string PolicyMarkdown();

// Why low_ops or fp32_ops can't be followed: the field at fault, and a reason that says what is
// allowed.
struct OptionsProblem {
  std::string field;
  std::string reason;
};
std::optional<OptionsProblem> FindProblem(const AmpOptions& options);

// The precision of an op kind under these options.
Precision PrecisionOf(const graph::OpDef& op, const AmpOptions& options);

}  // namespace plimsoll::amp
