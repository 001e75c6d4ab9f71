// Definitions for the kernels of ops/cuda/attention/attention_wide_hopper.cu: their arguments, a
// unit's position in the problem, a thread block's shared memory with its barriers, and the threads
// that don't compute. One of these fetches the operands, one waits for the unit's turns to add to
// dq, two let the copy engine add. Only in code for sm_90a.
#pragma once

#include <cuda.h>

#include "ops/attention/attention_backward_ways.h"
#include "ops/cuda/attention/attention_backward.cuh"
#include "ops/cuda/attention/attention_parts.cuh"

namespace plimsoll::ops {

template <typename T>
struct WideArguments {
  CUtensorMap qkv, dout;
  AttentionBackwardArguments<T> a;
  float* rows;        // [batch, heads, tiles, 2, 64]: lse·log₂e, then δ
  float* query_sums;  // [head_places, tiles, 2]: dq of 64 queries, half of the columns
  float* key_sums;    // [key_places, blocks, 2, 4]: dk and dv of 64 keys, half of the columns each
  int* next_unit;     // followed by the other counters
  int* query_counts;  // [head_places, tiles]: additions so far
  int* key_counts;    // [key_places, blocks, 2]
  int batch, heads, kv_heads, length, width;
  int tiles, blocks, parts, part, units;
  int head_places, key_places;
  bool causal;

  // The number of tokens of a row that are not padding; a.lengths must not be nullptr.
  __device__ int Length(int b) const { return max(0, min(length, a.lengths[b])); }
};

// A unit: the keys [block · 128, …) of key-value head g, and `count` query heads beginning with h,
// whose queries see the keys up to tile `end`.
struct WideUnit {
  template <typename T>
  __device__ WideUnit(const WideArguments<T>& a, int unit) : WideUnit(a, unit, a.tiles) {}
  template <typename T>
  __device__ WideUnit(const WideArguments<T>& a, int unit, int end_tile) : end(end_tile) {
    const int group = a.heads / a.kv_heads, all = unit / a.blocks;
    const int first = all / a.parts / kWideKeyHeads * kWideKeyHeads;  // first key-value head
    const int at_once = min(static_cast<int>(kWideKeyHeads), a.batch * a.kv_heads - first);
    const int offset = (all - first * a.parts) % at_once;
    part = (all - first * a.parts) / at_once;
    block = unit % a.blocks;  // the longest units come first
    kv = first + offset;
    b = kv / a.kv_heads;
    g = kv % a.kv_heads;
    const int small = a.parts - group % a.parts;  // number of parts with a.part heads; the others
                                                  // have one more
    const int before = part * a.part + max(0, part - small);
    count = a.part + (part >= small);
    h = g * group + before;
    heads_before = first * group + at_once * before + offset * count;
    per_head = a.causal ? end - block * 2 : end;
    steps = count * per_head;
  }

  int end;
  int block, part;
  int kv, b, g;  // kv = b · kv_heads + g
  int h, count;
  int heads_before;     // number of heads that are taken before this one
  int per_head, steps;  // numbers of tiles
};

// A unit's steps: the tiles of one head after another, beginning with the first one that sees the
// keys. So units of the same part work on different tiles at the same time.
struct WideStep {
  template <typename T>
  __device__ WideStep(const WideArguments<T>& a, const WideUnit& u) : h(u.h), tile(u.block * 2) {}
  template <typename T>
  __device__ void Next(const WideArguments<T>& a, const WideUnit& u) {
    if (++tile == u.end) tile = a.causal ? u.block * 2 : 0;
    if (tile == u.block * 2) ++h;
  }

  int h, tile;
};

// The description of a tile of queries for the computing warps, in one word: its number; with
// ranges also the first of the key blocks that its queries see, and the first key that all of them
// see; with padding the length of its row.
template <bool kRanges, bool kPadded>
struct WideTile {
  static_assert(!kRanges || !kPadded);

  template <typename T>
  __device__ WideTile(const WideArguments<T>& a, int b, int length, int tile) : word(tile) {
    static_assert(kWideBlocks * kWideKeys <= 1 << 13 && kWideStep == 64);
    if constexpr (kRanges) {
      word |= a.a.ranges.First(b, tile * 64) / 128 << 7;
      word |= a.a.ranges.LastFirst(b, tile * 64 + 64, a.length) << 13;
    }
    if constexpr (kPadded) word |= length << 7;
  }
  __device__ explicit WideTile(int packed = 0) : word(packed) {}

  __device__ int Number() const { return kRanges || kPadded ? word & 127 : word; }
  __device__ int FirstBlock() const { return kRanges ? word >> 7 & 63 : 0; }
  __device__ int Cut() const { return kRanges ? word >> 13 : 0; }
  // The length of the tile's row, and the number of its key blocks.
  template <typename T>
  __device__ int Length(const WideArguments<T>& a) const {
    return kPadded ? word >> 7 : a.length;
  }
  template <typename T>
  __device__ int Blocks(const WideArguments<T>& a) const {
    return kPadded ? (Length(a) + 127) / 128 : a.blocks;
  }

  int word;
};

// The turn of the unit with key block `block` among the units that add to dq of a tile. They add
// from the block on the diagonal backwards.
struct WideTurn {
  template <typename T, bool kRanges, bool kPadded>
  __device__ WideTurn(const WideArguments<T>& a, int block, WideTile<kRanges, kPadded> at)
      : writers(a.causal ? at.Number() / 2 + 1 - at.FirstBlock() : at.Blocks(a)),
        order(at.Number() / 2 - block) {
    if (order < 0) order += at.Blocks(a);
  }
  __device__ bool First() const { return order == 0; }
  __device__ bool Last() const { return order + 1 == writers; }
  // Whether the unit adds the sums of earlier units to its own.
  __device__ bool Loads() const { return Last() && !First(); }

  int writers, order;
};

// Shared memory of a thread block, 1024-byte aligned:
//
//   slots    a ring: q and dout of one tile after another
//   keys     the keys of the block, and its values
//   scores   two places: the gradients of the scores of 128 keys and 64 queries, 16 bits
//   sums     dq of a tile, float32, copied to or from scratch memory, as the registers of one
//   thread
//            after another
//   rows     lse and δ of the tile in the slot of the same number
//   tiles    the description of that tile
//   turns    where the sums of two tiles are in scratch memory
struct WideMemory {
  static constexpr int kSlots = 3;
  static constexpr int kTile = 2 * kOperandTile;  // 64 rows of 128 elements, in two pieces
  static constexpr int kSumBytes = kWideStep * kWideHead * 4;
  static constexpr int kRowBytes = kWideStep * 2 * 4;

  static constexpr int kKeysAt = kSlots * 2 * kTile;
  static constexpr int kValuesAt = kKeysAt + 2 * kTile;
  static constexpr int kScoresAt = kValuesAt + 2 * kTile;
  static constexpr int kSumsAt = kScoresAt + 2 * kTile;
  static constexpr int kRowsAt = kSumsAt + kSumBytes;
  static constexpr int kTurnsAt = kRowsAt + kSlots * kRowBytes;
  static constexpr int kTilesAt = kTurnsAt + 2 * 16;
  static constexpr int kUnitAt = kTilesAt + kSlots * 8;
  static constexpr int kBarriersAt = kUnitAt + 8;
  static constexpr int kBytes = kBarriersAt + (2 * kSlots + 12 + 5) * 8;

  using Slot = RingPlace<kSlots>;
  using Pair = RingPlace<2>;
  using Single = RingPlace<1>;

  __device__ uint32_t Queries(Slot n) const { return base + n.index * 2 * kTile; }
  __device__ uint32_t Dout(Slot n) const { return Queries(n) + kTile; }
  __device__ uint32_t Rows(Slot n) const { return base + kRowsAt + n.index * kRowBytes; }
  __device__ uint32_t Keys(int half) const { return base + kKeysAt + half * kTile; }
  __device__ uint32_t Values(int half) const { return base + kValuesAt + half * kTile; }
  // The scores of 128 keys: the two halves one after the other.
  __device__ uint32_t Scores(Pair n) const { return base + kScoresAt + n.index * kTile; }
  // The sums of half of the columns.
  __device__ uint32_t Sums(int half) const { return base + kSumsAt + half * kSumBytes / 2; }
  // The tile in the slot (WideTile), and the row of its head (AttentionDropout::Row).
  __device__ uint32_t TileOf(Slot n) const { return base + kTilesAt + n.index * 8; }
  __device__ uint32_t TurnOf(Pair n) const { return base + kTurnsAt + n.index * 16; }
  // The unit's number, followed by its end with ranges, or by the length of its row with padding.
  __device__ uint32_t UnitAt() const { return base + kUnitAt; }

  // Barriers: q, dout, lse and δ have arrived (Full), or are no longer needed (Empty).
  __device__ uint32_t Full(Slot n) const { return Barrier(n.index); }
  __device__ uint32_t Empty(Slot n) const { return Barrier(kSlots + n.index); }
  // Barriers: it is the unit's turn (Given), or its addition has ended (Ended).
  __device__ uint32_t Given(Pair n) const { return Barrier(2 * kSlots + n.index); }
  __device__ uint32_t Ended(Pair n) const { return Barrier(2 * kSlots + 2 + n.index); }
  __device__ uint32_t ScoresFull(Pair n) const { return Barrier(kOthers + n.index); }
  __device__ uint32_t ScoresEmpty(Pair n) const { return Barrier(kOthers + 2 + n.index); }
  // Barriers: both warpgroups have written, or read, the sums of every second tile; their memory is
  // free.
  __device__ uint32_t SumsDone(Pair n) const { return Barrier(kOthers + 4 + n.index); }
  __device__ uint32_t SumsEmpty(Pair n) const { return Barrier(kOthers + 6 + n.index); }
  // Barrier: the sums of earlier units have arrived.
  __device__ uint32_t SumsLoaded() const { return Barrier(kOthers + 8); }
  __device__ uint32_t KeysFull() const { return Barrier(kOthers + 9); }
  __device__ uint32_t KeysEmpty() const { return Barrier(kOthers + 10); }
  __device__ uint32_t UnitFull() const { return Barrier(kOthers + 11); }
  __device__ uint32_t UnitEmpty() const { return Barrier(kOthers + 12); }

  // Called by one thread. Each warp of the computing warpgroups arrives separately.
  __device__ void InitBarriers() const {
    constexpr int kWarps = 8 * kArrivalsOfWarp;
    for (Slot n; n.round == 0; n.Step()) {
      InitBarrier(Full(n), 1);
      InitBarrier(Empty(n), kWarps);
    }
    for (Pair n; n.round == 0; n.Step()) {
      InitBarrier(Given(n), 1);
      InitBarrier(Ended(n), 1);
      InitBarrier(ScoresFull(n), kWarps);
      InitBarrier(ScoresEmpty(n), kWarps);
      InitBarrier(SumsDone(n), kWarps);
      InitBarrier(SumsEmpty(n), 1);
    }
    InitBarrier(SumsLoaded(), 1);
    InitBarrier(KeysFull(), 1);
    InitBarrier(KeysEmpty(), kWarps);
    InitBarrier(UnitFull(), 1);
    InitBarrier(UnitEmpty(), kWarps + 1);
    FenceArrivalInit();
  }

  uint32_t base;

 private:
  static constexpr int kOthers = 2 * kSlots + 4;

  __device__ uint32_t Barrier(int i) const { return base + kBarriersAt + i * 8; }
};

// Waits until the barrier's phase of this round (AwaitRound), or of the round before it
// (AwaitRoundBefore), has ended.
template <int kCount>
__device__ void AwaitRound(uint32_t barrier, RingPlace<kCount> n) {
  AwaitBarrier(barrier, n.round);
}
template <int kCount>
__device__ void AwaitRoundBefore(uint32_t barrier, RingPlace<kCount> n) {
  AwaitBarrier(barrier, n.round ^ 1);
}

__device__ inline void StoreTwo(uint32_t to, int x, int y) {
  asm volatile("st.shared.v2.s32 [%0], {%1, %2};" ::"r"(to), "r"(x), "r"(y) : "memory");
}
__device__ inline int2 LoadTwo(uint32_t from) {
  int2 v;
  asm volatile("ld.shared.v2.s32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(from) : "memory");
  return v;
}
__device__ inline void StoreFour(uint32_t to, int4 v) {
  asm volatile("st.shared.v4.s32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w)
               : "memory");
}
__device__ inline int4 LoadFour(uint32_t from) {
  int4 v;
  asm volatile("ld.shared.v4.s32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(from)
               : "memory");
  return v;
}

// The loop of the copying thread and the computing warps: processes the units that their thread
// block takes, until no units are left. `work` gets a unit's number, its end and the length of its
// row.
template <bool kWarp, bool kRanges, bool kPadded, typename T, typename Work>
__device__ void ForEachWideUnit(const WideArguments<T>& a, const WideMemory& m, const Work& work) {
  for (WideMemory::Single n;; n.Step()) {
    AwaitRound(m.UnitFull(), n);
    int unit, end = a.tiles, length = a.length;
    if constexpr (kRanges) {
      const int2 both = LoadTwo(m.UnitAt());
      unit = both.x, end = both.y;
    } else if constexpr (kPadded) {
      const int2 both = LoadTwo(m.UnitAt());
      unit = both.x, length = both.y, end = (length + 63) / 64;
    } else {
      asm volatile("ld.shared.s32 %0, [%1];" : "=r"(unit) : "r"(m.UnitAt()));
    }
    if (unit >= a.units)
      return;  // this use of the value is needed: an arrival alone doesn't wait
               // for it
    kWarp ? ArriveByWarp(m.UnitEmpty()) : Arrive(m.UnitEmpty());
    work(unit, end, length);
  }
}

// Starts the copy of 64 rows of a head to two adjacent tiles.
__device__ inline void LoadWideHead(uint32_t to, const CUtensorMap* map, int b, int row, int head,
                                    uint32_t barrier) {
  LoadHead(to, map, b, row, head, barrier);
  LoadHead(to + kOperandTile, map, b, row, head, barrier, 64);
}

// Run by one thread: starts all copies of operands, when their buffers are free.
template <bool kRanges, bool kPadded, typename T>
__device__ void BringWideTiles(const WideArguments<T>& a, const WideMemory& m) {
  WideMemory::Slot n;
  WideMemory::Single keys;
  ForEachWideUnit<false, kRanges, kPadded>(a, m, [&](int unit, int end, int length) {
    const WideUnit u(a, unit, end);
    WideStep at(a, u);
#pragma unroll 1
    for (int step = 0; step < u.steps; ++step, n.Step(), at.Next(a, u)) {
      const int head = u.b * a.heads + at.h;
      const WideTile<kRanges, kPadded> tile(a, u.b, length, at.tile);
      AwaitRoundBefore(m.Empty(n), n);
      StoreTwo(m.TileOf(n), tile.word, static_cast<int>(a.a.dropout.Row(u.b, at.h)));
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

// The description of a turn for the threads that add to dq.
struct GivenTurn {
  int place;  // buffer that holds the sums; -1 if no turn is left
  int after;  // the number of additions after this one
  bool first, last;
};
__device__ inline void StoreTurn(uint32_t to, const GivenTurn& t) {
  StoreFour(to, {t.place, t.after, t.first, t.last});
}
__device__ inline GivenTurn LoadTurn(uint32_t from) {
  const int4 v = LoadFour(from);
  return {v.x, v.y, v.z != 0, v.w != 0};
}

// The number of additions to a tile of the head that uses a place in this round: before the first
// addition, and after the last one. With ranges and padding, rows differ in the number of writers
// of a tile. Therefore each head gets one more number than there are blocks.
template <bool kRanges, bool kPadded, typename T>
__device__ int AdditionsOfRounds(const WideArguments<T>& a, int rounds, const WideTurn& turn) {
  return rounds * (kRanges || kPadded ? a.blocks + 1 : turn.writers);
}

// The batch row of a head, given the head's number in the order in which units are taken: the
// inverse of WideUnit::heads_before.
template <typename T>
__device__ int WideRow(const WideArguments<T>& a, int head) {
  const int group = a.heads / a.kv_heads;
  const int first = head / group / kWideKeyHeads * kWideKeyHeads;  // first key-value head
  const int at_once = min(static_cast<int>(kWideKeyHeads), a.batch * a.kv_heads - first);
  const int rest = head - first * group;
  const int of_small = (a.parts - group % a.parts) * a.part * at_once;  // number of heads in small
                                                                        // parts
  const int offset = (rest < of_small ? rest / a.part : (rest - of_small) / (a.part + 1)) % at_once;
  return (first + offset) / a.kv_heads;
}

// The number of rounds after which the tile is free. With padding, not all heads that have used the
// place before have had this tile: it is free after the round of the last head that had it.
template <typename T>
__device__ int RoundsUntilFree(const WideArguments<T>& a, int head, int tile) {
  do {
    head -= a.head_places;
  } while (head >= 0 && a.Length(WideRow(a, head)) <= tile * 64);
  return head < 0 ? 0 : head / a.head_places + 1;
}

// Orders this thread's accesses before and after the fence, including those of the copy engine.
__device__ inline void FenceCopies() { asm volatile("fence.proxy.async;" ::: "memory"); }

// Run by one thread: takes units, and announces when it is a unit's turn to add to the next tile.
// The next unit is taken after the last turn of the previous one. So no unit waits for its start
// while its thread block waits for a turn that depends on it. Units whose keys are padding are
// skipped.
template <bool kRanges, bool kPadded, typename T>
__device__ void AwaitTurns(const WideArguments<T>& a, const WideMemory& m) {
  WideMemory::Pair n, before{1, 1};
#pragma unroll 1
  for (WideMemory::Single units;; units.Step()) {
    int unit = atomicAdd(a.next_unit, 1);
    int end = a.tiles, length = a.length;
    if (kRanges && unit < a.units) {
      const WideUnit whole(a, unit);
      const int first = whole.block * 2;
      end = a.a.ranges.EndTile(whole.b, 64, first * 64 + 128, first, end);
    }
    if constexpr (kPadded) {
      for (; unit < a.units; unit = atomicAdd(a.next_unit, 1)) {
        const WideUnit whole(a, unit);
        length = a.Length(whole.b);
        if (whole.block * 128 < length) break;
      }
      end = (length + 63) / 64;
    }
    AwaitRoundBefore(m.UnitEmpty(), units);
    if constexpr (kRanges || kPadded) {
      StoreTwo(m.UnitAt(), unit, kPadded ? length : end);
    } else {
      asm volatile("st.shared.s32 [%0], %1;" ::"r"(m.UnitAt()), "r"(unit) : "memory");
    }
    Arrive(m.UnitFull());
    if (unit >= a.units) break;
    const WideUnit u(a, unit, end);
    WideStep at(a, u);
#pragma unroll 1
    for (int step = 0; step < u.steps; ++step, n.Step(), before.Step(), at.Next(a, u)) {
      const WideTurn turn(a, u.block, WideTile<kRanges, kPadded>(a, u.b, length, at.tile));
      const int head = u.heads_before + at.h - u.h, round = head / a.head_places;
      const auto additions = [&](int rounds) {
        return AdditionsOfRounds<kRanges, kPadded>(a, rounds, turn);
      };
      const GivenTurn given{head % a.head_places * a.tiles + at.tile,
                            turn.Last() ? additions(round + 1) : additions(round) + turn.order + 1,
                            turn.First(), turn.Last()};
      const int awaited = kPadded && turn.First() ? additions(RoundsUntilFree(a, head, at.tile))
                                                  : additions(round) + turn.order;
      AwaitRoundBefore(m.Ended(n), n);
      while (LoadAcquire(a.query_counts + given.place) != awaited) __nanosleep(32);
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

// Run by two threads, each for every second tile: adds the tile's sums to those in scratch memory,
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
    StoreRelease(a.query_counts + turn.place, turn.after);
    Arrive(m.Ended(n));
  }
}

}  // namespace plimsoll::ops
