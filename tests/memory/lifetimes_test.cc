#include "memory/lifetimes.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/builder.h"
#include "tests/runtime/test_ops.h"
#include "tests/support/expect_error.h"

namespace plimsoll::memory {
namespace {

using graph::Attributes;
using graph::Builder;
using graph::Program;
using graph::Role;
using graph::Value;

const Attributes kTen = {{"n", int64_t{10}}, {"seed", int64_t{1}}};

const Buffer& BufferOf(const Lifetimes& lifetimes, Value v) {
  return lifetimes.buffers.at(lifetimes.buffer_of.at(v));
}

TEST(Lifetimes, FromWriterToLastReader) {
  Program p;
  Builder g(p);
  const Value a = g.Emit1("test_source", {}, kTen);   // 0
  const Value b = g.Emit1("test_mix", {a}, kTen);     // 1
  const Value c = g.Emit1("test_mix", {b, a}, kTen);  // 2
  const Value d = g.Emit1("test_mix", {c}, kTen);     // 3: nobody reads it
  const Lifetimes l = ComputeLifetimes(p);
  EXPECT_EQ(BufferOf(l, a).birth, 0);
  EXPECT_EQ(BufferOf(l, a).death, 2);
  EXPECT_EQ(BufferOf(l, b).birth, 1);
  EXPECT_EQ(BufferOf(l, b).death, 2);
  EXPECT_EQ(BufferOf(l, d).birth, 3);
  EXPECT_EQ(BufferOf(l, d).death, 3);
  EXPECT_EQ(BufferOf(l, a).bytes, 40);
}

TEST(Lifetimes, ChainsShareABufferInPlace) {
  Program p;
  Builder g(p);
  const Value a = g.Emit1("test_source", {}, kTen);  // 0
  const Value b = g.Emit1("test_unary", {a});        // 1
  const Value c = g.Emit1("test_unary", {b});        // 2
  g.Emit1("test_mix", {c}, kTen);                    // 3
  const Lifetimes l = ComputeLifetimes(p);
  EXPECT_EQ(l.buffer_of[a], l.buffer_of[c]);
  EXPECT_EQ(BufferOf(l, a).tensors, (std::vector<graph::TensorId>{a, b, c}));
  EXPECT_EQ(BufferOf(l, a).birth, 0);
  EXPECT_EQ(BufferOf(l, a).death, 3);
  EXPECT_EQ(l.last_use[a], 1);

  const Lifetimes apart = ComputeLifetimes(p, /*in_place=*/false);
  EXPECT_NE(apart.buffer_of[a], apart.buffer_of[b]);
  EXPECT_EQ(BufferOf(apart, a).death, 1);
}

TEST(Lifetimes, NotInPlaceOfWhatIsReadLater) {
  Program p;
  Builder g(p);
  const Value a = g.Emit1("test_source", {}, kTen);
  const Value b = g.Emit1("test_unary", {a});
  g.Emit1("test_mix", {a, b}, kTen);
  const Lifetimes l = ComputeLifetimes(p);
  EXPECT_NE(l.buffer_of[a], l.buffer_of[b]);
}

TEST(Lifetimes, NotInPlaceWhileAViewLivesOn) {
  Program p;
  Builder g(p);
  const Value a = g.Emit1("test_source", {}, kTen);  // 0
  const Value view = g.Emit1("test_view", {a});      // 1
  const Value b = g.Emit1("test_unary", {a});        // 2
  g.Emit1("test_mix", {view, b}, kTen);              // 3
  const Lifetimes l = ComputeLifetimes(p);
  EXPECT_NE(l.buffer_of[a], l.buffer_of[b]);
  EXPECT_EQ(l.buffer_of[a], l.buffer_of[view]);
  EXPECT_EQ(BufferOf(l, a).death, 3);
}

TEST(Lifetimes, InPlaceThroughAView) {
  Program p;
  Builder g(p);
  const Value a = g.Emit1("test_source", {}, kTen);
  const Value view = g.Emit1("test_view", {a});
  const Value b = g.Emit1("test_unary", {view});
  const Lifetimes l = ComputeLifetimes(p);
  EXPECT_EQ(l.buffer_of[a], l.buffer_of[b]);
}

TEST(Lifetimes, NotInPlaceOfAnArgumentGivenTwice) {
  Program p;
  Builder g(p);
  const Value a = g.Emit1("test_source", {}, kTen);
  const Value b = g.Emit1("test_binary", {a, a});
  const Lifetimes l = ComputeLifetimes(p);
  EXPECT_NE(l.buffer_of[a], l.buffer_of[b]);
}

TEST(Lifetimes, SecondPairWhenTheFirstInputLivesOn) {
  Program p;
  Builder g(p);
  const Value a = g.Emit1("test_source", {}, kTen);
  const Value b = g.Emit1("test_source", {}, kTen);
  const Value c = g.Emit1("test_binary", {a, b});
  g.Emit1("test_mix", {a, c}, kTen);
  const Lifetimes l = ComputeLifetimes(p);
  EXPECT_NE(l.buffer_of[a], l.buffer_of[c]);
  EXPECT_EQ(l.buffer_of[b], l.buffer_of[c]);
}

TEST(Lifetimes, PersistentTensorsHaveNone) {
  Program p;
  Builder g(p);
  const Value w = g.Persistent("w", Role::kParameter, Float32(10));
  const Value a = g.Emit1("test_unary", {w});
  const Lifetimes l = ComputeLifetimes(p);
  EXPECT_EQ(l.buffer_of[w], -1);
  EXPECT_EQ(l.buffers.size(), 1u);
  EXPECT_EQ(BufferOf(l, a).tensors, std::vector<graph::TensorId>{a});
}

TEST(Lifetimes, InputsFromTheStartMetricsToTheEnd) {
  Program p;
  Builder g(p);
  graph::Tensor slot;
  slot.name = "slot";
  slot.type = Float32(10);
  slot.role = Role::kInput;
  const Value input = p.AddTensor(slot);
  const Value a = g.Emit1("test_source", {}, kTen);     // 0
  const Value metric = g.Emit1("test_mix", {a}, kTen);  // 1
  const Value b = g.Emit1("test_unary", {metric});      // 2: must not take the metric's place
  g.Emit1("test_mix", {b, input}, kTen);                // 3
  g.Emit1("test_source", {}, kTen);                     // 4
  p.mutable_tensor(metric).role = Role::kMetric;
  const Lifetimes l = ComputeLifetimes(p);
  EXPECT_EQ(BufferOf(l, input).birth, 0);
  EXPECT_EQ(BufferOf(l, input).death, 3);
  EXPECT_EQ(BufferOf(l, metric).birth, 1);
  EXPECT_EQ(BufferOf(l, metric).death, 4);
  EXPECT_NE(l.buffer_of[metric], l.buffer_of[b]);
}

TEST(Lifetimes, ABucketLivesFromItsFirstSlice) {
  Program p;
  Builder g(p);
  graph::Tensor tensor;
  tensor.name = "bucket";
  tensor.type = Float32(26);
  const Value bucket = p.AddTensor(tensor);
  const Value first = g.Emit1("test_source", {}, {{"n", int64_t{16}}, {"seed", int64_t{1}}});
  const Value second = g.Emit1("test_source", {}, kTen);
  p.mutable_tensor(first).alias = graph::Alias{bucket, 0};
  p.mutable_tensor(second).alias = graph::Alias{bucket, 64};
  g.Emit1("test_mix", {bucket}, kTen);
  const Lifetimes l = ComputeLifetimes(p);
  EXPECT_EQ(l.buffer_of[first], l.buffer_of[bucket]);
  EXPECT_EQ(l.buffer_of[second], l.buffer_of[bucket]);
  EXPECT_EQ(BufferOf(l, bucket).birth, 0);
  EXPECT_EQ(BufferOf(l, bucket).death, 2);
}

TEST(Lifetimes, ReadBeforeWrittenIsAnError) {
  Program p;
  Builder g(p);
  graph::Tensor tensor;
  tensor.name = "ghost";
  tensor.type = Float32(10);
  const Value ghost = p.AddTensor(tensor);
  g.Emit1("test_unary", {ghost});
  ExpectInternalError([&] { ComputeLifetimes(p); }, {"'ghost'"});
}

TEST(Lifetimes, OnlyTheSamePlaceIsShared) {
  Program p;
  Builder g(p);
  const Value a = g.Emit1("test_source", {}, kTen);
  const Value b = g.Emit1("test_unary", {a});
  p.mutable_tensor(b).place = graph::Place::kHost;
  const Lifetimes l = ComputeLifetimes(p);
  EXPECT_NE(l.buffer_of[a], l.buffer_of[b]);
}

}  // namespace
}  // namespace plimsoll::memory
