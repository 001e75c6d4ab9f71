#include "formats/foreign_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "formats/safetensors_writer.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::formats {
namespace {

using testing::HasSubstr;

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::string Zip(const std::string& first) {
  return "PK\x03\x04" + std::string(26, '\0') + first + std::string(100, 'x');
}

// The weights of llama2.c's smallest model: 64 wide, 5 layers, of 172; 8 heads, 4 of keys; 512
// tokens, 512 positions.
std::string Llama2C(bool shared) {
  const int w = 64, hidden = 172, layers = 5, head = 8, vocab = 512, positions = 512;
  const int floats = vocab * w + layers * (2 * w + 2 * w * w + 2 * w * 4 * head + 3 * w * hidden) +
                     w + positions * head + (shared ? 0 : vocab * w);
  return Bytes<int32_t>({w, hidden, layers, 8, 4, shared ? vocab : -vocab, positions}) +
         std::string(static_cast<size_t>(4 * floats), '\x3c');
}

std::string Llama2CTokenizer() {
  std::string text = Bytes<int32_t>({7});
  for (const std::string token : {"<unk>", "\n<s>\n", "the"}) {
    text += Bytes<float>({-1.5f}) + Bytes<int32_t>({static_cast<int32_t>(token.size())}) + token;
  }
  return text;
}

// By their contents, whatever their names.
TEST(ForeignFiles, AreKnownByTheirContents) {
  const TempFolder folder;
  struct Case {
    std::string contents, is, converter;
  };
  for (const Case& c : std::vector<Case>{
           {"GGUF\x03" + std::string(40, '\0'), "a model of llama.cpp (GGUF)", "gguf_file="},
           {Zip("archive/data.pkl"), "a pickle of PyTorch", "save_file(torch.load("},
           {"\x80\x02\x8a\nl\xfc\x9c"
            "F\xf9 j\xa8P\x19.",
            "a pickle of PyTorch", "save_file(torch.load("},
           {Llama2C(true), "a model of llama2.c", "export.py OUT --version -1"},
           {Llama2C(false), "a model of llama2.c", "export.py OUT --version -1"},
           {"24ka" + std::string(252, '\0'), "a model of llama2.c", "export.py"},
           {"\n\x0e\n\x05<unk>\x15" + std::string(9, '\0'), "a tokenizer of SentencePiece",
            "LlamaTokenizerFast(vocab_file="},
           {"IQ== 0\nIg== 1\nIw== 2\nJA== 3\n", "a tokenizer of tiktoken",
            "convert_llama_weights_to_hf"},
           {Llama2CTokenizer(), "a tokenizer of llama2.c", "LlamaTokenizerFast(vocab_file="},
           {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a pointer of Git LFS",
            "git lfs pull"}}) {
    const std::string path = folder.Write("x", c.contents);
    const auto what = DescribeForeignFile(path);
    ASSERT_TRUE(what.has_value()) << c.is;
    ExpectText(*what, {"is " + c.is, c.converter});
  }
}

TEST(ForeignFiles, OtherFilesAreNotMistakenForThem) {
  const TempFolder folder;
  std::string short_model = Llama2C(true);
  short_model.pop_back();
  for (const std::string& contents :
       {std::string(), std::string("G"), std::string("{\"model\": 1}"), Zip("word/document.xml"),
        std::string("[PAD]\n[UNK]\n"), std::string("IQ== 1\n"), short_model,
        Bytes<int32_t>({7, 0, 3}), std::string("\x80\x09")}) {
    EXPECT_EQ(DescribeForeignFile(folder.Write("x", contents)), std::nullopt) << contents;
  }
  EXPECT_EQ(DescribeForeignFile(folder / "missing"), std::nullopt);
  EXPECT_EQ(DescribeForeignFile(folder.path()), std::nullopt);
  // The length of a safetensors header may begin like a pickle: 0x280 bytes.
  std::string header = "{}";
  header.resize(0x280, ' ');
  EXPECT_EQ(DescribeForeignFile(folder.Write("x", Bytes<uint64_t>({0x280}) + header)),
            std::nullopt);
}

TEST(ForeignFiles, AFolderSaysWhichOfItsFilesItIs) {
  const TempFolder meta;
  EXPECT_NO_THROW(RefuseForeignModel(meta.path()));
  meta.Write("params.json", "{}");
  meta.Write("tokenizer.model", "\n\x0e\n\x05<unk>\x15");
  EXPECT_NO_THROW(RefuseForeignModel(meta.path()));  // a tokenizer is no model
  meta.Write("consolidated.00.pth", Zip("consolidated.00/data.pkl"));
  ExpectUserError([&] { RefuseForeignModel(meta.path()); },
                  {meta / "consolidated.00.pth: is a pickle with Llama's weights", "params.json",
                   "convert_llama_weights_to_hf"});

  const TempFolder torch;
  torch.Write("config.json", R"({"architectures": ["BertForMaskedLM"]})");
  torch.Write("pytorch_model.bin", Zip("archive/data.pkl"));
  ExpectUserError([&] { RefuseForeignModel(torch.path()); },
                  {"BertForMaskedLM.from_pretrained(FOLDER).save_pretrained(OUT, safe_"});

  const TempFolder renamed;
  WriteSafetensors(renamed / "model.safetensors",
                   {{"layers.0.attention.wq.weight", TensorType::kF32, {2}}},
                   [](const TensorSpec&, TensorSink& sink) {
                     sink.WriteFloat32(std::vector<float>{1, 2});
                   });
  ExpectUserError([&] { RefuseForeignModel(renamed.path()); },
                  {"model.safetensors: has the names that Meta gives"});
}

TEST(ForeignFiles, AreKnownByTheNamesOfTheirTensors) {
  struct Case {
    std::vector<std::string> names;
    std::string whose, way_out;
  };
  for (const Case& c : std::vector<Case>{
           {{"_orig_mod.transformer.wte.weight"}, "torch.compile", "replace(\"_orig_mod.\", \"\")"},
           {{"module.a", "module.b"}, "DistributedDataParallel", "replace(\"module.\", \"\")"},
           {{"model.q_proj.base_layer.weight"}, "PeftModel", "merge_and_unload().save_pretrained"},
           {{"base_model.model.q_proj.lora_A.default.weight"}, "PeftModel", "save_pretrained(OUT)"},
           {{"resnet.embedder.embedder.convolution.weight"},
            "transformers' ResNets",
            "resnet_to_safetensors.py"},
           {{"blocks.0.attn.qkv.weight", "patch_embed.proj.weight"}, "timm", "timm_vit.py"}}) {
    const auto what = DescribeForeignNames(c.names);
    ASSERT_TRUE(what.has_value()) << c.whose;
    ExpectText(*what, {c.whose, c.way_out});
  }
  for (const std::vector<std::string>& names :
       std::vector<std::vector<std::string>>{{},
                                             {"module.a", "b"},
                                             {"transformer.wte.weight", "lm_head.weight"},
                                             {"base_model.model.q_proj.lora_A.weight"},
                                             {"vit.embeddings.cls_token"}}) {
    EXPECT_EQ(DescribeForeignNames(names), std::nullopt);
  }
}

TEST(ForeignFiles, PicklesSayWhatConvertsThem) {
  const TempFolder adapter;
  adapter.Write("adapter_config.json", "{}");
  EXPECT_THAT(
      DescribeForeignFile(adapter.Write("adapter_model.bin", Zip("archive/data.pkl"))).value_or(""),
      HasSubstr("PeftModel.from_pretrained(BASE, FOLDER).save_pretrained(OUT)"));
  const TempFolder resnet;
  EXPECT_THAT(DescribeForeignFile(
                  resnet.Write("resnet50.pth", Zip("archive/data.pkl") + "layer1.0.conv1.weight"))
                  .value_or(""),
              HasSubstr("resnet50.pth OUT"));
}

}  // namespace
}  // namespace plimsoll::formats
