// Implements runtime/cuda/cuda_device.h in builds without CUDA.
#include "base/error.h"
#include "runtime/cuda/cuda_call_timer.h"
#include "runtime/cuda/cuda_device.h"

namespace plimsoll::runtime {

bool BuiltWithCuda() { return false; }

bool CudaVisible() { return false; }

std::unique_ptr<Device> MakeCudaDevice(ThreadPool&) { throw UserError(kNoCudaBuild); }

struct CudaCallTimer::Impl {};
CudaCallTimer::CudaCallTimer() { throw UserError("device: cuda: this build has no CUDA"); }
CudaCallTimer::~CudaCallTimer() = default;
double CudaCallTimer::Time(const graph::Program&, const graph::Node&, int64_t) { return -1; }
bool CudaCallTimer::Grouped(const graph::Node&) { return false; }

}  // namespace plimsoll::runtime
