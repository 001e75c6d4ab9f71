// How optimizer kernels access weights and moments in any storage form. A block of kStateBlock
// elements is read into the first-level cache as T (float; double only for float64 tensors),
// updated, and written back.
//
//   const T* old = moment.Read(block, scratch);       // the stored elements or, converted, scratch
//   T* updated = moment.Target(block, scratch);       // where to compute them: same choice
//   moment.Write(block, updated, random);             // does nothing if that was their memory
//
// Tensors stored as T are never copied.
#pragma once

#include <optional>
#include <type_traits>

#include "base/philox.h"
#include "ops/kernel.h"
#include "ops/optimizer/blocks.h"
#include "ops/optimizer/optimizer.h"

namespace plimsoll::ops {

static_assert(kBlockElements == kStateBlock);

// Random bits for stochastic rounding, from the Philox stream of the node's key and rng. Element i
// of the parameter has the words i (for the moments, 16 bits each) and 2^62 + i (for the weight). A
// node that updates only a part of the parameter has its elements from FirstElement on.
class RoundingBits {
 public:
  struct Half {
    const uint32_t* words = nullptr;  // the words of a block
    int shift = 0;                    // 0 or 16
  };
  enum class For { kFirstMoment, kSecondMoment, kWeight };

  // Without an input rng, Draw must not be called.
  RoundingBits(const CpuContext& ctx, size_t rng) {
    if (ctx.has_input(rng)) stream_.emplace(ctx.in<int32_t>(rng), ctx.attributes.GetInt("key"));
    first_ = FirstElement(ctx.attributes);
  }

  // `words` has kStateBlock elements. The two moments share words: draw for one moment, and use
  // them for both.
  void Draw(For what, Block block, uint32_t* words) const {
    const uint64_t first = static_cast<uint64_t>(first_ + block.begin);
    stream_->Words(what == For::kWeight ? (uint64_t{1} << 62) + first : first, block.count, words);
  }
  static Half HalfOf(For what, const uint32_t* words) {
    return {words, what == For::kSecondMoment ? 16 : 0};
  }

 private:
  std::optional<PhiloxStream> stream_;
  int64_t first_ = 0;
};

inline void RoundStochastically(const float* from, int64_t count, RoundingBits::Half random,
                                BFloat16* to) {
  for (int64_t i = 0; i < count; ++i) {
    to[i].bits = ToBf16Stochastic(from[i], random.words[i] >> random.shift);
  }
}

// A gradient, stored as T or bf16.
template <typename T>
class StoredGradient {
 public:
  StoredGradient(const CpuContext& ctx, size_t in)
      : rounded_(ctx.inputs[in].type.dtype == graph::DType::kBFloat16), in_(ctx.inputs[in].data) {}

  const T* Read(Block block, T* scratch) const {
    if (!rounded_) return static_cast<const T*>(in_) + block.begin;
    const BFloat16* const from = static_cast<const BFloat16*>(in_) + block.begin;
    for (int64_t i = 0; i < block.count; ++i) scratch[i] = FromBf16(from[i].bits);
    return scratch;
  }

 private:
  bool rounded_;
  const void* in_;
};

// A moment, stored as T, as bf16 rounded stochastically, or as codes with a scale for each block.
template <typename T>
class Moment {
 public:
  // `encoding` is used only for codes. If the input is absent, the moment is absent.
  Moment(const CpuContext& ctx, size_t in, size_t scale_in, size_t out, size_t scale_out,
         const Encoding& encoding)
      : present_(ctx.has_input(in)),
        dtype_(present_ ? ctx.inputs[in].type.dtype : graph::DType::kFloat32),
        in_(present_ ? ctx.inputs[in].data : nullptr),
        out_(ctx.has_output(out) ? ctx.outputs[out].data : nullptr),
        scale_in_(ctx.in<float>(scale_in)),
        scale_out_(ctx.out<float>(scale_out)),
        encoding_(encoding) {}

  bool present() const { return present_; }
  bool rounds() const { return dtype_ == graph::DType::kBFloat16; }

  const T* Read(Block block, T* scratch) const {
    if (IsWhole()) return static_cast<const T*>(in_) + block.begin;
    if constexpr (std::is_same_v<T, float>) {
      if (rounds()) {
        const BFloat16* from = static_cast<const BFloat16*>(in_) + block.begin;
        for (int64_t i = 0; i < block.count; ++i) scratch[i] = FromBf16(from[i].bits);
      } else {
        encoding_.decode(static_cast<const uint8_t*>(in_) + block.begin,
                         scale_in_ + block.begin / kStateBlock, block.count, scratch);
      }
    }
    return scratch;
  }

  T* Target(Block block, T* scratch) const {
    return IsWhole() && out_ != nullptr ? static_cast<T*>(out_) + block.begin : scratch;
  }

  void Write(Block block, const T* values, RoundingBits::Half random) const {
    if (IsWhole()) return;
    if constexpr (std::is_same_v<T, float>) {
      if (!rounds()) return WriteCodes(block, values);
      if (out_ == nullptr) return;
      RoundStochastically(values, block.count, random, static_cast<BFloat16*>(out_) + block.begin);
    }
  }

 private:
  bool IsWhole() const {
    return dtype_ == graph::DType::kFloat32 || dtype_ == graph::DType::kFloat64;
  }

  void WriteCodes(Block block, const float* values) const {
    uint8_t unread[kStateBlock];
    float unread_scale;
    encoding_.encode(
        values, block.count, out_ != nullptr ? static_cast<uint8_t*>(out_) + block.begin : unread,
        scale_out_ != nullptr ? scale_out_ + block.begin / kStateBlock : &unread_scale);
  }

  bool present_;
  graph::DType dtype_;
  const void* in_;
  void* out_;
  const float* scale_in_;
  float* scale_out_;
  const Encoding& encoding_;
};

// A trained weight, stored as T; as bf16 with the i16 remainder that extends it to float32; in 16
// bits with a float32 master, of which only the master is read; or as bf16 alone, rounded
// stochastically.
template <typename T>
class Weight {
 public:
  Weight(const CpuContext& ctx, size_t in, size_t master_in, size_t out, size_t master_out)
      : dtype_(ctx.inputs[in].type.dtype),
        has_master_(ctx.has_input(master_in) &&
                    ctx.inputs[master_in].type.dtype == graph::DType::kFloat32),
        in_(ctx.inputs[in].data),
        out_(ctx.outputs[out].data),
        master_in_(ctx.has_input(master_in) ? ctx.inputs[master_in].data : nullptr),
        master_out_(ctx.has_output(master_out) ? ctx.outputs[master_out].data : nullptr) {}

  bool rounds() const { return dtype_ == graph::DType::kBFloat16 && master_in_ == nullptr; }

  const T* Read(Block block, T* scratch) const {
    if (IsWhole()) return static_cast<const T*>(in_) + block.begin;
    if constexpr (std::is_same_v<T, float>) {
      if (has_master_) return static_cast<const float*>(master_in_) + block.begin;
      const BFloat16* high = static_cast<const BFloat16*>(in_) + block.begin;
      if (rounds()) {
        for (int64_t i = 0; i < block.count; ++i) scratch[i] = FromBf16(high[i].bits);
      } else {
        const int16_t* low = static_cast<const int16_t*>(master_in_) + block.begin;
        for (int64_t i = 0; i < block.count; ++i) scratch[i] = Join(high[i], low[i]);
      }
    }
    return scratch;
  }

  T* Target(Block block, T* scratch) const {
    if (IsWhole()) return static_cast<T*>(out_) + block.begin;
    const bool in_master = has_master_ && master_out_ != nullptr;
    return in_master ? static_cast<T*>(master_out_) + block.begin : scratch;
  }

  void Write(Block block, const T* values, RoundingBits::Half random) const {
    if (IsWhole()) return;
    if constexpr (std::is_same_v<T, float>) {
      BFloat16* to = static_cast<BFloat16*>(out_) + block.begin;
      if (has_master_ && dtype_ == graph::DType::kFloat16) {
        RoundToNearest(values, block.count, static_cast<Float16*>(out_) + block.begin);
      } else if (has_master_) {
        RoundToNearest(values, block.count, to);
      } else if (rounds()) {
        RoundStochastically(values, block.count, random, to);
      } else {
        int16_t* low = static_cast<int16_t*>(master_out_);
        for (int64_t i = 0; i < block.count; ++i) {
          const SplitFloat split = Split(values[i]);
          to[i] = split.high;
          if (low != nullptr) low[block.begin + i] = split.low;
        }
      }
    }
  }

 private:
  bool IsWhole() const {
    return dtype_ == graph::DType::kFloat32 || dtype_ == graph::DType::kFloat64;
  }

  template <typename Stored>
  static void RoundToNearest(const float* from, int64_t count, Stored* to) {
    ForVectors<float>(0, count, [&](int64_t i, auto lanes) {
      Store<float>(to + i, Load<float>(from + i, lanes), lanes);
    });
  }

  graph::DType dtype_;
  bool has_master_;
  const void* in_;
  void* out_;
  const void* master_in_;
  void* master_out_;
};

}  // namespace plimsoll::ops
