#include "trainer/resolve/source_from.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/axes.h"
#include "base/scratch_file.h"
#include "data/tokens/loader.h"
#include "data/tokens/token_data.h"
#include "trainer/config/owner_keys.h"
#include "trainer/resolve/core_share.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/run_device.h"

namespace plimsoll::trainer {
namespace {

// Limits of the default number of threads that prepare data.
constexpr int64_t kMostWorkers = 32, kMostBegunBatches = 4;

// The held-out documents of text files do not depend on data.seed, so that runs with different
// seeds are evaluated on the same text.
constexpr uint64_t kSplitSeed = 1;

// config/ repeats these enumerations so that it need not depend on data/.
static_assert(static_cast<int>(config::Order::kConsecutive) ==
              static_cast<int>(data::DataOrder::kConsecutive));
static_assert(static_cast<int>(config::Packing::kNone) == static_cast<int>(data::Packing::kNone));
static_assert(static_cast<int>(config::TooLong::kSplit) == static_cast<int>(data::TooLong::kSplit));

// Returns the result of `read`; adds the places of keys to its errors.
template <typename Read>
auto OfData(const config::RunConfig& config, const Read& read) {
  try {
    return read();
  } catch (const SettingError& error) {
    throw config::ErrorOf(config, "data", error);
  } catch (const UserError& error) {
    throw WithPlace(config, error);
  }
}

// The kind of source that data.source names; nullptr means token data. Throws a UserError if the
// model cannot read token data.
const data::SourceKind* KindOf(const config::RunConfig& config, const models::Model& model) {
  const data::SourceKind* const kind = data::FindSource(config.data.source);
  if (kind != nullptr || model.text_sizes()) return kind;
  std::vector<std::string> names;
  for (const data::SourceKind& other : data::Sources()) names.push_back(other.name);
  throw config.Error("data.source",
                     fmt::format("{} is for models that continue texts, and {} is none; choose {}",
                                 data::kTokens, model.family(), fmt::join(names, ", ")));
}

data::ModelSizes SizesOf(const config::RunConfig& config, const models::Model& model) {
  const Settings& settings = config.model.settings;
  const auto shape_of = [&](const char* input) {
    const auto found = model.inputs().find(input);
    return found == model.inputs().end() ? graph::Shape() : found->second.shape;
  };
  return {.sequence = config.model.sequence(),
          .vocab = settings.IntOr("vocab", 0),
          .classes = settings.IntOr("classes", 0),
          .label_values = shape_of("label_values"),
          .images = shape_of("images")};
}

data::DataOptions TokenOptionsFrom(const config::RunConfig& config, const models::Model& model) {
  return DataOptionsFrom(config, models::TextSizesOf(model).vocab);
}

std::unique_ptr<data::Source> TokensFrom(const config::RunConfig& config,
                                         const models::Model& model, const data::Draws& draws) {
  data::LoaderOptions options;
  options.order = static_cast<data::DataOrder>(config.data.order);
  options.seed = static_cast<uint64_t>(config.data.seed);
  options.batch = draws.batch;
  options.sequence = config.model.sequence();
  options.accumulate = draws.per_step;
  options.data_rank = draws.data_rank;
  options.data_ranks = draws.data_ranks;
  const int64_t vocab = models::TextSizesOf(model).vocab;
  return OfData(config, [&] {
    return std::make_unique<data::TokenData>(DataFrom(config, vocab), options, vocab,
                                             config.data.synthetic);
  });
}

}  // namespace

data::DataOptions DataOptionsFrom(const config::RunConfig& config, int64_t vocab) {
  const config::DataConfig& d = config.data;
  data::DataOptions options;
  options.synthetic = d.synthetic;
  for (const config::TrainSource& source : d.train) {
    options.train.push_back({source.files, source.weight});
  }
  options.eval = d.eval;
  if (d.format == config::DataFormat::kText) options.tokenizer = d.tokenizer;
  options.exclude = d.exclude;
  options.split = {
      .delimiter = d.document_separator,
      .eval_fraction = d.eval_fraction,
      .seed = kSplitSeed,
      .chats = {.chat_template = d.chat_template,
                .loss_on = d.loss_on == config::LossOn::kAll ? data::LossOn::kAll
                                                             : data::LossOn::kAssistant,
                .pairs = config.preference.asked()},
      .unreadable = {.skip = d.unreadable == config::Unreadable::kSkip}};
  options.packing = static_cast<data::Packing>(d.packing);
  options.too_long = static_cast<data::TooLong>(d.too_long);
  options.documents_apart = d.documents == config::Documents::kApart;
  options.end_tokenizer = d.tokenizer;
  options.text_tokens = TextTokensFrom(d);
  if (d.format == config::DataFormat::kUint16) options.format = data::TokenFormat::kUint16;
  if (d.format == config::DataFormat::kUint32) options.format = data::TokenFormat::kUint32;
  options.vocab = vocab;
  options.sequence = config.model.sequence();
  options.seed = static_cast<uint64_t>(config.data.seed);
  return options;
}

data::DataSet DataFrom(const config::RunConfig& config, int64_t vocab) {
  try {
    return data::OpenData(DataOptionsFrom(config, vocab));
  } catch (const UserError& error) {
    throw WithPlace(config, error);
  }
}

data::Draws DrawsFrom(const config::RunConfig& config, int64_t per_step,
                      const MeshPosition& position) {
  return {.batch = config.train.micro_batch,
          .per_step = per_step,
          .data_rank = position.at(kDataAxis),
          .data_ranks = position.ranks(kDataAxis)};
}

std::unique_ptr<data::Source> SourceFrom(const config::RunConfig& config,
                                         const models::Model& model, const data::Draws& draws) {
  // Sets the folder for text that is converted to tokens to the run's disk.
  PreferScratchFolder(config.run.dir);
  const data::SourceKind* const kind = KindOf(config, model);
  if (kind == nullptr) return TokensFrom(config, model, draws);
  return OfData(config, [&] {
    auto source = kind->make(config.data.settings, SizesOf(config, model),
                             static_cast<uint64_t>(config.data.seed));
    for (const auto& [input, bound] : model.input_bounds()) source->CheckBound(input, bound);
    return source;
  });
}

int64_t BytesOfData(const config::RunConfig& config, const models::Model& model) {
  const data::SourceKind* const kind = KindOf(config, model);
  return OfData(config, [&] {
    if (kind == nullptr) return data::BytesOf(TokenOptionsFrom(config, model));
    return kind->bytes ? kind->bytes(config.data.settings) : 0;
  });
}

void CheckData(const config::RunConfig& config, const models::Model& model,
               std::span<const graph::Slot> slots) {
  const data::SourceKind* const kind = KindOf(config, model);
  OfData(config, [&] {
    if (kind != nullptr) return kind->check(config.data.settings, SizesOf(config, model), slots);
    data::CheckData(TokenOptionsFrom(config, model));
    data::TokenSlotsOf(slots);
  });
}

void RequireAll(const config::RunConfig& config, const data::Source& source,
                std::span<const graph::Slot> slots) {
  try {
    source.Fill(0, slots);
  } catch (const UserError& error) {
    // If the source fills the model's inputs but its data is unsuitable, the error itself names the
    // remedy.
    const std::vector<std::string> others = data::SourcesThatFill(slots);
    const bool fills = std::ranges::find(others, config.data.source) != others.end();
    throw config.Error("data.source", fills || others.empty()
                                          ? error.what()
                                          : fmt::format("{}; this model reads data.source: {}",
                                                        error.what(), fmt::join(others, " or ")));
  }
}

std::unique_ptr<data::Source> HeldOutFrom(const config::RunConfig& config,
                                          const data::Source& source) {
  try {
    std::unique_ptr<data::Source> samples = source.HeldOut(config.train.eval_sequences);
    if (samples != nullptr) return samples;
    throw UserError(fmt::format("{}: holds out no samples to evaluate", HeldOutKey(config)));
  } catch (const UserError& error) {
    throw WithPlace(config, error);
  }
}

std::vector<std::string> DataWarnings(const config::RunConfig& config, const data::Source& source) {
  std::vector<std::string> warnings;
  for (const std::string& warning : source.Warnings()) {
    warnings.push_back(WithPlace(config, UserError(warning)).what());
  }
  return warnings;
}

std::string HeldOutKey(const config::RunConfig& config) {
  return config.data.source == data::kTokens ? "data.eval" : "data.source";
}

bool HasDataWorkers(const config::RunConfig& config) {
  const data::SourceKind* const kind = data::FindSource(config.data.source);
  const auto is_workers = [](const Setting& row) { return row.name == "workers"; };
  return kind != nullptr && std::ranges::any_of(kind->settings, is_workers);
}

int64_t DataWorkersFrom(const config::RunConfig& config) {
  if (!HasDataWorkers(config)) return 0;
  if (config.data.settings.Has("workers")) return config.data.settings.Int("workers");
  // On the CPU, all cores compute. On a GPU run, only the main thread keeps a core busy.
  if (DeviceFrom(config) == runtime::DeviceKind::kCpu) return 0;
  // With batches of few samples, many threads would need many buffers in pinned memory.
  const int64_t samples = config.train.micro_batch;  // 0 means not chosen yet
  const int64_t useful = samples > 0 ? kMostBegunBatches * samples : kMostWorkers;
  return std::min<int64_t>({std::max(1, CoresOfRank() - 1), useful, kMostWorkers});
}

}  // namespace plimsoll::trainer
