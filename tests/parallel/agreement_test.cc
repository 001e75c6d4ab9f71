// Ranks whose programs differ in local ops train as equal ones do; other differences are named
// before the first step. Started under mpirun.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "base/axes.h"
#include "runtime/device.h"
#include "tests/parallel/compare_training.h"
#include "tests/parallel/test_mesh.h"
#include "tests/support/expect_error.h"
#include "trainer/resolve/ranks.h"

namespace plimsoll::trainer {
namespace {

using checkpointing::Options;

CompiledStep CompiledFor(const MeshPosition& position,
                         const std::function<void(CompileOptions&)>& change) {
  CompileOptions options;
  options.micro_batch = 2;
  options.sequence = 16;
  options.mesh = position.mesh;
  options.rank = position.rank;
  change(options);
  return Compile(*models::MakeModel(TinyGpt2()), options);
}

TEST(Agreement, IsNotAboutLocalOps) {
  const int size = TestWorld().size();
  if (size == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  if (TestsOnGpus()) GTEST_SKIP() << "GPUs register arenas, so that they must have equal offsets";
  const bool odd = TestWorld().rank() % 2 == 1;
  for (int tensor = 1; tensor <= std::min(size, 2); tensor *= 2) {  // the model has two heads
    const TestMesh mesh(tensor);
    SCOPED_TRACE(testing::Message() << tensor << " tensor ranks");
    // A recomputed block would sum among tensor ranks once more.
    const bool recomputes = odd && tensor == 1;
    const Options recompute{.policy = Options::Policy::kBlock};
    const CompiledStep compiled =
        CompiledFor(mesh.ranks().position(), [&](CompileOptions& options) {
          options.threads = odd ? 1 : 2;  // and so other scratch memory
          if (recomputes) options.checkpointing = recompute;
        });
    EXPECT_NO_THROW(RequireAgreement(TestWorld(), compiled));
    EXPECT_FALSE(CommonLinesOf(compiled).collectives.empty());

    TinyRun run;
    run.micro_batch = 2;
    mesh.Use(run);
    run.executor.check_arena = true;
    const TinyResult alike = Train(run);
    run.threads = odd ? 1 : 2;
    if (recomputes) run.checkpointing = recompute;
    const TinyResult different = Train(run);
    EXPECT_EQ(BitsOf(different), BitsOf(alike));
    ExpectUsesArena(different);
  }
}

TEST(Agreement, NamesTheFirstDifference) {
  const int size = TestWorld().size();
  if (size == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  const Mesh mesh({DataAxis(size)});
  const int64_t rank = TestWorld().rank();
  const auto refused = [&](const std::function<void(CompileOptions&)>& of_the_last) {
    const CompiledStep compiled = CompiledFor({mesh, rank}, [&](CompileOptions& options) {
      if (rank == size - 1) of_the_last(options);
    });
    const auto message = MessageOf<UserError>([&] { RequireAgreement(TestWorld(), compiled); });
    EXPECT_TRUE(message) << "no error on rank " << rank;
    return message.value_or("");
  };
  const std::string last = "rank " + std::to_string(size - 1);
  const std::string types =
      refused([](CompileOptions& options) { options.amp.dtype = graph::DType::kBFloat16; });
  ExpectMessage(types, {last + ": its carried tensors differ from rank 0's: it has ", "bf16",
                        " where rank 0 has ", "f32", "start every rank"});
  const std::string more = refused([](CompileOptions& options) { options.evaluate = true; });
  ExpectMessage(more,
                {last + ": its collectives differ from rank 0's: it has all_reduce_start of %",
                 "{axis=\"data\"} in program 'evaluate'", "where rank 0 has nothing more"});
  const std::string fewer =
      refused([](CompileOptions& options) { options.frozen = {"block.0.*"}; });
  ExpectMessage(fewer, {last + ": its carried tensors differ from rank 0's"});
}

TEST(Agreement, RefusesOnAllRanksWhatOneRefuses) {
  runtime::World& world = TestWorld();
  if (world.size() == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
  EXPECT_NO_THROW(RequireOnAll(world, [] {}));
  for (const int first : {0, 1}) {
    ExitCode code = ExitCode::kDone;
    std::string message;
    try {
      RequireOnAll(world, [&] {
        if (world.rank() < first) return;
        throw UserError("no \"room\" here",
                        world.rank() == first ? ExitCode::kBudgetNotMet : ExitCode::kInternal);
      });
    } catch (const UserError& error) {
      code = error.code();
      message = error.what();
    }
    EXPECT_EQ(message, first == 0 ? "no \"room\" here" : "rank 1: no \"room\" here");
    EXPECT_EQ(code, ExitCode::kBudgetNotMet);
  }
}

}  // namespace
}  // namespace plimsoll::trainer
