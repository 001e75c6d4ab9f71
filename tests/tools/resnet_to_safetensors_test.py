#!/usr/bin/env python3
"""What tools/resnet_to_safetensors.py makes of names and shapes; PyTorch is not needed for that."""
import pathlib
import sys
import tempfile
import types
import unittest

sys.path[:0] = [str(pathlib.Path(folder).resolve()) for folder in ("tests/support", "tools")]
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
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "config.json"
            config.write_text('{"hidden_act": "relu", "downsample_in_bottleneck": false}')
            tool.check_config(config)
            config.write_text('{"downsample_in_bottleneck": true}')
            self.assertIn("downsample_in_bottleneck: is True",
                          self.refusal(lambda: tool.check_config(config)))

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
        for state in (large((2, 2, 2, 2)), tool.state_dict_of(small(3, shortcut="downsample"))):
            self.assertIn("--shortcut A: is for ResNets of 6n + 2 layers",
                          self.refusal(lambda state=state: tool.config_of(state, shortcut="A")))


if __name__ == "__main__":
    unittest_xml.main()
