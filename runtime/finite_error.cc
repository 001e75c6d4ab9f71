#include "runtime/finite_error.h"

#include <fmt/format.h>

#include "base/error.h"
#include "runtime/node_ranges.h"

namespace plimsoll::runtime {

void ThrowNotFinite(const graph::Program& program, int node, graph::TensorId tensor,
                    int64_t element) {
  throw UserError(fmt::format("debug.find_nan: {}: '{}' is not finite at element {}",
                              DescribeNode(program, node), program.tensor(tensor).name, element),
                  ExitCode::kInternal);
}

}  // namespace plimsoll::runtime
