// Features of compute capability 8.0, under PTX's names: asynchronous copies to shared memory
// ("cp.async"), and loads of a warp's operands from there ("ldmatrix"). Only in code for sm_80 and
// later.
#pragma once

#include <cstdint>

#include "ops/cuda/cluster.cuh"

namespace plimsoll::ops {

// Copies 16 bytes, or zeros if not `there`.
__device__ inline void CopyPiece(uint32_t to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from),
               "r"(there ? 16 : 0));
}

// Like the function above, for 8 bytes.
__device__ inline void CopyPair(uint32_t to, const void* from, bool there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;\n" ::"r"(to), "l"(from),
               "r"(there ? 8 : 0));
}

// Like the function above, for 4 bytes.
__device__ inline void CopyWord(uint32_t to, const void* from, bool there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(to), "l"(from),
               "r"(there ? 4 : 0));
}

__device__ inline void CommitCopies() { asm volatile("cp.async.commit_group;\n"); }

// Waits until at most kPending groups of this thread's copies are in flight. Other threads see the
// finished ones after a barrier.
template <int kPending>
__device__ void WaitForOwnCopies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory");
}

// Loads four matrices of 8 rows of 16 bytes: lane l gives the address of row l % 8 of matrix l / 8
// and gets word l % 4 of row l / 4 of each. An arrival at a barrier doesn't wait for loads in
// flight: use the values first.
__device__ inline void LoadMatrices(uint32_t (&values)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(values[0]), "=r"(values[1]), "=r"(values[2]), "=r"(values[3])
               : "r"(from)
               : "memory");
}

// Like the function above, for matrices of 8 × 8 16-bit elements that are transposed.
__device__ inline void LoadTransposedMatrices(uint32_t (&values)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(values[0]), "=r"(values[1]), "=r"(values[2]), "=r"(values[3])
               : "r"(from)
               : "memory");
}

// Load a word and 16 bytes, for this thread only.
__device__ inline uint32_t LoadWord(uint32_t from) {
  uint32_t value;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(from) : "memory");
  return value;
}
__device__ inline void StoreWord(uint32_t to, uint32_t value) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
}
__device__ inline void LoadPiece(uint32_t (&values)[4], uint32_t from) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(values[0]), "=r"(values[1]), "=r"(values[2]), "=r"(values[3])
               : "r"(from)
               : "memory");
}
__device__ inline void StorePiece(uint32_t to, const uint32_t (&values)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(values[0]), "r"(values[1]),
               "r"(values[2]), "r"(values[3])
               : "memory");
}

}  // namespace plimsoll::ops
