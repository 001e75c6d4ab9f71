// Features of compute capability 9.0, under PTX's names (PTX ISA, "cp.async.bulk", "mbarrier",
// "cluster"): rows copied to shared memory by the copy engine while threads compute, and blocks of
// a cluster that access each other's shared memory. Kernels that call these are not launched on
// older architectures, for which the bodies are empty.
#pragma once

#include <cstdint>

namespace plimsoll::ops {

__device__ inline uint32_t SharedAddress(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

#if __CUDA_ARCH__ >= 900

// Initializes a barrier that opens, once per phase, when the announced bytes have arrived. Called
// by one thread, followed by FenceBarrierInit and a barrier of the block.
__device__ inline void InitArrival(uint64_t* arrival) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(SharedAddress(arrival)));
}
__device__ inline void FenceArrivalInit() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Called by one thread: starts the copy of `bytes` (a multiple of 16, below 2^20) from global to
// shared memory, both aligned to 16 bytes.
__device__ inline void StartCopy(void* shared, const void* global, uint32_t bytes,
                                 uint64_t* arrival) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(arrival)),
      "r"(bytes)
      : "memory");
  constexpr uint32_t kPiece = 16 << 10;  // several requests at once
  for (uint32_t at = 0; at < bytes; at += kPiece) {
    const uint32_t size = min(kPiece, bytes - at);
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(SharedAddress(shared) + at),
        "l"(static_cast<const char*>(global) + at), "r"(size), "r"(SharedAddress(arrival))
        : "memory");
  }
}

// Called by all threads: waits for the end of a phase. `parity`: 0 for the first phase, then 1, 0,
// ….
__device__ inline void AwaitArrival(uint64_t* arrival, uint32_t parity) {
  uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
        "selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(SharedAddress(arrival)), "r"(parity)
        : "memory");
  }
}

__device__ inline int ClusterRank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}

// Called by all threads of all blocks of the cluster; writes before it are visible after it.
__device__ inline void SyncCluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}

// The value at the same address in another block's shared memory.
__device__ inline float2 LoadFromCluster(const float2* shared, int rank) {
  uint32_t address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(address)
               : "r"(SharedAddress(shared)), "r"(rank));
  float2 value;
  asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];"
               : "=f"(value.x), "=f"(value.y)
               : "r"(address)
               : "memory");
  return value;
}

#else

__device__ inline void InitArrival(uint64_t*) {}
__device__ inline void FenceArrivalInit() {}
__device__ inline void StartCopy(void*, const void*, uint32_t, uint64_t*) {}
__device__ inline void AwaitArrival(uint64_t*, uint32_t) {}
__device__ inline int ClusterRank() { return 0; }
__device__ inline void SyncCluster() {}
__device__ inline float2 LoadFromCluster(const float2* shared, int) { return *shared; }

#endif

}  // namespace plimsoll::ops
