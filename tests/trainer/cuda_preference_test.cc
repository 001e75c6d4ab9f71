// Learning from pairs of answers on a GPU: ten steps as TRL's DPOTrainer makes them.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/needs_cuda.h"
#include "tests/trainer/preference_runs.h"

namespace plimsoll {
namespace {

class CudaPreferences : public PreferenceRuns {
 protected:
  CudaPreferences() : PreferenceRuns("cuda") {}
};

TEST_F(CudaPreferences, LearnAsTrlDoes) {
  PLIMSOLL_NEEDS_CUDA
  Train("dpo", {});
  ExpectAsTrl("dpo", "dpo", 1e-4);
  Train("ipo", {"preference.loss=ipo", "preference.beta=0.2"});
  ExpectAsTrl("ipo", "ipo", 1e-4);
  Train("dpo_sft", {"preference.sft_weight=0.5"});
  ExpectAsTrl("dpo_sft", "dpo_sft", 1e-4);
}

// Kernels of 16 bits, several documents a row: the model is its own reference at first.
TEST_F(CudaPreferences, BeginAtTheLossOfNoPreference) {
  PLIMSOLL_NEEDS_CUDA
  Train("packed",
        {"amp.dtype=bf16", "data.packing=best_fit", "train.micro_batch=4", "train.steps=3"});
  EXPECT_NEAR(Steps("packed").at(0).at("loss").get<double>(), std::log(2.0), 1e-6);
  EXPECT_LT(Steps("packed").at(2).at("loss").get<double>(), std::log(2.0));
}

}  // namespace
}  // namespace plimsoll
