// The threads of ops/cuda/attention/attention_wide_hopper.cu that compute nothing: one brings the
// operands, one waits for the unit's turns to add to dq, two have the copy engine add. Only in code
// for sm_90a.
#pragma once

#include "ops/cuda/attention/attention_wide.cuh"

namespace plimsoll::ops {

// Starts the copy of 64 rows of a head to two tiles side by side.
__device__ inline void LoadWideHead(uint32_t to, const CUtensorMap* map, int b, int row, int head,
                                    uint32_t barrier) {
  LoadHead(to, map, b, row, head, barrier);
  LoadHead(to + kOperandTile, map, b, row, head, barrier, 64);
}

// Run by one thread: starts all copies of operands, as their buffers become free.
template <typename T>
__device__ void BringWideTiles(const WideArguments<T>& a, const WideMemory& m) {
  WideMemory::Slot n;
  WideMemory::Single keys;
  ForEachWideUnit<false>(a, m, [&](int unit) {
    const WideUnit u(a, unit);
    WideStep at(a, u);
#pragma unroll 1
    for (int step = 0; step < u.steps; ++step, n.Step(), at.Next(a, u)) {
      const int head = u.b * a.heads + at.h;
      AwaitRoundBefore(m.Empty(n), n);
      StoreTwo(m.TileOf(n), at.tile, static_cast<int>(a.a.dropout.Row(u.b, at.h)));
      ExpectBytes(m.Full(n), 2 * WideMemory::kTile + WideMemory::kRowBytes);
      LoadWideHead(m.Queries(n), &a.qkv, u.b, at.tile * 64, at.h, m.Full(n));
      LoadWideHead(m.Dout(n), &a.dout, u.b, at.tile * 64, at.h, m.Full(n));
      LoadBytes(m.Rows(n), a.rows + (int64_t{head} * a.tiles + at.tile) * 2 * kWideStep,
                WideMemory::kRowBytes, m.Full(n));
      if (step > 0) continue;
      AwaitRoundBefore(m.KeysEmpty(), keys);
      ExpectBytes(m.KeysFull(), 4 * WideMemory::kTile);
      for (int half = 0; half < 2; ++half) {
        const int first = u.block * 128 + half * 64, key_head = a.heads + u.g;
        LoadWideHead(m.Keys(half), &a.qkv, u.b, first, key_head, m.KeysFull());
        LoadWideHead(m.Values(half), &a.qkv, u.b, first, key_head + a.kv_heads, m.KeysFull());
      }
      keys.Step();
    }
  });
}

// What the threads that add to dq need to know about a turn.
struct GivenTurn {
  int place;   // of the sums; -1: there are no more turns
  int before;  // additions before this one
  bool first, last;
};
__device__ inline void StoreTurn(uint32_t to, const GivenTurn& t) {
  StoreFour(to, {t.place, t.before, t.first, t.last});
}
__device__ inline GivenTurn LoadTurn(uint32_t from) {
  const int4 v = LoadFour(from);
  return {v.x, v.y, v.z != 0, v.w != 0};
}

// Orders this thread's accesses before and after it, of which some are the copy engine's.
__device__ inline void FenceCopies() { asm volatile("fence.proxy.async;" ::: "memory"); }

// Run by one thread: takes units, and says when it is a unit's turn to add to the next tile. The
// next unit is taken after the last turn of the one before: so no unit waits for its start while
// its thread block waits for a turn that depends on it.
template <typename T>
__device__ void AwaitTurns(const WideArguments<T>& a, const WideMemory& m) {
  WideMemory::Pair n, before{1, 1};
#pragma unroll 1
  for (WideMemory::Single units;; units.Step()) {
    const int unit = atomicAdd(a.next_unit, 1);
    AwaitRoundBefore(m.UnitEmpty(), units);
    asm volatile("st.shared.s32 [%0], %1;" ::"r"(m.UnitAt()), "r"(unit) : "memory");
    Arrive(m.UnitFull());
    if (unit >= a.units) break;
    const WideUnit u(a, unit);
    WideStep at(a, u);
#pragma unroll 1
    for (int step = 0; step < u.steps; ++step, n.Step(), before.Step(), at.Next(a, u)) {
      const WideTurn turn(a, u.block, at.tile);
      const int head = u.heads_before + at.h - u.h;
      const GivenTurn given{head % a.head_places * a.tiles + at.tile,
                            head / a.head_places * turn.writers + turn.order, turn.First(),
                            turn.Last()};
      AwaitRoundBefore(m.Ended(n), n);
      while (LoadAcquire(a.query_counts + given.place) != given.before) __nanosleep(32);
      StoreTurn(m.TurnOf(n), given);
      Arrive(m.Given(n));
      if (!turn.Loads()) continue;
      AwaitRound(m.SumsEmpty(before), before);
      FenceCopies();
      ExpectBytes(m.SumsLoaded(), WideMemory::kSumBytes);
      LoadBytes(m.Sums(0), a.query_sums + int64_t{given.place} * (kWideStep * kWideHead),
                WideMemory::kSumBytes, m.SumsLoaded());
    }
  }
  for (int adder = 0; adder < 2; ++adder, n.Step()) {
    AwaitRoundBefore(m.Ended(n), n);
    StoreTurn(m.TurnOf(n), {-1, 0, false, false});
    Arrive(m.Given(n));
  }
}

// Run by two threads, for every second tile each: adds the tile's sums to those in scratch memory,
// and ends the unit's turn.
template <typename T>
__device__ void AddSums(const WideArguments<T>& a, const WideMemory& m, int first) {
#pragma unroll 1
  for (WideMemory::Pair n{first, 0};; n.Skip(2)) {
    AwaitRound(m.Given(n), n);
    const GivenTurn turn = LoadTurn(m.TurnOf(n));
    if (turn.place < 0) return;
    AwaitRound(m.SumsDone(n), n);
    if (turn.last) {
      Arrive(m.SumsEmpty(n));
    } else {
      float* const to = a.query_sums + int64_t{turn.place} * (kWideStep * kWideHead);
      FenceCopies();
      if (turn.first) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                     "r"(m.Sums(0)), "n"(WideMemory::kSumBytes)
                     : "memory");
      } else {
        asm volatile(
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
            "r"(m.Sums(0)), "n"(WideMemory::kSumBytes)
            : "memory");
      }
      asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
      Arrive(m.SumsEmpty(n));
      asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
      FenceCopies();
    }
    StoreRelease(a.query_counts + turn.place, turn.before + 1);
    Arrive(m.Ended(n));
  }
}

}  // namespace plimsoll::ops
