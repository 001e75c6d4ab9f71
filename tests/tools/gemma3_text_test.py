#!/usr/bin/env python3
"""What tools/gemma3_text.py makes of names, bytes and config.json."""
import contextlib
import io
import json
import pathlib
import struct
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(folder).resolve()) for folder in ("tests/support", "tools")]
import gemma3_text as tool  # noqa: E402
import unittest_xml  # noqa: E402

CONFIG = {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "eos_token_id": [1, 106],
          "mm_tokens_per_image": 4, "vision_config": {"hidden_size": 8}, "torch_dtype": "bfloat16",
          "text_config": {"hidden_size": 12, "num_hidden_layers": 1, "pad_token_id": 3}}
OLD = ("language_model.model.", "language_model.lm_head.", "vision_tower.", "multi_modal_projector.")
NEW = ("model.language_model.", "lm_head.", "model.vision_tower.", "model.multi_modal_projector.")


def write(path, tensors):
    """A file of safetensors; `tensors`: name -> bytes."""
    header, end = {}, 0
    for name, data in tensors.items():
        header[name] = {"dtype": "U8", "shape": [len(data)], "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(tensors.values()))


def read(path):
    data = path.read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    header.pop("__metadata__")
    return {name: data[start + t["data_offsets"][0]:start + t["data_offsets"][1]] for name, t in header.items()}


def tensors_of(names):
    model, head, tower, projector = names
    return {tower + "x.weight": b"sees", model + "norm.weight": b"norm", projector + "y": b"joins",
            head + "weight": b"head's", model + "layers.0.mlp.up_proj.weight": b"up"}


TEXT = {"model.norm.weight": b"norm", "lm_head.weight": b"head's", "model.layers.0.mlp.up_proj.weight": b"up"}


class Conversion(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.source = pathlib.Path(self.folder.name) / "whole"
        self.target = pathlib.Path(self.folder.name) / "text"
        self.source.mkdir()
        (self.source / "config.json").write_text(json.dumps(CONFIG))

    def convert(self):
        with contextlib.redirect_stdout(io.StringIO()):
            tool.convert(self.source, self.target)

    def refusal(self):
        with self.assertRaises(SystemExit) as caught:
            self.convert()
        return str(caught.exception)

    def test_renames_the_text_part_and_leaves_the_rest_out(self):
        for names in (OLD, NEW):
            with self.subTest(names):
                write(self.source / "model.safetensors", tensors_of(names))
                self.target = self.target.with_name(names[0])
                self.convert()
                self.assertEqual(read(self.target / "model.safetensors"), TEXT)

    def test_writes_shards_anew(self):
        tensors = tensors_of(OLD)
        shards = {"a.safetensors": ["language_model.model.norm.weight", "vision_tower.x.weight"],
                  "b.safetensors": ["multi_modal_projector.y"],
                  "c.safetensors": ["language_model.lm_head.weight",
                                    "language_model.model.layers.0.mlp.up_proj.weight"]}
        for file, names in shards.items():
            write(self.source / file, {name: tensors[name] for name in names})
        places = {name: file for file, names in shards.items() for name in names}
        (self.source / tool.INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))
        self.convert()
        self.assertEqual(read(self.target / "a.safetensors") | read(self.target / "c.safetensors"), TEXT)
        self.assertFalse((self.target / "b.safetensors").exists())
        index = json.loads((self.target / tool.INDEX).read_text())
        self.assertEqual(index["weight_map"], {"model.norm.weight": "a.safetensors", "lm_head.weight": "c.safetensors",
                                               "model.layers.0.mlp.up_proj.weight": "c.safetensors"})
        self.assertEqual(index["metadata"]["total_size"], sum(map(len, TEXT.values())))

    def test_takes_the_text_part_of_the_configuration(self):
        write(self.source / "model.safetensors", tensors_of(OLD))
        (self.source / "tokenizer.json").write_text("{}")
        self.convert()
        self.assertEqual(json.loads((self.target / "config.json").read_text()),
                         {"hidden_size": 12, "num_hidden_layers": 1, "pad_token_id": 3, "eos_token_id": [1, 106],
                          "torch_dtype": "bfloat16", "model_type": "gemma3_text",
                          "architectures": ["Gemma3ForCausalLM"]})
        self.assertEqual((self.target / "tokenizer.json").read_text(), "{}")

    def test_refuses_what_it_does_not_know(self):
        write(self.source / "model.safetensors", tensors_of(OLD))
        for change, message in (({"model_type": "gemma3n"}, "model_type: is 'gemma3n'"),
                                ({"quantization_config": {"bits": 4}}, "quantization_config: is {\"bits\": 4}"),
                                ({"text_config": {"model_type": "gemma2"}}, "text_config.model_type: is 'gemma2'")):
            (self.source / "config.json").write_text(json.dumps(CONFIG | change))
            self.assertIn(message, self.refusal())
        (self.source / "config.json").write_text(json.dumps(CONFIG))
        write(self.source / "model.safetensors", {"audio_tower.x": b"1"})
        self.assertIn("audio_tower.x", self.refusal())

    def test_refuses_files_that_are_not_complete(self):
        file = self.source / "model.safetensors"
        self.assertIn("has no model.safetensors", self.refusal())
        write(file, tensors_of(OLD))
        file.write_bytes(file.read_bytes()[:-1])
        self.assertIn("shorter than its header says", self.refusal())
        self.target = self.target.with_name("another")
        file.write_bytes(b"\xff" * 20)
        self.assertIn("is no file of safetensors", self.refusal())

    def test_keeps_what_is_in_the_target(self):
        write(self.source / "model.safetensors", tensors_of(OLD))
        self.target.mkdir()
        (self.target / "mine").write_text("")
        self.assertIn("is not empty", self.refusal())


if __name__ == "__main__":
    unittest_xml.main()
