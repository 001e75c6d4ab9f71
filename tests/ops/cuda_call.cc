#include "tests/ops/cuda_call.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "gpu/capability.h"
#include "gpu/check.h"
#include "ops/cuda_kernel.h"
#include "ops/cuda_workspace.h"

namespace plimsoll::ops {
namespace {

using graph::TensorType;

constexpr int64_t kAlignment = 256;
// NaN in every floating type, and a pattern that no kernel writes.
constexpr std::byte kGuard{0xF7};
constexpr std::byte kPoison{0xFF};

// The bytes of all tensors of a call as laid out on the device, with guards between them.
class Image {
 public:
  explicit Image(int64_t misalign) : misalign_(misalign) {}

  struct Part {
    std::string what;
    int64_t offset, size;
    bool constant;
  };

  size_t Add(std::string what, int64_t size, const std::byte* data, bool constant) {
    return AddAt(std::move(what), size, data, constant, misalign_);
  }
  size_t AddWorkspace(int64_t size) { return AddAt("the workspace", size, nullptr, false, 0); }

  const std::vector<std::byte>& bytes() const { return bytes_; }
  const Part& part(size_t i) const { return parts_[i]; }
  Part& part(size_t i) { return parts_[i]; }

  // `after`: the image after the kernel has run.
  void Check(const std::vector<std::byte>& after, const std::string& op) const {
    int64_t end = 0;  // of the previous part
    for (const Part& part : parts_) {
      CheckGuard(after, end, part.offset, op + ", before " + part.what);
      if (part.constant) {
        EXPECT_EQ(std::memcmp(&bytes_[part.offset], &after[part.offset], part.size), 0)
            << op << ": changed " << part.what;
      }
      end = part.offset + part.size;
    }
    CheckGuard(after, end, static_cast<int64_t>(after.size()), op + ", at the end");
  }

 private:
  static void CheckGuard(const std::vector<std::byte>& after, int64_t begin, int64_t end,
                         const std::string& where) {
    for (int64_t i = begin; i < end; ++i) {
      if (after[i] == kGuard) continue;
      ADD_FAILURE() << where << ": wrote byte " << i;
      return;
    }
  }

  size_t AddAt(std::string what, int64_t size, const std::byte* data, bool constant,
               int64_t misalign) {
    const int64_t end = parts_.empty() ? 0 : parts_.back().offset + parts_.back().size;
    const int64_t offset = (end + 2 * kAlignment - 1) / kAlignment * kAlignment + misalign;
    parts_.push_back({std::move(what), offset, size, constant});
    bytes_.resize(offset + size + 2 * kAlignment, kGuard);
    if (data != nullptr) {
      std::copy(data, data + size, bytes_.begin() + offset);
    } else {
      std::fill_n(bytes_.begin() + offset, size, kPoison);
    }
    return parts_.size() - 1;
  }

  int64_t misalign_;
  std::vector<std::byte> bytes_;
  std::vector<Part> parts_;
};

class DeviceBytes {
 public:
  explicit DeviceBytes(size_t bytes) { gpu::Check(cudaMalloc(&data_, bytes), "cudaMalloc"); }
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

cudaStream_t Stream() {
  static cudaStream_t stream = [] {
    cudaStream_t made = nullptr;
    gpu::Check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreate");
    return made;
  }();
  return stream;
}

gpu::Libraries& TheLibraries() {
  static auto* libraries = new gpu::Libraries;  // never destroyed: the driver may go first
  return *libraries;
}

void RunCaptured(const CudaKernel& kernel, const CudaContext& context) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  gpu::Check(cudaStreamBeginCapture(context.stream, cudaStreamCaptureModeThreadLocal),
             "cudaStreamBeginCapture");
  kernel.run(context);
  gpu::Check(cudaStreamEndCapture(context.stream, &graph), "cudaStreamEndCapture");
  gpu::Check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  gpu::Check(cudaGraphLaunch(executable, context.stream), "cudaGraphLaunch");
  gpu::Check(cudaStreamSynchronize(context.stream), "cudaStreamSynchronize");
  gpu::Check(cudaGraphExecDestroy(executable), "cudaGraphExecDestroy");
  gpu::Check(cudaGraphDestroy(graph), "cudaGraphDestroy");
}

}  // namespace

std::vector<std::optional<HostTensor>> RunCudaKernel(const GuardedCall& call,
                                                     const CudaCallOptions& options) {
  const CudaKernel* kernel = FindCudaKernel(call.op.name);
  if (kernel == nullptr) {
    ADD_FAILURE() << call.op.name << " has no CUDA kernel";
    return {};
  }
  constexpr size_t kNone = ~size_t{0};
  Image image(options.misalign);
  std::vector<const TensorType*> input_types(call.inputs.size(), nullptr);
  std::vector<size_t> input_parts(call.inputs.size(), kNone);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.inputs[i]) continue;
    const HostTensor& tensor = *call.inputs[i];
    input_types[i] = &tensor.type;
    input_parts[i] = image.Add("input " + std::to_string(i), tensor.bytes.size(),
                               tensor.bytes.data(), /*constant=*/true);
  }
  const std::vector<TensorType> types = InferTypes(call);
  std::vector<const TensorType*> output_types(types.size(), nullptr);
  std::vector<size_t> output_parts(types.size(), kNone);
  for (size_t i = 0; i < types.size(); ++i) {
    if (!call.want.empty() && !call.want[i]) continue;
    output_types[i] = &types[i];
    for (const graph::InPlacePair& pair : call.shared) {
      if (pair.output != static_cast<int>(i)) continue;
      output_parts[i] = input_parts[pair.input];
      image.part(output_parts[i]).constant = false;
    }
    if (output_parts[i] == kNone) {
      output_parts[i] = image.Add("output " + std::to_string(i), types[i].bytes(), nullptr, false);
    }
  }
  const graph::OpCall op_call{call.op, input_types, output_types, call.attributes};
  const int64_t workspace_bytes = CudaWorkspaceBytes(op_call, gpu::CurrentCapability());
  const size_t workspace = image.AddWorkspace(workspace_bytes);

  const DeviceBytes device(image.bytes().size());
  const auto upload = [&] {
    gpu::Check(cudaMemcpy(device.data(), image.bytes().data(), image.bytes().size(),
                          cudaMemcpyHostToDevice),
               "cudaMemcpy");
    // A copy from pageable memory may still be running, which Stream() would not wait for.
    gpu::Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  };
  std::vector<TensorRef> inputs(input_parts.size()), outputs(types.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (input_parts[i] == kNone) continue;
    inputs[i] = {device.data() + image.part(input_parts[i]).offset, *input_types[i]};
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (output_parts[i] == kNone) continue;
    outputs[i] = {device.data() + image.part(output_parts[i]).offset, types[i]};
  }
  const CudaContext context{{call.op, inputs, outputs, call.attributes,
                             device.data() + image.part(workspace).offset, workspace_bytes},
                            Stream(),
                            TheLibraries()};
  upload();
  if (kernel->prepare != nullptr) {
    kernel->prepare(context);
    gpu::Check(cudaStreamSynchronize(Stream()), "cudaStreamSynchronize");
    upload();
  }
  if (options.capture) {
    RunCaptured(*kernel, context);
  } else {
    kernel->run(context);
    gpu::Check(cudaStreamSynchronize(Stream()), call.op.name.c_str());
  }

  std::vector<std::byte> after(image.bytes().size());
  gpu::Check(cudaMemcpy(after.data(), device.data(), after.size(), cudaMemcpyDeviceToHost),
             "cudaMemcpy");
  image.Check(after, call.op.name);
  std::vector<std::optional<HostTensor>> results;
  for (size_t i = 0; i < types.size(); ++i) {
    if (output_parts[i] == kNone) {
      results.push_back(std::nullopt);
      continue;
    }
    const std::byte* data = &after[image.part(output_parts[i]).offset];
    results.push_back(HostTensor{types[i], {data, data + types[i].bytes()}});
  }
  return results;
}

}  // namespace plimsoll::ops
