#!/usr/bin/env python3
"""What tools/resnet_to_safetensors.py makes of names and shapes; PyTorch is not needed for that."""
import json
import pathlib
import sys
import tempfile
import types
import unittest

sys.path[:0] = [str(pathlib.Path(folder).resolve()) for folder in ("tests/support", "tools")]
import classifier_folder  # noqa: E402
import resnet_to_safetensors as tool  # noqa: E402
import unittest_xml  # noqa: E402


def tensor(*shape):
    return types.SimpleNamespace(shape=shape)


def small(blocks, prefix="", head="linear", channels=16, shortcut=None):
    """The names of a ResNet for CIFAR; `shortcut`: what its projections are called."""
    state = {"conv1.weight": tensor(channels, 3, 3, 3), "bn1.weight": tensor(channels)}
    for stage in range(3):
        outputs = channels << stage
        for block in range(blocks):
            for conv in (1, 2):
                inputs = outputs // 2 if stage and not block and conv == 1 else outputs
                state[f"layer{stage + 1}.{block}.conv{conv}.weight"] = tensor(outputs, inputs, 3, 3)
        if stage and shortcut:
            state[f"layer{stage + 1}.0.{shortcut}.0.weight"] = tensor(outputs, outputs // 2, 1, 1)
    state[f"{head}.weight"] = tensor(10, 4 * channels)
    state[f"{head}.bias"] = tensor(10)
    return {prefix + name: value for name, value in state.items()}


def large(blocks, convolutions=2):
    state = {"conv1.weight": tensor(64, 3, 7, 7), "fc.weight": tensor(1000, 512)}
    for stage, count in enumerate(blocks, 1):
        for block in range(count):
            for conv in range(1, convolutions + 1):
                state[f"layer{stage}.{block}.conv{conv}.weight"] = tensor(1, 1, 1, 1)
    state["layer2.0.downsample.0.weight"] = tensor(128, 64, 1, 1)
    return state


class Conversion(unittest.TestCase):
    def refusal(self, action):
        with self.assertRaises(SystemExit) as caught:
            action()
        return str(caught.exception)

    def test_depths_follow_from_the_blocks(self):
        for blocks, depth in ((3, 20), (5, 32), (7, 44), (9, 56), (18, 110), (200, 1202)):
            self.assertEqual(tool.depth_of(tool.state_dict_of(small(blocks))), depth)
        for blocks, convolutions, depth in (((2, 2, 2, 2), 2, 18), ((3, 4, 6, 3), 2, 34),
                                            ((3, 4, 6, 3), 3, 50), ((3, 4, 23, 3), 3, 101)):
            self.assertEqual(tool.depth_of(large(blocks, convolutions)), depth)

    def test_names_become_those_of_torchvision(self):
        checkpoint = {"state_dict": small(3, prefix="module.", shortcut="shortcut"), "epoch": 1}
        state = tool.state_dict_of(checkpoint)
        self.assertEqual(set(state), set(small(3, head="fc", shortcut="downsample")))
        # A layer within a block keeps its name.
        self.assertIn("layer1.0.linear.weight",
                      tool.state_dict_of(small(3) | {"layer1.0.linear.weight": tensor(1)}))

    def test_names_of_transformers_become_those_of_torchvision(self):
        stage = "resnet.encoder.stages.1.layers.0."
        for name, expected in (
                ("resnet.embedder.embedder.convolution.weight", "conv1.weight"),
                ("resnet.embedder.embedder.normalization.running_mean", "bn1.running_mean"),
                (stage + "layer.0.convolution.weight", "layer2.0.conv1.weight"),
                (stage + "layer.2.normalization.bias", "layer2.0.bn3.bias"),
                (stage + "shortcut.convolution.weight", "layer2.0.downsample.0.weight"),
                (stage + "shortcut.normalization.num_batches_tracked",
                 "layer2.0.downsample.1.num_batches_tracked"),
                ("classifier.1.weight", "fc.weight"),
                ("_orig_mod.layer1.0.bn2.bias", "layer1.0.bn2.bias")):
            self.assertEqual(tool.name_in_torchvision(name), expected)

    def test_refuses_forms_that_only_transformers_has(self):
        path = pathlib.Path("config.json")
        good = {"model_type": "resnet", "hidden_act": "relu", "downsample_in_bottleneck": False}
        tool.check_config(path, good)
        for key, value in (("downsample_in_bottleneck", True), ("downsample_in_first_stage", True),
                           ("hidden_act", "gelu"), ("model_type", "bert"),
                           ("quantization_config", {"bits": 8})):
            self.assertIn(f"config.json: {key}: is {value!r}",
                          self.refusal(lambda: tool.check_config(path, good | {key: value})))
        self.assertIn("as it is", self.refusal(lambda: tool.check_config(path, good | {"depth": 18})))

    def test_takes_known_architectures_of_timm_alone(self):
        path = pathlib.Path("config.json")
        arguments = {"num_classes": 5, "in_chans": 1, "drop_rate": 0.0, "global_pool": "avg"}
        tool.check_config(path, {"architecture": "resnet50.a1_in1k", "global_pool": "avg",
                                 "model_args": arguments})
        for name in ("resnetaa50", "resnetblur18", "resnet18d", "wide_resnet50_2", "seresnet18"):
            self.assertIn(f"architecture: is '{name}'",
                          self.refusal(lambda: tool.check_config(path, {"architecture": name})))
        for name, value in (("global_pool", "max"), ("act_layer", "gelu"), ("aa_layer", "blur"),
                            ("output_stride", 8), ("avg_down", True), ("unheard_of", 1)):
            config = {"architecture": "resnet50", "model_args": {name: value}}
            self.assertIn(f"model_args: {name}: is {value!r}",
                          self.refusal(lambda: tool.check_config(path, config)))
        self.assertIn("global_pool: is 'max'", self.refusal(lambda: tool.check_config(
            path, {"architecture": "resnet50", "global_pool": "max"})))

    def test_refuses_other_widths_groups_and_parts(self):
        def state_of(depth, bottleneck, **options):
            config = {"depth": depth, "channels": 3, "classes": 10} | options
            shapes = tool.shapes_of(config, bottleneck)
            state = {name: tensor(*shape) for name, shape in shapes.items()}
            return state | {"bn1.num_batches_tracked": tensor()}, config

        for depth, bottleneck, options in ((18, False, {}), (50, True, {}), (20, False, {"shortcut": "A"}),
                                           (20, False, {"shortcut": "B"})):
            state, config = state_of(depth, bottleneck, **options)
            self.assertEqual(tool.depth_of(state), depth)
            tool.check_shapes(state, config)
            self.assertEqual(any("downsample" in name for name in state), options.get("shortcut") != "A")
        # 25.6 million parameters, as torchvision counts them; running statistics are none.
        count = 0
        for name, shape in tool.shapes_of({"depth": 50, "channels": 3, "classes": 1000}, True).items():
            if "running" not in name:
                size = 1
                for n in shape:
                    size *= n
                count += size
        self.assertEqual(count, 25557032)
        state, config = state_of(50, True)
        for name, shape in (("layer1.0.conv1.weight", (128, 64, 1, 1)),  # wide
                            ("layer2.0.conv2.weight", (128, 4, 3, 3)),  # groups
                            ("conv1.weight", (32, 3, 7, 7))):
            self.assertIn(f"tensor {name} is", self.refusal(
                lambda: tool.check_shapes(state | {name: tensor(*shape)}, config)))
        self.assertIn("layer1.0.se.fc1.weight belongs to a variant", self.refusal(
            lambda: tool.check_shapes(state | {"layer1.0.se.fc1.weight": tensor(4)}, config)))
        del state["layer3.0.bn2.running_var"]
        self.assertIn("no tensor layer3.0.bn2.running_var",
                      self.refusal(lambda: tool.check_shapes(state, config)))

    def converted(self, given, files=(), classes=3, **options):
        """What convert makes of a ResNet-18 in a folder with config.json `given`, and `files`."""
        shapes = tool.shapes_of({"depth": 18, "channels": 3, "classes": classes}, False)
        state = {name: tensor(*shape) for name, shape in shapes.items()}
        with tempfile.TemporaryDirectory() as folder:
            for name, members in files:
                (pathlib.Path(folder) / name).write_text(json.dumps(members))
            return tool.convert(state, pathlib.Path(folder) / "model.safetensors", given, **options)

    def test_keeps_what_transformers_says_of_classes(self):
        config = {"model_type": "resnet", "problem_type": "multi_label_classification",
                  "id2label": {"0": "cat", "2": "cow", "1": "dog"}}
        processor = {"feature_extractor_type": "ConvNextFeatureExtractor", "size": 160, "crop_pct": 0.875}
        made, preparation = self.converted(config, [("preprocessor_config.json", processor)])
        self.assertEqual(made["problem_type"], "multi_label_classification")
        self.assertEqual(list(made["id2label"].items()), [("0", "cat"), ("1", "dog"), ("2", "cow")])
        self.assertEqual(made["label2id"], {"cat": 0, "dog": 1, "cow": 2})
        self.assertEqual((made["image_size"], preparation), (160, None))
        bit = {"size": {"shortest_edge": 256}, "crop_size": {"height": 192, "width": 192}}
        made, _ = self.converted(config, [("preprocessor_config.json", bit)])
        self.assertEqual(made["image_size"], 192)
        made, _ = self.converted({"model_type": "resnet", "problem_type": None})
        self.assertNotIn("problem_type", made)
        self.assertNotIn("id2label", made)
        self.assertIn("id2label: names class 2, and the weights have 2 classes",
                      self.refusal(lambda: self.converted(config, classes=2)))
        self.assertIn("id2label: names 3 classes, and the weights have 4",
                      self.refusal(lambda: self.converted(config, classes=4)))

    def test_keeps_what_timm_says_of_classes_and_pictures(self):
        pretrained = {"input_size": [3, 160, 160], "crop_pct": 0.95, "interpolation": "bicubic",
                      "mean": [0.1, 0.2, 0.3], "std": [0.5], "crop_mode": "center"}
        config = {"architecture": "resnet18", "label_names": ["cat", "dog", "cow"],
                  "pretrained_cfg": pretrained}
        made, preparation = self.converted(config)
        self.assertEqual((made["image_size"], made["id2label"]["2"]), (160, "cow"))
        for key, value in (("size", {"shortest_edge": 168}), ("crop_size", {"height": 160, "width": 160}),
                           ("resample", 3), ("do_center_crop", True), ("image_mean", [0.1, 0.2, 0.3]),
                           ("image_std", [0.5, 0.5, 0.5])):
            self.assertEqual(preparation[key], value)
        # Another size of images has the same part of the picture.
        _, preparation = self.converted(config, image_size=224)
        self.assertEqual(preparation["size"], {"shortest_edge": 235})
        _, preparation = self.converted(config | {"pretrained_cfg": pretrained | {"crop_mode": "squash"}})
        self.assertEqual(preparation["size"], {"height": 168, "width": 168})
        # Early folders have it all in one object, and timm's defaults hold for what is left out.
        made, preparation = self.converted({"architecture": "resnet18", "labels": {"1": "dog"}})
        self.assertEqual(made["id2label"], {"0": "LABEL_0", "1": "dog", "2": "LABEL_2"})
        self.assertEqual((preparation["size"], preparation["resample"], preparation["image_mean"]),
                         ({"shortest_edge": 256}, 2, [0.485, 0.456, 0.406]))
        for key, value in (("crop_mode", "border"), ("interpolation", "random"), ("mean", [1, 2]),
                           ("crop_border_pixels", 4), ("input_size", [3, 160, 224])):
            edited = config | {"pretrained_cfg": pretrained | {key: value}}
            self.assertIn(f"config.json: {key}: ", self.refusal(lambda: self.converted(edited)))
        # A file that says it goes first.
        _, preparation = self.converted(config | {"pretrained_cfg": {"crop_mode": "border"}},
                                        [("preprocessor_config.json", {"size": 224})])
        self.assertIsNone(preparation)
        self.assertIn("architecture: is 'resnet34', and the tensors are those of 18 layers",
                      self.refusal(lambda: self.converted(config | {"architecture": "resnet34"})))

    def test_finds_the_weights_of_a_folder(self):
        names = ("model.safetensors", "pytorch_model.bin")
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.assertIn("has no model.safetensors and no pytorch_model.bin",
                          self.refusal(lambda: classifier_folder.weights_in(folder, names)))
            (folder / "pytorch_model.bin").touch()
            self.assertEqual(classifier_folder.weights_in(folder, names), folder / "pytorch_model.bin")
            self.assertIn("pytorch_model.bin: is no safetensors",
                          self.refusal(lambda: classifier_folder.weights_in(folder, names[:1])))
            (folder / "model.safetensors").touch()
            self.assertEqual(classifier_folder.weights_in(folder, names), folder / "model.safetensors")
            self.assertIn("no such file", self.refusal(
                lambda: classifier_folder.weights_in(folder / "absent.pth", names)))
            self.assertIn("name another folder", self.refusal(
                lambda: classifier_folder.check_target(folder / "model.safetensors", folder)))

    def test_preparations_are_copied_and_replaced(self):
        with tempfile.TemporaryDirectory() as name:
            source, target = pathlib.Path(name) / "in", pathlib.Path(name) / "out"
            source.mkdir()
            target.mkdir()
            written = target / "preprocessor_config.json"
            classifier_folder.write_preparation(source / "model.safetensors", target, {"size": 1})
            self.assertEqual(json.loads(written.read_text()), {"size": 1})
            classifier_folder.write_preparation(source / "model.safetensors", target, None)
            self.assertFalse(written.exists())
            (source / "preprocessor_config.json").write_text('{"size": 2}')
            classifier_folder.write_preparation(source / "model.safetensors", target, {"size": 1})
            self.assertEqual(json.loads(written.read_text()), {"size": 2})

    def test_config_says_which_shortcut(self):
        state = tool.state_dict_of(small(3))
        expected = {"model_type": "resnet", "depth": 20, "image_size": 32, "channels": 3,
                    "classes": 10, "shortcut": "A_centered"}
        self.assertEqual(tool.config_of(state), expected)
        self.assertEqual(tool.config_of(state, shortcut="A"), expected | {"shortcut": "A"})
        self.assertEqual(tool.config_of(state, image_size=28), expected | {"image_size": 28})
        projected = tool.state_dict_of(small(3, shortcut="shortcut"))
        self.assertEqual(tool.config_of(projected), expected | {"shortcut": "B"})
        self.assertEqual(tool.config_of(large((2, 2, 2, 2))),
                         {"model_type": "resnet", "depth": 18, "image_size": 224, "channels": 3,
                          "classes": 1000})

    def test_what_it_refuses(self):
        # 50 layers are another ResNet in config.json.
        self.assertIn("50 layers", self.refusal(lambda: tool.depth_of(tool.state_dict_of(small(8)))))
        self.assertIn("stages have 2, 2, 3, 2 blocks",
                      self.refusal(lambda: tool.depth_of(large((2, 2, 3, 2)))))
        self.assertIn("begins with 16 channels, and this one with 32",
                      self.refusal(lambda: tool.depth_of(small(3, channels=32))))
        self.assertIn("no tensor fc.weight",
                      self.refusal(lambda: tool.state_dict_of(small(3, head="classifier"))))
        self.assertIn("holds a list", self.refusal(lambda: tool.state_dict_of([tensor(1)])))
        for state in (large((2, 2, 2, 2)), tool.state_dict_of(small(3, shortcut="downsample"))):
            self.assertIn("--shortcut A: is for ResNets of 6n + 2 layers",
                          self.refusal(lambda state=state: tool.config_of(state, shortcut="A")))


if __name__ == "__main__":
    unittest_xml.main()
