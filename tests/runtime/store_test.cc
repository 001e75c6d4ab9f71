// What the CPU stores, against one element at a time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/low_precision.h"
#include "base/thread_pool.h"
#include "tests/runtime/store_cases.h"

namespace plimsoll::runtime {
namespace {

using graph::DType;

float ValueAt(const TypedElements& values, int64_t number) {
  const std::byte* const at = values.data + number * graph::ByteSize(values.dtype);
  float value;
  uint16_t low;
  std::memcpy(&low, at, sizeof(low));
  if (values.dtype == DType::kBFloat16) return FromBf16(low);
  if (values.dtype == DType::kFloat16) return FromF16(low);
  std::memcpy(&value, at, sizeof(value));
  return value;
}

void StoreOne(const StoredParameter& to, int64_t i, float value) {
  if (to.dtype == DType::kFloat32) {
    std::memcpy(to.data + 4 * i, &value, 4);
    return;
  }
  uint16_t low = to.dtype == DType::kBFloat16 ? ToBf16(value) : ToF16(value);
  if (to.has_remainder) low = Split(value).high.bits;
  std::memcpy(to.data + 2 * i, &low, 2);
  if (to.remainder != nullptr) to.remainder[i] = Split(value).low;
  if (to.master != nullptr) std::memcpy(to.master + i, &value, 4);
}

class Store : public testing::Test {
 protected:
  // Calls check(to, stripe) for all forms, stripes and places.
  template <typename Check>
  void ForAll(const Check& check) {
    for (const StoreForm& form : StoreForms()) {
      SCOPED_TRACE(form.name);
      for (const Stripe& stripe : StoreStripes()) {
        SCOPED_TRACE(testing::Message() << stripe.count << " from " << stripe.first << " on");
        const auto place = stripe.first % 2 == 0 ? graph::Place::kDevice : graph::Place::kHost;
        check(bench_.Place(form, place, stripe.count, stripe.first % 4), stripe);
      }
    }
  }

  ThreadPool pool_{2};
  std::unique_ptr<Device> device_ = MakeCpuDevice(pool_);
  StoreBench bench_{*device_};
};

TEST_F(Store, DrawsElementsByTheirNumbers) {
  for (const InitialDraws& draws : StoreDraws()) {
    ForAll([&](const StoredParameter& to, const Stripe& stripe) {
      const auto stored = bench_.After([&] { device_->Store(to, stripe, draws); });
      EXPECT_EQ(stored, bench_.After([&] {
        for (int64_t i = 0; i < stripe.count; ++i) {
          float value;
          Draw(draws, stripe.Number(i), {&value, 1});
          StoreOne(to, i, value);
        }
      }));
    });
  }
}

TEST_F(Store, TakesValuesByTheirNumbers) {
  const std::vector<std::byte> bits = ArbitraryBits(60000);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const int64_t shift : {0, 1}) {
      const TypedElements values{dtype, bits.data() + shift, 14000};
      ForAll([&](const StoredParameter& to, const Stripe& stripe) {
        const auto stored = bench_.After([&] { device_->Store(to, stripe, values); });
        EXPECT_EQ(stored, bench_.After([&] {
          for (int64_t i = 0; i < stripe.count; ++i) {
            StoreOne(to, i, ValueAt(values, stripe.Number(i)));
          }
        }));
      });
    }
  }
}

TEST_F(Store, MayBeCalledByThreadsForOtherElements) {
  const InitialDraws draws = StoreDraws()[0];
  const Stripe all = Stripe::Piece(3, 10000);
  const StoredParameter to = bench_.Place(StoreForms()[3], graph::Place::kDevice, all.count, 0);
  const auto expected = bench_.After([&] { device_->Store(to, all, draws); });
  EXPECT_EQ(bench_.After([&] {
    std::vector<std::thread> threads;
    for (int64_t begin = 0; begin < all.count; begin += 2500) {
      threads.emplace_back([&, begin] {
        device_->Store(to.Part(begin, begin + 2500), all.Part(begin, begin + 2500), draws);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }),
            expected);
}

TEST_F(Store, TakesBytesAsTheyAre) {
  const std::vector<std::byte> bytes = ArbitraryBits(1003);
  std::vector<std::byte> to(1010);
  device_->Store(to.data() + 3, bytes);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), to.begin() + 3));
  EXPECT_EQ(to[2], std::byte());
  EXPECT_EQ(to[1006], std::byte());
  device_->Store(nullptr, {});
}

TEST_F(Store, RefusesWhatItsValuesLack) {
  const std::vector<float> values(10);
  const auto form = StoreForms()[0];
  const auto store = [&](const Stripe& stripe, int64_t elements) {
    device_->Store(bench_.Place(form, graph::Place::kDevice, elements, 0), stripe,
                   TypedElements::Of(values));
  };
  EXPECT_NO_THROW(store(Stripe::Piece(2, 8), 8));
  EXPECT_THROW(store(Stripe::Piece(3, 8), 8), InternalError);
  EXPECT_THROW(store(Stripe::Piece(-1, 8), 8), InternalError);
  EXPECT_THROW(store(Stripe::Piece(2, 8), 7), InternalError);
}

TEST_F(Store, GivesMemoryForValues) {
  const std::span<std::byte> staging = device_->Staging(1 << 20);
  ASSERT_EQ(staging.size(), size_t{1} << 20);
  std::memset(staging.data(), 1, staging.size());
  EXPECT_TRUE(device_->Staging(0).empty());
}

}  // namespace
}  // namespace plimsoll::runtime
