#!/usr/bin/env python3
"""What tools/timm_vit.py makes of names, shapes and config.json; NumPy is not needed for that."""
import pathlib
import sys
import tempfile
import types
import unittest

sys.path[:0] = [str(pathlib.Path(folder).resolve()) for folder in ("tests/support", "tools")]
import timm_vit as tool  # noqa: E402
import unittest_xml  # noqa: E402


class Tensor(types.SimpleNamespace):
    """A tensor's shape, and which rows of another it is."""

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, rows):
        return Tensor(shape=(rows.stop - rows.start, *self.shape[1:]), rows=(rows.start, rows.stop))


def tensor(*shape):
    return Tensor(shape=shape)


def vit(width=192, side=4, layers=2, classes=3):
    """timm's names of a ViT of 16 × 16 patches."""
    state = {"cls_token": tensor(1, 1, width), "pos_embed": tensor(1, 1 + side * side, width),
             "patch_embed.proj.weight": tensor(width, 3, 16, 16)}
    modules = {"norm": (width,), "patch_embed.proj": None}
    if classes:
        modules["head"] = (classes, width)
    for layer in range(layers):
        at = f"blocks.{layer}."
        modules |= {at + "norm1": (width,), at + "norm2": (width,), at + "attn.qkv": (3 * width, width),
                    at + "attn.proj": (width, width), at + "mlp.fc1": (4 * width, width),
                    at + "mlp.fc2": (width, 4 * width)}
    for name, shape in modules.items():
        if shape:
            state[name + ".weight"] = tensor(*shape)
        state[name + ".bias"] = tensor(shape[0] if shape else width)
    return state


class Conversion(unittest.TestCase):
    def refusal(self, action):
        with self.assertRaises(SystemExit) as caught:
            action()
        return str(caught.exception)

    def converted(self, state, given, heads=None):
        with tempfile.TemporaryDirectory() as folder:
            return tool.convert(tool.to_transformers(state), pathlib.Path(folder) / "model.safetensors",
                                given, heads)

    def test_takes_known_architectures_alone(self):
        path = pathlib.Path("config.json")
        for name in ("vit_tiny_patch16_224.augreg_in21k_ft_in1k", "vit_huge_patch14_224", "deit_small_patch16_224",
                     "vit_base_patch16_224_in21k"):
            tool.check_config(path, {"architecture": name, "global_pool": "token"})
        for name in ("vit_base_patch16_gap_224", "vit_base_patch32_clip_quickgelu_224", "vit_base_patch16_224_miil",
                     "deit_tiny_distilled_patch16_224", "deit3_base_patch16_224", "vit_small_patch16_36x1_224",
                     "vit_base_patch14_reg4_dinov2", "resnet18"):
            self.assertIn(f"architecture: is '{name}'",
                          self.refusal(lambda: tool.check_config(path, {"architecture": name})))
        self.assertIn("architecture: is missing", self.refusal(lambda: tool.check_config(path, {"model_type": "vit"})))

    def test_takes_known_arguments_alone(self):
        path = pathlib.Path("config.json")
        config = {"architecture": "vit_tiny_patch16_224", "global_pool": "token"}
        tool.check_config(path, config | {"model_args": {"num_classes": 5, "img_size": [64, 64], "in_chans": 3,
                                                         "depth": 2, "num_heads": 6, "drop_rate": 0.0}})
        for name, value in (("global_pool", "avg"), ("act_layer", "quick_gelu"), ("no_embed_class", True),
                            ("reg_tokens", 4), ("qk_norm", True), ("norm_layer", "rmsnorm"), ("unheard_of", 1)):
            self.assertIn(f"model_args: {name}: is {value!r}", self.refusal(
                lambda: tool.check_config(path, config | {"model_args": {name: value}})))
        self.assertIn("global_pool: is 'avg'",
                      self.refusal(lambda: tool.check_config(path, config | {"global_pool": "avg"})))

    def test_queries_keys_and_values_are_parted(self):
        tensors = tool.to_transformers(vit(width=192))
        for part, rows in (("query", (0, 192)), ("key", (192, 384)), ("value", (384, 576))):
            self.assertEqual(tensors[f"vit.encoder.layer.1.attention.attention.{part}.weight"].rows, rows)

    def test_heads_follow_from_the_width_unless_given(self):
        for width, heads in ((192, 3), (1024, 16), (1280, 16), (1408, 16), (1664, 16)):
            made, _ = self.converted(vit(width=width), None)
            self.assertEqual(made["num_attention_heads"], heads)
        config = {"architecture": "vit_tiny_patch16_224", "model_args": {"num_heads": 6}}
        self.assertEqual(self.converted(vit(), config)[0]["num_attention_heads"], 6)
        self.assertEqual(self.converted(vit(), config, heads=12)[0]["num_attention_heads"], 12)
        self.assertIn("no multiple of 5 heads", self.refusal(lambda: self.converted(vit(), None, heads=5)))

    def test_keeps_names_and_preparation(self):
        config = {"architecture": "vit_tiny_patch16_224", "label_names": ["cat", "dog", "cow"],
                  "pretrained_cfg": {"input_size": [3, 64, 64], "crop_pct": 0.9, "interpolation": "bicubic",
                                     "mean": [0.5] * 3, "std": [0.5] * 3}}
        made, preparation = self.converted(vit(), config)
        self.assertEqual(made["id2label"], {"0": "cat", "1": "dog", "2": "cow"})
        self.assertEqual((made["image_size"], made["num_hidden_layers"]), (64, 2))
        self.assertEqual((preparation["size"], preparation["resample"], preparation["image_mean"]),
                         ({"shortest_edge": 71}, 3, [0.5] * 3))
        made, preparation = self.converted(vit(), None)
        self.assertEqual((made["id2label"]["2"], preparation), ("LABEL_2", None))

    def test_without_a_head_it_is_a_base(self):
        made, _ = self.converted(vit(classes=0), {"architecture": "vit_tiny_patch16_224", "num_classes": 0})
        self.assertEqual(made["architectures"], ["ViTModel"])
        self.assertNotIn("id2label", made)

    def test_refuses_other_tensors(self):
        self.assertIn("\"norm_pre.weight\" belongs to a variant",
                      self.refusal(lambda: self.converted(vit() | {"norm_pre.weight": tensor(192)}, None)))
        self.assertIn("positions", self.refusal(
            lambda: self.converted(vit() | {"pos_embed": tensor(1, 16, 192)}, None)))
        for name in ("cls_token", "norm.bias", "blocks.1.attn.qkv.bias"):
            state = vit()
            del state[name]
            self.assertIn("nothing becomes tensor", self.refusal(lambda: self.converted(state, None)))


if __name__ == "__main__":
    unittest_xml.main()
