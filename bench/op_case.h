// The cases of bench/op: calls of ops at the shapes of real models. What fills a call's inputs, and
// the attributes that a case doesn't name, come from an example of the op (tests/ops/example.h), by
// which its kernels are tested.
//
// A file of cases is a list in JSON:
//
//   {"case": "124M, in place", "op": "add_layer_norm", "eps": 1e-5, "in_place": [[0, 0], [1, 1]],
//    "in": [[32768, 768], [32768, 768], [768], null]}
//
// `in`: the inputs' shapes, null where one is absent; {"shape": …} with "type", "fill"
// ("small", "positive", "tokens"), "below", the bound of integers, or "values", repeated through
// the input, where these aren't as in the example. `type`: "bf16", "f16", "f32" or "tf32".
// `in_place`: pairs of an input and the output that takes its memory. `unread`: outputs that nobody
// reads. Other keys are attributes.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/op.h"
#include "tests/ops/guarded_call.h"
#include "trainer/step/compile.h"

namespace plimsoll::bench {

struct CaseCall {
  ops::Example example;
  graph::DType dtype = graph::DType::kFloat32;
  std::vector<bool> want = {};  // outputs that somebody reads; empty: all
  std::vector<graph::InPlacePair> in_place = {};
  std::map<size_t, std::vector<double>> values = {};  // repeated through that input

  // Of each input; of large ones, the first `most` elements.
  std::vector<std::optional<ops::HostTensor>> Contents(int64_t most) const;
};

// A call with the types of its arguments.
struct TypedCall {
  explicit TypedCall(const CaseCall& of);
  TypedCall(const TypedCall&) = delete;
  TypedCall& operator=(const TypedCall&) = delete;
  graph::OpCall get() const { return {op, input_types, output_types, call.example.attributes}; }

  const CaseCall& call;
  const graph::OpDef& op;
  std::vector<graph::TensorType> inputs, outputs;
  std::vector<const graph::TensorType*> input_types, output_types;
};

struct OpCase {
  std::string text;             // its name and its call
  std::vector<CaseCall> calls;  // several: those that share a kernel's launches
  int64_t times = 1;            // in a step
};

// `type`: of cases that name none. UserError for a file that can't be read as such a list.
std::vector<OpCase> LoadCases(const std::string& path, const std::string& type);
// Every example, in its first type that a GPU computes with.
std::vector<OpCase> ExampleCases();
// The distinct calls of a training step. Updates that share launches are one case.
std::vector<OpCase> StepCases(const trainer::CompiledStep& compiled);

// Whether cuDNN computes it on a GPU: a convolution that is no matrix product.
bool IsConvolution(const CaseCall& call);

// A line for each op that does work: its name and the number of its cases, or "no case".
std::string CountsByOp(std::span<const OpCase> cases);

}  // namespace plimsoll::bench
