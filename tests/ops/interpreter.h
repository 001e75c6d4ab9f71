// Runs a program with the CPU kernels in the simplest way: every tensor has memory of its own, and
// nodes run in program order. It is the reference for planners and executors, and gives the numbers
// for tests of gradients and passes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "graph/program.h"

namespace plimsoll::ops {

class Interpreter {
 public:
  // Both must outlive the interpreter; the program must not change. Memory starts as NaN.
  Interpreter(const graph::Program& program, ThreadPool& pool);

  // The bytes of a tensor; those of a view are its base's.
  std::span<std::byte> Bytes(graph::TensorId id);

  // Converts to and from the tensor's dtype. InternalError unless the sizes agree.
  void Set(graph::TensorId id, std::span<const double> values);
  std::vector<double> Get(graph::TensorId id);
  void Set(std::string_view name, std::span<const double> values) {
    Set(program_.Require(name), values);
  }
  std::vector<double> Get(std::string_view name) { return Get(program_.Require(name)); }

  // Runs all nodes. InternalError when an op has no CPU kernel.
  void Run();

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };

  void RunNode(const graph::Node& node);

  const graph::Program& program_;
  ThreadPool& pool_;
  std::vector<std::unique_ptr<std::byte, Free>> memory_;  // by tensor; nullptr for views
};

}  // namespace plimsoll::ops
