#include "runtime/cuda/pinned_memory.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>

#include "base/bytes.h"
#include "base/errno_text.h"
#include "base/error.h"

namespace plimsoll::runtime {
namespace {

constexpr int64_t kPage = 4096, kHugePage = int64_t{2} << 20;
constexpr int64_t kPiece = 16 * kHugePage;  // bytes that a thread touches at a time

// Maps memory at the address of a huge page. The surplus that was mapped to find such an address is
// unmapped again.
std::byte* Map(int64_t bytes, const char* what) {
  const int64_t size = RoundUp(bytes, kPage), mapped = size + kHugePage;
  void* const found = mmap(nullptr, static_cast<size_t>(mapped), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED) RefusePinning(ErrnoText(errno), bytes, what);
  auto* const begin = static_cast<std::byte*>(found);
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(begin));
  const int64_t head = RoundUp(address, kHugePage) - address, tail = kHugePage - head;
  if (head > 0) munmap(begin, static_cast<size_t>(head));
  if (tail > 0) munmap(begin + head + size, static_cast<size_t>(tail));
  std::byte* const data = begin + head;
  // These are only hints: a system that refuses them costs only time. DONTFORK and DONTDUMP: a
  // child process would otherwise get a copy of every pinned page at once, and a core dump would
  // contain all of them.
  for (const int advice : {MADV_HUGEPAGE, MADV_DONTFORK, MADV_DONTDUMP}) {
    madvise(data, static_cast<size_t>(size), advice);
  }
  return data;
}

}  // namespace

void RefusePinning(std::string_view reason, int64_t bytes, const char* what) {
  rlimit limit{};
  const bool limited =
      getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur < static_cast<rlim_t>(bytes);
  throw UserError(
      fmt::format(
          "memory.host_budget: the system refuses {} of {} ({} bytes), which stays where it "
          "is while the GPU copies: {}{}; set a smaller memory.host_budget, or keep more on "
          "the GPU (memory.weights, memory.gradients, optimizer.place, "
          "checkpointing.offload)",
          what, FormatBytes(bytes), bytes, reason,
          limited ? fmt::format("; this process may lock {} (ulimit -l, LimitMEMLOCK)",
                                FormatBytes(static_cast<int64_t>(limit.rlim_cur)))
                  : ""),
      ExitCode::kBudgetNotMet);
}

PinnedMemory::PinnedMemory(int64_t bytes, const char* what) : bytes_(bytes), what_(what) {
  if (bytes < 0 || bytes > std::numeric_limits<int64_t>::max() - 2 * kHugePage) {
    throw InternalError(fmt::format("{} of {} bytes", what, bytes));
  }
  if (bytes == 0) return;
  data_ = Map(bytes, what);
  // Leaves one core to the calling thread, which continues the start.
  const int64_t cores = static_cast<int64_t>(std::thread::hardware_concurrency()) - 1;
  const int64_t pieces = RoundUp(bytes, kPiece) / kPiece;
  for (int64_t i = 0; i < std::min(cores, pieces - 1); ++i) {
    try {
      threads_.emplace_back([this] { Touch(); });
    } catch (const std::system_error&) {
      break;  // Await() touches what these threads do not
    }
  }
}

PinnedMemory::~PinnedMemory() {
  next_ = bytes_;
  EndTouching();
  if (registered_) cudaHostUnregister(data_);
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(RoundUp(bytes_, kPage)));
}

// Touches pages: a page gets its zeroed memory at the first write. Page faults of several threads
// in one mapping run concurrently, and at the same time as the driver's own mappings;
// MADV_POPULATE_WRITE would block both.
void PinnedMemory::Touch() {
  for (int64_t begin; (begin = next_.fetch_add(kPiece)) < bytes_;) {
    const int64_t end = std::min(begin + kPiece, bytes_);
    for (int64_t at = begin; at < end; at += kPage) {
      *const_cast<volatile std::byte*>(data_ + at) = std::byte{0};
    }
  }
}

void PinnedMemory::EndTouching() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void PinnedMemory::Await() {
  if (bytes_ == 0 || registered_) return;
  Touch();
  EndTouching();
  const cudaError_t status =
      cudaHostRegister(data_, static_cast<size_t>(bytes_), cudaHostRegisterDefault);
  if (status != cudaSuccess) {
    cudaGetLastError();  // clears the error, which is reported here
    RefusePinning(cudaGetErrorString(status), bytes_, what_);
  }
  registered_ = true;
}

}  // namespace plimsoll::runtime
