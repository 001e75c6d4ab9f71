#include "trainer/language/eval.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/message.h"
#include "data/class_names.h"
#include "data/held_out_batches.h"
#include "data/texts/examples.h"
#include "data/tokens/token_data.h"
#include "formats/json.h"
#include "trainer/language/not_finite.h"
#include "trainer/record/step_record.h"
#include "trainer/resolve/run_device.h"
#include "trainer/resolve/source_from.h"
#include "trainer/save_and_resume/reference_log_probs.h"
#include "trainer/save_and_resume/resume.h"
#include "trainer/save_and_resume/trained_model.h"
#include "trainer/step/evaluate.h"

namespace plimsoll::trainer {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The data to evaluate on.
struct EvalData {
  std::unique_ptr<const data::Source> samples;
  bool is_text = true;         // token sequences
  std::string key;             // the data's name in messages
  std::string tokenizer = {};  // the tokens' tokenizer; empty means unknown
  std::vector<std::string> class_names = {};
  int64_t workers = 0;  // number of threads that prepare samples
};

bool IsTokenFile(const std::string& name) { return name.ends_with(".bin"); }

// Prints what is to be said of the data.
void Say(const data::DataSet& set) {
  for (const std::string& warning : set.warnings) PrintWarning(warning);
  for (const std::string& note : set.notes) PrintNote(note + "\n");
}

// Opens windows of the files' tokens, at most `most` of them; 0 means all.
EvalData OpenFiles(const TrainedModel& trained, const data::DataOptions& options,
                   const std::vector<std::string>& files, const std::string& key, int64_t most) {
  const data::DataSet set = data::OpenFiles(options, files, key);
  Say(set);
  return {.samples = std::make_unique<data::HeldOutTokens>(
              set.eval, trained.config().model.sequence(), most, key),
          .key = key};
}

// Advice, for messages, on how to evaluate the model on data other than token files.
std::string OtherData(const EvalCommand& command, const TrainedModel& trained) {
  if (trained.is_run) {
    return fmt::format(
        "leave it out to evaluate on what the run held out, or name {}/model, once the run has "
        "ended, and a run file with that data by --run-file",
        command.folder);
  }
  if (trained.snapshot) return "name the run's directory instead, and what it held out is taken";
  return "name a run file whose data to evaluate on with --run-file";
}

EvalData OpenNamedFiles(const EvalCommand& command, const TrainedModel& trained) {
  if (!trained.model->text_sizes()) {
    throw UserError(
        fmt::format("--data: names token files or text to continue, and models of "
                    "family {} continue none; {}",
                    trained.model->family(), OtherData(command, trained)));
  }
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
  // Packs examples as the run does. The run's other requirements do not apply to other files.
  const std::vector<std::string> files = data::ExpandFiles(command.data, options.exclude, "--data");
  if (!data::HoldsExamples(files.front())) options.packing = data::Packing::kConcatenate;
  options.documents_apart = false;
  EvalData data = OpenFiles(trained, options, command.data, "--data", 0);
  data.tokenizer = tokenizer;
  return data;
}

EvalData OpenEvalData(const EvalCommand& command, const TrainedModel& trained) {
  if (!command.data.empty()) return OpenNamedFiles(command, trained);
  if (!command.tokenizer.empty()) {
    throw UserError(
        "--tokenizer: reads the files of --data; without --data the samples are read as their run "
        "file says: leave it out");
  }
  const config::RunConfig& config = trained.config();
  if (!trained.is_run && command.run_file.empty()) {
    const bool continues = trained.model->text_sizes().has_value();
    throw UserError(fmt::format("{}: nothing to evaluate on; {}", command.folder,
                                continues ? "name text or token files with --data, or a run file "
                                            "with --run-file"
                                          : OtherData(command, trained)));
  }
  const int64_t sequences = config.train.eval_sequences;
  const bool is_text = config.data.source == data::kTokens;
  EvalData data{
      .samples = nullptr, .is_text = is_text, .key = is_text ? "data.eval" : "data.source"};
  if (is_text && !config.data.eval.empty()) {
    const int64_t vocab = models::TextSizesOf(*trained.model).vocab;
    data = OpenFiles(trained, DataOptionsFrom(config, vocab), config.data.eval, "data.eval",
                     sequences);
  } else if (!is_text) {
    const std::unique_ptr<data::Source> source = SourceFrom(config, *trained.model, {});
    data.samples = source->HeldOut(sequences);
    data.workers = DataWorkersFrom(config);
    data.class_names = source->class_names();
    const std::string other =
        data::OtherClassesText(trained.model->class_names(), data.class_names);
    if (!other.empty()) PrintWarning(other);
  } else if (config.data.eval_fraction > 0 || config.data.synthetic) {
    const int64_t vocab = models::TextSizesOf(*trained.model).vocab;
    const data::DataSet set = DataFrom(config, vocab);
    Say(set);
    data.samples =
        std::make_unique<data::HeldOutTokens>(set.eval, config.model.sequence(), sequences);
  }
  if (data.samples == nullptr) {
    throw UserError(command.folder + (is_text ? ": the run held nothing out (data.eval, "
                                                "data.eval_fraction); name files with --data"
                                              : ": the run's data.source holds nothing out"));
  }
  data.tokenizer = config.data.tokenizer;
  return data;
}

// For preferences: sets the reference log-probabilities that the run has saved.
void SetReferences(const EvalCommand& command, const TrainedModel& trained,
                   const data::Source& samples) {
  const PreferenceRows rows = samples.PreferenceRows();
  if (rows.empty()) return;
  if (!trained.is_run && !trained.snapshot) {
    throw UserError(
        fmt::format("{}: preferences are evaluated against the weights that their run began with, "
                    "and this is no run; name the directory of the run, or give "
                    "--set preference.loss=none",
                    command.folder));
  }
  const std::string run = trained.is_run ? trained.folder : RunOfSnapshot(command.folder);
  const std::string path = run + "/" + kReferenceFile;
  ReferenceLogProbs::Read(path, "").Set(rows, path);
}

// Shows a live line on stderr, on a terminal only.
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
  bool is_text = true;
  double loss = 0;
  std::vector<EvaluatedMetric> metrics = {};  // all but the loss
  std::vector<StepMetrics> values = {};       // for each objective, its metrics
  std::vector<std::string> class_names = {};
  std::optional<double> bits_per_byte;  // known if every token is a byte
  const char* unit = "targets";         // what `targets` counts, for data other than text
  int64_t targets = 0;                  // number of targets; for text, number of tokens
  int64_t batches = 0;
  double seconds = 0;

  double perplexity() const { return std::exp(loss); }
  double targets_per_second() const { return static_cast<double>(targets) / seconds; }
};

void PrintJson(const EvalResult& result, const std::string& dtype, const CompiledStep& compiled) {
  const InferenceMemory memory = MemoryOf(compiled);
  nlohmann::ordered_json json = {{"loss", result.loss}};
  if (result.is_text) {
    json["perplexity"] = result.perplexity();
    json["bits_per_byte"] = nullptr;
    if (result.bits_per_byte) json["bits_per_byte"] = *result.bits_per_byte;
  }
  json[result.is_text ? "tokens" : result.unit] = result.targets;
  json["batches"] = result.batches;
  json["batch"] = compiled.options.micro_batch;
  if (result.is_text) json["sequence"] = compiled.options.sequence;
  json["dtype"] = dtype;
  json["seconds"] = result.seconds;
  json[fmt::format("{}_per_s", result.is_text ? "tokens" : result.unit)] =
      result.targets_per_second();
  json["arena_bytes"] = memory.arena;
  json["weight_bytes"] = memory.weights;
  for (const EvaluatedMetric& metric : result.metrics) {
    if (metric.info.type.shape.elements() > kMostRowElements) continue;
    json[metric.name] = MetricJson(metric, result.values);
    // The names of a confusion matrix's rows.
    const bool names_rows = !metric.info.rows.empty() && !result.class_names.empty();
    if (names_rows) json["class_names"] = result.class_names;
  }
  PrintAnswer(fmt::format("{}\n", json.dump()));
}

// Whether the metric counts labels and predictions.
bool IsConfusion(const MetricInfo& metric) {
  const graph::Shape& shape = metric.type.shape;
  return metric.rows == "label" && metric.columns == "prediction" && shape.rank() == 2 &&
         shape.dim(0) == shape.dim(1);
}

// The name of a metric for one class, which ends with the class's number: "dice liver" for
// "dice.1".
std::string NameWithClass(const std::string& metric, const std::vector<std::string>& class_names) {
  const size_t dot = metric.rfind('.');
  if (dot == std::string::npos) return metric;
  for (size_t k = 0; k < class_names.size(); ++k) {
    if (metric.substr(dot + 1) != std::to_string(k)) continue;
    return metric.substr(0, dot) + " " + formats::Printable(class_names[k]);
  }
  return metric;
}

// Prints the scalar metrics on a line, then a line or a table for each tensor. Omits tensors that
// only serve to derive other metrics.
void PrintMetrics(const EvalResult& result) {
  std::string numbers, tensors;
  for (const EvaluatedMetric& metric : result.metrics) {
    if (metric.info.scalar()) {
      numbers +=
          fmt::format("{}{} {:.4f}", numbers.empty() ? "" : ", ",
                      NameWithClass(metric.name, result.class_names), metric.Value(result.values));
    } else if (IsConfusion(metric.info)) {
      tensors += ConfusionText(metric.Sum(result.values).sum, result.class_names);
    } else if (metric.info.derived.empty() &&
               metric.info.type.shape.elements() <= kMostRowElements) {
      tensors +=
          fmt::format("{}: {:.4g}\n", metric.name, fmt::join(metric.Sum(result.values).sum, " "));
    }
  }
  if (!numbers.empty()) PrintAnswer(numbers + "\n");
  if (!tensors.empty()) PrintAnswer(tensors);
}

void PrintText(const EvalResult& result, const CompiledStep& compiled) {
  const InferenceMemory memory = MemoryOf(compiled);
  if (result.is_text) {
    PrintAnswer(fmt::format(
        "loss {:.6f} nats per token, perplexity {:.4f}{}\n", result.loss, result.perplexity(),
        result.bits_per_byte ? fmt::format(", {:.4f} bits per byte", *result.bits_per_byte) : ""));
  } else {
    PrintAnswer(fmt::format("loss {:.6f}\n", result.loss));
  }
  PrintMetrics(result);
  const char* const unit = result.is_text ? "tokens" : result.unit;
  PrintAnswer(fmt::format("{} {} in {} batches of {}{}, {:.2f} s, {} {}/s\n", result.targets, unit,
                          result.batches, compiled.options.micro_batch,
                          result.is_text ? fmt::format(" × {}", compiled.options.sequence) : "",
                          result.seconds, FormatCount(result.targets_per_second()), unit));
  PrintAnswer(fmt::format("arena {}: weights {}, rest {}\n", FormatBytes(memory.arena),
                          FormatBytes(memory.weights), FormatBytes(memory.rest)));
}

}  // namespace

void RunEval(const EvalCommand& command) {
  const TrainedModel trained =
      OpenTrainedModel(command.folder, command.sets, command.choice, command.run_file);
  EvalData data = OpenEvalData(command, trained);
  CompileOptions options = InferenceOptions(trained, command.dtype);
  options.evaluate = true;
  // More rows than samples would waste memory.
  options.micro_batch =
      std::min(command.batch.value_or(std::max<int64_t>(1, trained.config().train.micro_batch)),
               data.samples->samples().value());
  const bool preferences = !data.samples->PreferenceRows().empty();
  SetReferences(command, trained, *data.samples);
  const data::HeldOutBatches batches(std::move(data.samples), options.micro_batch, 0, 1,
                                     data.workers);
  EvalResult result;
  result.is_text = data.is_text && !preferences;
  if (preferences) result.unit = "pairs";
  result.targets = batches.CountTargets(trained.model->objectives().front().name);
  result.batches = batches.count();
  if (result.targets == 0) {
    throw UserError(data.key + ": every target is marked ignored; there is nothing to evaluate");
  }

  ThreadPool pool(options.threads);
  const std::unique_ptr<runtime::Device> device = MakeDevice(trained.config(), pool);
  Session session(Compile(*trained.model, options), *device);
  LoadTrained(trained, session);
  const Clock::time_point start = Clock::now();
  {
    LiveLine line;
    result.values = EvaluateBatches(session, batches, [&](int64_t done) {
      line.Show(fmt::format("evaluating: batch {} of {}, {}", done, batches.count(),
                            FormatDuration(SecondsSince(start))));
    });
  }
  if (const std::string unread = batches.Unread(); !unread.empty()) PrintWarning("data: " + unread);
  result.loss = result.values.front().loss;
  result.metrics = EvaluatedMetrics(session.metrics());
  result.metrics.erase(result.metrics.begin());  // removes the loss
  result.class_names = std::move(data.class_names);
  result.seconds = SecondsSince(start);
  if (!std::isfinite(result.loss)) {
    throw ExplainNotFinite(trained, session, command.dtype,
                           fmt::format("the loss is {}", result.loss));
  }
  if (data.tokenizer == "byte" && result.is_text)
    result.bits_per_byte = result.loss / std::log(2.0);
  if (command.json) {
    PrintJson(result, command.dtype, session.compiled());
  } else {
    PrintText(result, session.compiled());
  }
}

}  // namespace plimsoll::trainer
