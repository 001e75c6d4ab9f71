#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/low_precision.h"
#include "formats/model_safetensors.h"
#include "formats/safetensors_writer.h"
#include "models/family.h"
#include "models/huggingface.h"
#include "tests/models/loaded_weights.h"
#include "tests/models/published.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::models {
namespace {

using formats::ModelSafetensors;
using testing::HasSubstr;

using Weights = LoadedWeights;

// Weights in which every element of every parameter has a different value.
Weights MakeWeights(const Model& model) {
  Weights weights;
  float next = 1;
  for (const ParameterInfo& parameter : model.parameters()) {
    std::vector<float>& values = weights[parameter.name];
    values.resize(parameter.shape.elements());
    for (float& value : values) value = next++;
  }
  return weights;
}

void Save(const std::string& folder, const Model& model, const Weights& weights,
          int64_t max_file_bytes = kMaxCheckpointFileBytes) {
  SaveWeights(
      folder, model,
      [&](const ParameterInfo& parameter) { return weights.at(parameter.name).data(); },
      max_file_bytes);
}

// The same by any number of threads, through buffers of any size.
Weights Load(const std::string& folder, const Model& model) {
  const Weights weights = ReadWeights(folder, model);
  for (const Pieces& pieces : {Pieces{}, Pieces{1, 1, 8}, Pieces{3, 5, 13}, Pieces{2, 2, 47},
                               Pieces{4, 4, 48}, Pieces{2, 7, 1 << 20}}) {
    EXPECT_EQ(LoadPieces(folder, model, pieces), weights) << pieces.buffer_bytes;
  }
  return weights;
}

// A checkpoint in memory, which tests change before it is written.
struct Tensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using Tensors = std::map<std::string, Tensor>;

Tensors ReadTensors(const std::string& folder) {
  Tensors tensors;
  const ModelSafetensors file(folder);
  for (const std::string& name : file.Names()) {
    Tensor& tensor = tensors[name];
    tensor.shape = file.Require(name).shape;
    tensor.values.resize(file.Require(name).elements);
    file.ReadFloat32(name, tensor.values.data(), file.Require(name).elements);
  }
  return tensors;
}

void WriteTensors(const std::string& folder, const Tensors& tensors,
                  formats::TensorType type = formats::TensorType::kF32) {
  std::vector<formats::TensorSpec> specs;
  for (const auto& [name, tensor] : tensors) specs.push_back({name, type, tensor.shape});
  formats::WriteSafetensors(folder + "/model.safetensors", specs,
                            [&](const formats::TensorSpec& spec, formats::TensorSink& sink) {
                              sink.WriteFloat32(tensors.at(spec.name).values);
                            });
}

std::vector<std::string> NamesAndShapes(const std::string& folder) {
  std::vector<std::string> lines;
  for (const auto& [name, tensor] : ReadTensors(folder)) {
    lines.push_back(name + formats::ShapeText(tensor.shape));
  }
  return lines;
}

TEST(HuggingFaceWeights, WritesGpt2AsTransformersDoes) {
  const auto model = MakeModel(Gpt2Spec(1, 4, 2, 7, 5));
  TempFolder folder;
  Save(folder.path(), *model, MakeWeights(*model));
  EXPECT_THAT(
      NamesAndShapes(folder.path()),
      testing::UnorderedElementsAre(
          "transformer.wte.weight[7, 4]", "transformer.wpe.weight[5, 4]",
          "transformer.h.0.ln_1.weight[4]", "transformer.h.0.ln_1.bias[4]",
          "transformer.h.0.attn.c_attn.weight[4, 12]", "transformer.h.0.attn.c_attn.bias[12]",
          "transformer.h.0.attn.c_proj.weight[4, 4]", "transformer.h.0.attn.c_proj.bias[4]",
          "transformer.h.0.ln_2.weight[4]", "transformer.h.0.ln_2.bias[4]",
          "transformer.h.0.mlp.c_fc.weight[4, 16]", "transformer.h.0.mlp.c_fc.bias[16]",
          "transformer.h.0.mlp.c_proj.weight[16, 4]", "transformer.h.0.mlp.c_proj.bias[4]",
          "transformer.ln_f.weight[4]", "transformer.ln_f.bias[4]"));
  const formats::SafetensorsReader file(folder / "model.safetensors");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(SpecFromHuggingFace(folder.path()), model->spec());
}

TEST(HuggingFaceWeights, WritesQwen2AsTransformersDoes) {
  const auto model = MakeModel(Qwen2Spec({1, 6, 3, 1, 4, 5, 7, 9, false}));
  TempFolder folder;
  Save(folder.path(), *model, MakeWeights(*model));
  EXPECT_THAT(
      NamesAndShapes(folder.path()),
      testing::UnorderedElementsAre(
          "model.embed_tokens.weight[7, 6]", "model.layers.0.input_layernorm.weight[6]",
          "model.layers.0.self_attn.q_proj.weight[12, 6]",
          "model.layers.0.self_attn.q_proj.bias[12]",
          "model.layers.0.self_attn.k_proj.weight[4, 6]", "model.layers.0.self_attn.k_proj.bias[4]",
          "model.layers.0.self_attn.v_proj.weight[4, 6]", "model.layers.0.self_attn.v_proj.bias[4]",
          "model.layers.0.self_attn.o_proj.weight[6, 12]",
          "model.layers.0.post_attention_layernorm.weight[6]",
          "model.layers.0.mlp.gate_proj.weight[5, 6]", "model.layers.0.mlp.up_proj.weight[5, 6]",
          "model.layers.0.mlp.down_proj.weight[6, 5]", "model.norm.weight[6]",
          "lm_head.weight[7, 6]"));
}

TEST(HuggingFaceWeights, RoundsToTheTypeAskedFor) {
  const auto model = MakeModel(Gpt2Spec(1, 4, 2, 7, 5));
  Weights weights = MakeWeights(*model);
  weights.at("embed.token.weight").at(2) = 1.0f + 0x1p-9f;  // too fine for bf16
  const auto save = [&](const std::string& folder, formats::TensorType type) {
    SaveWeights(
        folder, *model,
        [&](const ParameterInfo& parameter) { return weights.at(parameter.name).data(); },
        kMaxCheckpointFileBytes, type);
  };
  TempFolder saved, copied;
  save(saved / "fp32", formats::TensorType::kF32);
  for (const auto& [name, type, torch] :
       {std::tuple("bf16", formats::TensorType::kBf16, "bfloat16"),
        std::tuple("fp16", formats::TensorType::kF16, "float16")}) {
    save(saved / name, type);
    const Weights read = Load(saved / name, *model);
    for (const auto& [parameter, values] : weights) {
      for (size_t i = 0; i < values.size(); ++i) {
        const float rounded = type == formats::TensorType::kF16 ? FromF16(ToF16(values[i]))
                                                                : FromBf16(ToBf16(values[i]));
        ASSERT_EQ(read.at(parameter).at(i), rounded) << parameter;
      }
    }
    EXPECT_EQ(read.at("embed.token.weight").at(2) == 1.0f, std::string(name) == "bf16");
    EXPECT_THAT(ReadFile(saved / name + "/config.json"), HasSubstr(torch));
    // The same by CopyWeights.
    CopyWeights(saved / "fp32", copied / name, type);
    for (const char* file : {"/model.safetensors", "/config.json"}) {
      EXPECT_EQ(ReadFile(copied / name + file), ReadFile(saved / name + file));
    }
  }
  weights.at("embed.position.weight").at(3) = 70000;
  ExpectUserError([&] { save(saved / "beyond", formats::TensorType::kF16); },
                  {"beyond", "transformer.wpe.weight", "70000", "bf16"});
  EXPECT_EQ(saved.Names("beyond"), std::vector<std::string>());
}

TEST(HuggingFaceWeights, TransposesGpt2) {
  const auto model = MakeModel(Gpt2Spec(1, 4, 2, 7, 5));
  const Weights weights = MakeWeights(*model);
  TempFolder folder;
  Save(folder.path(), *model, weights);
  const Tensors tensors = ReadTensors(folder.path());
  const std::vector<float>& ours = weights.at("block.0.mlp.fc.weight");  // [16,4]
  const std::vector<float>& theirs =
      tensors.at("transformer.h.0.mlp.c_fc.weight").values;  // [4,16]
  for (int out = 0; out < 16; ++out) {
    for (int in = 0; in < 4; ++in) EXPECT_EQ(theirs[in * 16 + out], ours[out * 4 + in]);
  }
}

TEST(HuggingFaceWeights, StacksQueriesKeysAndValues) {
  const auto model = MakeModel(LlamaSpec({1, 6, 3, 1, 4, 5, 7, 9, true}));
  const Weights weights = MakeWeights(*model);
  TempFolder folder;
  Save(folder.path(), *model, weights);
  const Tensors tensors = ReadTensors(folder.path());
  std::vector<float> stacked;
  for (const char* part : {"q", "k", "v"}) {
    const auto& values =
        tensors.at(std::string("model.layers.0.self_attn.") + part + "_proj.weight").values;
    stacked.insert(stacked.end(), values.begin(), values.end());
  }
  EXPECT_EQ(stacked, weights.at("block.0.attn.qkv.weight"));
  stacked = tensors.at("model.layers.0.mlp.gate_proj.weight").values;
  const auto& up = tensors.at("model.layers.0.mlp.up_proj.weight").values;
  stacked.insert(stacked.end(), up.begin(), up.end());
  EXPECT_EQ(stacked, weights.at("block.0.mlp.gate_up.weight"));
}

TEST(HuggingFaceWeights, ReadsWhatItWrites) {
  for (const ModelSpec& spec : TinyModels()) {
    const auto model = MakeModel(spec);
    const Weights weights = MakeWeights(*model);
    TempFolder folder;
    Save(folder / "new/deep", *model, weights);
    EXPECT_EQ(SpecFromHuggingFace(folder / "new/deep"), spec);
    EXPECT_EQ(Load(folder / "new/deep", *model), weights) << spec.family;
    Save(folder / "shards", *model, weights, 1000);
    EXPECT_TRUE(std::filesystem::exists(folder / "shards/model.safetensors.index.json"));
    EXPECT_EQ(Load(folder / "shards", *model), weights) << spec.family;
  }
}

TEST(HuggingFaceWeights, LargeTransposesAreWhole) {  // beyond one tile in both directions
  const auto model = MakeModel(Gpt2Spec(1, 70, 2, 7, 5));
  const Weights weights = MakeWeights(*model);
  TempFolder folder;
  Save(folder.path(), *model, weights);
  EXPECT_EQ(Load(folder.path(), *model), weights);
}

TEST(HuggingFaceWeights, ReadsBaseModelsAndTheirConstants) {
  for (const ModelSpec& spec :
       {Gpt2Spec(2, 4, 2, 7, 5), LlamaSpec({2, 6, 3, 1, 4, 5, 7, 9, true})}) {
    const auto model = MakeModel(spec);
    const Weights weights = MakeWeights(*model);
    TempFolder full;
    Save(full.path(), *model, weights);
    const std::string prefix = model->checkpoint_table().prefix;
    Tensors bare;
    for (auto& [name, tensor] : ReadTensors(full.path())) {
      ASSERT_TRUE(name.starts_with(prefix)) << name;
      bare[name.substr(prefix.size())] = tensor;
    }
    if (spec.family == "gpt2") {
      bare["h.1.attn.bias"] = {{1, 1, 5, 5}, std::vector<float>(25)};
      bare["h.0.attn.masked_bias"] = {{}, {-1e4f}};
    } else {
      bare["layers.1.self_attn.rotary_emb.inv_freq"] = {{2}, {1, 2}};
    }
    bare["lm_head.weight"] = bare[spec.family == "gpt2" ? "wte.weight" : "embed_tokens.weight"];
    TempFolder folder;
    WriteTensors(folder.path(), bare);
    EXPECT_EQ(Load(folder.path(), *model), weights) << spec.family;
  }
}

TEST(HuggingFaceWeights, ConvertsToFloat32) {
  const auto model = MakeModel(LlamaSpec({1, 2, 1, 1, 2, 1, 3, 9, true}));
  const Weights weights = MakeWeights(*model);  // integers below 256, which bf16 holds exactly
  TempFolder folder, converted;
  Save(folder.path(), *model, weights);
  WriteTensors(converted.path(), ReadTensors(folder.path()), formats::TensorType::kBf16);
  EXPECT_EQ(Load(converted.path(), *model), weights);
}

TEST(HuggingFaceWeights, RefusesWhatDoesNotFitBeforeReadingAnything) {
  const auto model = MakeModel(LlamaSpec({2, 6, 3, 1, 4, 5, 7, 9, false}));
  TempFolder good;
  Save(good.path(), *model, MakeWeights(*model));
  const Tensors tensors = ReadTensors(good.path());

  const auto refusal = [&](auto change) {
    Tensors changed = tensors;
    change(changed);
    TempFolder folder;
    WriteTensors(folder.path(), changed);
    return UserErrorOf([&] {
      ThreadPool pool(2);
      const HostStaging staging(2, 64);
      LoadWeights(folder.path(), *model, staging.buffers(), pool,
                  [](const ParameterInfo& parameter, int64_t, const graph::TypedElements&) {
                    ADD_FAILURE() << "took of " << parameter.name;
                  });
    });
  };

  EXPECT_THAT(refusal([](Tensors& t) { t.erase("model.layers.1.self_attn.k_proj.weight"); }),
              testing::AllOf(HasSubstr("model.safetensors: "),
                             HasSubstr("\"model.layers.1.self_attn.k_proj.weight\"")));
  EXPECT_THAT(refusal([](Tensors& t) { t.erase("lm_head.weight"); }),
              HasSubstr("\"lm_head.weight\""));
  EXPECT_THAT(
      refusal([](Tensors& t) {
        t["model.layers.2.input_layernorm.weight"] = {{6}, {1, 2, 3, 4, 5, 6}};
      }),
      HasSubstr("model.safetensors: tensor \"model.layers.2.input_layernorm.weight\" has no place "
                "in the llama model with 2 layers that config.json describes"));
  EXPECT_THAT(refusal([](Tensors& t) {
                t["model.layers.0.self_attn.q_proj.bias"] = {{12}, std::vector<float>(12)};
              }),
              HasSubstr("\"model.layers.0.self_attn.q_proj.bias\" has no place"));
  EXPECT_THAT(refusal([](Tensors& t) {
                t["model.norm.weight"] = {{7}, std::vector<float>(7)};
              }),
              HasSubstr("model.safetensors: tensor \"model.norm.weight\" has shape [7], but "
                        "config.json asks for [6]: are the two of the same model?"));
  EXPECT_THAT(refusal([](Tensors& t) {
                std::swap(t["model.layers.0.mlp.up_proj.weight"].shape[0],
                          t["model.layers.0.mlp.up_proj.weight"].shape[1]);
              }),
              HasSubstr("\"model.layers.0.mlp.up_proj.weight\" has shape [6, 5], but config.json "
                        "asks for [5, 6]"));
}

TEST(HuggingFaceWeights, ATiedHeadIsNotAsked) {
  ModelSpec spec = LlamaSpec({1, 6, 3, 1, 4, 5, 7, 9, true});
  const auto tied = MakeModel(spec);
  spec.tied = false;
  const auto untied = MakeModel(spec);
  TempFolder folder;
  Save(folder.path(), *tied, MakeWeights(*tied));
  EXPECT_EQ(ReadTensors(folder.path()).count("lm_head.weight"), 0u);
  EXPECT_THAT(UserErrorOf([&] { Load(folder.path(), *untied); }), HasSubstr("\"lm_head.weight\""));
}

// A model with one tensor for two names of files, and these names.
struct TiedPair {
  std::unique_ptr<Model> model;
  std::string stored, copy;
};

std::vector<TiedPair> TiedPairs() {
  std::vector<TiedPair> pairs;
  pairs.push_back({MakeModel(Gpt2Spec(1, 4, 2, 7, 5)), "transformer.wte.weight", "lm_head.weight"});
  pairs.push_back({MakeModel(LlamaSpec({1, 6, 3, 1, 4, 5, 7, 9, true})),
                   "model.embed_tokens.weight", "lm_head.weight"});
  for (const auto& [stored, copy] :
       {std::pair("bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),
        std::pair("cls.predictions.bias", "cls.predictions.decoder.bias")}) {
    Settings settings;
    for (const auto& [name, value] :
         {std::pair("layers", 1), std::pair("width", 4), std::pair("heads", 2),
          std::pair("vocab", 7), std::pair("sequence", 5)}) {
      settings.Set(name, int64_t{value});
    }
    Complete(*FindFamily("bert"), settings);
    pairs.push_back({MakeModel(*FindFamily("bert"), settings), stored, copy});
  }
  return pairs;
}

TEST(HuggingFaceWeights, TiedTensorsMayBeStoredTwiceOrUnderEitherName) {
  for (const TiedPair& pair : TiedPairs()) {
    SCOPED_TRACE(pair.copy);
    TempFolder folder, exported;
    const Weights weights = MakeWeights(*pair.model);
    Save(folder.path(), *pair.model, weights);
    Tensors tensors = ReadTensors(folder.path());
    ASSERT_TRUE(tensors.contains(pair.stored));
    tensors[pair.copy] = tensors[pair.stored];
    WriteTensors(folder.path(), tensors);
    EXPECT_EQ(Load(folder.path(), *pair.model), weights);
    tensors.erase(pair.stored);
    WriteTensors(folder.path(), tensors);
    EXPECT_EQ(Load(folder.path(), *pair.model), weights);
    CopyWeights(folder.path(), exported.path(), formats::TensorType::kF32);
    EXPECT_TRUE(ReadTensors(exported.path()).contains(pair.stored));
    EXPECT_FALSE(ReadTensors(exported.path()).contains(pair.copy));
  }
}

// BERT's first files call a norm's weight and bias gamma and beta, as TensorFlow does.
TEST(HuggingFaceWeights, ReadsBertsNormsByTheirOldNames) {
  const TiedPair bert = std::move(TiedPairs().back());
  for (const std::string prefix : {"bert.", ""}) {
    TempFolder folder;
    const Weights weights = MakeWeights(*bert.model);
    Save(folder.path(), *bert.model, weights);
    Tensors old;
    for (auto& [name, tensor] : ReadTensors(folder.path())) {
      std::string renamed = name.starts_with("bert.") ? prefix + name.substr(5) : name;
      for (const auto& [end, old_end] :
           {std::pair<std::string, const char*>("LayerNorm.weight", "LayerNorm.gamma"),
            std::pair<std::string, const char*>("LayerNorm.bias", "LayerNorm.beta")}) {
        if (renamed.ends_with(end))
          renamed.replace(renamed.size() - end.size(), end.size(), old_end);
      }
      old[renamed] = tensor;
    }
    WriteTensors(folder.path(), old);
    EXPECT_EQ(Load(folder.path(), *bert.model), weights) << prefix;
  }
}

TEST(HuggingFaceWeights, RefusesACopyThatDiffers) {
  for (const TiedPair& pair : TiedPairs()) {
    TempFolder folder;
    Save(folder.path(), *pair.model, MakeWeights(*pair.model));
    Tensors tensors = ReadTensors(folder.path());
    tensors[pair.copy] = tensors[pair.stored];
    tensors[pair.copy].values.back() += 1;
    WriteTensors(folder.path(), tensors);
    const std::string refusal = UserErrorOf([&] { Load(folder.path(), *pair.model); });
    EXPECT_THAT(refusal, HasSubstr("\"" + pair.stored + "\" and \"" + pair.copy + "\" differ"));
    const bool bert = pair.model->family() == "bert";
    EXPECT_THAT(refusal, HasSubstr(bert ? "tie it, and save" : "tie_word_embeddings: false"));
  }
}

TEST(HuggingFaceWeights, RefusesAFolderItCannotMake) {
  const auto model = MakeModel(Gpt2Spec(1, 4, 2, 7, 5));
  TempFolder folder;
  const std::string file = folder.Write("file", "not a folder");
  EXPECT_THAT(UserErrorOf([&] { Save(file + "/below", *model, MakeWeights(*model)); }),
              HasSubstr("file/below: cannot create this folder: "));
}

}  // namespace
}  // namespace plimsoll::models
