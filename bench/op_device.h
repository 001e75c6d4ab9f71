// The devices on which bench/op times calls.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/op_case.h"
#include "runtime/cuda/measured_rates.h"

namespace plimsoll::bench {

struct OpDevice {
  std::string name;
  runtime::Ceilings ceilings;
  std::function<double(const OpCase&)> seconds;  // of one run of all calls of a case
};

OpDevice CpuOps(int threads);

// Matrix products by cuBLASLt ("library"), "ours" or "all"; cuDNN's workspace, where it isn't what
// runs have. UserError in a build without CUDA.
OpDevice CudaOps(const std::string& products, std::optional<int64_t> workspace);

// A runner (tests/ops/op_runner.h) of a call with operands of its own. `copy`: as memcpy.
template <typename Runner, typename Tensor, typename Copy, typename... Threads>
std::unique_ptr<Runner> RunnerOf(const CaseCall& call, const Copy& copy, Threads... threads) {
  const auto contents = call.Contents((1 << 18) + 1);
  std::vector<Tensor> tensors(contents.size());
  std::vector<const Tensor*> arguments(contents.size());
  for (size_t i = 0; i < contents.size(); ++i) {
    if (!contents[i]) continue;
    tensors[i] = Tensor({contents[i]->type.dtype, call.example.inputs[i].shape});
    arguments[i] = &tensors[i];
    const size_t all = static_cast<size_t>(tensors[i].type().bytes());
    const std::vector<std::byte>& some = contents[i]->bytes;
    for (size_t at = 0; at < all; at += some.size()) {
      copy(static_cast<char*>(tensors[i].data()) + at, some.data(),
           std::min(some.size(), all - at));
    }
  }
  auto runner = std::make_unique<Runner>(call.example.op, arguments, call.example.attributes,
                                         threads..., call.want);
  for (const auto& [input, output] : call.in_place) {
    const auto i = static_cast<size_t>(input);
    if (i < tensors.size() && arguments[i]) runner->Share(static_cast<size_t>(output), tensors[i]);
  }
  return runner;
}

}  // namespace plimsoll::bench
