// Flash attention of cuDNN on packed queries, keys and values (ops/attention/attention.h has the
// formulas and the layout): forward, and a backward pass that gives the same bits in every run.
// bf16 and fp16, causal or full, grouped-query, padded or not, no dropout, no soft cap.
//
// Support by cuDNN depends only on the problem, the GPU's architecture and the library's version;
// where cuDNN can't solve the problem, there is no plan.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "gpu/libraries.h"
#include "graph/dtype.h"

namespace plimsoll::ops {

struct AttentionProblem {
  int64_t batch, sequence, heads, kv_heads, head;
  bool causal;
  bool padded;  // rows have lengths of their own
  float scale;  // factor of scores
  graph::DType dtype;

  friend auto operator<=>(const AttentionProblem&, const AttentionProblem&) = default;
};

enum class CudnnAttentionPass { kForward, kBackward };

class CudnnAttention;

// The execution plans for `problem` on the current device: built at the first request (tens of
// milliseconds, and cuDNN may load kernels), and kept for the process. nullptr if cuDNN has no
// plan; `reason` then says why. The first request must not come during a stream capture.
const CudnnAttention* FindCudnnAttention(const AttentionProblem& problem, CudnnAttentionPass pass,
                                         gpu::Libraries& libraries, std::string& reason);

// Scratch memory of a run, 256-byte aligned.
int64_t CudnnWorkspaceBytes(const CudnnAttention& attention);

// Run the plans. All addresses are on the device, 16-byte aligned. `lengths` i32[batch] is for
// padded problems; the content of the results' padding is unspecified. The backward pass runs in
// parts (AttentionSplit); every second part runs on another stream, which joins `stream` at the
// end.
void RunCudnnForward(const CudnnAttention& attention, gpu::Libraries& libraries,
                     cudaStream_t stream, const void* qkv, const int32_t* lengths, void* out,
                     float* lse, void* workspace);
void RunCudnnBackward(const CudnnAttention& attention, gpu::Libraries& libraries,
                      cudaStream_t stream, const void* qkv, const void* out, const float* lse,
                      const void* dout, const int32_t* lengths, void* dqkv, void* workspace);

}  // namespace plimsoll::ops
