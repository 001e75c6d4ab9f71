// Features of compute capability 9.0, under PTX's names (PTX ISA, "cluster"): blocks of a cluster
// that access each other's shared memory. Kernels that call these are not launched on older
// architectures, for which the bodies are empty.
#pragma once

#include <cstdint>

namespace plimsoll::ops {

__device__ inline uint32_t SharedAddress(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

#if __CUDA_ARCH__ >= 900

// Between the initialization of barriers and the barrier of the block or cluster that follows it.
__device__ inline void FenceArrivalInit() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
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

__device__ inline void FenceArrivalInit() {}
__device__ inline int ClusterRank() { return 0; }
__device__ inline void SyncCluster() {}
__device__ inline float2 LoadFromCluster(const float2* shared, int) { return *shared; }

#endif

}  // namespace plimsoll::ops
