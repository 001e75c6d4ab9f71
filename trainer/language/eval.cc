#include "trainer/language/eval.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/message.h"
#include "trainer/language/not_finite.h"
#include "trainer/record/step_record.h"
#include "trainer/settle/from_config.h"
#include "trainer/settle/source_from.h"
#include "trainer/snapshot/trained_model.h"

namespace plimsoll::trainer {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The data to evaluate on.
struct EvalData {
  std::vector<data::MixturePart> parts;
  std::string key;        // names the data in messages
  std::string tokenizer;  // of its tokens; empty: not known
  int64_t sequences = 0;  // the most that are taken; 0: all
};

std::vector<data::MixturePart> Whole(data::SourceList sources) {
  return {data::MixturePart{.name = "", .sources = std::move(sources)}};
}

bool IsTokenFile(const std::string& name) { return name.ends_with(".bin"); }

EvalData OpenNamedFiles(const EvalCommand& command, const TrainedModel& trained) {
  data::DataOptions options =
      DataOptionsFrom(trained.config(), models::TextSizesOf(*trained.model).vocab);
  const std::string tokenizer = trained.Tokenizer(command.tokenizer);
  options.tokenizer = std::ranges::any_of(command.data, IsTokenFile) ? "" : tokenizer;
  if (options.tokenizer.empty() && !std::ranges::all_of(command.data, IsTokenFile)) {
    throw UserError(
        tokenizer.empty()
            ? "--data: text needs a tokenizer; name one with --tokenizer (byte, or a path), or "
              "name "
              "token files (*.bin)"
            : "--data: names text as well as token files (*.bin); evaluate on one kind at a time");
  }
  return {Whole(data::OpenFiles(options, command.data, "--data")), "--data", tokenizer, 0};
}

EvalData OpenEvalData(const EvalCommand& command, const TrainedModel& trained) {
  if (!command.data.empty()) return OpenNamedFiles(command, trained);
  const config::RunConfig& config = trained.config();
  if (!trained.is_run) {
    throw UserError(command.folder +
                    ": nothing to evaluate on; name text or token files with --data");
  }
  const int64_t vocab = models::TextSizesOf(*trained.model).vocab;
  const int64_t sequences = config.train.eval_sequences;
  if (!config.data.eval.empty()) {
    return {Whole(data::OpenFiles(DataOptionsFrom(config, vocab), config.data.eval, "data.eval")),
            "data.eval", config.data.tokenizer, sequences};
  }
  if (config.data.eval_fraction > 0 || config.data.synthetic) {
    return {DataFrom(config, vocab).eval, "data.eval", config.data.tokenizer, sequences};
  }
  throw UserError(command.folder +
                  ": the run held nothing out (data.eval, data.eval_fraction); name files with "
                  "--data");
}

// A live line on stderr, on a terminal only.
class LiveLine {
 public:
  void Show(const std::string& text) {
    if (!terminal_) return;
    PrintNote("\r\033[K" + text);
  }
  ~LiveLine() { Show(""); }

 private:
  bool terminal_ = isatty(STDERR_FILENO) == 1;
};

struct EvalResult {
  double loss = 0;
  nlohmann::ordered_json metrics = nlohmann::ordered_json::object();  // besides the loss
  std::optional<double> bits_per_byte;  // known where every token is a byte
  int64_t tokens = 0;
  int64_t batches = 0;
  double seconds = 0;

  double perplexity() const { return std::exp(loss); }
  double tokens_per_second() const { return static_cast<double>(tokens) / seconds; }
};

void PrintJson(const EvalResult& result, const std::string& dtype, const CompiledStep& compiled) {
  const InferenceMemory memory = MemoryOf(compiled);
  nlohmann::ordered_json json = {{"loss", result.loss},
                                 {"perplexity", result.perplexity()},
                                 {"bits_per_byte", nullptr},
                                 {"tokens", result.tokens},
                                 {"batches", result.batches},
                                 {"batch", compiled.options.micro_batch},
                                 {"sequence", compiled.options.sequence},
                                 {"dtype", dtype},
                                 {"seconds", result.seconds},
                                 {"tokens_per_s", result.tokens_per_second()},
                                 {"arena_bytes", memory.arena},
                                 {"weight_bytes", memory.weights}};
  if (result.bits_per_byte) json["bits_per_byte"] = *result.bits_per_byte;
  for (const auto& [name, value] : result.metrics.items()) json[name] = value;
  PrintAnswer(fmt::format("{}\n", json.dump()));
}

void PrintText(const EvalResult& result, const CompiledStep& compiled) {
  const InferenceMemory memory = MemoryOf(compiled);
  PrintAnswer(fmt::format(
      "loss {:.6f} nats per token, perplexity {:.4f}{}\n", result.loss, result.perplexity(),
      result.bits_per_byte ? fmt::format(", {:.4f} bits per byte", *result.bits_per_byte) : ""));
  for (const auto& [name, value] : result.metrics.items()) {
    PrintAnswer(fmt::format("{} {}\n", name, value.dump()));
  }
  PrintAnswer(fmt::format("{} tokens in {} batches of {} × {}, {:.2f} s, {} tokens/s\n",
                          result.tokens, result.batches, compiled.options.micro_batch,
                          compiled.options.sequence, result.seconds,
                          FormatCount(result.tokens_per_second())));
  PrintAnswer(fmt::format("arena {}: weights {}, rest {}\n", FormatBytes(memory.arena),
                          FormatBytes(memory.weights), FormatBytes(memory.rest)));
}

}  // namespace

std::vector<StepMetrics> EvaluateBatches(Session& session, const data::EvalBatches& batches,
                                         const std::function<void(int64_t done)>& progress) {
  const std::vector<int64_t> tokens(session.objectives(), batches.CountTargets());
  std::vector<StepMetrics> all(session.objectives());
  for (int64_t i = 0; i < batches.count(); ++i) {
    const BatchSlots batch = session.batch();
    batches.Fill(i, batch.tokens.data(), batch.targets.data());
    const std::span<const StepMetrics> metrics = session.Evaluate(tokens);
    for (size_t objective = 0; objective < all.size(); ++objective) {
      all[objective].AddBatch(metrics[objective]);
    }
    if (progress) progress(i + 1);
  }
  return all;
}

void RunEval(const EvalCommand& command) {
  const TrainedModel trained = OpenTrainedModel(command.folder, command.sets, command.choice);
  const EvalData data = OpenEvalData(command, trained);
  CompileOptions options = InferenceOptions(trained, command.dtype);
  options.evaluate = true;
  const data::EvalBatches sequences(
      data.parts, {.batch = 1, .sequence = options.sequence, .sequences = data.sequences},
      data.key);
  // More rows than sequences would only take memory.
  options.micro_batch =
      std::min(command.batch.value_or(std::max<int64_t>(1, trained.config().train.micro_batch)),
               sequences.count());
  const data::EvalBatches batches(
      data.parts,
      {.batch = options.micro_batch, .sequence = options.sequence, .sequences = data.sequences},
      data.key);
  EvalResult result;
  result.tokens = batches.CountTargets();
  result.batches = batches.count();
  if (result.tokens == 0) {
    throw UserError(data.key + ": every target is marked ignored; there is nothing to evaluate");
  }

  ThreadPool pool(options.threads);
  const std::unique_ptr<runtime::Device> device = MakeDevice(trained.config(), pool);
  Session session(Compile(*trained.model, options), *device);
  LoadTrained(trained, session);
  const Clock::time_point start = Clock::now();
  {
    LiveLine line;
    const std::vector<StepMetrics> metrics = EvaluateBatches(session, batches, [&](int64_t done) {
      line.Show(fmt::format("evaluating: batch {} of {}, {}", done, batches.count(),
                            FormatDuration(SecondsSince(start))));
    });
    result.loss = metrics.front().loss;
    const std::vector<EvaluatedMetric> evaluated = EvaluatedMetrics(session.metrics());
    for (const EvaluatedMetric& metric : std::span(evaluated).subspan(1)) {
      result.metrics[metric.name] = MetricJson(metric, metrics);
    }
  }
  result.seconds = SecondsSince(start);
  if (!std::isfinite(result.loss)) {
    throw ExplainNotFinite(trained, session, command.dtype,
                           fmt::format("the loss is {}", result.loss));
  }
  if (data.tokenizer == "byte") result.bits_per_byte = result.loss / std::log(2.0);
  if (command.json) {
    PrintJson(result, command.dtype, session.compiled());
  } else {
    PrintText(result, session.compiled());
  }
}

}  // namespace plimsoll::trainer
