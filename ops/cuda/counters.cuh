// Counters in global memory by which thread blocks wait for one another.
#pragma once

namespace plimsoll::ops {

__device__ inline int LoadAcquire(const int* from) {
  int value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
__device__ inline void StoreRelease(int* to, int value) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

}  // namespace plimsoll::ops
