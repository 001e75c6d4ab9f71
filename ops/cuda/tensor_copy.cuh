// The copy engine's boxes of matrices (ops/cuda/tensor_map.h) in PTX's own terms, and the barriers
// of a ring of them in shared memory ("cp.async.bulk.tensor", "mbarrier"). Only in code for sm_90a.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "ops/cuda/bulk_copy.cuh"

namespace plimsoll::ops {

// A barrier that opens when `count` arrivals have come, and the announced bytes. One thread makes
// it; then FenceArrivalInit and a barrier of the block or cluster.
__device__ inline void InitBarrier(uint32_t barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count));
}

__device__ inline void AwaitBarrier(uint32_t barrier, uint32_t parity) {
  uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}\n"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
}

// One arrival, and this many bytes are to come.
__device__ inline void ExpectBytes(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Arrives at the barrier at the same place in a block of the cluster. For reads that are over: it
// releases no writes to the other block, since that would take a fence of all of the GPU.
__device__ inline void ArriveInCluster(uint32_t barrier, int rank) {
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

// Starts the copy of the box at (row, column) to shared memory; its bytes count at `barrier`.
__device__ inline void LoadBox(uint32_t to, const CUtensorMap* map, int row, int column,
                               uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

// The same to the same place in each block of the cluster whose bit is set, and at their barriers.
__device__ inline void LoadBoxToCluster(uint32_t to, const CUtensorMap* map, int row, int column,
                                        uint32_t barrier, uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(map), "r"(column), "r"(row), "r"(barrier), "h"(blocks)
      : "memory");
}

// Starts the copy of a box in shared memory to (row, column), in a group of its own. Before: each
// thread that wrote it calls FenceSharedWrites, then a barrier.
__device__ inline void StoreBox(const CUtensorMap* map, int row, int column, uint32_t from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\n"
      "cp.async.bulk.commit_group;\n" ::"l"(map),
      "r"(column), "r"(row), "r"(from)
      : "memory");
}
__device__ inline void FenceSharedWrites() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Until all but kPending of this thread's stored boxes have been read: their memory is free.
template <int kPending>
__device__ void AwaitStoredBoxes() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

__device__ inline void PrefetchMap(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Four 8 × 8 matrices of 16-bit elements from a warp's registers, as wgmma leaves them; lane l says
// where row l % 8 of matrix l / 8 goes.
__device__ inline void StoreMatrices(uint32_t to, const uint32_t (&values)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
               "r"(values[0]), "r"(values[1]), "r"(values[2]), "r"(values[3])
               : "memory");
}

}  // namespace plimsoll::ops
