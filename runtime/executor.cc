#include "runtime/executor.h"

#include <algorithm>
#include <map>

namespace plimsoll::runtime {

std::vector<Executor::OpTime> Executor::op_times() const {
  const std::vector<int64_t>& nanoseconds = node_nanoseconds();
  std::map<std::string, OpTime> by_op;
  for (size_t n = 0; n < program_.nodes().size(); ++n) {
    const graph::Node& node = program_.nodes()[n];
    if (node.op->view) continue;
    OpTime& time = by_op[node.op->name];
    time.op = node.op->name;
    ++time.nodes;
    time.nanoseconds += nanoseconds[n];
  }
  std::vector<OpTime> times;
  for (const auto& [name, time] : by_op) times.push_back(time);
  std::stable_sort(times.begin(), times.end(),
                   [](const OpTime& a, const OpTime& b) { return a.nanoseconds > b.nanoseconds; });
  return times;
}

}  // namespace plimsoll::runtime
