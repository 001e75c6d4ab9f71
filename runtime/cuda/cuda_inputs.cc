#include "runtime/cuda/cuda_inputs.h"

namespace plimsoll::runtime {
namespace {

// Smaller inputs would wait longer for their turn on another stream than their copy takes.
constexpr int64_t kLeastBytes = 256 << 10;

// The address of a tensor if it is a large input; otherwise nullptr.
std::byte* InputAt(const graph::Program& program, const Layout& layout, std::byte* arena,
                   graph::TensorId id) {
  if (id == graph::kNoTensor) return nullptr;
  const graph::TensorId root = program.Root(id);
  const graph::Tensor& tensor = program.tensor(root);
  const bool large = tensor.role == graph::Role::kInput && tensor.persistent &&
                     tensor.place == graph::Place::kDevice && tensor.bytes() >= kLeastBytes;
  return large && layout.offset(root) != kUnplaced ? arena + layout.offset(root) : nullptr;
}

}  // namespace

void CudaInputs::Add(const graph::Program& program, const Layout& layout, std::byte* arena) {
  for (size_t id = 0; id < program.tensors().size(); ++id) {
    const std::byte* const at = InputAt(program, layout, arena, static_cast<graph::TensorId>(id));
    if (at != nullptr) read_.try_emplace(at);
  }
}

std::vector<std::vector<const CudaEvent*>> CudaInputs::ReadsBy(
    const graph::Program& program, const Layout& layout, std::byte* arena,
    std::span<const CudaItem> items) const {
  std::map<const std::byte*, size_t> last;  // index of the last item that reads each address
  for (size_t i = 0; i < items.size(); ++i) {
    for (const int node : items[i].nodes) {
      for (const graph::TensorId id : program.nodes()[static_cast<size_t>(node)].inputs) {
        const std::byte* const at = InputAt(program, layout, arena, id);
        if (at != nullptr) last[at] = i;
      }
    }
  }
  std::vector<std::vector<const CudaEvent*>> events(items.size());
  for (const auto& [at, item] : last) events[item].push_back(&read_.at(at));
  return events;
}

bool CudaInputs::AwaitReaders(std::span<std::byte> to) {
  const auto input = read_.find(to.data());
  if (input == read_.end()) return false;
  input->second.MakeWait(stream_.get());
  return true;
}

void CudaInputs::Written() {
  written_.Record(stream_.get());
  pending_ = true;
}

bool CudaInputs::Write(std::span<std::byte> to, const void* from, CudaUpload& upload) {
  if (!AwaitReaders(to)) return false;
  upload.Write(to.data(), from, static_cast<int64_t>(to.size()), stream_.get());
  Written();
  return true;
}

bool CudaInputs::Copy(std::span<std::byte> to, const std::byte* from, const CudaEvent& read) {
  if (!AwaitReaders(to)) return false;
  gpu::Check(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDefault, stream_.get()),
             "cudaMemcpyAsync");
  read.Record(stream_.get());
  Written();
  return true;
}

void CudaInputs::Join(cudaStream_t stream) {
  if (pending_) written_.MakeWait(stream);
  pending_ = false;
}

}  // namespace plimsoll::runtime
