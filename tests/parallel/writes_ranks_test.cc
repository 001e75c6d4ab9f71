// Ranks that share parameters take their parts of what is written and drawn, in any pieces and in
// any form that they hold them in.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/low_precision.h"
#include "tests/parallel/test_mesh.h"
#include "tests/support/mpi_test_main.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

// The bf16 of a checkpoint.
std::vector<uint16_t> Numbers(int64_t count) {
  std::mt19937 random(5);
  std::vector<uint16_t> numbers;
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(ToBf16(static_cast<float>(random() % 4096) / 64 - 32));
  }
  return numbers;
}

void ExpectWritten(Session& session, const models::Model& model) {
  for (const models::ParameterInfo& parameter : model.parameters()) {
    const int64_t elements = parameter.shape.elements();
    const std::vector<uint16_t> numbers = Numbers(elements);
    const TypedElements all{graph::DType::kBFloat16,
                            reinterpret_cast<const std::byte*>(numbers.data()), elements};
    std::vector<float> expected;
    for (const uint16_t number : numbers) expected.push_back(FromBf16(number));
    // From the last piece to the first one.
    constexpr int64_t kPiece = 77;
    for (int64_t first = elements / kPiece * kPiece; first >= 0; first -= kPiece) {
      session.WriteElements(parameter.name, first,
                            all.Part(first, std::min(first + kPiece, elements)));
    }
    EXPECT_EQ(session.ReadParameter(parameter.name), expected) << parameter.name;
    session.Initialize(parameter, 3);
    if (parameter.init.kind != models::Initializer::kNormal) continue;
    Draw({InitialDraws::Kind::kNormal, static_cast<float>(parameter.init.stddev), 3,
          StreamOf(parameter.name)},
         0, expected);
    EXPECT_EQ(session.ReadParameter(parameter.name), expected) << parameter.name;
  }
}

TEST(WritesOfRanks, GiveEachRankItsParts) {
  const int size = TestWorld().size();
  if (size == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  const auto model = models::MakeModel(TinyGpt2());
  for (int tensor = 1; tensor <= std::min(size, 2); tensor *= 2) {  // the model has two heads
    TestMesh mesh(tensor);
    const runtime::MeshRanks& ranks = mesh.ranks();
    for (const int64_t zero : {0, 1, 2, 3}) {
      for (const graph::DType dtype :
           {graph::DType::kFloat32, graph::DType::kBFloat16, graph::DType::kFloat16}) {
        SCOPED_TRACE(testing::Message()
                     << tensor << " tensor ranks, zero " << zero << ", " << graph::Name(dtype));
        TinyRun run;
        mesh.Use(run);
        run.zero = zero;
        run.amp.dtype = dtype;
        Session session(Compile(*model, OptionsOf(run, *model, mesh.device().kind())),
                        mesh.device(), {.communicators = ranks.communicators()}, {},
                        ranks.groups());
        ExpectWritten(session, *model);
        EXPECT_EQ(session.compiled().divided.empty(),
                  zero == 0 || ranks.position().ranks("data") == 1);
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::trainer
