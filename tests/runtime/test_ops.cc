#include "tests/runtime/test_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ops/cuda_workspace.h"
#include "ops/kernel.h"

namespace plimsoll {
namespace {

using graph::Attributes;
using graph::Builder;
using graph::kNoTensor;
using graph::OpCall;
using graph::OpRegistration;
using graph::Program;
using graph::Role;
using graph::TensorId;
using graph::TensorType;
using graph::Value;
using ops::CpuContext;
using ops::CpuKernelRegistration;

std::vector<TensorType> SameAsFirst(const OpCall& call) { return {call.input(0)}; }

std::vector<TensorType> Sized(const OpCall& call) {
  std::vector<TensorType> types = {Float32(call.attributes.GetInt("n"))};
  if (call.op.outputs.size() > 1) types.push_back(Float32(7));
  return types;
}

graph::OpDef Define(std::string name, std::vector<std::string> inputs,
                    std::vector<graph::InPlacePair> in_place = {}) {
  graph::OpDef def;
  def.name = std::move(name);
  for (std::string& input : inputs) def.inputs.push_back({std::move(input)});
  def.outputs = {{"y"}};
  def.infer = SameAsFirst;
  def.in_place = std::move(in_place);
  return def;
}

graph::OpDef DefineSource() {
  graph::OpDef def = Define("test_source", {});
  def.infer = Sized;
  return def;
}

graph::OpDef DefineMix() {
  graph::OpDef def = Define("test_mix", {"x"});
  def.outputs.push_back({"aux", true});
  def.variadic = true;
  def.infer = Sized;
  return def;
}

graph::OpDef DefineView() {
  graph::OpDef def = Define("test_view", {"x"});
  def.view = true;
  return def;
}

const OpRegistration kSource(DefineSource());
const OpRegistration kMix(DefineMix());
const OpRegistration kView(DefineView());
const OpRegistration kUnary(Define("test_unary", {"x"}, {{0, 0}}));
const OpRegistration kBinary(Define("test_binary", {"a", "b"}, {{0, 0}, {1, 0}}));
const OpRegistration kUpdate(Define("test_update", {"p", "x"}, {{0, 0}}));
const OpRegistration kFail(Define("test_fail", {"x"}));
const OpRegistration kLazy(Define("test_lazy", {"x"}));
const OpRegistration kStray(Define("test_stray", {"x"}));
const OpRegistration kNan(Define("test_nan", {"x"}));
const OpRegistration kGate(Define("test_gate", {"x"}));

int64_t Elements(const ops::TensorRef& ref) { return ref.type.shape.elements(); }

void Source(const CpuContext& c) {
  const int64_t seed = c.attributes.GetInt("seed");
  float* y = c.out<float>(0);
  for (int64_t i = 0; i < Elements(c.outputs[0]); ++i) {
    y[i] = static_cast<float>((i * 37 + seed * 101) % 257) / 128.0f - 1.0f;
  }
}

void Mix(const CpuContext& c) {
  const int64_t n = Elements(c.outputs[0]);
  float* sum = static_cast<float*>(c.workspace);
  std::fill(sum, sum + n, 0.0f);
  for (size_t k = 0; k < c.inputs.size(); ++k) {
    const float* x = c.in<float>(k);
    const float weight = 0.5f + 0.25f * static_cast<float>(k % 3);
    for (int64_t i = 0; i < Elements(c.inputs[k]); ++i) sum[i % n] += weight * x[i];
  }
  float* y = c.out<float>(0);
  c.pool.ParallelFor(n, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = std::tanh(sum[i]) + 0.01f;
  });
  if (float* aux = c.out<float>(1)) {
    for (int64_t i = 0; i < 7; ++i) aux[i] = sum[i % n] * 0.125f + 0.5f;
  }
}

int64_t MixWorkspace(const OpCall& call, int) { return call.output(0).bytes(); }

int64_t CudaMixWorkspace(const OpCall& call) { return call.output(0).bytes(); }

void Unary(const CpuContext& c) {
  const float* x = c.in<float>(0);
  float* y = c.out<float>(0);
  for (int64_t i = 0; i < Elements(c.outputs[0]); ++i) y[i] = 0.75f * x[i] + 0.125f;
}

void Binary(const CpuContext& c) {
  const float* a = c.in<float>(0);
  const float* b = c.in<float>(1);
  float* y = c.out<float>(0);
  for (int64_t i = 0; i < Elements(c.outputs[0]); ++i) y[i] = 0.5f * a[i] - 0.25f * b[i] + 0.1f;
}

void Update(const CpuContext& c) {
  const float* p = c.in<float>(0);
  const float* x = c.in<float>(1);
  float* out = c.out<float>(0);
  for (int64_t i = 0; i < Elements(c.outputs[0]); ++i) {
    out[i] = 0.875f * p[i] + 0.125f * x[i % Elements(c.inputs[1])];
  }
}

void Fail(const CpuContext&) { throw std::runtime_error("the kernel gives up"); }

void Lazy(const CpuContext& c) {
  const int64_t bytes = std::max<int64_t>(0, c.outputs[0].type.bytes() - 64);
  std::memset(c.out<float>(0), 0, static_cast<size_t>(bytes));
}

void Stray(const CpuContext& c) {
  Unary(c);
  char* end = c.out<char>(0) + c.outputs[0].type.bytes();
  char& byte = end[c.attributes.GetInt("beyond")];
  byte = static_cast<char>(~byte);
}

void Nan(const CpuContext& c) {
  Unary(c);
  c.out<float>(0)[0] = std::numeric_limits<float>::quiet_NaN();
}

const CpuKernelRegistration kSourceKernel({"test_source", &Source});
const CpuKernelRegistration kMixKernel({"test_mix", &Mix, &MixWorkspace});
const ops::CudaWorkspaceRegistration kMixCudaWorkspace("test_mix", &CudaMixWorkspace);
const CpuKernelRegistration kUnaryKernel({"test_unary", &Unary});
const CpuKernelRegistration kBinaryKernel({"test_binary", &Binary});
const CpuKernelRegistration kUpdateKernel({"test_update", &Update});
const CpuKernelRegistration kFailKernel({"test_fail", &Fail});
const CpuKernelRegistration kLazyKernel({"test_lazy", &Lazy});
const CpuKernelRegistration kStrayKernel({"test_stray", &Stray});
const CpuKernelRegistration kNanKernel({"test_nan", &Nan});

// Grows a random program node by node.
class Grower {
 public:
  Grower(Program& program, uint32_t seed, const RandomProgramOptions& options)
      : g_(program), random_(seed), options_(options) {}

  void Grow() {
    std::mt19937 sizes(options_.persistent_seed);
    for (int i = 0; i < options_.persistent; ++i) {
      const int64_t n = 1 + static_cast<int64_t>(sizes() % options_.largest);
      persistent_.push_back(g_.Persistent("p." + std::to_string(i), Role::kParameter, Float32(n)));
    }
    graph::Tensor slot;
    slot.name = "slot";
    slot.type = Float32(Size());
    slot.role = Role::kInput;
    values_.push_back(g_.program().AddTensor(slot));
    for (int i = 0; i < options_.nodes; ++i) {
      g_.set_scope("block." + std::to_string(i / 8));
      AddNode();
    }
    g_.set_scope("loss");
    std::vector<Value> inputs = {Pick(), Pick(), Pick()};
    const Value metric = g_.Emit("test_mix", inputs, {{"n", int64_t{4}}}, "", {true, false})[0];
    g_.program().Rename(metric, "metric");
    g_.program().mutable_tensor(metric).role = Role::kMetric;
  }

 private:
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_()) % n; }
  int64_t Size() { return 1 + Below(options_.largest); }
  // Picks old values now and then, so that lifetimes vary.
  Value Pick() {
    const int64_t count = static_cast<int64_t>(values_.size());
    if (Below(3) == 0) return values_[Below(count)];
    return values_[count - 1 - Below(std::min<int64_t>(count, 4))];
  }

  void AddNode() {
    switch (Below(9)) {
      case 0:
        return Keep(g_.Emit1("test_source", {}, {{"n", Size()}, {"seed", Below(1000)}}));
      case 1:
      case 2:
      case 3:
        return AddMix();
      case 4:
      case 5:
        return Keep(g_.Emit1("test_unary", {Pick()}));
      case 6: {
        const Value a = Pick();
        for (Value b : values_) {
          if (g_.type(b) == g_.type(a)) return Keep(g_.Emit1("test_binary", {a, b}));
        }
        return;
      }
      case 7:
        return Below(2) == 0 ? Keep(g_.Emit1("test_view", {Pick()})) : AddBucket();
      default:
        return AddUpdate();
    }
  }

  void Keep(Value value) {
    const graph::Tensor& tensor = g_.program().tensor(value);
    if (options_.host_tensors && !tensor.alias && Below(4) == 0) {
      g_.program().mutable_tensor(value).place = graph::Place::kHost;
    }
    if (tensor.alias) {  // a view is where its base is
      g_.program().mutable_tensor(value).place = g_.program().tensor(tensor.alias->base).place;
    }
    values_.push_back(value);
  }

  void AddMix() {
    std::vector<Value> inputs;
    for (int64_t i = Below(3); i >= 0; --i) inputs.push_back(Pick());
    if (!persistent_.empty() && Below(3) == 0) {
      inputs.push_back(persistent_[Below(static_cast<int64_t>(persistent_.size()))]);
    }
    const bool aux = Below(2) == 0;
    const auto outputs = g_.Emit("test_mix", inputs, {{"n", Size()}}, "", {true, aux});
    Keep(outputs[0]);
    if (aux && Below(2) == 0) Keep(outputs[1]);  // else it stays unread
  }

  void AddUpdate() {
    if (persistent_.empty()) return;
    const Value p = persistent_[Below(static_cast<int64_t>(persistent_.size()))];
    graph::Node node;
    node.op = &graph::OpRegistry::Get().Require("test_update");
    node.inputs = {p, Pick()};
    node.outputs = {p};
    node.scope = g_.scope();
    g_.program().mutable_nodes().push_back(std::move(node));
  }

  // A tensor written in two slices by two nodes, then read as a whole.
  void AddBucket() {
    graph::Tensor bucket;
    bucket.name = g_.program().FreshName(g_.Qualified("bucket"));
    const int64_t first = 16 * (1 + Below(8));
    const int64_t second = Size();
    bucket.type = Float32(first + second);
    const TensorId base = g_.program().AddTensor(bucket);
    const Attributes a = {{"n", first}, {"seed", Below(1000)}};
    const Attributes b = {{"n", second}, {"seed", Below(1000)}};
    const Value slice_a = g_.Emit1("test_source", {}, a);
    const Value slice_b = g_.Emit1("test_source", {}, b);
    g_.program().mutable_tensor(slice_a).alias = graph::Alias{base, 0};
    g_.program().mutable_tensor(slice_b).alias = graph::Alias{base, first * 4};
    values_.push_back(base);
    values_.push_back(slice_b);
  }

  Builder g_;
  std::mt19937 random_;
  RandomProgramOptions options_;
  std::vector<Value> persistent_;
  std::vector<Value> values_;
};

}  // namespace

TensorType Float32(int64_t n) { return {graph::DType::kFloat32, graph::Shape{n}}; }

Program RandomProgram(uint32_t seed, const RandomProgramOptions& options) {
  Program program("random" + std::to_string(seed));
  Grower(program, seed, options).Grow();
  program.DropUnusedTensors();
  return program;
}

}  // namespace plimsoll
