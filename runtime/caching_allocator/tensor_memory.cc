#include "runtime/caching_allocator/tensor_memory.h"

#include <fmt/format.h>

#include "base/error.h"
#include "runtime/node_ranges.h"

namespace plimsoll::runtime {

std::byte* AddressFor(const TensorMemory& memory, const graph::Program& program, int node,
                      graph::TensorId argument) {
  if (argument == graph::kNoTensor) return nullptr;
  std::byte* const data = memory.address(argument);
  if (data == nullptr) {
    throw InternalError(fmt::format("{}: '{}' has no memory", DescribeNode(program, node),
                                    program.tensor(argument).name));
  }
  return data;
}

}  // namespace plimsoll::runtime
