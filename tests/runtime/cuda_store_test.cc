// What a GPU stores, in its memory and in pinned memory, has the bits of what the CPU stores.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/thread_pool.h"
#include "runtime/cuda/cuda_device.h"
#include "tests/runtime/store_cases.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll::runtime {
namespace {

using graph::DType;

class CudaStoring : public testing::Test {
 protected:
  void SetUp() override {
    PLIMSOLL_NEEDS_CUDA
    gpu_ = MakeCudaDevice(pool_);
    on_cpu_ = std::make_unique<StoreBench>(*cpu_);
    on_gpu_ = std::make_unique<StoreBench>(*gpu_);
  }

  // Runs `store(device, to)` on both.
  template <typename Store>
  void ExpectSame(const StoreForm& form, graph::Place place, int64_t elements, int64_t offset,
                  const Store& store) {
    const auto run = [&](StoreBench& bench) {
      const StoredParameter to = bench.Place(form, place, elements, offset);
      return bench.After([&] { store(bench.device(), to); });
    };
    ASSERT_EQ(run(*on_gpu_), run(*on_cpu_));
  }

  // For all forms, stripes, places and alignments.
  template <typename Store>
  void ExpectAllSame(const Store& store) {
    for (const StoreForm& form : StoreForms()) {
      SCOPED_TRACE(form.name);
      for (const Stripe& stripe : StoreStripes()) {
        SCOPED_TRACE(testing::Message() << stripe.count << " from " << stripe.first << " on");
        for (const graph::Place place : {graph::Place::kDevice, graph::Place::kHost}) {
          for (const int64_t offset : {0, 1, 6}) {
            ASSERT_NO_FATAL_FAILURE(ExpectSame(
                form, place, stripe.count, offset,
                [&](Device& device, const StoredParameter& to) { store(device, to, stripe); }));
          }
        }
      }
    }
  }

  ThreadPool pool_{2};
  std::unique_ptr<Device> cpu_ = MakeCpuDevice(pool_), gpu_;
  std::unique_ptr<StoreBench> on_cpu_, on_gpu_;
};

TEST_F(CudaStoring, DrawsHaveTheBitsOfTheCpu) {
  for (const InitialDraws& draws : StoreDraws()) {
    ASSERT_NO_FATAL_FAILURE(
        ExpectAllSame([&](Device& device, const StoredParameter& to, const Stripe& stripe) {
          device.Store(to, stripe, draws);
        }));
  }
}

// As many draws as make rare words likely, and numbers of blocks beyond 32 bits.
TEST_F(CudaStoring, MillionsOfDrawsHaveTheBitsOfTheCpu) {
  constexpr int64_t kElements = StoreBench::kArena / 3 / 4;
  for (InitialDraws draws : StoreDraws()) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
      draws.seed = seed;
      const Stripe stripe = Stripe::Piece((int64_t{1} << 34) - kElements / 2, kElements);
      ASSERT_NO_FATAL_FAILURE(ExpectSame(
          StoreForms()[0], graph::Place::kDevice, kElements, 0,
          [&](Device& device, const StoredParameter& to) { device.Store(to, stripe, draws); }))
          << seed;
    }
  }
}

TEST_F(CudaStoring, ValuesOfAnyMemoryHaveTheBitsOfTheCpu) {
  const std::vector<std::byte> bits = ArbitraryBits(60000);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const int64_t shift : {0, 1}) {
      ASSERT_NO_FATAL_FAILURE(ExpectAllSame([&](Device& device, const StoredParameter& to,
                                                const Stripe& stripe) {
        device.Store(to, stripe, TypedElements{dtype, bits.data() + shift, 14000});
      })) << shift;
    }
  }
}

TEST_F(CudaStoring, StagedValuesHaveTheBitsOfTheCpu) {
  const std::vector<std::byte> bits = ArbitraryBits(60000);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const int64_t shift : {0, 1, 2, 4, 8, 12}) {
      std::byte* const staged = gpu_->Staging(60016).data() + shift;
      std::memcpy(staged, bits.data(), bits.size());
      ASSERT_NO_FATAL_FAILURE(ExpectAllSame([&](Device& device, const StoredParameter& to,
                                                const Stripe& stripe) {
        device.Store(to, stripe,
                     TypedElements{dtype, &device == gpu_.get() ? staged : bits.data(), 14000});
      })) << shift;
    }
  }
  gpu_->Staging(0);
}

TEST_F(CudaStoring, TakesBytesOfAnyMemory) {
  constexpr int64_t kBytes = 1'000'003;
  const std::vector<std::byte> bytes = ArbitraryBits(kBytes);
  const auto memory = gpu_->Allocate(kBytes + 5, kBytes + 5);
  const std::span<std::byte> staging = gpu_->Staging(kBytes);
  std::ranges::copy(bytes, staging.begin());
  for (const graph::Place place : {graph::Place::kDevice, graph::Place::kHost}) {
    for (const std::span<const std::byte> from : {std::span(bytes), {staging}}) {
      std::vector<std::byte> read(kBytes);
      const MemoryRange range{place, 5, kBytes};
      memory->Write(range, read.data());
      gpu_->Store(memory->Address(range), from);
      memory->Read(range, read.data());
      EXPECT_EQ(read == bytes, true);
    }
  }
  gpu_->AwaitStores();
  gpu_->Staging(0);
}

// More than its pinned memory holds at a time.
TEST_F(CudaStoring, TakesValuesInPieces) {
  constexpr int64_t kElements = 12 << 20;
  const std::vector<std::byte> bits = ArbitraryBits(kElements * 2);
  const TypedElements values{DType::kBFloat16, bits.data(), kElements};
  std::vector<float> expected(kElements), actual(kElements);
  for (const auto& [device, result] : {std::pair{cpu_.get(), &expected}, {gpu_.get(), &actual}}) {
    const auto memory = device->Allocate(4 * kElements, 0);
    const MemoryRange range{graph::Place::kDevice, 0, 4 * kElements};
    const StoredParameter to{
        .dtype = DType::kFloat32, .elements = kElements, .data = memory->Address(range)};
    device->Store(to, Stripe::Piece(0, kElements), values);
    memory->Read(range, result->data());
  }
  EXPECT_EQ(std::memcmp(actual.data(), expected.data(), 4 * kElements), 0);
}

TEST_F(CudaStoring, MayBeCalledByThreadsAndBeAwaited) {
  const Stripe all = Stripe::Piece(0, 10000);
  const StoreForm form = StoreForms()[3];
  const std::vector<std::byte> bits = ArbitraryBits(4 * all.count);
  const std::span<std::byte> staging = gpu_->Staging(4 * all.count);
  std::memcpy(staging.data(), bits.data(), bits.size());
  const auto store = [&](Device& device, const StoredParameter& to) {
    const std::byte* const from = &device == gpu_.get() ? staging.data() : bits.data();
    std::vector<std::thread> threads;
    for (int64_t begin = 0; begin < all.count; begin += 2500) {
      threads.emplace_back([&, begin] {
        device.Store(to.Part(begin, begin + 2500), all.Part(begin, begin + 2500),
                     TypedElements{DType::kFloat32, from, all.count});
        device.AwaitStores();
      });
    }
    for (std::thread& thread : threads) thread.join();
    // What the device has read may change.
    if (&device == gpu_.get()) std::memset(staging.data(), 0, staging.size());
  };
  ExpectSame(form, graph::Place::kHost, all.count, 0, store);
  gpu_->Staging(0);
}

}  // namespace
}  // namespace plimsoll::runtime
