// Batches on their way to a device that reads them from places in the host's memory.
#include "trainer/step_feed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/thread_pool.h"
#include "data/prefetch.h"
#include "tests/support/expect_error.h"
#include "tests/trainer/copying_device.h"
#include "trainer/resolve/compile_from.h"
#include "trainer/resolve/from_config.h"
#include "trainer/step/input_places.h"

namespace plimsoll::trainer {
namespace {

std::string ResNet(const std::string& train) {
  return "model: {family: resnet, depth: 8, image_size: 8, classes: 5}\n"
         "data: {source: synthetic_images, workers: 3}\n"
         "train: {steps: 12, threads: 2, " +
         train + "}\n";
}

// Two networks that train each other: the generator reads the discriminator's data.
const std::string kDcgan =
    "model: {family: dcgan, image_size: 16, channels: 1, latent: 5, generator_features: 4, "
    "discriminator_features: 4}\n"
    "data: {source: synthetic_images, workers: 3}\n"
    "train: {steps: 12, micro_batch: 4, eval_every: 0, threads: 2}\n";
// Whose generator reads them once more, from the step's first batch on.
const std::vector<std::string> kReadsAgain = {"train.accumulate=3"};

class Training {
 public:
  // `places`: on a device that reads inputs from places; otherwise the CPU, without workers.
  Training(const std::string& yaml, bool places, std::vector<std::string> sets = {})
      : pool_(2), device_(pool_) {
    if (!places) sets.push_back("data.workers=0");
    config_ = LoadRunText(yaml, "run.yaml", sets).config;
    model_ = ModelFrom(config_);
    CompileOptions options = CompileFrom(config_, *model_);
    if (places) {
      options.input_places =
          data::PrefetchPlaces(3, options.micro_batch, 2 * options.micro_steps_per_program);
    }
    CompiledStep compiled = Compile(*model_, options);
    if (places) {
      compiled.options.device = runtime::DeviceKind::kCuda;
      session_ = std::make_unique<Session>(std::move(compiled), device_);
    } else {
      session_ = std::make_unique<Session>(std::move(compiled), pool_);
    }
    session_->Initialize(*model_, 1);
    feed_ = std::make_unique<StepFeed>(config_, *model_, MeshPosition());
    divergence_ = std::make_unique<Divergence>(config_, JudgedObjectives(session_->compiled()), 0,
                                               DivergenceState());
  }
  ~Training() { feed_->Stop(); }

  // The losses of steps from `first` on.
  std::vector<double> Losses(int64_t first, int64_t count) {
    std::vector<double> losses;
    const CompiledStep& compiled = session_->compiled();
    for (int64_t step = first; step < first + count; ++step) {
      session_->BeginStep(feed_->Objectives(step, compiled, *divergence_), 1);
      for (int64_t run = 0; run < compiled.step.runs(); ++run) {
        feed_->Fill(step, compiled.step.At(run), *session_);
        session_->Run(step, run);
      }
      EXPECT_GE(feed_->TakeSeconds(*session_), 0);
      for (size_t i = 0; i < session_->objectives(); ++i) {
        losses.push_back(session_->Metrics(i).loss);
      }
    }
    return losses;
  }

  Session& session() { return *session_; }
  StepFeed& feed() { return *feed_; }
  const Copies& copies() const { return device_.copies(); }

 private:
  ThreadPool pool_;
  CopyingDevice device_;
  config::RunConfig config_;
  std::unique_ptr<models::Model> model_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<StepFeed> feed_;
  std::unique_ptr<Divergence> divergence_;
};

int64_t BytesOfBatch(const Session& session) {
  int64_t bytes = 0;
  for (const Slot& slot : session.slots()) bytes += std::ssize(slot.bytes);
  return bytes;
}

TEST(StepFeed, BatchesFromPlacesAreThoseOfTheSource) {
  for (const std::string& yaml :
       {ResNet("micro_batch: 8, eval_every: 0"), ResNet("micro_batch: 1, eval_every: 0"),
        ResNet("micro_batch: 2, accumulate: 3, eval_every: 0"),
        ResNet("micro_batch: 2, accumulate: 3, blocks_first: true, eval_every: 0"), kDcgan}) {
    SCOPED_TRACE(yaml);
    Training plain(yaml, /*places=*/false), fed(yaml, /*places=*/true);
    EXPECT_EQ(plain.session().input_places(), 0);
    EXPECT_GT(fed.session().input_places(), 1);
    EXPECT_EQ(fed.Losses(0, 10), plain.Losses(0, 10));
    EXPECT_GE(fed.copies().awaited, 10);
  }
}

TEST(StepFeed, BatchesThatAreReadAgainAreThoseOfTheSource) {
  for (const std::vector<std::string>& more : {std::vector<std::string>{},
                                               {"train.blocks_first=true"},
                                               {"model.discriminator_updates=2"}}) {
    std::vector<std::string> sets = kReadsAgain;
    sets.insert(sets.end(), more.begin(), more.end());
    Training plain(kDcgan, /*places=*/false, sets), fed(kDcgan, /*places=*/true, sets);
    EXPECT_EQ(fed.Losses(0, 6), plain.Losses(0, 6));
  }
}

// Threads prepare batches in the order in which a step reads them, so that nothing is prepared in
// vain where it goes back to its first one.
TEST(StepFeed, PreparesWhatIsReadNext) {
  Training fed(kDcgan, /*places=*/true, kReadsAgain);
  constexpr int64_t kSteps = 8, kReads = 6;
  fed.Losses(0, kSteps);
  fed.feed().Stop();
  EXPECT_GE(fed.copies().awaited, kSteps * kReads);
  EXPECT_LE(fed.copies().awaited, kSteps * kReads + fed.session().input_places());
}

// Each batch travels once, also where two networks read it, and nothing else of its size does.
TEST(StepFeed, CopiesEachBatchOnce) {
  Training fed(kDcgan, /*places=*/true);
  const int64_t before = fed.copies().from_host;
  fed.Losses(0, 6);
  EXPECT_EQ(fed.copies().from_places,
            6 * fed.session().compiled().step.draws * BytesOfBatch(fed.session()));
  EXPECT_LT(fed.copies().from_host - before, BytesOfBatch(fed.session()));
}

TEST(StepFeed, GoesOnElsewhere) {
  const std::string yaml = ResNet("micro_batch: 4, accumulate: 2, eval_every: 0");
  Training plain(yaml, /*places=*/false), fed(yaml, /*places=*/true);
  EXPECT_EQ(fed.Losses(0, 3), plain.Losses(0, 3));
  for (Training* training : {&plain, &fed}) training->feed().ContinueAt(3, 777);
  EXPECT_EQ(fed.Losses(3, 3), plain.Losses(3, 3));
  for (Training* training : {&plain, &fed}) training->feed().ContinueAt(1, 8);
  EXPECT_EQ(fed.Losses(1, 4), plain.Losses(1, 4));
}

// An evaluation reads the slots, and the next step its place.
TEST(StepFeed, EvaluationsReadSlots) {
  const std::string yaml = ResNet("micro_batch: 4, eval_every: 0");
  Training plain(yaml, /*places=*/false), fed(yaml, /*places=*/true);
  for (int64_t step = 0; step < 8; step += 2) {
    EXPECT_EQ(fed.Losses(step, 2), plain.Losses(step, 2));
    // What the slots hold is no concern of the places.
    for (const Slot& slot : fed.session().slots()) {
      std::ranges::fill(slot.bytes, std::byte{0x7f});
    }
  }
}

TEST(StepFeed, PlacesThatAreNoneAreRefused) {
  Training fed(ResNet("micro_batch: 4, eval_every: 0"), /*places=*/true);
  EXPECT_THROW(fed.session().ReadFrom(0, 99), std::exception);
  EXPECT_THROW(fed.session().ReadFrom(7, 0), std::exception);
}

TEST(InputPlaces, PlannedIsUsed) {
  Training fed(ResNet("micro_batch: 8, eval_every: 0"), /*places=*/true);
  const Session& session = fed.session();
  const int64_t images = 8 * 8 * 8 * 3 * 4, place = images + 256;  // labels: 32 bytes of 256
  EXPECT_EQ(session.compiled().input_place_bytes, place);
  EXPECT_EQ(BytesOfBatch(session), images + 32);
  int64_t bytes = 0;
  for (int i = 0; i < session.input_places(); ++i) {
    for (const Slot& slot : session.place_slots(i)) bytes += RoundUp(std::ssize(slot.bytes), 256);
  }
  // Places, the slots, and the chunks of other transfers.
  EXPECT_EQ(session.compiled().plan.host_input_bytes, bytes + images + 32 + (int64_t{8} << 20));
}

TEST(InputPlaces, AreOfTrainingOnAGpuWithWorkers) {
  bool evaluates = false;
  const auto places = [&](const std::string& on, const std::vector<std::string>& sets) {
    config::RunConfig config = LoadRunText(ResNet("micro_batch: 8"), "run.yaml", sets).config;
    if (evaluates) config.train.eval_every = 1;
    if (on != "cpu") {
      config.device = config::Device::kCuda;
      config.planned_gpu = on;
    }
    const CompileOptions options = CompileFrom(config, *ModelFrom(config));
    return std::pair(options.input_places, options.evaluation_places);
  };
  using Pair = std::pair<int64_t, int64_t>;
  const std::string no_evaluation = "train.eval_every=0";
  EXPECT_EQ(places("cpu", {no_evaluation}), Pair(0, 0));
  EXPECT_EQ(places("h200", {no_evaluation}), Pair(4, 0));
  EXPECT_EQ(places("h200", {no_evaluation, "data.workers=32"}), Pair(7, 0));
  EXPECT_EQ(places("h200", {no_evaluation, "data.workers=0"}), Pair(0, 0));
  EXPECT_EQ(places("h200", {no_evaluation, "memory.allocator=caching"}), Pair(0, 0));
  EXPECT_EQ(places("h200", {no_evaluation, "train.accumulate=3", "train.blocks_first=true"}),
            Pair(8, 0));
  evaluates = true;
  EXPECT_EQ(places("h200", {no_evaluation}), Pair(4, 3));
}

TEST(InputPlaces, SlotsFollowOneAnotherAligned) {
  const int64_t bytes[] = {100, 256, 1};
  const InputPlaceLayout layout = LayOutInputs(bytes);
  EXPECT_EQ(layout.offsets, (std::vector<int64_t>{0, 256, 512}));
  EXPECT_EQ(layout.bytes, 768);
  EXPECT_EQ(LayOutInputs({}).bytes, 0);
}

}  // namespace
}  // namespace plimsoll::trainer
