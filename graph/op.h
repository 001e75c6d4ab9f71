// The definition of an op: its meaning, declared once, in one place (ops/KIND/NAME.cc). Kernels are
// separate (ops/kernel.h), so that a program can be built, differentiated and planned without a
// device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/attributes.h"
#include "graph/tensor.h"
#include "graph/traits.h"

namespace plimsoll::graph {

class GradientContext;  // graph/gradient.h
struct OpDef;

// A call: one use of an op with the types of its arguments and its attributes, without data.
struct OpCall {
  const OpDef& op;
  std::span<const TensorType* const> inputs;   // nullptr: an optional input that is absent
  std::span<const TensorType* const> outputs;  // empty while inferring; nullptr: an optional output
                                               // that nobody reads
  const Attributes& attributes;

  bool has_input(size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }
  bool has_output(size_t i) const { return i < outputs.size() && outputs[i] != nullptr; }
  // Throws InternalError, naming op and argument, when the input is absent.
  const TensorType& input(size_t i) const;
  const TensorType& output(size_t i) const;
};

struct Cost {
  double flops = 0;  // a multiplication and an addition count as two FLOPs
  double bytes = 0;  // bytes read and written; each tensor counts once
  // FLOPs of the matrix products that the model's mathematics require: `flops` without elementwise
  // work, and without products that a kernel computes a second time.
  double products = 0;
};

struct Argument {
  std::string name;
  bool optional = false;  // an optional input may be absent; an optional output may be left
                          // unwritten when nobody reads it
};

// The planner may give `output` the memory of `input` when the input dies at this node.
struct InPlacePair {
  int input;
  int output;
};

struct OpDef {
  std::string name;
  std::vector<Argument> inputs;
  std::vector<Argument> outputs;
  bool variadic = false;  // the last input may be repeated any number of times

  // Infers the types of all outputs from the inputs. If an optional input is absent, the types of
  // optional outputs at the end that depend on it may be missing. Throws InternalError on shapes or
  // dtypes that don't fit (use Check() below). Must be set.
  std::function<std::vector<TensorType>(const OpCall&)> infer;

  // Emits the nodes that compute the gradients of the inputs. Empty if the op has no gradient.
  // Unless `stops_gradient` is set, a loss that depends on a trained parameter through such an op
  // is refused.
  std::function<void(GradientContext&)> gradient;

  // The cost of a call. Empty means no FLOPs, and that every argument is read or written once.
  std::function<Cost(const OpCall&)> cost;

  std::vector<InPlacePair> in_place = {};

  // Whether output 0 is a view of input 0, with the same bytes, which needs no work. The builder
  // makes output 0 an alias.
  bool view = false;

  // Whether the op draws random numbers. It then has an attribute "key" (the original node's id)
  // and an input "rng" (i32[2]: seed, micro-step). Equal key and rng give equal draws.
  bool random = false;

  // Whether the op's results count as constants when a loss is differentiated. An op has either
  // this or a gradient.
  bool stops_gradient = false;

  // Whether output 0 is input 0 converted to another type. Passes treat the output as if it were
  // the input.
  bool converts = false;

  // Traits (graph/traits.h).
  PrecisionRule precision = {};
  CostClass cost_class = CostClass::kBandwidth;
  Transfer transfer = Transfer::kNone;
  ShardingRule sharding = {};
  Continuation continuation = {};

  // Whether the op does little more than reading and writing each element once. Computing it
  // several times is then better than keeping its results between two uses
  // (checkpointing/recompute.h).
  bool cheap_to_recompute = false;

  // The word in `checkpointing.recompute` that selects this op and others of its kind, such as
  // "norms". If empty, only the op's own name selects it (checkpointing/retention_policy.h).
  std::string_view recompute_preset = "";

  // Whether a low-rank adapter can be added to the weight (adapters/lora_pass.h): the op computes y
  // = x·Wᵀ with x at input 0 and W at input 1.
  bool takes_adapters = false;

  // Gradients of weights that the op itself can make in bf16, from bf16 operands
  // (amp/low_gradients.h): each pair is an output and the optional input to which it is added. With
  // the attribute "low_gradient" both are bf16, and the op draws from its input "rng".
  std::vector<InPlacePair> low_gradients = {};

  // Outputs whose largest magnitude the op can find as it writes them, for 8-bit codes
  // (ops/linear/quantize.h). With the attribute "largest" the op has an optional f32[] output for
  // each of them, after the other outputs, in this order. Such an output may only be requested
  // together with the output that it measures.
  std::vector<int> finds_largest = {};

  // Whether one kernel launch on a GPU handles the calls for many tensors (memory/device_rates.h).
  bool shares_launches = false;

  // Whether the op is a loss that also does the work of its backward op. The node is then in the
  // forward pass, but its results are gradients (checkpointing/saved.h).
  bool with_backward = false;
};

Cost CostOf(const OpCall& call);

// Throws InternalError("NAME: MESSAGE") unless `condition`.
void Check(bool condition, const OpCall& call, std::string_view message);

// All ops that a program may use, by name. OpRegistration objects fill it before main(); it is
// read-only afterwards.
class OpRegistry {
 public:
  static OpRegistry& Get();
  void Add(OpDef def);                                // throws InternalError if the name is taken
  const OpDef* Find(std::string_view name) const;     // nullptr if unknown
  const OpDef& Require(std::string_view name) const;  // throws InternalError if unknown
  std::vector<const OpDef*> All() const;              // sorted by name

 private:
  std::vector<std::unique_ptr<const OpDef>> ops_;  // sorted by name
};

// For use at namespace scope in ops/KIND/NAME.cc:   const OpRegistration kRegistration({.name =
// "gelu", …});
struct OpRegistration {
  explicit OpRegistration(OpDef def) { OpRegistry::Get().Add(std::move(def)); }
};

}  // namespace plimsoll::graph
