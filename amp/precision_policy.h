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
  // The number of steps whose largest magnitudes give the scales of activations' and gradients'
  // codes. 0: each tensor's own largest magnitude gives its scale.
  int64_t window = 0;
  double margin = 1;  // the largest magnitude times this factor gives the scale
  graph::DType gradients = graph::DType::kFloat8E4M3;  // type of the codes of gradients of results
  std::vector<std::string> skip = {};  // patterns of weights whose layers stay in 16 bits
  int64_t skip_ends = 0;               // blocks at each end that stay in 16 bits
  bool pre_activations = false;        // saves pre-activations (see Fp8Products) as codes
  bool counts = false;                 // adds metrics that count the values that codes can't hold

  bool operator==(const Fp8Options&) const = default;
};

struct AmpOptions {
  graph::DType dtype = graph::DType::kFloat32;  // type of the low ops; float32: no mixed precision
  // Whether a GPU's matrix units round operands to TF32 for products of float32 tensors. Only for
  // dtype float32.
  bool tf32 = false;
  bool low_gradients = false;         // gradients of matrices are bf16 (amp/low_gradients.h)
  std::vector<std::string> low_ops;   // op kinds that work in `dtype`, whatever they declare
  std::vector<std::string> fp32_ops;  // op kinds that work in float32, whatever they declare

  // Parameters that stay float32 in every program, as Float32Parameters (amp/mixed_precision.h)
  // finds them. nullopt: those that it finds in the current program.
  std::optional<std::set<std::string>> fp32_parameters;
  // Names of results that the host reads; a result of such a name is always float32.
  std::vector<std::string> results = {"loss", "logits"};
  Fp8Options fp8;  // only for training programs in 16 bits

  bool enabled() const { return graph::IsLowPrecision(dtype); }
};

using graph::Precision;

// The precision's name: "low", "low storage", "fp32" or "as its input".
std::string_view Name(Precision precision);

struct PolicyRow {
  std::string_view op;
  Precision precision;
  std::string_view reason;
};

// The ops that declare a reason for their precision, sorted by precision, then by op. Other ops
// work in float32.
const std::vector<PolicyRow>& PolicyTable();

// The policy table as Markdown for docs/how/mixed_precision.md.
std::string PolicyMarkdown();

// Why the options low_ops or fp32_ops can't be followed: the wrong field, and a reason that says
// what is allowed.
struct OptionsProblem {
  std::string field;
  std::string reason;
};
std::optional<OptionsProblem> FindProblem(const AmpOptions& options);

// The precision of an op kind under these options.
Precision PrecisionOf(const graph::OpDef& op, const AmpOptions& options);

}  // namespace plimsoll::amp
