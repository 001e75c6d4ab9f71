// Attention written once over a vector type. Included by exactly one file per instruction set,
// which compiles it with that set's flags: everything here has internal linkage, so that the
// linker cannot mix the versions.
//
// Queries are in the lanes of registers. A panel is as many queries as two registers hold, L; its
// scores are kept transposed, Sᵀ[key][L], and so is its output, Oᵀ[hd][L]. Every product then has
// the form
//   C[i][lane] = Σ_k A(i,k) · B[k][lane]
// where A's values are broadcast from k, v, P or dS in their memory layout, and only q (and dout,
// in the backward pass) is transposed, once. Maximum and sum of a query's scores are taken along a
// lane: no register is ever reduced. Scores are in units of log 2, so that exp is exp2. With a soft
// cap c, products of q and k give score / c instead, and its tanh times c is the capped score.
//
// A vector type V must provide what attention_loops_tiles_impl.h lists.
#pragma once

#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <type_traits>

#include "base/dropout_draws.h"
#include "ops/cpu/attention_loops.h"
#include "ops/cpu/attention_loops_tiles_impl.h"

namespace plimsoll::cpu::internal {
namespace {

constexpr double kLog2E = 1.4426950408889634074;
constexpr double kLn2 = 0.69314718055994530942;

constexpr int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }

template <typename V>
struct Attention : AttentionTiles<V> {
  using Tiles = AttentionTiles<V>;
  using Tiles::CopyTile;
  using Tiles::Dot;
  using Tiles::Fill;
  using Tiles::kLanes;
  using Tiles::kWidth;
  using Tiles::Transpose;
  using typename Tiles::FactorPerColumn;
  using typename Tiles::OneFactor;
  using typename Tiles::Reg;
  using typename Tiles::T;

  // Computes dropout's factors, 0 or keep_scale, for the panel of queries that begins with `query`
  // and the keys [key, key+keys). They are stored in keep[key][kLanes], in full tiles of scores.
  // `key` is a multiple of kScoreTile.
  static void KeepFactors(const AttentionDropout<T>& dropout, int64_t row, int64_t sequence,
                          int64_t query, int64_t key, int64_t keys, T* keep) {
    static_assert(kTile % kScoreTile == 0);
    constexpr int64_t kQueries = Least(kLanes, kScoreTile);
    const uint32_t threshold = dropout.threshold;
    const T scale = dropout.keep_scale;
    // The first query's position in its tile of scores, if a panel is narrower than a tile.
    const int64_t first = kLanes < kScoreTile ? query % kScoreTile : 0;
    uint32_t words[kDrawsOfScoreTile / 2];
    for (int64_t j = 0; j < keys; j += kScoreTile) {
      for (int64_t i = 0; i < kLanes; i += kQueries) {
        const uint64_t tile = ScoreTileNumber(row, query + i, key + j, sequence);
        dropout.stream->Words(tile * std::size(words), std::size(words), words);
        for (int64_t k = 0; k < kScoreTile / 2; ++k) {
          // A word has the draws of a query for keys k and k + 8.
          uint32_t of_keys[kQueries];
#pragma GCC unroll 16
          for (int64_t q = 0; q < kQueries; ++q) {
            of_keys[q] = words[DrawInScoreTile(first + q, k) / 2];
          }
          T* const near = keep + (j + k) * kLanes + i;
          T* const far = near + kScoreTile / 2 * kLanes;
          for (int64_t q = 0; q < kQueries; ++q) {
            near[q] = (of_keys[q] & 0xFFFF) < threshold ? T(0) : scale;
          }
          for (int64_t q = 0; q < kQueries; ++q) {
            far[q] = of_keys[q] >> 16 < threshold ? T(0) : scale;
          }
        }
      }
    }
  }

  // The number of keys of the tile [key, key+keys) that the last query sees.
  static int64_t Visible(bool causal, int64_t last_query, int64_t key, int64_t keys) {
    if (!causal) return keys;
    const int64_t seen = last_query - key + 1;
    return seen < 0 ? 0 : Least(seen, keys);
  }

  // The first key that a query sees. It never decreases with the query.
  template <typename Task>
  static int64_t FirstKey(const Task& task, int64_t query) {
    int64_t back = query;
    if (task.positions != nullptr) back = Least(back, task.positions[query]);
    if (task.window > 0) back = Least(back, task.window - 1);
    return query - back;
  }

  // Sets ends[j] for each of the keys: lanes from ends[j] on do not see key + j, because the first
  // key that their queries see comes after it. The panel has the queries [query, query+count);
  // lanes after them count like the last query.
  template <typename Task>
  static void LaneEnds(const Task& task, int64_t query, int64_t count, int64_t key, int64_t keys,
                       int64_t* ends) {
    int64_t lanes = 0;
    for (int64_t j = 0; j < keys; ++j) {
      while (lanes < count && FirstKey(task, query + lanes) <= key + j) ++lanes;
      ends[j] = lanes == count ? kLanes : lanes;
    }
  }

  // x in the lanes [begin, end), `fill` in the others.
  static Reg Within(Reg x, int64_t begin, int64_t end, Reg fill) {
    return V::From(V::From(fill, end, x), begin, fill);
  }

  // Continues the online softmax of a panel with `keys` more scores: s[keys][kLanes] become
  // probabilities relative to the new maximum, and `shrink` the factor for older ones. Key j is
  // masked in lanes below first + j and, with kEnds, in lanes from ends[j] on.
  template <bool kEnds>
  static void Softmax(int64_t keys, int64_t first, const int64_t* ends, T* s, T* maximum, T* sum,
                      T* shrink) {
    // Masks a register of key j whose first lane is `lane`.
    const auto masked = [&](Reg x, int64_t j, int64_t lane, Reg fill) {
      if constexpr (kEnds) return Within(x, first + j - lane, ends[j] - lane, fill);
      return V::From(x, first + j - lane, fill);
    };
    const Reg never = V::Set(-std::numeric_limits<T>::infinity());
    const Reg old0 = V::Load(maximum);
    const Reg old1 = V::Load(maximum + kWidth);
    Reg max0 = old0;
    Reg max1 = old1;
    const int64_t unmasked = kEnds || first > 0 ? 0 : Least(keys, 1 - first);
    for (int64_t j = 0; j < unmasked; ++j) {
      max0 = V::Max(max0, V::Load(s + j * kLanes));
      max1 = V::Max(max1, V::Load(s + j * kLanes + kWidth));
    }
    for (int64_t j = unmasked; j < keys; ++j) {
      max0 = V::Max(max0, masked(V::Load(s + j * kLanes), j, 0, never));
      max1 = V::Max(max1, masked(V::Load(s + j * kLanes + kWidth), j, kWidth, never));
    }
    Reg shrink0 = V::Exp2(V::Sub(old0, max0));
    Reg shrink1 = V::Exp2(V::Sub(old1, max1));
    if constexpr (kEnds) {
      // Lanes that have not seen a key have no maximum; their sums are still zero.
      const Reg one = V::Set(1);
      shrink0 = V::From(one, ends[keys - 1], shrink0);
      shrink1 = V::From(one, ends[keys - 1] - kWidth, shrink1);
    }
    Reg sum0 = V::Set(0);
    Reg sum1 = V::Set(0);
    for (int64_t j = 0; j < unmasked; ++j) {
      T* const row = s + j * kLanes;
      const Reg p0 = V::Exp2(V::Sub(V::Load(row), max0));
      const Reg p1 = V::Exp2(V::Sub(V::Load(row + kWidth), max1));
      sum0 = V::Add(sum0, p0);
      sum1 = V::Add(sum1, p1);
      V::Store(row, p0);
      V::Store(row + kWidth, p1);
    }
    const Reg zero = V::Set(0);
    for (int64_t j = unmasked; j < keys; ++j) {
      T* const row = s + j * kLanes;
      const Reg p0 = masked(V::Exp2(V::Sub(V::Load(row), max0)), j, 0, zero);
      const Reg p1 = masked(V::Exp2(V::Sub(V::Load(row + kWidth), max1)), j, kWidth, zero);
      sum0 = V::Add(sum0, p0);
      sum1 = V::Add(sum1, p1);
      V::Store(row, p0);
      V::Store(row + kWidth, p1);
    }
    V::Store(maximum, max0);
    V::Store(maximum + kWidth, max1);
    V::Store(sum, V::Fma(V::Load(sum), shrink0, sum0));
    V::Store(sum + kWidth, V::Fma(V::Load(sum + kWidth), shrink1, sum1));
    V::Store(shrink, shrink0);
    V::Store(shrink + kWidth, shrink1);
  }

  // The factor by which queries are multiplied before their products with keys.
  template <typename Task>
  static T QueryFactor(const Task& task) {
    return static_cast<T>(task.softcap > 0 ? 1 / (task.divisor * task.softcap)
                                           : kLog2E / task.divisor);
  }

  // Converts the tanh of scores in units of c to capped scores in units of log 2.
  template <typename Task>
  static Reg CapUnit(const Task& task) {
    return V::Set(static_cast<T>(task.softcap * kLog2E));
  }

  template <typename S>
  static void Forward(const AttentionForward<S>& task, T* scratch) {
    constexpr bool kNarrow = !std::is_same_v<S, T>;
    const int64_t hd = task.head;
    const int64_t panel = hd * kLanes;
    T* const k = scratch;                        // [kTile][hd]
    T* const v = k + kTile * hd;                 // [kTile][hd]
    T* const q = v + kTile * hd;                 // panels of [hd][kLanes]
    T* const out = q + kAttentionQueries * hd;   // panels of [hd][kLanes]
    T* const s = out + kAttentionQueries * hd;   // [kTile][kLanes]
    T* const maximum = s + kTile * kLanes;       // [kAttentionQueries]
    T* const sum = maximum + kAttentionQueries;  // [kAttentionQueries]
    T* const shrink = sum + kAttentionQueries;   // [kLanes]
    const int64_t queries = task.query_end - task.query_begin;
    const int64_t panels = (queries + kLanes - 1) / kLanes;

    const T scale = QueryFactor(task);
    for (int64_t i = 0; i < panels; ++i) {
      const int64_t count = Least(kLanes, queries - i * kLanes);
      if (count < kLanes) Fill(q + i * panel, panel, 0);
      const S* const rows = task.q + (task.query_begin + i * kLanes) * task.stride;
      if constexpr (kNarrow) {
        // The rows are converted in the panel's output, which is not in use yet.
        CopyTile(count, hd, rows, task.stride, out + i * panel, hd, hd, 1);
        Transpose(count, hd, out + i * panel, hd, q + i * panel, kLanes, OneFactor{scale});
      } else {
        Transpose(count, hd, rows, task.stride, q + i * panel, kLanes, OneFactor{scale});
      }
    }
    Fill(out, panels * panel, 0);
    Fill(maximum, panels * kLanes, -std::numeric_limits<T>::infinity());
    Fill(sum, panels * kLanes, 0);

    const int64_t key_end = task.causal ? task.query_end : task.length;
    const int64_t key_begin = FirstKey(task, task.query_begin) / kTile * kTile;
    for (int64_t key = key_begin; key < key_end; key += kTile) {
      const int64_t tile = Least(kTile, key_end - key);
      CopyTile(tile, hd, task.k + key * task.stride, task.stride, k, hd, hd, 1);
      CopyTile(tile, hd, task.v + key * task.stride, task.stride, v, hd, hd, 1);
      for (int64_t i = 0; i < panels; ++i) {
        const int64_t first_query = task.query_begin + i * kLanes;
        const int64_t count = Least(kLanes, task.query_end - first_query);
        const int64_t keys = Visible(task.causal, first_query + count - 1, key, tile);
        if (keys == 0 || FirstKey(task, first_query) >= key + keys) continue;
        Tiles::template Product<Order::kRows, Into::kStore>(keys, hd, k, hd, q + i * panel, kLanes,
                                                            s, kLanes);
        if (task.softcap > 0) {
          const Reg unit = CapUnit(task);
          for (int64_t j = 0; j < keys * kLanes; j += kWidth) {
            V::Store(s + j, V::Mul(V::Tanh(V::Load(s + j)), unit));
          }
        }
        // A lane for a query beyond the end sees at least what the last query sees; its scores are
        // zero, and it is not written.
        const int64_t first_masked = task.causal ? key - first_query : -kTile;
        T* const panel_maximum = maximum + i * kLanes;
        T* const panel_sum = sum + i * kLanes;
        if (FirstKey(task, first_query + count - 1) > key) {
          int64_t ends[kTile];
          LaneEnds(task, first_query, count, key, keys, ends);
          Softmax<true>(keys, first_masked, ends, s, panel_maximum, panel_sum, shrink);
        } else {
          Softmax<false>(keys, first_masked, nullptr, s, panel_maximum, panel_sum, shrink);
        }
        if (task.dropout.stream != nullptr) {
          T keep[kTile * kLanes];
          KeepFactors(task.dropout, task.dropout.row, task.sequence, first_query, key, keys, keep);
          for (int64_t j = 0; j < keys * kLanes; j += kWidth) {
            V::Store(s + j, V::Mul(V::Load(s + j), V::Load(keep + j)));
          }
        }
        Tiles::template Product<Order::kColumns, Into::kScale>(hd, keys, v, hd, s, kLanes,
                                                               out + i * panel, kLanes, shrink);
      }
    }

    for (int64_t i = 0; i < panels; ++i) {
      const int64_t first_query = task.query_begin + i * kLanes;
      const int64_t count = Least(kLanes, task.query_end - first_query);
      for (int64_t lane = 0; lane < count; ++lane) {
        const T total = sum[i * kLanes + lane];
        if (task.lse != nullptr) {
          task.lse[first_query + lane] =
              maximum[i * kLanes + lane] * static_cast<T>(kLn2) + std::log(total);
        }
        shrink[lane] = 1 / total;
      }
      S* const rows = task.out + first_query * task.out_stride;
      if constexpr (kNarrow) {
        // The rows are transposed into the panel's queries, which are no longer needed.
        Transpose(hd, count, out + i * panel, kLanes, q + i * panel, hd, FactorPerColumn{shrink});
        CopyTile(count, hd, q + i * panel, hd, rows, task.out_stride, hd, 1);
      } else {
        Transpose(hd, count, out + i * panel, kLanes, rows, task.out_stride,
                  FactorPerColumn{shrink});
      }
    }
  }

  // Computes the probabilities and the gradients of scores of a panel, from s = Sᵀ and dp = dPᵀ,
  // which have `keys` rows of kTile: p ← exp2(s − lse), dp ← p · (dp − delta). With dropout, whose
  // factors are `keep`, dp is the gradient of the dropped probabilities: dp ← p · (keep · dp −
  // delta), and s ← keep · p. With kCapped, s is in units of the soft cap: s ← c · tanh(s) first,
  // and dp ← dp · (1 − tanh²) last. `ends`: nullptr, or the result of LaneEnds.
  template <bool kCapped, typename S>
  static void ScoreGradients(const AttentionBackward<S>& task, int64_t row, int64_t query,
                             int64_t key, int64_t keys, const int64_t* ends, const T* lse,
                             const T* delta, T* s, T* dp) {
    const Reg zero = V::Set(0);
    const Reg lse0 = V::Load(lse);
    const Reg lse1 = V::Load(lse + kWidth);
    const Reg delta0 = V::Load(delta);
    const Reg delta1 = V::Load(delta + kWidth);
    const int64_t first = task.causal ? key - query : -kTile;
    const bool drop = task.dropout.stream != nullptr;
    T keep[kTile * kLanes];
    if (drop) KeepFactors(task.dropout, row, task.sequence, query, key, keys, keep);
    for (int64_t j = 0; j < keys; ++j) {
      T* const p = s + j * kTile;
      T* const gradient = dp + j * kTile;
      const Reg score0 = V::Load(p);
      const Reg score1 = V::Load(p + kWidth);
      Reg slope0 = {}, slope1 = {}, p0, p1;
      if constexpr (kCapped) {
        const Reg unit = CapUnit(task), one = V::Set(1);
        const Reg tanh0 = V::Tanh(score0);
        const Reg tanh1 = V::Tanh(score1);
        // Fma rounds once in any case: a compiler may or may not fuse a product and a difference.
        p0 = V::Exp2(V::Fma(tanh0, unit, V::Sub(zero, lse0)));
        p1 = V::Exp2(V::Fma(tanh1, unit, V::Sub(zero, lse1)));
        slope0 = V::Fma(V::Sub(zero, tanh0), tanh0, one);
        slope1 = V::Fma(V::Sub(zero, tanh1), tanh1, one);
      } else {
        p0 = V::Exp2(V::Sub(score0, lse0));
        p1 = V::Exp2(V::Sub(score1, lse1));
      }
      if (first + j > 0) {
        p0 = V::From(p0, first + j, zero);
        p1 = V::From(p1, first + j - kWidth, zero);
      }
      if (ends != nullptr) {
        p0 = V::From(zero, ends[j], p0);
        p1 = V::From(zero, ends[j] - kWidth, p1);
      }
      Reg dp0 = V::Load(gradient);
      Reg dp1 = V::Load(gradient + kWidth);
      if (drop) {
        const Reg keep0 = V::Load(keep + j * kLanes);
        const Reg keep1 = V::Load(keep + j * kLanes + kWidth);
        dp0 = V::Mul(keep0, dp0);
        dp1 = V::Mul(keep1, dp1);
        V::Store(p, V::Mul(keep0, p0));
        V::Store(p + kWidth, V::Mul(keep1, p1));
      } else {
        V::Store(p, p0);
        V::Store(p + kWidth, p1);
      }
      Reg ds0 = V::Mul(p0, V::Sub(dp0, delta0));
      Reg ds1 = V::Mul(p1, V::Sub(dp1, delta1));
      if constexpr (kCapped) {
        ds0 = V::Mul(ds0, slope0);
        ds1 = V::Mul(ds1, slope1);
      }
      V::Store(gradient, ds0);
      V::Store(gradient + kWidth, ds1);
    }
  }

  struct Rows {
    const T* data;
    int64_t stride;
  };
  // The rows themselves or, if they have 16 bits, a copy in `tile`.
  template <typename S>
  static Rows InCompute(const S* rows, int64_t stride, int64_t count, int64_t hd, T* tile,
                        int64_t padded) {
    if constexpr (std::is_same_v<S, T>) {
      return {rows, stride};
    } else {
      CopyTile(count, hd, rows, stride, tile, padded, hd, 1);
      return {tile, padded};
    }
  }

  // hd rounded up to full panels.
  static int64_t Padded(int64_t hd) { return (hd + kLanes - 1) / kLanes * kLanes; }

  template <typename S>
  static void Backward(const AttentionBackward<S>& task, T* scratch) {
    const int64_t hd = task.head;
    const int64_t padded = Padded(hd);
    const int64_t keys_all = (task.length + kTile - 1) / kTile * kTile;
    T* const dk = scratch;                 // [T][padded], for all heads together
    T* const dv = dk + keys_all * padded;  // [T][padded]
    T* at = dv + keys_all * padded;
    const auto take = [&at](int64_t n) {
      T* const taken = at;
      at += n;
      return taken;
    };
    T* const q = take(kTile * padded);         // [query][padded]
    T* const dout = take(kTile * padded);      // [query][padded]
    T* const k = take(kTile * padded);         // [key][padded]
    T* const v = take(kTile * padded);         // [key][padded]
    T* const dq = take(kTile * padded);        // [query][padded]
    T* const q_lanes = take(kTile * padded);   // [hd][query], multiplied by the scale of the scores
    T* const do_lanes = take(kTile * padded);  // [hd][query]
    T* const p = take(kTile * kTile);          // [key][query]
    T* const ds = take(kTile * kTile);         // [key][query]
    T* const lse = take(kTile);                // [query], in units of log 2
    T* const delta = take(kTile);              // [query]

    Fill(dk, 2 * keys_all * padded, 0);
    for (int64_t h = 0; h < task.heads; ++h) {
      for (int64_t query = 0; query < task.length; query += kTile) {
        const int64_t queries = Least(kTile, task.length - query);
        const int64_t panels = (queries + kLanes - 1) / kLanes;
        const S* const dout_rows = task.dout + query * task.out_stride + h * hd;
        if (queries < kTile) {
          Fill(q, kTile * padded, 0);
          Fill(dout, kTile * padded, 0);
        }
        CopyTile(queries, hd, task.q + query * task.stride + h * hd, task.stride, q, padded, padded,
                 1);
        CopyTile(queries, hd, dout_rows, task.out_stride, dout, padded, padded, 1);
        Transpose(kTile, hd, q, padded, q_lanes, kTile, OneFactor{QueryFactor(task)});
        Transpose(kTile, hd, dout, padded, do_lanes, kTile, OneFactor{1});
        // The copy uses dq's tile, which is not in use yet.
        const Rows out = InCompute(task.out + query * task.out_stride + h * hd, task.out_stride,
                                   queries, hd, dq, padded);
        for (int64_t i = 0; i < kTile; ++i) {
          lse[i] = 0;
          delta[i] = 0;
          if (i >= queries) continue;
          lse[i] = task.lse[h * task.sequence + query + i] * static_cast<T>(kLog2E);
          delta[i] = Dot(hd, out.data + i * out.stride, dout + i * padded);
        }
        Fill(dq, kTile * padded, 0);

        const int64_t key_end = task.causal ? query + queries : task.length;
        const int64_t key_begin = FirstKey(task, query) / kTile * kTile;
        for (int64_t key = key_begin; key < key_end; key += kTile) {
          const int64_t tile = Least(kTile, key_end - key);
          CopyTile(tile, hd, task.k + key * task.stride, task.stride, k, padded, padded, 1);
          CopyTile(tile, hd, task.v + key * task.stride, task.stride, v, padded, padded, 1);
          for (int64_t i = 0; i < panels; ++i) {
            const int64_t first_query = query + i * kLanes;
            const int64_t count = Least(kLanes, query + queries - first_query);
            int64_t keys = Visible(task.causal, first_query + count - 1, key, tile);
            if (FirstKey(task, first_query) >= key + keys) keys = 0;
            int64_t ends[kTile];
            const bool cut = FirstKey(task, first_query + count - 1) > key;
            if (cut) LaneEnds(task, first_query, count, key, keys, ends);
            T* const s = p + i * kLanes;
            T* const dp = ds + i * kLanes;
            Tiles::template Product<Order::kRows, Into::kStore>(
                keys, hd, k, padded, q_lanes + i * kLanes, kTile, s, kTile);
            Tiles::template Product<Order::kRows, Into::kStore>(
                keys, hd, v, padded, do_lanes + i * kLanes, kTile, dp, kTile);
            const auto gradients =
                task.softcap > 0 ? &ScoreGradients<true, S> : &ScoreGradients<false, S>;
            gradients(task, task.dropout.row + h, first_query, key, keys, cut ? ends : nullptr,
                      lse + i * kLanes, delta + i * kLanes, s, dp);
            for (int64_t j = keys; j < tile; ++j) {
              Fill(s + j * kTile, kLanes, 0);
              Fill(dp + j * kTile, kLanes, 0);
            }
          }
          TileGradients(task.causal && key == query, tile, queries, padded, p, ds, q, k, dout, dq,
                        dk + key * padded, dv + key * padded);
        }
        CopyTile(queries, hd, dq, padded, task.dq + query * task.stride + h * hd, task.stride, hd,
                 static_cast<T>(1 / task.divisor));
      }
    }
    CopyTile(task.length, hd, dk, padded, task.dk, task.stride, hd,
             static_cast<T>(1 / task.divisor));
    CopyTile(task.length, hd, dv, padded, task.dv, task.stride, hd, 1);
  }

  // dv += P·dout, dk += dS·q and dq += dSᵀ·k for a tile of keys and one of queries. On the
  // diagonal, panels that lie completely in the zero triangle are skipped.
  static void TileGradients(bool diagonal, int64_t keys, int64_t queries, int64_t padded,
                            const T* p, const T* ds, const T* q, const T* k, const T* dout, T* dq,
                            T* dk, T* dv) {
    for (int64_t lanes = 0; lanes < padded; lanes += kLanes) {
      if (!diagonal) {
        Tiles::template Product<Order::kRows, Into::kAdd>(keys, queries, p, kTile, dout + lanes,
                                                          padded, dv + lanes, padded);
        Tiles::template Product<Order::kRows, Into::kAdd>(keys, queries, ds, kTile, q + lanes,
                                                          padded, dk + lanes, padded);
        Tiles::template Product<Order::kColumns, Into::kAdd>(queries, keys, ds, kTile, k + lanes,
                                                             padded, dq + lanes, padded);
        continue;
      }
      for (int64_t i = 0; i < keys; i += kLanes) {
        // Only queries from i on see the keys from i on.
        const int64_t rows = Least(kLanes, keys - i);
        const int64_t at = i * kTile + i;
        Tiles::template Product<Order::kRows, Into::kAdd>(rows, queries - i, p + at, kTile,
                                                          dout + i * padded + lanes, padded,
                                                          dv + i * padded + lanes, padded);
        Tiles::template Product<Order::kRows, Into::kAdd>(rows, queries - i, ds + at, kTile,
                                                          q + i * padded + lanes, padded,
                                                          dk + i * padded + lanes, padded);
      }
      for (int64_t i = 0; i < queries; i += kLanes) {
        const int64_t rows = Least(kLanes, queries - i);
        Tiles::template Product<Order::kColumns, Into::kAdd>(rows, Least(keys, i + rows), ds + i,
                                                             kTile, k + lanes, padded,
                                                             dq + i * padded + lanes, padded);
      }
    }
  }

  template <typename S>
  static constexpr AttentionKernels<S> kKernels = {Forward<S>, Backward<S>};
};

}  // namespace
}  // namespace plimsoll::cpu::internal
