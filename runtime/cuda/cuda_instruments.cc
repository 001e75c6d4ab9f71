#include "runtime/cuda/cuda_instruments.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "runtime/cuda/cuda_fill.h"
#include "runtime/finite_error.h"

namespace plimsoll::runtime {
namespace {

using graph::kNoTensor;
using graph::Program;
using graph::TensorId;
using Range = RangesByNode::Range;

constexpr auto kNothing = std::numeric_limits<unsigned long long>::max();
// The number of bits of a tag that hold an element's index within its tensor.
constexpr int kElementBits = 40;

constexpr char kScratch[] = "scratch memory of debug instruments";

std::vector<unsigned long long> Fetch(const CudaBuffer& found, cudaStream_t stream) {
  std::vector<unsigned long long> values(static_cast<size_t>(found.bytes()) / 8);
  gpu::Check(cudaMemcpyAsync(values.data(), found.data(), values.size() * 8, cudaMemcpyDeviceToHost,
                             stream),
             "cudaMemcpyAsync");
  gpu::Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return values;
}

void Clear(const CudaBuffer& found, cudaStream_t stream) {
  if (found.bytes() == 0) return;
  gpu::Check(cudaMemsetAsync(found.data(), 0xFF, static_cast<size_t>(found.bytes()), stream),
             "cudaMemsetAsync");
}

}  // namespace

void CudaPoison::Fill(std::span<const Range> ranges, cudaStream_t stream) {
  for (const Range& range : ranges) {
    if (range.bytes == 0) continue;
    gpu::Check(cudaMemsetAsync(range.begin, 0xFF, range.bytes, stream), "cudaMemsetAsync");
  }
}

CudaArenaMeter::CudaArenaMeter(const Program& program, const Layout& layout, ArenaBases bases)
    : program_(program),
      base_(bases.device),
      alignment_(layout.alignment),
      fresh_(FreshRanges(program, layout, bases, /*device_only=*/true)),
      gaps_(UncoveredGaps(program, layout)),
      used_bytes_(layout.persistent_bytes),
      found_(CudaBuffer::Kind::kDevice, static_cast<int64_t>(8 * (fresh_.size() + gaps_.size())),
             kScratch) {}

void CudaArenaMeter::BeforeRun(cudaStream_t stream) {
  ++run_;
  Clear(found_, stream);
  for (const Gap& gap : gaps_) FillPattern(base_, gap.begin, gap.end, run_, stream);
}

void CudaArenaMeter::BeforeNode(int node, cudaStream_t stream) {
  for (const Range& range : fresh_[node]) {
    const int64_t begin = range.begin - base_;
    FillPattern(base_, begin, begin + static_cast<int64_t>(range.bytes), run_, stream);
  }
}

void CudaArenaMeter::AfterNode(int node, cudaStream_t stream) {
  unsigned long long* found = this->found() + fresh_.first(node);
  for (const Range& range : fresh_[node]) {
    const int64_t begin = range.begin - base_;
    FindChanged(base_, begin, begin + static_cast<int64_t>(range.bytes), run_, found++, stream);
  }
}

void CudaArenaMeter::AfterRun(cudaStream_t stream) {
  unsigned long long* of_gap = found() + fresh_.size();
  for (const Gap& gap : gaps_) FindChanged(base_, gap.begin, gap.end, run_, of_gap++, stream);
  const std::vector<unsigned long long> found = Fetch(found_, stream);
  for (int node = 0; node < static_cast<int>(program_.nodes().size()); ++node) {
    size_t at = fresh_.first(node);
    for (const Range& range : fresh_[node]) {
      if (found[at++] == kNothing) continue;
      const int64_t end = range.begin - base_ + static_cast<int64_t>(range.bytes);
      used_bytes_ = std::max(used_bytes_, (end + alignment_ - 1) / alignment_ * alignment_);
    }
  }
  for (size_t i = fresh_.size(); i < found.size(); ++i) {
    if (found[i] == kNothing) continue;
    throw InternalError(
        fmt::format("program '{}' wrote byte {} of the arena, which belongs to none of its tensors",
                    program_.name(), found[i]));
  }
}

CudaFiniteCheck::CudaFiniteCheck(const Program& program, const Layout& layout, ArenaBases bases)
    : program_(program), found_(CudaBuffer::Kind::kDevice, 8, kScratch) {
  for (int n = 0; n < static_cast<int>(program.nodes().size()); ++n) {
    first_.push_back(outputs_.size());
    const graph::Node& node = program.nodes()[n];
    if (node.op->view) continue;
    for (TensorId id : node.outputs) {
      if (id == kNoTensor || !graph::IsFloat(program.tensor(id).type.dtype)) continue;
      outputs_.push_back({n, id, bases.of(program.tensor(id).place) + layout.offset(id)});
    }
  }
  first_.push_back(outputs_.size());
}

void CudaFiniteCheck::BeforeRun(cudaStream_t stream) { Clear(found_, stream); }

void CudaFiniteCheck::AfterNode(int node, cudaStream_t stream) {
  auto* found = reinterpret_cast<unsigned long long*>(found_.data());
  for (size_t i = first_[node]; i < first_[node + 1]; ++i) {
    const graph::TensorType& type = program_.tensor(outputs_[i].tensor).type;
    FindNotFinite(outputs_[i].data, type.dtype, type.shape.elements(), uint64_t{i} << kElementBits,
                  found, stream);
  }
}

void CudaFiniteCheck::AfterRun(cudaStream_t stream) const {
  const unsigned long long first = Fetch(found_, stream)[0];
  if (first == kNothing) return;
  const Output& output = outputs_[first >> kElementBits];
  ThrowNotFinite(program_, output.node, output.tensor,
                 static_cast<int64_t>(first & ((1ull << kElementBits) - 1)));
}

}  // namespace plimsoll::runtime
