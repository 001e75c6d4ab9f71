// Runs one op's CUDA kernel outside any program, for tests and measurements: like op_runner.h, with
// operands in GPU memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "gpu/capability.h"
#include "gpu/check.h"
#include "gpu/libraries.h"
#include "graph/op.h"
#include "ops/cuda_kernel.h"
#include "ops/cuda_workspace.h"
#include "tests/ops/op_runner.h"

namespace plimsoll::ops {

// Memory on the GPU, all bytes 0xFF (NaN) at first.
inline std::shared_ptr<void> CudaMemory(int64_t bytes) {
  void* data = nullptr;
  const size_t size = static_cast<size_t>(bytes > 0 ? bytes : 1);
  gpu::Check(cudaMalloc(&data, size), "cudaMalloc");
  std::shared_ptr<void> memory(data, [](void* p) { cudaFree(p); });
  gpu::Check(cudaMemset(data, 0xFF, size), "cudaMemset");
  return memory;
}

// A tensor with memory of its own on the GPU. Copies share the memory.
class CudaTensor {
 public:
  // `offset`: bytes between the start of the memory and the tensor, as in a view.
  explicit CudaTensor(graph::TensorType type = {}, int64_t offset = 0) : type_(type) {
    const auto memory = CudaMemory(type.bytes() + offset);
    data_ = std::shared_ptr<void>(memory, static_cast<char*>(memory.get()) + offset);
  }
  explicit CudaTensor(const TestTensor& from, int64_t offset = 0)
      : CudaTensor(from.type(), offset) {
    gpu::Check(cudaMemcpy(data(), from.data(), type_.bytes(), cudaMemcpyDefault), "cudaMemcpy");
  }

  const graph::TensorType& type() const { return type_; }
  void* data() const { return data_.get(); }
  TestTensor Download() const {
    TestTensor host(type_);
    gpu::Check(cudaMemcpy(host.data(), data(), type_.bytes(), cudaMemcpyDefault), "cudaMemcpy");
    return host;
  }

 private:
  graph::TensorType type_;
  std::shared_ptr<void> data_;
};

// An op with its operands, ready to run any number of times.
class CudaOpRunner {
 public:
  // Input nullptr: absent. `want[i]` false: output i is not wanted (empty: all are).
  CudaOpRunner(const std::string& op, const std::vector<const CudaTensor*>& inputs,
               graph::Attributes attributes, const std::vector<bool>& want = {},
               const AxisCommunicators& communicators = {})
      : def_(graph::OpRegistry::Get().Require(op)),
        kernel_(FindCudaKernel(op)),
        attributes_(std::move(attributes)),
        ranks_(CommunicatorFor(attributes_, communicators)) {
    if (kernel_ == nullptr) throw InternalError("no CUDA kernel for " + op);
    std::vector<const graph::TensorType*> types;
    for (const CudaTensor* input : inputs) {
      if (input != nullptr) inputs_.push_back(*input);
      types.push_back(input == nullptr ? nullptr : &input->type());
      input_refs_.push_back(input == nullptr ? TensorRef{}
                                             : TensorRef{input->data(), input->type()});
    }
    std::vector<graph::TensorType> inferred = def_.infer({def_, types, {}, attributes_});
    std::vector<const graph::TensorType*> output_types;
    for (size_t i = 0; i < inferred.size(); ++i) {
      const bool wanted = i >= want.size() || want[i];
      output_types.push_back(wanted ? &inferred[i] : nullptr);
      outputs_.push_back(wanted ? CudaTensor(inferred[i]) : CudaTensor());
      output_refs_.push_back({wanted ? outputs_[i].data() : nullptr, inferred[i]});
    }
    const graph::OpCall call{def_, types, output_types, attributes_};
    workspace_bytes_ = CudaWorkspaceBytes(call, gpu::CurrentCapability());
    workspace_ = CudaMemory(workspace_bytes_);
  }

  // Makes output `i` share the memory of `tensor`, an input.
  void Share(size_t i, const CudaTensor& tensor) {
    outputs_[i] = tensor;
    output_refs_[i].data = tensor.data();
  }

  // For kernels that run in groups.
  CudaContext Context(gpu::Libraries& libraries, cudaStream_t stream = nullptr) const {
    return {
        {def_, input_refs_, output_refs_, attributes_, workspace_.get(), workspace_bytes_, ranks_},
        stream,
        libraries};
  }

  // To be called once, before the first Enqueue().
  void Prepare(gpu::Libraries& libraries, cudaStream_t stream = nullptr) const {
    if (kernel_->prepare != nullptr) kernel_->prepare(Context(libraries, stream));
  }
  void Enqueue(gpu::Libraries& libraries, cudaStream_t stream = nullptr) const {
    kernel_->run(Context(libraries, stream));
  }
  // One run from start to end.
  void Run(gpu::Libraries& libraries) const {
    Prepare(libraries);
    Enqueue(libraries);
    gpu::Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  size_t outputs() const { return outputs_.size(); }
  const CudaTensor& output(size_t i) const { return outputs_.at(i); }
  int64_t workspace_bytes() const { return workspace_bytes_; }
  // Other bytes than the op declares.
  void SetWorkspace(int64_t bytes) {
    workspace_ = CudaMemory(bytes);
    workspace_bytes_ = bytes;
  }

 private:
  const graph::OpDef& def_;
  const CudaKernel* kernel_;
  graph::Attributes attributes_;
  Communicator* ranks_;
  std::vector<CudaTensor> inputs_;  // keeps their memory
  std::vector<CudaTensor> outputs_;
  std::vector<TensorRef> input_refs_;
  std::vector<TensorRef> output_refs_;
  std::shared_ptr<void> workspace_;
  int64_t workspace_bytes_ = 0;
};

// Outputs of one run of the CUDA kernel on copies of these inputs, on the host.
inline std::vector<TestTensor> RunCudaOp(const std::string& op,
                                         const std::vector<const TestTensor*>& inputs,
                                         gpu::Libraries& libraries,
                                         graph::Attributes attributes = {},
                                         const std::vector<bool>& want = {},
                                         const AxisCommunicators& communicators = {}) {
  std::vector<CudaTensor> copies;
  copies.reserve(inputs.size());
  std::vector<const CudaTensor*> arguments;
  for (const TestTensor* input : inputs) {
    if (input != nullptr) copies.emplace_back(*input);
    arguments.push_back(input != nullptr ? &copies.back() : nullptr);
  }
  CudaOpRunner runner(op, arguments, std::move(attributes), want, communicators);
  runner.Run(libraries);
  std::vector<TestTensor> outputs;
  for (size_t i = 0; i < runner.outputs(); ++i) {
    outputs.push_back(runner.output(i).Download());
  }
  return outputs;
}

}  // namespace plimsoll::ops
