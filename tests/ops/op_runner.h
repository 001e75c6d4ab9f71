// Runs one op's CPU kernel outside any program, for tests and measurements.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "graph/op.h"
#include "ops/collectives/axis.h"
#include "ops/kernel.h"
#include "tests/ops/elements.h"

namespace plimsoll::ops {

// A tensor with memory of its own, aligned as kernels expect.
class TestTensor {
 public:
  explicit TestTensor(graph::TensorType type = {})
      : type_(type),
        bytes_(type.bytes()),
        data_(std::aligned_alloc(64, (bytes_ + 127) / 64 * 64), &std::free) {}

  const graph::TensorType& type() const { return type_; }
  int64_t size() const { return type_.shape.elements(); }
  void* data() const { return data_.get(); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_.get());
  }
  double at(int64_t i) const { return ReadElement(type_.dtype, data(), i); }
  void set(int64_t i, double value) { WriteElement(type_.dtype, data(), i, value); }

 private:
  graph::TensorType type_;
  int64_t bytes_;
  std::shared_ptr<void> data_;  // copies share the memory, as an in-place pair does
};

inline TestTensor Values(graph::DType dtype, graph::Shape shape,
                         const std::vector<double>& values) {
  TestTensor tensor({dtype, shape});
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.set(i, values.at(i));
  return tensor;
}

inline TestTensor NormalValues(graph::DType dtype, graph::Shape shape, int seed, double scale = 1) {
  TestTensor tensor({dtype, shape});
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.set(i, scale * normal(generator));
  return tensor;
}

// An op with its operands, ready to run any number of times.
class OpRunner {
 public:
  // Input nullptr: absent. `want[i]` false: output i is not wanted (empty: all are).
  OpRunner(const std::string& op, std::vector<const TestTensor*> inputs,
           graph::Attributes attributes, int threads, std::vector<bool> want = {},
           const AxisCommunicators& communicators = {})
      : def_(graph::OpRegistry::Get().Require(op)),
        kernel_(FindCpuKernel(op)),
        attributes_(std::move(attributes)),
        ranks_(CommunicatorFor(attributes_, communicators)),
        pool_(threads) {
    if (kernel_ == nullptr) throw InternalError("no CPU kernel for " + op);
    std::vector<const graph::TensorType*> types;
    for (const TestTensor* input : inputs) {
      if (input != nullptr) inputs_.push_back(*input);
      types.push_back(input == nullptr ? nullptr : &input->type());
      input_refs_.push_back(input == nullptr ? TensorRef{}
                                             : TensorRef{input->data(), input->type()});
    }
    const graph::OpCall call{def_, types, {}, attributes_};
    for (const graph::TensorType& type : def_.infer(call)) outputs_.emplace_back(type);
    std::vector<const graph::TensorType*> output_types;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const bool wanted = i >= want.size() || want[i];
      output_types.push_back(wanted ? &outputs_[i].type() : nullptr);
      output_refs_.push_back({wanted ? outputs_[i].data() : nullptr, outputs_[i].type()});
    }
    if (kernel_->workspace != nullptr) {
      const graph::OpCall whole{def_, types, output_types, attributes_};
      workspace_bytes_ = kernel_->workspace(whole, threads);
      workspace_.reset(std::aligned_alloc(64, (workspace_bytes_ + 127) / 64 * 64));
    }
  }

  // Makes output `i` share the memory of `tensor`, an input.
  void Share(size_t i, const TestTensor& tensor) {
    outputs_[i] = tensor;
    output_refs_[i].data = tensor.data();
  }

  void Run() {
    kernel_->run(
        {{def_, input_refs_, output_refs_, attributes_, workspace_.get(), workspace_bytes_, ranks_},
         pool_});
  }
  size_t outputs() const { return outputs_.size(); }
  const TestTensor& output(size_t i) const { return outputs_.at(i); }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  const graph::OpDef& def_;
  const CpuKernel* kernel_;
  graph::Attributes attributes_;
  Communicator* ranks_;
  ThreadPool pool_;
  std::vector<TestTensor> inputs_;  // keeps their memory
  std::vector<TestTensor> outputs_;
  std::vector<TensorRef> input_refs_;
  std::vector<TensorRef> output_refs_;
  std::unique_ptr<void, Free> workspace_;
  int64_t workspace_bytes_ = 0;
};

// The outputs of one run.
inline std::vector<TestTensor> RunOp(const std::string& op, std::vector<const TestTensor*> inputs,
                                     graph::Attributes attributes = {}, int threads = 2,
                                     std::vector<bool> want = {},
                                     const AxisCommunicators& communicators = {}) {
  OpRunner runner(op, std::move(inputs), std::move(attributes), threads, std::move(want),
                  communicators);
  runner.Run();
  std::vector<TestTensor> outputs;
  for (size_t i = 0; i < runner.outputs(); ++i) {
    outputs.push_back(runner.output(i));
  }
  return outputs;
}

}  // namespace plimsoll::ops
