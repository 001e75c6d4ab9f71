// The ranks of a mesh data × tensor, with a session that holds zeros.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/axes.h"
#include "base/thread_pool.h"
#include "tests/support/mpi_test_main.h"
#include "tests/trainer/tiny_session.h"
#include "trainer/settle/ranks.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

class MeshSession {
 public:
  MeshSession(TinyRun run, const models::Model& model, int64_t tensor, int64_t zero)
      : pool_(2),
        device_(runtime::MakeCpuDevice(pool_)),
        ranks_(TestWorld(), Mesh({DataAxis(TestWorld().size() / tensor), TensorAxis(tensor)})) {
    ranks_.Connect(*device_, 0);
    run.zero = zero;
    CompileOptions options = OptionsOf(run, model, device_->kind());
    options.mesh = ranks_.mesh();
    options.rank = ranks_.rank();
    CompiledStep compiled = Compile(model, options);
    if (run.change != nullptr) run.change(compiled);
    session_ =
        std::make_unique<Session>(std::move(compiled), *device_,
                                  runtime::ExecutorOptions{.communicators = ranks_.communicators()},
                                  memory::Allocation(), ranks_.groups());
  }

  Ranks& ranks() { return ranks_; }
  Session& session() { return *session_; }

 private:
  ThreadPool pool_;
  std::unique_ptr<runtime::Device> device_;
  Ranks ranks_;
  std::unique_ptr<Session> session_;
};

}  // namespace plimsoll::trainer
