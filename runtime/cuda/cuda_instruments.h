// Instruments of the CUDA executor, like those of cpu_instruments.h. All work is enqueued on one
// stream; only functions that say so wait for it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "graph/program.h"
#include "runtime/cuda/cuda_handles.h"
#include "runtime/layout.h"
#include "runtime/node_ranges.h"

namespace plimsoll::runtime {

// Fills bytes that must not be read with a pattern that is NaN in every floating type.
class CudaPoison {
 public:
  CudaPoison(const graph::Program& program, const Layout& layout, ArenaBases bases)
      : fresh_(FreshRanges(program, layout, bases)), dying_(DyingRanges(program, layout, bases)) {}
  void BeforeNode(int node, cudaStream_t stream) const { Fill(fresh_[node], stream); }
  void AfterNode(int node, cudaStream_t stream) const { Fill(dying_[node], stream); }

 private:
  static void Fill(std::span<const RangesByNode::Range> ranges, cudaStream_t stream);

  RangesByNode fresh_, dying_;
};

// Measures the used part of the device arena by means of patterns.
class CudaArenaMeter {
 public:
  CudaArenaMeter(const graph::Program& program, const Layout& layout, ArenaBases bases);

  void BeforeRun(cudaStream_t stream);
  void BeforeNode(int node, cudaStream_t stream);
  void AfterNode(int node, cudaStream_t stream);
  // Waits. Throws InternalError if a byte changed that belongs to no buffer of the program.
  void AfterRun(cudaStream_t stream);

  int64_t used_bytes() const { return used_bytes_; }

 private:
  unsigned long long* found() const { return reinterpret_cast<unsigned long long*>(found_.data()); }

  const graph::Program& program_;
  std::byte* base_;
  int64_t alignment_;
  RangesByNode fresh_;
  std::vector<Gap> gaps_;
  int64_t used_bytes_;
  uint64_t run_ = 0;
  CudaBuffer found_;  // the first byte that changed, for each fresh range, then for each gap
};

// Finds the first output with a NaN or an infinity.
class CudaFiniteCheck {
 public:
  CudaFiniteCheck(const graph::Program& program, const Layout& layout, ArenaBases bases);

  void BeforeRun(cudaStream_t stream);
  void AfterNode(int node, cudaStream_t stream);
  // Waits. Throws a UserError naming node, tensor and element.
  void AfterRun(cudaStream_t stream) const;

 private:
  struct Output {
    int node;
    graph::TensorId tensor;
    const std::byte* data;
  };
  const graph::Program& program_;
  std::vector<Output> outputs_;  // in the order of the nodes
  std::vector<size_t> first_;    // index of each node's first element of outputs_
  CudaBuffer found_;
};

}  // namespace plimsoll::runtime
