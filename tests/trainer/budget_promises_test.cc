// The promises of a refused budget hold: "the smallest plan needs N" and "it would fit with K: V"
// are checked literally, in runs of every kind.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/temp_folder.h"
#include "trainer/resolve/budget_error.h"
#include "trainer/resolve/channels.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/resolved_run.h"
#include "trainer/resolve/run_budget.h"

namespace plimsoll::trainer {
namespace {

// The answer of `plimsoll plan`.
struct Answer {
  bool fits = false;
  int64_t process_bytes = 0, host_bytes = 0;  // of the plan, where it fits
  ExitCode code = ExitCode::kDone;
  std::string message;
};

using Sets = std::vector<std::string>;

Answer Ask(const std::string& yaml, const Sets& sets) {
  Answer answer;
  try {
    config::RunConfig config = LoadRunText(yaml, "run.yaml", sets).config;
    ChooseChannels(config);
    const std::unique_ptr<models::Model> model = ModelFrom(config);
    const ResolvedRun resolved = ResolveRun(config, *model);
    const memory::MemoryPlan plan = Compile(*model, resolved.options).plan;
    CheckBudget(resolved.config, plan);
    answer.fits = true;
    answer.process_bytes = BudgetOf(config).profile.ProcessBytes(plan.arena_bytes);
    answer.host_bytes = plan.host_arena_bytes;
  } catch (const UserError& error) {
    answer.code = error.code();
    answer.message = error.what();
  } catch (const InternalError& error) {
    answer.code = ExitCode::kInternal;
    answer.message = error.what();
  }
  return answer;
}

Sets With(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

// The most bytes that are printed as this text: "1.98 GiB".
int64_t MostBytes(const std::string& text) {
  double value = 0;
  char unit[8] = "";
  EXPECT_EQ(std::sscanf(text.c_str(), "%lf %7s", &value, unit), 2) << text;
  double factor = 1;
  for (const char* name : {"B", "KiB", "MiB", "GiB", "TiB"}) {
    if (std::string(unit) == name) break;
    factor *= 1024;
  }
  if (factor == 1) return static_cast<int64_t>(value);
  const double step = value < 10 ? 0.01 : value < 100 ? 0.1 : 1;
  return static_cast<int64_t>((value + step / 2) * factor) + 1;
}

// The changes of "K: V", and of "K: V with L: W".
Sets SetsOf(const std::string& change) {
  Sets sets;
  static const std::regex part(R"(([a-z_]+\.[a-z_]+): ([^ ,()]+))");
  for (std::sregex_iterator at(change.begin(), change.end(), part), end; at != end; ++at) {
    sets.push_back((*at)[1].str() + "=" + (*at)[2].str());
  }
  EXPECT_FALSE(sets.empty()) << change;
  return sets;
}

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool Chance(int percent) { return Below(100) < percent; }
  template <typename T>
  T One(std::initializer_list<T> values) {
    return *(values.begin() + Below(static_cast<int64_t>(values.size())));
  }

 private:
  std::mt19937_64 random_;
};

std::string Model(Generator& g, bool lora, const TempFolder& folder) {
  const std::string family =
      g.One({"gpt2", "llama", "qwen2", "qwen3", "mistral", "phi3", "gemma2"});
  const int64_t layers = g.One({1, 2, 3, 4}), width = g.One({16, 32, 64}), heads = g.One({2, 4});
  const int64_t vocab = g.One({64, 256, 1024}), sequence = g.One({8, 16, 32, 64});
  const bool gpt2 = family == "gpt2";
  const int64_t kv_heads = gpt2 ? heads : g.One<int64_t>({2, heads});
  if (!lora) {
    std::string own;
    if (gpt2 && g.Chance(30)) own = ", dropout: 0.1";
    if (family == "phi3" && g.Chance(50)) {
      own = fmt::format(", rotary_width: {}", width / heads / 2);
    }
    return fmt::format(
        "model: {{family: {}, layers: {}, width: {}, heads: {}, {}vocab: {}, sequence: {}{}{}}}\n",
        family, layers, width, heads, gpt2 ? "" : fmt::format("kv_heads: {}, ", kv_heads), vocab,
        sequence, g.Chance(20) ? ", tied: true" : "", own);
  }
  const std::string config =
      gpt2 ? fmt::format(R"({{"model_type": "gpt2", "n_layer": {}, "n_embd": {}, "n_head": {},
                              "vocab_size": {}, "n_positions": {}}})",
                         layers, width, heads, vocab, sequence)
           : fmt::format(R"({{"model_type": "llama", "num_hidden_layers": {}, "hidden_size": {},
                              "num_attention_heads": {}, "num_key_value_heads": {},
                              "intermediate_size": {}, "vocab_size": {},
                              "max_position_embeddings": {}, "rms_norm_eps": 1e-5,
                              "hidden_act": "silu", "rope_theta": 10000.0}})",
                         layers, width, heads, kv_heads, 4 * width, vocab, sequence);
  folder.Write("config.json", config);
  return fmt::format("model: {{init_from: '{}', sequence: {}}}\nlora: {{rank: {}}}\n",
                     folder.path(), sequence, g.One({1, 4, 8}));
}

void Insert(std::string& yaml, const std::string& before, const std::string& text) {
  yaml.insert(yaml.find(before), text);
}

// Adds techniques that change no number to the file, as values or left open.
void LeaveOpen(Generator& g, std::string& yaml) {
  Insert(yaml, "calibrate:",
         fmt::format("weights: {}, gradients: {}, ", g.One({"device", "auto"}),
                     g.One({"device", "host", "auto"})));
  Insert(yaml, "state_dtype:",
         fmt::format("in_backward: {}, clip_grad_norm: {}, ", g.One({"true", "false", "auto"}),
                     g.One({0, 0, 1})));
  Insert(yaml, "steps:", fmt::format("blocks_first: {}, ", g.One({"true", "false", "auto"})));
}

// The file of a run that leaves choices open, or none.
std::string RunOf(Generator& g, const TempFolder& folder) {
  const bool lora = g.Chance(15);
  std::string yaml = Model(g, lora, folder);
  yaml += "data: {synthetic: true}\n";

  const int64_t data = g.One({1, 1, 2, 4}), tensor = g.One({1, 1, 1, 2});
  std::string train = "steps: 2, threads: 2, ";
  if (g.Chance(40)) {
    train += fmt::format("micro_batch: auto, global_batch: {}", data * g.One({2, 4, 6, 16}));
  } else {
    train += fmt::format("micro_batch: {}, accumulate: {}", g.One({1, 2, 4, 6, 16}),
                         g.One({1, 1, 2, 3}));
  }
  train += fmt::format(", eval_every: {}", g.One({0, 1}));
  if (!lora && g.Chance(20)) {
    train += fmt::format(", freeze: ['{}']", g.One({"embed*", "block.0.*", "*.mlp.*"}));
  }
  yaml += "train: {" + train + "}\n";

  yaml += fmt::format("optimizer: {{name: {}, state_dtype: {}, place: {}}}\n",
                      g.One({"adamw", "adamw", "sgd"}), g.One({"fp32", "bf16", "int8"}),
                      g.One({"device", "host", "auto"}));
  const std::string dtype = g.One({"fp32", "bf16", "fp16"});
  yaml += fmt::format("amp: {{dtype: {}{}}}\n", dtype,
                      dtype == "bf16" && g.Chance(40) ? ", master_weights: false" : "");

  std::string checkpointing =
      fmt::format("policy: {}", g.One({"auto", "auto", "none", "block", "selective", "every"}));
  if (checkpointing == "policy: every") checkpointing += ", every: 2";
  if (g.Chance(30)) {
    checkpointing +=
        fmt::format(", offload: ['{}']", g.One({"*", "block.*", "*.residual_2", "*.mlp.*"}));
  }
  yaml += "checkpointing: {" + checkpointing + "}\n";
  yaml += fmt::format("parallel: {{data: {}, tensor: {}, sequence: {}, zero: {}}}\n", data, tensor,
                      tensor > 1 && g.Chance(50), g.One({0, 1, 2, 3}));
  if (g.Chance(20)) yaml += "save: {every: 1, async: true}\n";
  yaml += "memory: {calibrate: false}\n";
  yaml += fmt::format("device: {}\n", g.One({"cpu", "cpu", "cpu", "cuda"}));
  if (g.Chance(30)) LeaveOpen(g, yaml);
  return yaml;
}

class Promises {
 public:
  explicit Promises(uint64_t seed) : g_(seed), yaml_(RunOf(g_, folder_)) {}

  // Returns whether the run is possible and was refused.
  bool Check() {
    const Answer roomy = Ask(yaml_, {"memory.budget=1TiB"});
    if (!roomy.fits) {
      EXPECT_EQ(roomy.code, ExitCode::kUserMistake) << yaml_ << roomy.message;
      return false;
    }
    Sets sets = {"memory.budget=" + Share(roomy.process_bytes)};
    if (g_.Chance(40)) {
      sets.push_back("memory.host_budget=" + Share(std::max<int64_t>(roomy.host_bytes, 4096)));
    }
    SCOPED_TRACE(yaml_ + fmt::format("{}", fmt::join(sets, " ")));
    const Answer refused = Ask(yaml_, sets);
    if (refused.fits) return false;
    SCOPED_TRACE(refused.message);
    EXPECT_EQ(refused.code, ExitCode::kBudgetNotMet);
    EXPECT_EQ(refused.message.find("EiB"), std::string::npos) << "an infinite budget";
    CheckSmallest(sets, refused.message);
    CheckChanges(sets, refused.message);
    return true;
  }

 private:
  std::string Share(int64_t bytes) {
    if (g_.Chance(15)) return "1KiB";
    return std::to_string(bytes * (20 + g_.Below(85)) / 100);
  }

  // "memory.budget: 1.00 MiB …; the smallest plan needs 2.00 MiB (2097152 bytes; …"
  void CheckSmallest(const Sets& sets, const std::string& message) {
    static const std::regex needs(R"((memory\.\w+): [\d.]+ .* needs [^(]*\((\d+) bytes)");
    static const std::regex also(R"(and (memory\.\w+): [^(]*\((\d+) bytes)");
    std::smatch need;
    if (!std::regex_search(message, need, needs)) {
      // The parameters, or the process without the arena, already exceed the budget.
      EXPECT_THAT(message, testing::AnyOf(testing::HasSubstr("less than the parameters alone"),
                                          testing::HasSubstr("outside the arena")));
      return;
    }
    const int64_t bytes = std::stoll(need[2]);
    Sets lines = {need[1].str() + "=" + need[2].str()};
    std::smatch other;
    if (std::regex_search(message, other, also)) {
      lines.push_back(other[1].str() + "=" + other[2].str());
    }
    const Answer answer = Ask(yaml_, With(sets, lines));
    EXPECT_TRUE(answer.fits) << "with " << lines[0] << ": " << answer.message;
    if (!answer.fits) return;
    const bool device = need[1] == "memory.budget";
    EXPECT_LE(device ? answer.process_bytes : answer.host_bytes, bytes);
  }

  // "it would fit with train.micro_batch: 1 with train.accumulate: 2 (1.98 MiB) or …", or
  // "(the closest: amp.dtype: bf16, 1.98 MiB)".
  void CheckChanges(const Sets& sets, const std::string& message) {
    static const std::regex way(
        R"(([a-z_]+\.[a-z_]+: [^ ,()]+(?: with [a-z_]+\.[a-z_]+: [^ ,()]+)?) \(([\d.]+ [KMGT]?i?B)\))");
    const size_t ways = message.find("it would fit with ");
    const std::string key = message.find(": memory.budget:") != std::string::npos
                                ? "memory.budget"
                                : "memory.host_budget";
    if (ways != std::string::npos) {
      const std::string list = message.substr(ways + 18);
      int count = 0;
      for (std::sregex_iterator at(list.begin(), list.end(), way), end; at != end; ++at, ++count) {
        const std::string change = (*at)[1].str();
        const Sets changed = With(sets, SetsOf(change));
        const Answer answer = Ask(yaml_, changed);
        EXPECT_TRUE(answer.fits) << change << ": " << answer.message;
        CheckSize(change, changed, key, (*at)[2].str());
      }
      EXPECT_GT(count, 0) << message;
      return;
    }
    static const std::regex together(R"(but together (.*) do \(([\d.]+ [KMGT]?i?B)\))");
    if (std::smatch all; std::regex_search(message, all, together)) {
      const Sets changed = With(sets, SetsOf(all[1].str()));
      const Answer answer = Ask(yaml_, changed);
      EXPECT_TRUE(answer.fits) << all[1].str() << ": " << answer.message;
      CheckSize(all[1].str(), changed, key, all[2].str());
      return;
    }
    static const std::regex closest(R"(the closest: ([^()]*), ([\d.]+ [KMGT]?i?B))");
    std::smatch found;
    if (!std::regex_search(message, found, closest)) return;
    CheckSize(found[1].str(), With(sets, SetsOf(found[1].str())), key, found[2].str());
  }

  // Checks that the change fits with the size printed next to it.
  void CheckSize(const std::string& change, const Sets& changed, const std::string& key,
                 const std::string& size) {
    if (size == "0 B") return;  // no key can have this value
    const Answer answer = Ask(yaml_, With(changed, {key + "=" + std::to_string(MostBytes(size))}));
    EXPECT_TRUE(answer.fits) << change << " in " << size << ": " << answer.message;
  }

  const TempFolder folder_;
  Generator g_;
  const std::string yaml_;
};

// The number of runs; PLIMSOLL_PROMISES=5000 tries so many, by hand.
int64_t Runs() {
  const char* runs = std::getenv("PLIMSOLL_PROMISES");
  return runs != nullptr ? std::stol(runs) : 40;
}

class BudgetPromises : public testing::TestWithParam<int64_t> {};

TEST_P(BudgetPromises, Hold) {
  constexpr int kTries = 50;
  bool refused = false;
  for (int i = 0; i < kTries && !refused; ++i) {
    refused = Promises(static_cast<uint64_t>(GetParam() * kTries + i)).Check();
  }
  EXPECT_TRUE(refused);
}

INSTANTIATE_TEST_SUITE_P(Runs, BudgetPromises, testing::Range<int64_t>(0, Runs()));

}  // namespace
}  // namespace plimsoll::trainer
