// Copies boxes of matrices by the copy engine (ops/cuda/tensor_map.h), under PTX's names
// ("cp.async.bulk.tensor", "mbarrier"), and provides the barriers for a ring of boxes in shared
// memory. Only in code for sm_90a.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "ops/cuda/cluster.cuh"
#include "ops/cuda/shared_tiles.cuh"

namespace plimsoll::ops {

// Initializes a barrier that opens after `count` arrivals and the arrival of the announced bytes.
// Called by one thread, followed by FenceArrivalInit and a barrier of the block or cluster.
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

// A position in a ring of stages, and the parity of its round, which is also that of the barriers'
// phases.
template <int kCount>
struct RingPlace {
  __device__ void Step() {
    if (++index == kCount) {
      index = 0;
      round ^= 1;
    }
  }
  __device__ RingPlace Next() const {
    RingPlace next = *this;
    next.Step();
    return next;
  }
  __device__ void Skip(int steps) {
    index += steps;
    round ^= index / kCount & 1;
    index %= kCount;
  }

  int index = 0;
  uint32_t round = 0;
};

// Arrives once, and announces this number of bytes.
__device__ inline void ExpectBytes(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Arrives at the barrier at the same address in a block of the cluster. It signals completed reads
// only: it doesn't make writes visible to the other block, since that would take a GPU-wide fence.
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

// Copies a box to the same address in each block of the cluster whose bit is set, and counts its
// bytes at their barriers.
__device__ inline void LoadBoxToCluster(uint32_t to, const CUtensorMap* map, int row, int column,
                                        uint32_t barrier, uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(map), "r"(column), "r"(row), "r"(barrier), "h"(blocks)
      : "memory");
}

// Starts the copy of a box in shared memory to (row, column), as a separate group. Before it, each
// thread that wrote to the box calls FenceSharedWrites, then a barrier.
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

// Waits until all but kPending of this thread's stored boxes have been read: their memory is free.
template <int kPending>
__device__ void AwaitStoredBoxes() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

__device__ inline void PrefetchMap(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Stores four 8 × 8 matrices of 16-bit elements from a warp's registers, in the layout of wgmma's
// results; lane l gives the address of row l % 8 of matrix l / 8.
__device__ inline void StoreMatrices(uint32_t to, const uint32_t (&values)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
               "r"(values[0]), "r"(values[1]), "r"(values[2]), "r"(values[3])
               : "memory");
}

__device__ inline void StoreTransposedMatrices(uint32_t to, const uint32_t (&values)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
               "r"(values[0]), "r"(values[1]), "r"(values[2]), "r"(values[3])
               : "memory");
}

// Copies boxes of heads (MapHeads) from and to row `row` of a head of sequence `b`.
__device__ inline void LoadHead(uint32_t to, const CUtensorMap* map, int b, int row, int head,
                                uint32_t barrier, int column = 0) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
      "l"(map), "r"(column), "r"(head), "r"(row), "r"(b), "r"(barrier)
      : "memory");
}
__device__ inline void StoreHead(const CUtensorMap* map, int b, int row, int head, uint32_t from) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4}], [%5];\n"
      "cp.async.bulk.commit_group;\n" ::"l"(map),
      "r"(0), "r"(head), "r"(row), "r"(b), "r"(from)
      : "memory");
}

// Starts the copy of `bytes` contiguous bytes, a multiple of 16 below 2^20.
__device__ inline void LoadBytes(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

__device__ inline void Arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// A warp's arrival at a barrier after the work of all its threads, and the number of arrivals that
// the barrier counts for it. compute-sanitizer's racecheck doesn't follow the order that __syncwarp
// makes: in a build for it (--config=racecheck) each thread arrives.
#ifdef PLIMSOLL_RACECHECK
constexpr int kArrivalsOfWarp = 32;
#else
constexpr int kArrivalsOfWarp = 1;
#endif
__device__ inline void ArriveByWarp(uint32_t barrier) {
  __syncwarp();
  if (kArrivalsOfWarp > 1 || threadIdx.x % 32 == 0) Arrive(barrier);
}

}  // namespace plimsoll::ops
