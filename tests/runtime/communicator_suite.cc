#include "tests/runtime/communicator_suite.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/low_precision.h"
#include "tests/support/expect_error.h"
#include "tests/support/mpi_test_main.h"

namespace plimsoll {
namespace {

using graph::DType;
using ops::Reduction;

// Zero, fewer elements than ranks, odd counts, more than a block of additions.
const std::vector<int64_t> kCounts = {0, 1, 2, 3, 5, 7, 64, 1023, 4099, 70'001};
const std::vector<DType> kTypes = {DType::kFloat32,  DType::kFloat64, DType::kInt32,
                                   DType::kBFloat16, DType::kFloat16, DType::kInt16,
                                   DType::kUInt8};

using Bytes = std::vector<std::byte>;

void Put(DType dtype, double value, std::byte* to) {
  const auto put = [&](auto number) { std::memcpy(to, &number, sizeof(number)); };
  switch (dtype) {
    case DType::kFloat32:
      return put(static_cast<float>(value));
    case DType::kFloat64:
      return put(value);
    case DType::kInt32:
      return put(static_cast<int32_t>(value));
    case DType::kBFloat16:
      return put(ToBf16(static_cast<float>(value)));
    case DType::kFloat16:
      return put(ToF16(static_cast<float>(value)));
    case DType::kInt16:
      return put(static_cast<int16_t>(value));
    case DType::kUInt8:
      return put(static_cast<uint8_t>(value));
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
      break;  // never reduced
  }
}

Bytes Numbers(DType dtype, int64_t count, const std::function<double(int64_t)>& value) {
  const int64_t width = graph::ByteSize(dtype);
  Bytes bytes(static_cast<size_t>(count * width));
  for (int64_t i = 0; i < count; ++i) Put(dtype, value(i), bytes.data() + i * width);
  return bytes;
}

// Element i on rank `rank`: small integers, whose sums over some ranks every type holds.
double Integer(int rank, int64_t i) { return static_cast<double>((i * 7 + rank * 3) % 5); }

// Numbers without a short binary form, of both signs and many sizes.
double Rough(int rank, int64_t i) {
  return std::sin(static_cast<double>(i) * 0.7 + rank * 1.3) * std::exp2((i * 5 + rank * 3) % 9);
}

// Memory from the bed with guards around it, which nobody may write.
class Buffer {
 public:
  Buffer(CommunicatorBed& bed, int64_t bytes)
      : bed_(bed), bytes_(bytes), memory_(bed.Allocate(bytes + 2 * kGuard)) {
    const Bytes guard(static_cast<size_t>(bytes + 2 * kGuard), kMark);
    bed_.Write(memory_, guard.data(), bytes + 2 * kGuard);
  }
  Buffer(CommunicatorBed& bed, const Bytes& content)
      : Buffer(bed, static_cast<int64_t>(content.size())) {
    if (bytes_ > 0) bed_.Write(data(), content.data(), bytes_);
  }
  ~Buffer() { bed_.Free(memory_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return memory_ + kGuard; }

  Bytes Read() const {
    Bytes all(static_cast<size_t>(bytes_ + 2 * kGuard));
    bed_.Read(memory_, all.data(), bytes_ + 2 * kGuard);
    for (int64_t i = 0; i < kGuard; ++i) {
      EXPECT_EQ(all[i], kMark) << i << " before the data";
      EXPECT_EQ(all[kGuard + bytes_ + i], kMark) << i << " after the data";
    }
    return {all.begin() + kGuard, all.begin() + kGuard + bytes_};
  }

 private:
  static constexpr int64_t kGuard = 256;
  static constexpr std::byte kMark{0xa5};
  CommunicatorBed& bed_;
  int64_t bytes_;
  std::byte* memory_;
};

class Communicators : public testing::Test {
 protected:
  // One bed for all tests, since GPU communicators are expensive.
  static void SetUpTestSuite() {
    bed_ = MakeCommunicatorBed(TestWorld()).release();
    why_not_ = bed_->WhyNot();
    if (why_not_.empty()) communicator_ = bed_->MakeCommunicator(TestWorld()).release();
  }
  static void TearDownTestSuite() {
    delete std::exchange(communicator_, nullptr);
    delete std::exchange(bed_, nullptr);
  }
  void SetUp() override {
    if (!why_not_.empty()) GTEST_SKIP() << why_not_;
    ASSERT_NE(communicator_, nullptr) << "it could not be made";
  }

  static CommunicatorBed& bed() { return *bed_; }
  static ops::Communicator& all() { return *communicator_; }
  static int rank() { return all().rank(); }
  static int size() { return all().size(); }

  static double Sum(double (*value)(int, int64_t), int64_t i, int ranks) {
    double sum = 0;
    for (int r = 0; r < ranks; ++r) sum += value(r, i);
    return sum;
  }
  static double Max(double (*value)(int, int64_t), int64_t i, int ranks) {
    double max = value(0, i);
    for (int r = 1; r < ranks; ++r) max = std::max(max, value(r, i));
    return max;
  }

  // Expects that every rank has the bytes of rank 0.
  static void ExpectSameOnAllRanks(const Bytes& bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    EXPECT_TRUE(TestWorld().Broadcast(text) == text) << "rank 0 has other bits than this rank";
  }

 private:
  static CommunicatorBed* bed_;
  static ops::Communicator* communicator_;
  static std::string why_not_;
};

CommunicatorBed* Communicators::bed_ = nullptr;
ops::Communicator* Communicators::communicator_ = nullptr;
std::string Communicators::why_not_;

// Calls test(type, count) for all combinations, and names the combination in failures.
template <typename Test>
void ForAll(const std::vector<DType>& types, const Test& test) {
  for (const DType dtype : types) {
    for (const int64_t count : kCounts) {
      SCOPED_TRACE(testing::Message() << graph::Name(dtype) << ", " << count << " elements");
      test(dtype, count);
    }
  }
}

TEST_F(Communicators, HaveTheRanksOfTheGroup) {
  EXPECT_EQ(rank(), TestWorld().rank());
  EXPECT_EQ(size(), TestWorld().size());
}

TEST_F(Communicators, AllReduceAddsSmallIntegersExactly) {
  ForAll(bed().ReducibleTypes(), [&](DType dtype, int64_t count) {
    const Bytes input = Numbers(dtype, count, [&](int64_t i) { return Integer(rank(), i); });
    const Bytes expected =
        Numbers(dtype, count, [&](int64_t i) { return Sum(Integer, i, size()); });
    const Buffer from(bed(), input), to(bed(), static_cast<int64_t>(input.size()));
    all().AllReduce(from.data(), to.data(), count, dtype, Reduction::kSum, bed().stream());
    EXPECT_TRUE(to.Read() == expected);
    EXPECT_TRUE(from.Read() == input) << "the input has changed";
    const Buffer in_place(bed(), input);
    all().AllReduce(in_place.data(), in_place.data(), count, dtype, Reduction::kSum,
                    bed().stream());
    EXPECT_TRUE(in_place.Read() == expected) << "in place";
  });
}

TEST_F(Communicators, AllReduceFindsTheMaximum) {
  ForAll(bed().ReducibleTypes(), [&](DType dtype, int64_t count) {
    const auto value = graph::IsFloat(dtype) ? Rough : Integer;
    const Buffer data(bed(), Numbers(dtype, count, [&](int64_t i) { return value(rank(), i); }));
    all().AllReduce(data.data(), data.data(), count, dtype, Reduction::kMax, bed().stream());
    EXPECT_TRUE(data.Read() ==
                Numbers(dtype, count, [&](int64_t i) { return Max(value, i, size()); }));
  });
}

TEST_F(Communicators, MaximumOfANumberAndANaNIsTheNumber) {
  const float nan = std::nanf("");
  const Buffer data(bed(), Numbers(DType::kFloat32, 2, [&](int64_t i) {
                      return i == 0 && rank() != size() - 1 ? nan : -2.0 - rank();
                    }));
  all().AllReduce(data.data(), data.data(), 2, DType::kFloat32, Reduction::kMax, bed().stream());
  EXPECT_TRUE(data.Read() == Numbers(DType::kFloat32, 2, [&](int64_t i) {
                return i == 0 ? -2.0 - (size() - 1) : -2.0;
              }));
}

TEST_F(Communicators, SumsThatRoundHaveTheSameBitsOnAllRanks) {
  ForAll(bed().ReducibleTypes(), [&](DType dtype, int64_t count) {
    if (!graph::IsFloat(dtype)) return;
    const Buffer data(bed(), Numbers(dtype, count, [&](int64_t i) { return Rough(rank(), i); }));
    all().AllReduce(data.data(), data.data(), count, dtype, Reduction::kSum, bed().stream());
    ExpectSameOnAllRanks(data.Read());
  });
}

// Sums are added in the order of the ranks, in float32, and rounded once.
TEST_F(Communicators, SumsAreThoseOfTheHeader) {
  if (!bed().AddsInRankOrder()) GTEST_SKIP() << "this kind has an order of its own";
  constexpr int64_t kCount = 4099;
  const auto expect = [&](DType dtype, auto rounded) {
    SCOPED_TRACE(graph::Name(dtype));
    const Buffer data(bed(), Numbers(dtype, kCount, [&](int64_t i) { return Rough(rank(), i); }));
    all().AllReduce(data.data(), data.data(), kCount, dtype, Reduction::kSum, bed().stream());
    EXPECT_TRUE(data.Read() == Numbers(dtype, kCount, [&](int64_t i) -> double {
                  float sum = rounded(static_cast<float>(Rough(0, i)));
                  for (int r = 1; r < size(); ++r) sum += rounded(static_cast<float>(Rough(r, i)));
                  return sum;
                }));
  };
  expect(DType::kFloat32, [](float value) { return value; });
  expect(DType::kBFloat16, [](float value) { return FromBf16(ToBf16(value)); });
  expect(DType::kFloat16, [](float value) { return FromF16(ToF16(value)); });
}

TEST_F(Communicators, SumsOfIntegersWrapAround) {
  const Buffer data(bed(), Numbers(DType::kInt32, 3, [](int64_t) { return 2147483647.0; }));
  all().AllReduce(data.data(), data.data(), 3, DType::kInt32, Reduction::kSum, bed().stream());
  const auto wrapped = static_cast<int32_t>(static_cast<uint32_t>(size()) * 2147483647u);
  EXPECT_TRUE(data.Read() == Numbers(DType::kInt32, 3, [&](int64_t) { return wrapped; }));
}

TEST_F(Communicators, InfinityAndNaNReachAllRanks) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    SCOPED_TRACE(graph::Name(dtype));
    const bool last = rank() == size() - 1;
    const Buffer data(bed(), Numbers(dtype, 2, [&](int64_t i) -> double {
                        if (!last) return 1;
                        return i == 0 ? HUGE_VAL : std::nan("");
                      }));
    all().AllReduce(data.data(), data.data(), 2, dtype, Reduction::kSum, bed().stream());
    const Bytes sums = data.Read();
    EXPECT_TRUE(std::equal(sums.begin(), sums.begin() + graph::ByteSize(dtype),
                           Numbers(dtype, 1, [](int64_t) { return HUGE_VAL; }).begin()));
    // The bits of a NaN do not matter.
    uint32_t bits = 0;
    std::memcpy(&bits, sums.data() + graph::ByteSize(dtype), graph::ByteSize(dtype));
    EXPECT_TRUE(std::isnan(dtype == DType::kFloat32    ? std::bit_cast<float>(bits)
                           : dtype == DType::kBFloat16 ? FromBf16(static_cast<uint16_t>(bits))
                                                       : FromF16(static_cast<uint16_t>(bits))));
  }
}

TEST_F(Communicators, AllGatherBringsAllPartsInOrder) {
  ForAll(kTypes, [&](DType dtype, int64_t count) {
    const auto part_of = [&](int r) {
      return Numbers(dtype, count, [&](int64_t i) { return Integer(r, i); });
    };
    Bytes expected;
    for (int r = 0; r < size(); ++r) {
      const Bytes part = part_of(r);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    const Bytes own = part_of(rank());
    const Buffer from(bed(), own), to(bed(), static_cast<int64_t>(expected.size()));
    all().AllGather(from.data(), to.data(), count, dtype, bed().stream());
    EXPECT_TRUE(to.Read() == expected);
    EXPECT_TRUE(from.Read() == own) << "the input has changed";
    const Buffer in_place(bed(), static_cast<int64_t>(expected.size()));
    std::byte* const place = in_place.data() + rank() * static_cast<int64_t>(own.size());
    if (count > 0) bed().Write(place, own.data(), static_cast<int64_t>(own.size()));
    all().AllGather(place, in_place.data(), count, dtype, bed().stream());
    EXPECT_TRUE(in_place.Read() == expected) << "in place";
  });
}

TEST_F(Communicators, ReduceScatterLeavesEachRankItsPart) {
  ForAll(bed().ReducibleTypes(), [&](DType dtype, int64_t count) {
    const Bytes input =
        Numbers(dtype, count * size(), [&](int64_t i) { return Integer(rank(), i); });
    const auto expected = [&](auto reduce) {
      return Numbers(dtype, count,
                     [&](int64_t i) { return reduce(Integer, rank() * count + i, size()); });
    };
    const int64_t part_bytes = count * graph::ByteSize(dtype);
    const Buffer from(bed(), input), to(bed(), part_bytes);
    all().ReduceScatter(from.data(), to.data(), count, dtype, Reduction::kSum, bed().stream());
    EXPECT_TRUE(to.Read() == expected(Sum));
    EXPECT_TRUE(from.Read() == input) << "the input has changed";
    all().ReduceScatter(from.data(), to.data(), count, dtype, Reduction::kMax, bed().stream());
    EXPECT_TRUE(to.Read() == expected(Max)) << "maximum";

    const Buffer in_place(bed(), input);
    all().ReduceScatter(in_place.data(), in_place.data() + rank() * part_bytes, count, dtype,
                        Reduction::kSum, bed().stream());
    Bytes only_own_changed = input;
    std::ranges::copy(expected(Sum), only_own_changed.begin() + rank() * part_bytes);
    EXPECT_TRUE(in_place.Read() == only_own_changed) << "in place";
  });
}

TEST_F(Communicators, AllReduceHasTheBitsOfReduceScatterAndAllGather) {
  if (!bed().AddsInRankOrder()) GTEST_SKIP() << "this kind has an order of its own";
  ForAll({DType::kFloat32, DType::kBFloat16}, [&](DType dtype, int64_t part) {
    const int64_t part_bytes = part * graph::ByteSize(dtype);
    const Bytes input = Numbers(dtype, part * size(), [&](int64_t i) { return Rough(rank(), i); });
    const Buffer once(bed(), input), twice(bed(), input);
    all().AllReduce(once.data(), once.data(), part * size(), dtype, Reduction::kSum,
                    bed().stream());
    std::byte* const own = twice.data() + rank() * part_bytes;
    all().ReduceScatter(twice.data(), own, part, dtype, Reduction::kSum, bed().stream());
    all().AllGather(own, twice.data(), part, dtype, bed().stream());
    EXPECT_TRUE(once.Read() == twice.Read());
  });
}

TEST_F(Communicators, BroadcastComesFromEachRoot) {
  for (int root = 0; root < size(); ++root) {
    SCOPED_TRACE(testing::Message() << "root " << root);
    ForAll(kTypes, [&](DType dtype, int64_t count) {
      const Buffer data(bed(),
                        Numbers(dtype, count, [&](int64_t i) { return Integer(rank(), i); }));
      all().Broadcast(data.data(), count, dtype, root, bed().stream());
      EXPECT_TRUE(data.Read() ==
                  Numbers(dtype, count, [&](int64_t i) { return Integer(root, i); }));
    });
  }
}

TEST_F(Communicators, SendsReachTheirReceivers) {
  if (size() == 1) GTEST_SKIP() << "there is nobody to send to";
  ForAll(kTypes, [&](DType dtype, int64_t count) {
    // From 0 to 1, from 1 to 2, …: each rank adds one before it passes the data on.
    const auto after = [&](int steps) {
      return Numbers(dtype, count, [&](int64_t i) { return Integer(0, i) + steps; });
    };
    const Buffer data(bed(), after(0));
    if (rank() > 0) {
      all().Receive(data.data(), count, dtype, rank() - 1, bed().stream());
      EXPECT_TRUE(data.Read() == after(rank() - 1));
      const Bytes next = after(rank());
      if (count > 0) bed().Write(data.data(), next.data(), static_cast<int64_t>(next.size()));
    }
    if (rank() + 1 < size()) {
      all().Send(data.data(), count, dtype, rank() + 1, bed().stream());
      data.Read();  // the data is sent before its buffer is freed
    }
  });
}

TEST_F(Communicators, MessagesOfOnePairKeepTheirOrder) {
  if (size() == 1) GTEST_SKIP() << "there is nobody to send to";
  constexpr int kMessages = 20;
  for (int message = 0; message < kMessages; ++message) {
    const auto content = [&] {
      return Numbers(DType::kInt32, 100, [&](int64_t i) { return message * 1000.0 + i; });
    };
    if (rank() == 0) {
      const Buffer data(bed(), content());
      all().Send(data.data(), 100, DType::kInt32, size() - 1, bed().stream());
      data.Read();
    } else if (rank() == size() - 1) {
      const Buffer data(bed(), 400);
      all().Receive(data.data(), 100, DType::kInt32, 0, bed().stream());
      EXPECT_TRUE(data.Read() == content()) << "message " << message;
    }
  }
}

TEST_F(Communicators, CallsFollowOneAnotherInOrder) {
  const Buffer data(bed(), Numbers(DType::kFloat32, 1000, [&](int64_t) { return 1.0; }));
  double expected = 1;
  for (int i = 0; i < 5; ++i) {
    all().AllReduce(data.data(), data.data(), 1000, DType::kFloat32, Reduction::kSum,
                    bed().stream());
    expected *= size();
  }
  EXPECT_TRUE(data.Read() == Numbers(DType::kFloat32, 1000, [&](int64_t) { return expected; }));
}

// More than the reductions' scratch memory holds at once.
TEST_F(Communicators, LargeTensorsGoInPieces) {
  constexpr int64_t kCount = 1'100'003;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    SCOPED_TRACE(graph::Name(dtype));
    const int64_t part_bytes = kCount * graph::ByteSize(dtype);
    const auto sums = [&](int64_t first, int64_t count) {
      return Numbers(dtype, count, [&](int64_t i) { return Sum(Integer, first + i, size()); });
    };
    const Bytes all_sums = sums(0, kCount * size());
    const Bytes input =
        Numbers(dtype, kCount * size(), [&](int64_t i) { return Integer(rank(), i); });
    const Buffer reduced(bed(), input), scattered(bed(), input);
    all().AllReduce(reduced.data(), reduced.data(), kCount * size(), dtype, Reduction::kSum,
                    bed().stream());
    EXPECT_TRUE(reduced.Read() == all_sums);
    std::byte* const own = scattered.data() + rank() * part_bytes;
    all().ReduceScatter(scattered.data(), own, kCount, dtype, Reduction::kSum, bed().stream());
    all().AllGather(own, scattered.data(), kCount, dtype, bed().stream());
    EXPECT_TRUE(scattered.Read() == all_sums);
  }
}

TEST_F(Communicators, BarrierLetsNobodyThroughEarly) {
  for (int i = 0; i < 20; ++i) all().Barrier();
  all().CheckErrors();
}

// A mesh: groups of neighbours and groups across them, both used concurrently.
TEST_F(Communicators, TwoGroupsWorkAtOnce) {
  runtime::World& world = TestWorld();
  const auto pair = world.Split(world.rank() / 2, world.rank());
  const auto across = world.Split(world.rank() % 2, -world.rank());  // in reversed order
  EXPECT_EQ(pair->rank(), world.rank() % 2);
  const int across_size = (world.size() + 1 - world.rank() % 2) / 2;
  ASSERT_EQ(across->size(), across_size);
  EXPECT_EQ(across->rank(), across_size - 1 - world.rank() / 2);
  const auto in_pair = bed().MakeCommunicator(*pair);
  const auto in_across = bed().MakeCommunicator(*across);
  for (const int64_t count : {int64_t{1}, int64_t{1023}, int64_t{100'000}}) {
    const auto number = [](int r, int64_t i) { return static_cast<double>((i + 1) % 7 + 10 * r); };
    const Bytes input =
        Numbers(DType::kFloat32, count, [&](int64_t i) { return number(world.rank(), i); });
    const Buffer a(bed(), input), b(bed(), input);
    const Buffer gathered(bed(), across_size * static_cast<int64_t>(input.size()));
    in_pair->AllReduce(a.data(), a.data(), count, DType::kFloat32, Reduction::kSum, bed().stream());
    in_across->AllReduce(b.data(), b.data(), count, DType::kFloat32, Reduction::kSum,
                         bed().stream());
    in_pair->Broadcast(b.data(), count, DType::kFloat32, 0, bed().stream());
    in_across->AllGather(a.data(), gathered.data(), count, DType::kFloat32, bed().stream());
    const auto sum_of_pair = [&](int first, int64_t i) {
      return number(first, i) + (first + 1 < world.size() ? number(first + 1, i) : 0.0);
    };
    EXPECT_TRUE(a.Read() == Numbers(DType::kFloat32, count, [&](int64_t i) {
                  return sum_of_pair(world.rank() / 2 * 2, i);
                }));
    // Rank 0 of a pair is even: it broadcasts the sum over even ranks.
    EXPECT_TRUE(b.Read() == Numbers(DType::kFloat32, count, [&](int64_t i) {
                  double sum = 0;
                  for (int r = 0; r < world.size(); r += 2) sum += number(r, i);
                  return sum;
                }));
    Bytes expected;
    for (int r = across_size - 1; r >= 0; --r) {
      const Bytes part =
          Numbers(DType::kFloat32, count, [&](int64_t i) { return sum_of_pair(2 * r, i); });
      expected.insert(expected.end(), part.begin(), part.end());
    }
    EXPECT_TRUE(gathered.Read() == expected);
  }
}

TEST_F(Communicators, RefuseCallsThatCannotBe) {
  const Buffer data(bed(), 64);
  const auto call = [&](int64_t count, DType dtype) {
    all().AllReduce(data.data(), data.data(), count, dtype, Reduction::kSum, bed().stream());
  };
  ExpectInternalError([&] { call(-1, DType::kFloat32); }, {"all-reduce", "-1"});
  ExpectInternalError([&] { call(1, DType::kInt16); }, {"all-reduce", "i16"});
  ExpectInternalError(
      [&] { all().Broadcast(data.data(), 1, DType::kFloat32, size(), bed().stream()); },
      {"broadcast", std::to_string(size())});
  ExpectInternalError([&] { all().Send(data.data(), 1, DType::kFloat32, rank(), bed().stream()); },
                      {"send", "this rank itself"});
  ExpectInternalError([&] { all().Receive(data.data(), 1, DType::kFloat32, -1, bed().stream()); },
                      {"receive", "-1"});
}

}  // namespace
}  // namespace plimsoll
