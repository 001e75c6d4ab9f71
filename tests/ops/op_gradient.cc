#include "tests/ops/op_gradient.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/low_precision.h"
#include "graph/gradient.h"
#include "tests/ops/interpreter.h"

namespace plimsoll::ops {
namespace {

using graph::kNoTensor;
using graph::Program;
using graph::Role;
using graph::TensorId;
using graph::Value;

std::string Indexed(const char* stem, size_t i) { return stem + std::to_string(i); }

// The weight of each output in the loss, the same in every type.
HostTensor OutputWeight(const graph::TensorType& type, size_t i) {
  const HostTensor exact = RandomTensor({graph::DType::kFloat64, type.shape}, 1000 + i);
  HostTensor weight = PoisonedTensor(type);
  for (int64_t k = 0; k < type.shape.elements(); ++k) {
    weight.set(k, FromBf16(ToBf16(static_cast<float>(exact.value(k)))));
  }
  return weight;
}

void SetData(Interpreter& interpreter, const Program& program, const std::string& name,
             const HostTensor& tensor) {
  const std::span<std::byte> bytes = interpreter.Bytes(program.Require(name));
  std::copy(tensor.bytes.begin(), tensor.bytes.end(), bytes.begin());
}

}  // namespace

OpGradient::OpGradient(const Example& example, ThreadPool& pool, graph::DType dtype)
    : OpGradient(example, pool, MakeInputs(example, dtype)) {}

OpGradient::OpGradient(const Example& example, ThreadPool& pool,
                       std::vector<std::optional<HostTensor>> data)
    : example_(example), pool_(pool), data_(std::move(data)) {
  if (!graph::OpRegistry::Get().Require(example.op).gradient) return;
  for (size_t i = 0; i < data_.size(); ++i) {
    if (data_[i] && graph::IsFloat(data_[i]->type.dtype)) inputs_.push_back(i);
  }
}

bool OpGradient::IsScalarByDefinition(size_t input) const {
  return example_.inputs[input].dtype == graph::DType::kFloat32;
}

void OpGradient::Forward(Program& program) const {
  graph::Builder builder(program);
  std::vector<Value> inputs;
  for (size_t i = 0; i < data_.size(); ++i) {
    inputs.push_back(data_[i] ? builder.Persistent(Indexed("in.", i), Role::kInput, data_[i]->type)
                              : kNoTensor);
  }
  builder.Emit(example_.op, inputs, example_.attributes);
}

OpGradient::Gradients OpGradient::Analytic(const std::vector<size_t>& wanted, bool with_partials) {
  Program program("gradient");
  Forward(program);
  graph::Builder builder(program);
  builder.set_phase(graph::Phase::kBackward);
  const graph::Node node = program.nodes().front();
  Gradients gradients;
  taken_.clear();
  partials_.clear();
  for (size_t i : inputs_) gradients[i] = std::nullopt;
  if (inputs_.empty()) return gradients;

  std::vector<Value> output_gradients;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const graph::TensorType type = program.tensor(node.outputs[i]).type;
    const bool counts = !node.op->outputs[i].optional && graph::IsFloat(type.dtype);
    output_gradients.push_back(counts ? builder.Persistent(Indexed("dy.", i), Role::kInput, type)
                                      : kNoTensor);
  }
  std::vector<bool> wants(node.inputs.size(), false);
  std::vector<Value> partials(node.inputs.size(), kNoTensor);
  for (size_t i : wanted) {
    wants[i] = true;
    if (!with_partials) continue;
    partials_[i] = RandomTensor(data_[i]->type, 2000 + i);
    partials[i] = builder.Persistent(Indexed("partial.", i), Role::kInput, data_[i]->type);
  }
  graph::GradientContext context(builder, node, output_gradients, wants, partials);
  node.op->gradient(context);
  emitted_ = program.nodes().size() - 1;

  std::vector<TensorId> results;
  for (size_t i : inputs_) {
    results.push_back(context.input_gradient(i));
    taken_[i] = context.taken(i);
    if (results.back() == kNoTensor) continue;
    const graph::TensorType& type = builder.type(results.back());
    const graph::TensorType& of = data_[i]->type;
    if (type != of && type != graph::TensorType{graph::ComputeType(of.dtype), of.shape}) {
      throw InternalError(node.op->name + ": the gradient of input " + std::to_string(i) + " is " +
                          type.ToString());
    }
  }
  FindUnused(program, results);

  Interpreter interpreter(program, pool_);
  for (size_t i = 0; i < data_.size(); ++i) {
    if (data_[i]) SetData(interpreter, program, Indexed("in.", i), *data_[i]);
  }
  for (size_t i = 0; i < output_gradients.size(); ++i) {
    if (output_gradients[i] == kNoTensor) continue;
    SetData(interpreter, program, Indexed("dy.", i),
            OutputWeight(program.tensor(output_gradients[i]).type, i));
  }
  for (const auto& [i, partial] : partials_) {
    SetData(interpreter, program, Indexed("partial.", i), partial);
  }
  interpreter.Run();
  for (size_t k = 0; k < inputs_.size(); ++k) {
    if (results[k] != kNoTensor) gradients[inputs_[k]] = interpreter.Get(results[k]);
  }
  return gradients;
}

void OpGradient::FindUnused(const Program& program, const std::vector<TensorId>& gradients) {
  unused_.clear();
  std::vector<bool> needed(program.tensors().size(), false);
  for (TensorId id : gradients) {
    if (id != kNoTensor) needed[id] = true;
  }
  for (size_t n = program.nodes().size(); n-- > 1;) {
    const graph::Node& node = program.nodes()[n];
    bool any = false;
    for (TensorId id : node.outputs) any = any || (id != kNoTensor && needed[id]);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const TensorId id = node.outputs[i];
      // An output that can't be left out is no waste if another output is needed.
      const bool excused = any && !node.op->outputs[i].optional;
      if (id != kNoTensor && !needed[id] && !excused) unused_ += program.tensor(id).name + " ";
    }
    for (TensorId id : node.inputs) {
      if (id != kNoTensor) needed[id] = true;
    }
  }
}

double OpGradient::Numeric(size_t input, const std::vector<double>& direction) {
  Program program("forward");
  Forward(program);
  const graph::Node& node = program.nodes().front();
  Interpreter interpreter(program, pool_);
  for (size_t i = 0; i < data_.size(); ++i) {
    if (data_[i]) SetData(interpreter, program, Indexed("in.", i), *data_[i]);
  }
  std::vector<std::pair<TensorId, HostTensor>> weights;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const graph::TensorType& type = program.tensor(node.outputs[i]).type;
    if (node.op->outputs[i].optional || !graph::IsFloat(type.dtype)) continue;
    weights.emplace_back(node.outputs[i], OutputWeight(type, i));
  }
  auto loss = [&] {
    interpreter.Run();
    long double sum = 0;
    for (const auto& [id, weight] : weights) {
      const std::vector<double> y = interpreter.Get(id);
      for (size_t k = 0; k < y.size(); ++k) sum += static_cast<long double>(y[k]) * weight.value(k);
    }
    return sum;
  };

  HostTensor tensor = *data_[input];
  // Float inputs are factors (of the loss, of x): large steps are exact, and float resolves them.
  const double step = tensor.type.dtype == graph::DType::kFloat32 ? 0.25 : 1e-5;
  auto loss_at = [&](double distance) {
    for (size_t k = 0; k < direction.size(); ++k) {
      const auto i = static_cast<int64_t>(k);
      tensor.set(i, data_[input]->value(i) + distance * direction[k]);
    }
    SetData(interpreter, program, Indexed("in.", input), tensor);
    return loss();
  };
  return static_cast<double>((loss_at(step) - loss_at(-step)) / (2 * step));
}

}  // namespace plimsoll::ops
